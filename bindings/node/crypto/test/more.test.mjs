// The package's additions to the contract: promises with signals, the automatic form, streams, settings, and ES modules.

import assert from 'node:assert/strict';
import nodeCrypto from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { getPriority } from 'node:os';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { MESSAGES, crypto } from './lib/contract.mjs';

const module = await import(process.env.CRYPTO ? pathToFileURL(process.env.CRYPTO.replace(/js$/, 'mjs')) : '../index.mjs');
const { auto, batch, promises, streams } = crypto;
const key = Buffer.alloc(32, 1);
const iv = Buffer.alloc(12, 2);
const counter = Buffer.alloc(16, 3);
const source = nodeCrypto.createCipheriv('aes-256-ctr', Buffer.alloc(32), Buffer.alloc(16)).update(Buffer.alloc(3 << 20));
const sha256 = (bytes) => nodeCrypto.createHash('sha256').update(bytes).digest();

test('only the contract is enumerable, and the ES module exports the same', () => {
  assert.equal(Object.keys(crypto).length, 41);
  assert.equal(module.default, crypto);
  for (const name of Object.getOwnPropertyNames(crypto)) assert.equal(module[name], crypto[name], name);
});

test('wrong arguments reject with the messages of the contract', async () => {
  for (const { cipher, hash, hmac } of [promises, auto]) {
    await assert.rejects(hash(), { message: MESSAGES.E_ARGUMENTS });
    await assert.rejects(hash('sha256', source, 1), { message: MESSAGES.E_ARGUMENTS });
    await assert.rejects(hash('sha256', source, null), { message: MESSAGES.E_ARGUMENTS });
    await assert.rejects(hash('nothing', source), { message: MESSAGES.E_ALGORITHM_UNKNOWN });
    await assert.rejects(hmac('sha256', 'key', source), { message: MESSAGES.E_KEY });
    await assert.rejects(cipher('aes-256-gcm', 1, key, iv, source), { message: MESSAGES.E_TAG_INVALID });
    await assert.rejects(hash('sha256', source, { signal: {} }), TypeError);
    assert.deepEqual(await hash('sha256', source, undefined), sha256(source));
    assert.deepEqual(await hash('sha256', source, {}), sha256(source));
  }
});

test('a signal that has aborted, and one that aborts', async () => {
  const reason = new Error('of the caller');
  for (const form of [promises, auto]) {
    await assert.rejects(form.hash('sha256', source, { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await assert.rejects(form.hmac('sha256', key, source, { signal: AbortSignal.abort(reason) }), reason);
  }
  const controller = new AbortController();
  const target = Buffer.alloc(64 << 20);
  const running = Array.from({ length: 4 }, () => promises.cipher(
    'aes-256-ctr', 1, key, 0, 32, counter, 0, 16, target, 0, target.length, target, 0, { signal: controller.signal }));
  controller.abort(reason);
  for (const { status, reason: seen } of await Promise.allSettled(running)) assert.deepEqual([status, seen], ['rejected', reason]);
  // Nothing writes to the target once the promises have settled.
  const before = sha256(target);
  await promises.hash('sha256', source);
  assert.deepEqual(sha256(target), before);
});

test('an opening that is aborted leaves no plaintext', async () => {
  const plain = Buffer.alloc(48 << 20, 'plaintext');
  const [sealed, tag] = [Buffer.alloc(plain.length), Buffer.alloc(16)];
  const ranges = (encrypt, from, to) => ['aes-256-gcm', encrypt, key, 0, 32, iv, 0, 12, from, 0, from.length, to, 0, Buffer.alloc(0), 0, 0, tag, 0, 16];
  await promises.cipher(...ranges(1, plain, sealed));
  const controller = new AbortController();
  const opened = Buffer.alloc(plain.length);
  const running = promises.cipher(...ranges(0, sealed, opened), { signal: controller.signal });
  await new Promise(setImmediate);
  controller.abort();
  const error = await running.then(() => undefined, (failure) => failure);
  if (error) assert.ok(opened.equals(Buffer.alloc(plain.length)), 'the target is wiped');
  else assert.ok(opened.equals(plain));
});

test('a batch with a signal', async () => {
  const operations = new Uint32Array(batch.STRIDE);
  operations[3] = source.length;
  const buffers = { source, target: Buffer.alloc(32) };
  await assert.rejects(batch.promises.hash('sha256', buffers, operations, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.equal(await batch.promises.hash('sha256', buffers, operations, { signal: new AbortController().signal }), 0);
  assert.deepEqual(buffers.target, sha256(source));
});

test('the automatic form crosses its threshold without a difference', async () => {
  const { autoSizeMax } = crypto.settings();
  for (const size of [0, autoSizeMax - 1, autoSizeMax, autoSizeMax + 1]) {
    const bytes = source.subarray(0, size);
    assert.deepEqual(await auto.hash('sha256', bytes), sha256(bytes));
    assert.deepEqual(await auto.hmac('sha256', key, bytes), nodeCrypto.createHmac('sha256', key).update(bytes).digest());
    assert.deepEqual(await auto.cipher('aes-256-ctr', 1, key, counter, bytes), nodeCrypto.createCipheriv('aes-256-ctr', key, counter).update(bytes));
  }
});

test('settings are checked, and changed together or not at all', () => {
  const before = crypto.settings();
  for (const wrong of [{ threads: 0 }, { threads: 1.5 }, { threadPriority: 'high' }, { queueMax: '1' }, { keyCacheSize: 65 }, { nothing: 1 }, { autoSizeMax: 5, threads: -1 }]) {
    assert.throws(() => crypto.configure(wrong));
    assert.deepEqual(crypto.settings(), before);
  }
  crypto.configure({ threads: 3, keyCacheSize: 0, autoSizeMax: 1 });
  assert.deepEqual(crypto.settings(), { ...before, threads: 3, keyCacheSize: 0, autoSizeMax: 1 });
  for (let i = 0; i < 5; i += 1) {
    assert.deepEqual(crypto.hmac('sha256', key, source), nodeCrypto.createHmac('sha256', key).update(source).digest());
  }
  crypto.configure(before);
});

/** Policy and `nice` of every thread of the pool, by proc_pid_stat(5). */
function scheduling() {
  const threads = readdirSync('/proc/self/task').map((id) => {
    try {
      return readFileSync(`/proc/self/task/${id}/stat`, 'utf8');
    } catch {
      // One of the runtime's own threads may have ended meanwhile.
      return '';
    }
  });
  return threads.filter((stat) => stat.includes('(leafseal-crypt')).map((stat) => {
    // After the name, the fields from the third on.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { nice: Number(fields[16]), policy: Number(fields[38]) };
  });
}

test('threads of the pool take over their priority', { skip: process.platform !== 'linux' }, async (context) => {
  const before = crypto.settings();
  assert.equal(before.threadPriority, 'low');
  context.after(() => crypto.configure(before));
  const own = getPriority();
  const cases = [
    ['low', { nice: Math.min(own + 10, 19), policy: 0 }],
    ['idle', { nice: own, policy: 5 }],
    ['normal', { nice: own, policy: 0 }],
  ];
  for (const [threadPriority, expected] of cases) {
    crypto.configure({ threadPriority });
    let found = [];
    const isThere = () => found.length > 0 && found.every(({ nice, policy }) => nice === expected.nice && policy === expected.policy);
    // A thread with another priority ends as soon as it is idle.
    for (let tries = 0; tries < 1000 && !isThere(); tries += 1) {
      await promises.hash('sha256', source);
      found = scheduling();
    }
    assert.ok(isThere(), `${threadPriority}: ${JSON.stringify(found)}`);
  }
});

test('a full queue refuses a call at once, and has room again later', async (context) => {
  const before = crypto.settings();
  context.after(() => crypto.configure(before));
  crypto.configure({ queueMax: 2 });
  /** Calls until one is refused, which is before long: a call is made faster than three megabytes are hashed. */
  const fill = async (call) => {
    const running = [];
    let isRefused = false;
    for (let i = 0; i < 10_000 && !isRefused; i += 1) isRefused = call(running);
    assert.ok(isRefused);
    for (const digest of await Promise.all(running)) assert.deepEqual(digest, sha256(source));
  };
  await fill((running) => {
    let isRefused = false;
    running.push(new Promise((resolve, reject) => {
      try {
        crypto.hash('sha256', source, (error, digest) => (error ? reject(error) : resolve(digest)));
      } catch (error) {
        assert.equal(error.message, MESSAGES.E_OOM);
        isRefused = true;
        resolve(sha256(source));
      }
    }));
    return isRefused;
  });
  const all = await Promise.allSettled(Array.from({ length: 200 }, () => promises.hash('sha256', source, { signal: new AbortController().signal })));
  const rejected = all.filter(({ status }) => status === 'rejected');
  assert.ok(rejected.length > 0 && rejected.length < 200);
  for (const { reason } of rejected) assert.equal(reason.message, MESSAGES.E_OOM);
  crypto.configure(before);
  assert.deepEqual(await promises.hash('sha256', source), sha256(source));
});

test('streams in a pipeline', async () => {
  const seal = streams.encrypt('aes-256-gcm', key, iv, { aad: Buffer.from('aad') });
  const sealed = [];
  await pipeline(Readable.from([source.subarray(0, 5), source.subarray(5, 2 << 20), source.subarray(2 << 20)]), seal, async (pieces) => {
    for await (const piece of pieces) sealed.push(piece);
  });
  const expected = nodeCrypto.createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from('aad'));
  assert.ok(Buffer.concat(sealed).equals(expected.update(source)));
  expected.final();
  assert.deepEqual(seal.tag, expected.getAuthTag());
  const open = (tag) => {
    const opened = [];
    return pipeline(Readable.from(sealed), streams.unverifiedDecrypt('aes-256-gcm', key, iv, tag, { aad: Buffer.from('aad') }), async (pieces) => {
      for await (const piece of pieces) opened.push(piece);
    }).then(() => Buffer.concat(opened));
  };
  assert.ok((await open(seal.tag)).equals(source));
  const wrong = Buffer.from(seal.tag);
  wrong[7] ^= 1;
  await assert.rejects(open(wrong), { message: MESSAGES.E_CORRUPT });
});

test('streams of hashes take strings, and end once', async () => {
  assert.equal(streams.hash('sha256').update('Zoë').update('5a6f', 'hex').digest('hex'), sha256(Buffer.from('ZoëZo')).toString('hex'));
  const stream = streams.hmac('sha256', key);
  stream.update(source);
  const digest = stream.digest();
  assert.deepEqual(stream.digest(), digest);
  assert.throws(() => stream.update(source));
  const piped = streams.hash('sha256');
  await pipeline(Readable.from([source]), piped);
  assert.deepEqual(piped.read(), sha256(source));
});

test('a stream that is destroyed with a piece on the pool', async () => {
  for (let i = 0; i < 20; i += 1) {
    const stream = streams.encrypt('aes-256-ctr', key, counter);
    stream.on('error', () => {});
    stream.write(source);
    if (i % 2) await new Promise(setImmediate);
    stream.destroy();
    assert.throws(() => { for (let j = 0; j < 2; j += 1) { stream.final(); } });
  }
  assert.deepEqual(await promises.hash('sha256', source), sha256(source));
});

test('a stream refuses wrong arguments', () => {
  assert.throws(() => streams.hash('nothing'), { message: MESSAGES.E_ALGORITHM_UNKNOWN });
  assert.throws(() => streams.hmac('sha256', 'key'), { message: MESSAGES.E_KEY });
  assert.throws(() => streams.encrypt('aes-256-gcm', key, counter), { message: MESSAGES.E_IV_INVALID });
  assert.throws(() => streams.encrypt('aes-256-gcm', key, iv, { tagSize: 5 }), { message: MESSAGES.E_TAG_INVALID });
  assert.throws(() => streams.unauthenticatedDecrypt('aes-256-gcm', key, iv), { message: MESSAGES.E_TAG_INVALID });
  assert.throws(() => streams.unverifiedDecrypt('aes-256-ctr', key, counter, Buffer.alloc(0)), { message: MESSAGES.E_TAG_INVALID });
  assert.throws(() => streams.encrypt('aes-256-ctr', key, counter).update(5), TypeError);
});
