// Arguments that lie about themselves, and memory that changes while a call is in flight: an error or a right result, never the end of the
// process. Each case runs in a process of its own.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const own = process.env.CRYPTO ?? fileURLToPath(new URL('../index.js', import.meta.url));

const PRELUDE = `
  const crypto = require(${JSON.stringify(own)});
  const assert = require('node:assert/strict');
  const nodeCrypto = require('node:crypto');
  const sizes = [0, 1, 200, 5000, 2 << 20];
  const sha256 = (bytes) => nodeCrypto.createHash('sha256').update(bytes).digest();
  /** Every form with one argument replaced: each call may throw an Error, and must return otherwise. */
  function attempt(replace) {
    let pending = 0;
    const callback = () => { pending -= 1; };
    const seal = (alter) => {
      for (const size of sizes) {
        for (const isAsync of [false, true]) {
          const [key, iv, source, target, aad, tag] = [32, 12, size, size, size, 16].map((length) => Buffer.alloc(length, 1));
          const a = { key, iv, source, target, aad, tag, size };
          alter(a);
          const forms = [
            ['cipher', 'aes-256-gcm', 1, a.key, a.iv, a.source, a.aad, a.tag],
            ['cipher', 'aes-256-gcm', 1, a.key, 0, 32, a.iv, 0, 12, a.source, 0, size, a.target, 0, a.aad, 0, size, a.tag, 0, 16],
            ['hash', 'sha256', a.source],
            ['hash', 'sha256', a.source, 0, size, a.key, 0],
            ['hmac', 'sha256', a.key, a.source],
            ['hmac', 'sha256', a.source, 0, size, a.source, 0, size, a.key, 0],
          ];
          for (const [method, ...args] of forms) {
            try {
              if (isAsync) { crypto[method](...args, callback); pending += 1; } else crypto[method](...args);
            } catch (error) {
              assert.ok(error instanceof Error);
            }
          }
        }
      }
    };
    for (const name of ['key', 'iv', 'source', 'target', 'aad', 'tag']) seal((a) => { a[name] = replace(a[name], name); });
    process.on('exit', () => assert.equal(pending, 0));
  }
`;

function survives(name, code, ...options) {
  test(name, () => {
    const { status, signal, stderr } = spawnSync(process.execPath, ['--expose-gc', ...options, '-e', PRELUDE + code], { encoding: 'utf8', timeout: 120_000 });
    assert.deepEqual({ status, signal }, { status: 0, signal: null }, stderr);
  });
}

survives('objects with the prototype of a Buffer', 'attempt((buffer) => Object.create(Buffer.prototype));');
survives('and with a length of their own', `
  attempt((buffer) => Object.create(Buffer.prototype, { length: { value: buffer.length }, byteLength: { value: buffer.length } }));`);
for (const claimed of ['100', '2 ** 31', '2 ** 40', '-1', 'NaN', "'x'", '{}', 'Symbol()']) {
  survives(`buffers that claim a length of ${claimed}`, `
    attempt((buffer) => Object.defineProperties(buffer, { length: { value: ${claimed} }, byteLength: { value: ${claimed} } }));`);
}
survives('buffers that claim an offset', 'attempt((buffer) => Object.defineProperty(buffer, "byteOffset", { value: 2 ** 40 }));');
survives('buffers that claim another memory', 'attempt((buffer) => Object.defineProperty(buffer, "buffer", { value: new ArrayBuffer(1) }));');
survives('views whose fields throw', `
  attempt((buffer) => Object.defineProperty(buffer, 'byteLength', { get() { throw new Error('field'); } }));`);
survives('proxies of buffers', 'attempt((buffer) => new Proxy(buffer, {}));');
survives('views whose memory has been transferred', `
  attempt((buffer) => { structuredClone(buffer.buffer.byteLength === buffer.length ? buffer.buffer : new ArrayBuffer(1), { transfer: buffer.buffer.byteLength === buffer.length ? [buffer.buffer] : [] }); return buffer; });`);
survives('views of resizable memory that has shrunk', `
  attempt((buffer) => {
    const memory = new ArrayBuffer(buffer.length + 8, { maxByteLength: buffer.length + 8 });
    const view = new Uint8Array(memory, 8);
    Object.setPrototypeOf(view, Buffer.prototype);
    memory.resize(4);
    return view;
  });`);
survives('views of another context', `
  const vm = require('node:vm');
  const make = vm.runInNewContext('(size) => new Uint8Array(size)');
  attempt((buffer) => make(buffer.length));
  const foreign = make(300);
  const target = Buffer.alloc(32);
  crypto.hash('sha256', foreign, 0, 300, target, 0);
  assert.deepEqual(target, sha256(Buffer.alloc(300)));`);
survives('memory of WebAssembly that grows while a call is in flight', `
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 256 });
  const view = Buffer.from(memory.buffer);
  for (let i = 0; i < 20; i += 1) {
    crypto.hash('sha256', view, 0, view.length, Buffer.alloc(32), 0, (error) => {});
  }
  memory.grow(1);
  setImmediate(() => memory.grow(1));`);
survives('resizable memory that changes while a call is in flight', `
  for (const size of sizes) {
    for (let i = 0; i < 10; i += 1) {
      const memory = new ArrayBuffer(size + 64, { maxByteLength: size + 4096 });
      const view = new Uint8Array(memory, 0, size);
      const callback = (error, value) => assert.ok(error instanceof Error || value === size, String(error));
      crypto.cipher('aes-256-ctr', 1, Buffer.alloc(32), 0, 32, Buffer.alloc(16), 0, 16, view, 0, size, view, 0, callback);
      memory.resize(i % 2 ? 1 : size + 4096);
    }
  }`);
survives('a target that is transferred while a call is in flight', `
  let called = 0;
  for (const make of [(size) => new DataView(new ArrayBuffer(size)), (size) => Buffer.from(new ArrayBuffer(size))]) {
    const view = make(32);
    crypto.hash('sha256', Buffer.alloc(10), 0, 10, view, 0, () => { called += 1; });
    for (let i = 0; i < 10; i += 1) crypto.hash('sha256', Buffer.alloc(10), () => { called += 1; });
    structuredClone(view.buffer, { transfer: [view.buffer] });
  }
  process.on('exit', () => assert.equal(called, 22));`);
survives('no reference but that of the call', `
  const expected = sha256(Buffer.alloc(1 << 20, 3));
  let ended = 0;
  for (let i = 0; i < 40; i += 1) {
    crypto.hash('sha256', Buffer.alloc(1 << 20, 3), (error, digest) => { ended += 1; assert.deepEqual(digest, expected); });
    let target = Buffer.alloc(1 << 20);
    crypto.cipher('aes-256-ctr', 1, Buffer.alloc(32), 0, 32, Buffer.alloc(16), 0, 16, Buffer.alloc(1 << 20), 0, 1 << 20, target, 0, () => { ended += 1; });
    target = undefined;
    globalThis.gc();
  }
  const churn = setInterval(() => { globalThis.gc(); Buffer.alloc(4 << 20, 9); if (ended === 80) clearInterval(churn); }, 1);`);
survives('calls from callbacks, deeply', `
  let left = 3000;
  const next = () => { if ((left -= 1) > 0) crypto.hash('sha256', Buffer.alloc(10), next); };
  for (let i = 0; i < 8; i += 1) next();`);
survives('callbacks that are no functions to be called', `
  process.on('uncaughtException', (error) => assert.match(error.message, /class|Class/));
  crypto.hash('sha256', Buffer.alloc(10), class Callback {});`);
survives('arguments of strict functions, bound and applied', `
  assert.deepEqual(Reflect.apply(crypto.hash, null, ['sha256', Buffer.from('abc')]), sha256('abc'));
  assert.deepEqual(crypto.hash.bind({})('sha256', Buffer.from('abc')), sha256('abc'));
  try { new crypto.hash('sha256', Buffer.from('abc')); } catch (error) { assert.ok(error instanceof Error); }`);
survives('the native module loaded by many threads that end at once', `
  const { Worker } = require('node:worker_threads');
  const code = 'require(' + JSON.stringify(${JSON.stringify(own)}) + ').hash("sha256", Buffer.alloc(1 << 20), () => {});';
  Promise.all(Array.from({ length: 12 }, (_, i) => {
    const worker = new Worker(code, { eval: true });
    return i % 2 ? new Promise((resolve) => worker.once('exit', resolve)) : new Promise((resolve) => setTimeout(resolve, i)).then(() => worker.terminate());
  })).then(() => crypto.hash('sha256', Buffer.alloc(10), (error) => assert.equal(error, undefined)));`);
