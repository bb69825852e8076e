// Whether asynchronous encryption delays the event loop, and calls to `fs` and `dns`, beside the same on an idle thread pool.
//
//   npm run bench:event-loop                        needs `npm run build`
//   npm run bench:event-loop -- --json results.json
//
// A timer fires every millisecond; the gap of a round is the longest time between two of its turns, less that millisecond. In each round the
// machine is idle first, then each package encrypts 64 MiB again and again for as long. Medians of the rounds.

import { writeFileSync } from 'node:fs';
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import nodeCrypto from 'node:crypto';
import { cpus } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { fetched } from '../test/lib/fetched.mjs';
import { load } from './contenders.mjs';
import { median } from './measure.mjs';
import { crypto } from '../test/lib/contract.mjs';

const SIZE = 64 << 20;
/** More calls in flight than libuv has threads, so that whatever shares its pool waits. */
const IN_FLIGHT = 6;

const { values: options } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, ms: { type: 'string', default: '400' }, json: { type: 'string' } },
});
const [rounds, ms] = [Number(options.rounds), Number(options.ms)];

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
/** How long the collector's threads get to give memory back, in milliseconds. */
const SETTLE_MS = 100;

const key = Buffer.alloc(32, 7);
const iv = Buffer.alloc(12, 1);
const none = Buffer.alloc(1).subarray(1);
const source = Buffer.alloc(SIZE, 1);
const targets = Array.from({ length: IN_FLIGHT }, () => Buffer.alloc(SIZE + 32, 1));

/** A call of the contract as a promise. */
function sealing(implementation) {
  return (target) => new Promise((resolve, reject) => {
    const done = (error) => (error ? reject(error) : resolve());
    implementation.cipher('aes-256-gcm', 1, key, 0, 32, iv, 0, 12, source, 0, SIZE, target, 0, none, 0, 0, Buffer.alloc(16), 0, 16, done);
  });
}

/** Work beside which something is measured: `running` calls until `isOver`. */
async function keepBusy(seal, running, isOver) {
  let calls = 0;
  const one = async (target) => {
    while (!isOver()) {
      await seal(target);
      calls += 1;
    }
  };
  await Promise.all(targets.slice(0, running).map(one));
  return calls;
}

/** The longest gap of a timer loop for `ms` milliseconds. */
async function longestGap() {
  const end = performance.now() + ms;
  let longest = 0;
  for (let last = performance.now(); last < end;) {
    await sleep(1);
    const now = performance.now();
    longest = Math.max(longest, now - last - 1);
    last = now;
  }
  return longest;
}

/** Latencies of `call` for `ms` milliseconds, a call every two. */
async function latencies(call) {
  const end = performance.now() + ms;
  const list = [];
  while (performance.now() < end) {
    const before = performance.now();
    await call();
    list.push(performance.now() - before);
    await sleep(2);
  }
  return list.sort((a, b) => a - b);
}

async function beside(seal, running, probe) {
  let isOver = false;
  const busy = seal ? keepBusy(seal, running, () => isOver) : undefined;
  const found = await probe();
  isOver = true;
  const calls = await busy;
  return { found, calls };
}

const packages = await load(fetched(fileURLToPath(new URL('./peers', import.meta.url)), { scripts: true }));
const imported = await nodeCrypto.subtle.importKey('raw', key, 'AES-GCM', false, ['encrypt']);
const cases = new Map([
  ['idle', undefined],
  ['@leafseal/crypto', sealing(crypto)],
  ['crypto-async', sealing(packages.original)],
  ['WebCrypto', () => nodeCrypto.subtle.encrypt({ name: 'AES-GCM', iv }, imported, source)],
]);
const file = fileURLToPath(import.meta.url);
const probes = new Map([
  ['timer, one call in flight', { running: 1, probe: longestGap, figures: (gap) => ({ gap }) }],
  [`timer, ${IN_FLIGHT} calls in flight`, { running: IN_FLIGHT, probe: longestGap, figures: (gap) => ({ gap }) }],
  [`fs.readFile, ${IN_FLIGHT} calls in flight`, { running: IN_FLIGHT, probe: () => latencies(() => readFile(file)), figures: latencyFigures }],
  [`dns.lookup, ${IN_FLIGHT} calls in flight`, { running: IN_FLIGHT, probe: () => latencies(() => lookup('localhost')), figures: latencyFigures }],
]);

function latencyFigures(list) {
  return { median: list[list.length >> 1], p99: list[Math.floor(0.99 * (list.length - 1))] };
}

console.log(`${cpus()[0].model}, ${cpus().length} cores, Node ${process.version}; ${rounds} rounds of ${ms} ms; milliseconds`);
const rows = [];
for (const [title, { running, probe, figures }] of probes) {
  const seen = new Map([...cases.keys()].map((name) => [name, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, seal] of cases) {
      // The garbage of the previous case must not be freed during this one.
      collect();
      await sleep(SETTLE_MS);
      const { found, calls } = await beside(seal, running, probe);
      // The first round warms up the compiler, and touches the memory.
      if (round > 0) seen.get(name).push({ ...figures(found), calls });
    }
  }
  console.log(`\n${title}`);
  for (const [name, list] of seen) {
    const row = { title, who: name };
    for (const figure of Object.keys(list[0]).filter((figure) => list[0][figure] !== undefined)) {
      row[figure] = median(list.map((entry) => entry[figure]));
    }
    rows.push(row);
    const shown = Object.entries(row).filter(([, value]) => typeof value === 'number');
    console.log(`  ${name.padEnd(20)} ${shown.map(([figure, value]) => `${figure} ${value.toFixed(figure === 'calls' ? 0 : 3).padStart(9)}`).join('   ')}`);
  }
}
if (options.json) {
  writeFileSync(options.json, `${JSON.stringify({ machine: { cpu: cpus()[0].model, cores: cpus().length, node: process.version }, rows }, null, 2)}\n`);
}
