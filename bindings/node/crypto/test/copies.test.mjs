// Several copies of the package's JavaScript over one native module, as test runners with isolated modules, bundlers and edits of
// `require.cache` load them: every result belongs to the copy and the call that asked for it.
//
//   CASES=1000000 node --test copies.test.mjs     calls of the stress test on all threads together; 20,000 by default

import assert from 'node:assert/strict';
import nodeCrypto from 'node:crypto';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import vm from 'node:vm';
import { Worker } from 'node:worker_threads';

import { WAYS, entry } from './lib/copies.mjs';
import { seed } from './lib/random.mjs';
import { stress } from './lib/stress.mjs';

const cases = Number(process.env.CASES ?? 20_000);
const worker = fileURLToPath(new URL('./lib/stressing.mjs', import.meta.url));
const sha256 = (bytes) => nodeCrypto.createHash('sha256').update(bytes).digest();

/** Digests of copies that call in turn, by callback: rejects if one is wrong, and waits for all. */
function hashInTurn(copies, calls) {
  return Promise.all(Array.from({ length: calls }, (_, index) => copies.map((crypto, copy) => new Promise((resolve, reject) => {
    const source = Buffer.from(`call ${index} of copy ${copy}`);
    crypto.hash('sha256', source, (error, digest) => {
      if (error || !digest.equals(sha256(source))) reject(error ?? new Error(`call ${index} of copy ${copy} has a wrong digest`));
      else resolve();
    });
  }))).flat());
}

for (const [first, load] of Object.entries(WAYS)) {
  for (const [second, loadOther] of Object.entries(WAYS)) {
    test(`copies by ${first} and by ${second}, in both orders`, { timeout: 60_000 }, async () => {
      const [a, b] = [load(), loadOther()];
      assert.notEqual(a, b);
      await hashInTurn([a, b], 50);
      await hashInTurn([b, a], 50);
      // The one that was loaded first, and is not the first to be used.
      const [c, d] = [load(), loadOther()];
      await hashInTurn([d], 1);
      await hashInTurn([c, d, a], 50);
    });
  }
}

test(`${cases} calls of several copies on several threads, SEED=${seed}`, { timeout: 3_600_000 }, async (context) => {
  const threads = 4;
  const share = Math.ceil(cases / threads);
  const parts = [stress(share, `${seed}:0`)];
  for (let thread = 1; thread < threads; thread += 1) {
    parts.push(new Promise((resolve, reject) => {
      new Worker(worker, { workerData: { calls: share, seed: `${seed}:${thread}` } }).on('message', resolve).on('error', reject);
    }));
  }
  // Meanwhile threads are terminated with calls of several copies in flight.
  let [isOver, terminated] = [false, 0];
  const terminating = (async () => {
    while (!isOver) {
      const doomed = new Worker(worker, { workerData: { calls: Infinity, seed: `${seed}:doomed:${terminated}`, isDoomed: true } });
      await new Promise((resolve, reject) => doomed.once('message', resolve).once('error', reject));
      await doomed.terminate();
      terminated += 1;
    }
  })();
  const ended = await Promise.all(parts);
  isOver = true;
  await terminating;
  const sums = {};
  for (const part of ended) for (const [kind, count] of Object.entries(part)) sums[kind] = (sums[kind] ?? 0) + count;
  context.diagnostic(JSON.stringify({ ...sums, terminated }));
  assert.equal(Object.values(sums).reduce((sum, count) => sum + count, 0), share * threads);
  assert.ok(terminated > 0);
});

setFlagsFromString('--expose-gc');
const gc = vm.runInNewContext('gc');

/** Collects what is not reachable, and lets Node run the finalizers. */
async function collect() {
  for (let turn = 0; turn < 5; turn += 1) {
    gc();
    await new Promise((resolve) => setTimeout(resolve));
  }
}

for (const way of ['registry', 'realm', 'cache']) {
  test(`a copy by ${way} that is unreachable stays until its calls have ended, and is then collected`, { timeout: 60_000 }, async () => {
    const COPIES = 100;
    await collect();
    const before = process.memoryUsage().arrayBuffers;
    let collected = 0;
    // No WeakRefs: what they refer to stays until the event loop turns.
    const registry = new FinalizationRegistry(() => { collected += 1; });
    const ends = [];
    for (let copy = 0; copy < COPIES; copy += 1) {
      const crypto = WAYS[way]();
      registry.register(crypto);
      const source = Buffer.alloc(100_000, copy);
      ends.push(new Promise((resolve, reject) => {
        crypto.hash('sha256', source, (error, digest) => {
          if (error || !digest.equals(sha256(source))) reject(error ?? new Error('a wrong digest'));
          else resolve();
        });
      }));
    }
    gc();
    await Promise.all(ends);
    await collect();
    // The last one may still be in a cache or on the stack.
    assert.ok(collected >= COPIES - 2, `${COPIES - collected} of ${COPIES} copies were not collected`);
    const grown = process.memoryUsage().arrayBuffers - before;
    assert.ok(grown < (COPIES / 2) * 64 * 1024, `${grown} bytes of ${COPIES} copies were not freed`);
  });
}

test('settings: those of the pool are common to all copies, each copy has the others for itself', () => {
  const [a, b] = [WAYS.registry(), WAYS.registry()];
  const before = b.settings();
  a.configure({ threads: 3, threadPriority: 'normal', queueMax: 1000, autoSizeMax: 1, keyCacheSize: 0, parallelSizeMin: 5 });
  assert.deepEqual(b.settings(), { ...before, threads: 3, threadPriority: 'normal', queueMax: 1000 });
  b.configure(before);
  assert.deepEqual(a.settings(), { ...before, autoSizeMax: 1, keyCacheSize: 0, parallelSizeMin: 5 });
});

test('a copy in another realm takes buffers of this one: batches, and resizable memory that shrinks during a call', async () => {
  const crypto = WAYS.realm();
  const target = Buffer.alloc(32);
  assert.equal(crypto.batch.hash('sha256', { source: Buffer.from('abc'), target }, new Float64Array([0, 0, 0, 3, 0, 0, 0, 0, 0])), 0);
  assert.deepEqual(target, sha256(Buffer.from('abc')));
  const resizable = new ArrayBuffer(1 << 20, { maxByteLength: 1 << 20 });
  const expected = sha256(new Uint8Array(resizable));
  const digest = Buffer.alloc(32);
  const hashing = crypto.promises.hash('sha256', new Uint8Array(resizable), 0, 1 << 20, digest, 0);
  resizable.resize(0);
  await hashing;
  assert.deepEqual(digest, expected);
});

test('JavaScript and a native module of different versions', (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'leafseal-versions.'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const from = dirname(entry);
  const manifest = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  const require = createRequire(import.meta.url);
  const { target } = require(join(from, 'lib', 'load.js'));
  const copy = (name, version) => {
    const path = join(folder, name);
    mkdirSync(path);
    for (const file of ['index.js', 'lib']) cpSync(join(from, file), join(path, file), { recursive: true });
    writeFileSync(join(path, 'package.json'), JSON.stringify({ ...manifest, version }));
    return path;
  };
  const expected = (path) => ({
    message: `@leafseal/crypto 99.0.0 has loaded a native module of version ${manifest.version} (${path}): both must have the same version: `
      + 'install @leafseal/crypto again, or build the module with `npm run build`',
  });
  const own = copy('own', '99.0.0');
  copyFileSync(join(from, 'crypto.node'), join(own, 'crypto.node'));
  assert.throws(() => require(own), expected('crypto.node'));
  // Two versions in one tree, of which both find the platform package of one.
  const name = `@leafseal/crypto-${target()}`;
  const platform = join(folder, 'node_modules', name);
  mkdirSync(platform, { recursive: true });
  copyFileSync(join(from, 'crypto.node'), join(platform, 'crypto.node'));
  writeFileSync(join(platform, 'package.json'), JSON.stringify({ name, version: manifest.version, main: 'crypto.node' }));
  assert.throws(() => require(copy('newer', '99.0.0')), expected(name));
  assert.deepEqual(require(copy('same', manifest.version)).hash('sha256', Buffer.from('abc')), sha256(Buffer.from('abc')));
});
