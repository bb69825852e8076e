// The process of soak.test.mjs: node --expose-gc soaking.mjs OPERATIONS SEED. Prints counts and samples of memory as JSON.

import nodeCrypto from 'node:crypto';

import { crypto } from './contract.mjs';
import { Random } from './random.mjs';

const operations = Number(process.argv[2]);
const random = new Random(process.argv[3], 'soak');
const IN_FLIGHT_MAX = 64;
const SAMPLES = 8;

const seen = { settled: 0, thrown: 0, aborted: 0, late: 0, corrupt: 0, checked: 0, memory: [] };
const key = random.bytes(32);
const iv = random.bytes(12);
const tag = Buffer.alloc(16);
const sources = [0, 1, 32, 500, 4096, 40_000].map((size) => random.bytes(size));
const sealed = sources.map((source) => {
  const made = Buffer.alloc(16);
  return { bytes: crypto.cipher('aes-256-gcm', 1, key, iv, source, Buffer.alloc(0), made), tag: made };
});
const digests = sources.map((source) => nodeCrypto.createHash('sha256').update(source).digest());

class Planned extends Error {}

process.on('uncaughtException', (error) => {
  if (!(error instanceof Planned)) {
    console.error(error);
    process.exit(2);
  }
  seen.thrown += 1;
});

function fail(what) {
  console.error(what);
  process.exit(2);
}

/** A call with a callback that counts, checks now and then, and sometimes throws. */
function withCallback(settle) {
  const index = random.below(sources.length);
  const throws = random.chance(0.05);
  const checks = random.chance(0.1);
  const end = () => {
    settle();
    if (throws) throw new Planned();
  };
  const kind = random.below(4);
  if (kind === 0) {
    crypto.hash('sha256', sources[index], (error, digest) => {
      if (error) fail(error);
      if (checks) seen.checked += digest.equals(digests[index]) ? 1 : fail('a wrong digest');
      end();
    });
  } else if (kind === 1) {
    const target = Buffer.allocUnsafe(sources[index].length);
    const done = (error, size) => {
      if (error || size !== target.length) fail(error ?? 'a wrong size');
      end();
    };
    crypto.cipher('chacha20', 1, key, 0, 32, tag, 0, 16, sources[index], 0, target.length, target, 0, done);
  } else if (kind === 2) {
    crypto.cipher('aes-256-gcm', 0, key, iv, sealed[index].bytes, Buffer.alloc(0), sealed[index].tag, (error, opened) => {
      if (error) fail(error);
      if (checks) seen.checked += opened.equals(sources[index]) ? 1 : fail('a wrong plaintext');
      end();
    });
  } else {
    crypto.cipher('aes-256-gcm', 0, key, iv, sealed[index].bytes, Buffer.alloc(1), sealed[index].tag, (error) => {
      if (error?.message !== crypto.E_CORRUPT) fail(error ?? 'a wrong tag was accepted');
      seen.corrupt += 1;
      end();
    });
  }
}

/** A promise whose signal aborts before the call, at once, or later. */
function withSignal(settle) {
  const index = random.below(sources.length);
  const controller = new AbortController();
  const when = random.below(3);
  if (when === 0) controller.abort();
  const { signal } = controller;
  const running = random.chance(0.5)
    ? crypto.promises.hash('sha256', sources[index], { signal })
    : crypto.promises.cipher('aes-256-ctr', 1, key, Buffer.alloc(16), sources[index], { signal });
  if (when === 1) controller.abort();
  if (when === 2) setImmediate(() => controller.abort());
  running.then(() => { seen.late += 1; }, (error) => {
    if (error.name !== 'AbortError') fail(error);
    seen.aborted += 1;
  }).then(settle);
}

function sample() {
  globalThis.gc();
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  seen.memory.push({ rss, heapUsed, external, arrayBuffers });
}

let started = 0;

/** Keeps calls in flight and lets the event loop turn, so that what the collector frees is freed. */
function pump() {
  while (started < operations && started - seen.settled < IN_FLIGHT_MAX) {
    started += 1;
    if (random.chance(0.2)) withSignal(settled);
    else withCallback(settled);
  }
}

function settled() {
  seen.settled += 1;
  // The first sample comes after a quarter: until then pools and caches fill.
  if (seen.settled >= operations / 4 && seen.settled % Math.ceil(operations / SAMPLES) === 0) sample();
  if (seen.settled < operations) setImmediate(pump);
}

process.on('exit', () => {
  sample();
  console.log(JSON.stringify(seen));
});
pump();
