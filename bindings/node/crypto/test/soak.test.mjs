// Many asynchronous calls with aborts and throwing callbacks: no crash, no wrong result, and memory that does not grow with their number.
//
//   OPERATIONS=10000000 node --test soak.test.mjs     the long run; 60,000 by default

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { seed } from './lib/random.mjs';

/** The growth of resident memory that is allowed between the first part of a run and its end: a leak of 8 bytes a call exceeds it at 10^7. */
const GROWTH_BYTES_MAX = 64 << 20;

const operations = Number(process.env.OPERATIONS ?? 60_000);

test(`${operations} calls with aborts and throwing callbacks, SEED=${seed}`, (context) => {
  const child = fileURLToPath(new URL('./lib/soaking.mjs', import.meta.url));
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', child, String(operations), seed], { encoding: 'utf8' });
  assert.deepEqual({ status, signal }, { status: 0, signal: null }, stderr);
  const seen = JSON.parse(stdout);
  context.diagnostic(stdout.trim());
  assert.equal(seen.settled, operations);
  for (const kind of ['thrown', 'aborted', 'corrupt', 'checked']) assert.ok(seen[kind] > operations / 1000, `${kind}: ${seen[kind]}`);
  const [first, last] = [seen.memory[0], seen.memory.at(-1)];
  assert.ok(last.rss - first.rss < GROWTH_BYTES_MAX, `resident memory grew from ${first.rss} to ${last.rss}`);
  assert.ok(last.arrayBuffers - first.arrayBuffers < GROWTH_BYTES_MAX, `buffers grew from ${first.arrayBuffers} to ${last.arrayBuffers}`);
});
