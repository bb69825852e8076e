// Random calls of every form, compared with node:crypto: results, errors, and all memory byte for byte.
//
//   CASES=1000000 node --test fuzz.test.mjs              a long run; 5,000 cases by default
//   SEED=9f3a… CASE=4711 node --test fuzz.test.mjs       one case again, as a failure prints it

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { makeCase } from './lib/cases.mjs';
import { crypto } from './lib/contract.mjs';
import { forms } from './lib/forms.mjs';
import { seed } from './lib/random.mjs';

const CASES = Number(process.env.CASES ?? 5000);
const IN_FLIGHT_MAX = 16;
const isOriginal = process.env.ORIGINAL !== undefined;

// So that many of the cases are spread over threads, and opened in parts.
crypto.configure?.({ parallelSizeMin: 65_536, threads: 4 });

const ran = new Map();

function count(...names) {
  const name = names.join(', ');
  ran.set(name, (ran.get(name) ?? 0) + 1);
}

function check(c, form, expected, { value, error }) {
  const place = `SEED=${seed} CASE=${c.index}: ${c.method} ${c.algorithm} ${c.encrypt ?? ''} ${form.name}, target ${c.placing}`;
  assert.equal(error?.message, c.result.error, place);
  if (!error) assert.deepEqual(value, form.result(c), place);
  c.memory.blocks.forEach((block, index) => {
    if (block.equals(expected[index])) return;
    const at = block.findIndex((byte, i) => byte !== expected[index][i]);
    assert.fail(`${place}: byte ${at} of block ${index} is ${block[at]}, not ${expected[index][at]}; ranges ${JSON.stringify(c.memory.ranges)}`);
  });
  count(c.method, c.name);
  count(form.name);
  count('target', c.placing);
  if (error) count('corrupt');
}

/** Runs a case; synchronous forms are checked at once. */
function run(index) {
  const c = makeCase(seed, index);
  if (isOriginal && tooMuchForTheOriginal(c)) return undefined;
  const form = c.random.pick(forms.filter((candidate) => candidate.applies(c)));
  const expected = c.memory.expected(form.changes(c));
  const outcome = form.run(c);
  if (outcome instanceof Promise) return outcome.then((settled) => check(c, form, expected, settled));
  check(c, form, expected, outcome);
  return undefined;
}

/** Empty buffers abort it, overlaps are wrong, failures leave plaintext. */
function tooMuchForTheOriginal({ placing, result, memory }) {
  return placing === 'across' || result.error || Object.values(memory.ranges).some(({ size }) => size === 0);
}

test(`random calls agree with node:crypto, SEED=${seed}`, async (context) => {
  if (process.env.CASE !== undefined) {
    await run(Number(process.env.CASE));
    return;
  }
  const pending = new Set();
  for (let index = 0; index < CASES; index += 1) {
    const running = run(index);
    if (!running) continue;
    pending.add(running);
    running.then(() => pending.delete(running), () => {});
    if (pending.size >= IN_FLIGHT_MAX) await Promise.race(pending);
  }
  await Promise.all(pending);
  for (const [name, cases] of [...ran].sort()) context.diagnostic(`${name}: ${cases}`);
});
