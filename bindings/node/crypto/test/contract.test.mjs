// The exports, the results of each form, the types that buffers may have, and asynchronous calls, as the contract describes them.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import nodeCrypto from 'node:crypto';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { CIPHERS, CIPHER_BLOCK_MAX, DIGESTS, MESSAGES, crypto } from './lib/contract.mjs';

const isOriginal = process.env.ORIGINAL !== undefined;
/** Empty; the original aborts the process at the pointer of Buffer.alloc(0). */
const nothing = isOriginal ? Buffer.alloc(1).subarray(1) : Buffer.alloc(0);
const source = Buffer.from('a message of more than a block, and some more');
const key = Buffer.alloc(32, 1);
const iv = Buffer.alloc(12, 2);

/** AES-256-GCM through node:crypto. */
function expectedGcm(plain, aad = Buffer.alloc(0)) {
  const cipher = nodeCrypto.createCipheriv('aes-256-gcm', key, iv);
  cipher.setAAD(aad);
  const sealed = Buffer.concat([cipher.update(plain), cipher.final()]);
  return { sealed, tag: cipher.getAuthTag() };
}

/** The arguments of a callback: its arguments, once. */
function called(run) {
  return new Promise((resolve, reject) => {
    let calls = 0;
    run((...args) => {
      calls += 1;
      if (calls > 1) reject(new Error('called twice'));
      // Later, so that a second call is noticed.
      setImmediate(() => resolve(args));
    });
  });
}

test('41 exports with their values, own, enumerable, writable and configurable', () => {
  const constants = { CIPHER_BLOCK_MAX, ...MESSAGES };
  const contract = ['cipher', 'hash', 'hmac', ...Object.keys(constants)];
  assert.equal(contract.length, 41);
  for (const name of contract) {
    assert.ok(Object.prototype.hasOwnProperty.call(crypto, name), name);
    const property = Object.getOwnPropertyDescriptor(crypto, name);
    assert.deepEqual([property.enumerable, property.writable, property.configurable], [true, true, true], name);
  }
  for (const [name, value] of Object.entries(constants)) assert.equal(crypto[name], value, name);
  for (const name of ['cipher', 'hash', 'hmac']) {
    assert.equal(typeof crypto[name], 'function');
    assert.equal(crypto[name].length, 0, `${name}.length`);
  }
});

test('a constant may be replaced', () => {
  const own = crypto.E_OOM;
  crypto.E_OOM = 'replaced';
  assert.equal(crypto.E_OOM, 'replaced');
  crypto.E_OOM = own;
});

test('results of the synchronous forms', () => {
  const { sealed, tag } = expectedGcm(source);
  const made = Buffer.alloc(16);
  const result = crypto.cipher('aes-256-gcm', 1, key, iv, source, nothing, made);
  assert.ok(Buffer.isBuffer(result));
  assert.deepEqual([result, made], [sealed, tag]);
  assert.deepEqual(crypto.cipher('aes-256-gcm', 0, key, iv, sealed, nothing, tag), source);
  const target = Buffer.alloc(source.length + 5, 9);
  const counter = Buffer.alloc(16, 3);
  assert.equal(crypto.cipher('aes-256-ctr', 1, key, 0, 32, counter, 0, 16, source, 0, source.length, target, 2), source.length);
  const ctr = nodeCrypto.createCipheriv('aes-256-ctr', key, counter).update(source);
  assert.deepEqual(target, Buffer.concat([Buffer.alloc(2, 9), ctr, Buffer.alloc(3, 9)]));
  assert.equal(crypto.hash('sha256', source, 0, source.length, target, 4), 32);
  assert.deepEqual(crypto.hash('sha256', source), target.subarray(4, 36));
  assert.equal(crypto.hmac('sha512', key, 0, 32, source, 0, 10, Buffer.alloc(64), 0), 64);
});

test('asynchronous calls return undefined and never call back synchronously', async () => {
  const forms = [
    (callback) => crypto.cipher('aes-256-gcm', 1, key, iv, source, Buffer.from('aad'), Buffer.alloc(16), callback),
    (callback) => crypto.cipher('aes-256-ctr', 1, key, Buffer.alloc(16), source, callback),
    (callback) => crypto.cipher('aes-256-ctr', 1, key, 0, 32, Buffer.alloc(16), 0, 16, source, 0, 5, Buffer.alloc(5), 0, callback),
    (callback) => crypto.hash('sha256', source, callback),
    (callback) => crypto.hash('sha256', source, 0, 0, Buffer.alloc(32), 0, callback),
    (callback) => crypto.hmac('sha256', key, source, callback),
    (callback) => crypto.hmac('md5', key, 0, 0, source, 0, 3, Buffer.alloc(16), 0, callback),
  ];
  for (const form of forms) {
    const args = await called((callback) => {
      let isReturned = false;
      assert.equal(form((...results) => {
        assert.ok(isReturned, 'called synchronously');
        callback(...results);
      }), undefined);
      isReturned = true;
    });
    assert.equal(args.length, 2);
    assert.equal(args[0], undefined);
    assert.ok(Buffer.isBuffer(args[1]) || typeof args[1] === 'number');
  }
});

test('a wrong tag is the only run-time error: thrown, or the only argument of the callback', async () => {
  for (const [algorithm, cipher] of Object.entries(CIPHERS)) {
    if (!cipher.tags.length) continue;
    const itsKey = Buffer.alloc(cipher.keySize);
    for (const size of cipher.tags) {
      const tag = Buffer.alloc(size);
      const sealed = crypto.cipher(algorithm, 1, itsKey, iv, source, Buffer.from('aad'), tag);
      tag[size - 1] ^= 1;
      const corrupt = { name: 'Error', message: MESSAGES.E_CORRUPT };
      assert.throws(() => crypto.cipher(algorithm, 0, itsKey, iv, sealed, Buffer.from('aad'), tag), corrupt);
      const args = await called((callback) => crypto.cipher(algorithm, 0, itsKey, iv, sealed, Buffer.from('aad'), tag, callback));
      assert.equal(args.length, 1);
      assert.ok(args[0] instanceof Error);
      assert.equal(args[0].message, MESSAGES.E_CORRUPT);
      assert.equal(args[0].code, undefined);
    }
  }
});

test('a failed authentication wipes the range of the target and nothing else', { skip: isOriginal && 'the original leaves plaintext' }, async () => {
  const { sealed, tag } = expectedGcm(source);
  tag[0] ^= 0x80;
  const zeroed = Buffer.concat([Buffer.alloc(7, 5), Buffer.alloc(sealed.length), Buffer.alloc(9, 5)]);
  const before = Buffer.from(sealed);
  const call = [0, key, 0, 32, iv, 0, 12, sealed, 0, sealed.length];
  const sync = Buffer.alloc(zeroed.length, 5);
  assert.throws(() => crypto.cipher('aes-256-gcm', ...call, sync, 7, nothing, 0, 0, tag, 0, 16), { message: MESSAGES.E_CORRUPT });
  assert.deepEqual(sync, zeroed);
  const later = Buffer.alloc(zeroed.length, 5);
  const [error] = await called((callback) => crypto.cipher('aes-256-gcm', ...call, later, 7, nothing, 0, 0, tag, 0, 16, callback));
  assert.equal(error.message, MESSAGES.E_CORRUPT);
  assert.deepEqual(later, zeroed);
  assert.deepEqual(sealed, before);
});

test('zero-copy forms take any view and count in bytes', () => {
  const shared = Buffer.from(new SharedArrayBuffer(64));
  source.copy(shared);
  const floats = new Float64Array(8);
  Buffer.from(floats.buffer).set(source.subarray(0, 40));
  const view = new DataView(new ArrayBuffer(100), 10, 80);
  source.copy(Buffer.from(view.buffer, view.byteOffset), 0);
  const expected = (bytes) => nodeCrypto.createHash('sha256').update(bytes).digest();
  for (const bytes of [new Uint8Array(source), shared, floats, view]) {
    const target = new Uint16Array(20);
    assert.equal(crypto.hash('sha256', bytes, 3, 30, target, 5), 32);
    assert.deepEqual(Buffer.from(target.buffer, 5, 32), expected(source.subarray(3, 33)));
  }
  const end = { message: MESSAGES.E_SOURCE_RANGE };
  assert.throws(() => crypto.hash('sha256', floats, 0, 65, Buffer.alloc(32), 0), end);
  assert.equal(crypto.hash('sha256', floats, 0, 64, Buffer.alloc(32), 0), 32);
});

test('minus zero is an offset and a size', () => {
  assert.equal(crypto.hash('sha256', source, -0, -0, Buffer.alloc(32), -0), 32);
  assert.deepEqual(crypto.cipher('aes-256-ctr', -0, key, Buffer.alloc(16), source), crypto.cipher('aes-256-ctr', 0, key, Buffer.alloc(16), source));
});

test('empty buffers work in every form', { skip: isOriginal && 'they abort the original' }, async () => {
  const empty = Buffer.alloc(0);
  for (const [algorithm, cipher] of Object.entries(CIPHERS)) {
    const [itsKey, itsIv] = [Buffer.alloc(cipher.keySize), Buffer.alloc(cipher.ivSize)];
    const tag = Buffer.alloc(cipher.tags.length ? 16 : 0);
    const made = crypto.cipher(algorithm, 1, itsKey, itsIv, empty, empty, tag);
    assert.equal(made.length, 0);
    if (tag.length) {
      const expected = nodeCrypto.createCipheriv(algorithm, itsKey, itsIv, { authTagLength: 16 });
      expected.final();
      assert.deepEqual(tag, expected.getAuthTag());
    } else {
      assert.equal(crypto.cipher(algorithm, 0, itsKey, itsIv, empty).length, 0);
    }
    const zeroCopy = [algorithm, 0, itsKey, 0, cipher.keySize, itsIv, 0, cipher.ivSize, empty, 0, 0, empty, 0, empty, 0, 0, tag, 0, tag.length];
    assert.equal(crypto.cipher(...zeroCopy), 0);
    assert.deepEqual(await called((callback) => crypto.cipher(...zeroCopy, callback)), [undefined, 0]);
    assert.deepEqual(await called((callback) => crypto.cipher(algorithm, 0, itsKey, itsIv, empty, empty, tag, callback)), [undefined, empty]);
  }
  for (const [algorithm, { hmac }] of Object.entries(DIGESTS)) {
    const expected = nodeCrypto.createHash(algorithm).digest();
    assert.deepEqual(crypto.hash(algorithm, empty), expected);
    assert.deepEqual(await called((callback) => crypto.hash(algorithm, empty, callback)), [undefined, expected]);
    if (hmac) assert.deepEqual(crypto.hmac(algorithm, empty, empty), nodeCrypto.createHmac(algorithm, empty).digest());
  }
});

test('the context of AsyncLocalStorage is kept', async () => {
  const storage = new AsyncLocalStorage();
  const seen = await Promise.all(Array.from({ length: 50 }, (_, index) => storage.run(index, () => new Promise((resolve) => {
    crypto.hash('sha256', source, () => resolve(storage.getStore()));
  }))));
  assert.deepEqual(seen, Array.from({ length: 50 }, (_, index) => index));
});

test('many calls are in flight at once, each with its own result', async () => {
  const seen = await Promise.all(Array.from({ length: 2000 }, (_, index) => {
    const bytes = Buffer.from(`message ${index}`);
    return called((callback) => crypto.hash('sha256', bytes, callback)).then(([error, digest]) => {
      assert.equal(error, undefined);
      assert.deepEqual(digest, nodeCrypto.createHash('sha256').update(bytes).digest());
      return index;
    });
  }));
  assert.equal(seen.length, 2000);
});

test('worker threads have the whole package', async () => {
  const code = `
    const { parentPort, workerData } = require('node:worker_threads');
    const crypto = require(workerData);
    const sync = crypto.hash('sha256', Buffer.from('abc')).toString('hex');
    crypto.hash('sha256', Buffer.from('abc'), (error, later) => parentPort.postMessage([sync, later.toString('hex'), Object.keys(crypto).length]));`;
  const path = process.env.CRYPTO ?? new URL('../index.js', import.meta.url).pathname;
  const answers = await Promise.all(Array.from({ length: 4 }, () => new Promise((resolve, reject) => {
    const worker = new Worker(code, { eval: true, workerData: path });
    worker.once('message', resolve).once('error', reject);
  })));
  const abc = nodeCrypto.createHash('sha256').update('abc').digest('hex');
  for (const answer of answers) assert.deepEqual(answer, [abc, abc, Object.keys(crypto).length]);
});

test('arguments are not changed', async () => {
  for (const [algorithm, cipher] of Object.entries(CIPHERS)) {
    const hasTag = cipher.tags.length > 0;
    const buffers = { itsKey: Buffer.alloc(cipher.keySize, 3), itsIv: Buffer.alloc(cipher.ivSize, 0xff), aad: hasTag ? Buffer.alloc(9, 1) : nothing };
    const copies = Object.values(buffers).map((buffer) => Buffer.from(buffer));
    const { itsKey, itsIv, aad } = buffers;
    const tag = hasTag ? Buffer.alloc(16) : nothing;
    // The iv is not a counter that a call advances: a second call gives the same bytes.
    const first = crypto.cipher(algorithm, 1, itsKey, itsIv, source, aad, tag);
    const [, second] = await called((callback) => crypto.cipher(algorithm, 1, itsKey, itsIv, source, aad, tag, callback));
    assert.deepEqual(second, first);
    assert.deepEqual(crypto.cipher(algorithm, 0, itsKey, itsIv, first, aad, tag), source);
    assert.deepEqual(Object.values(buffers), copies);
  }
});
