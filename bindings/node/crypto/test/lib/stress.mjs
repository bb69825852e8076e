// Asynchronous calls from several copies of the JavaScript on one thread: every result must be that of its call, and every call must end
// once. copies.test.mjs runs it on the main thread and on worker threads.

import assert from 'node:assert/strict';
import nodeCrypto from 'node:crypto';

import { WAYS } from './copies.mjs';
import { Random } from './random.mjs';

const COPIES = 6;
const IN_FLIGHT_MAX = 96;
/** Calls after which a copy is replaced by a new one, while calls of the old one are in flight. */
const REPLACED_AFTER = 2000;
/** Sizes on both sides of those that are copied, and one of several slices. */
const SIZES = [0, 1, 31, 256, 257, 3000];
const LONG_SIZE = 200_000;

const sha256 = (bytes) => nodeCrypto.createHash('sha256').update(bytes).digest();

/** A source that no other call has. */
function unique(random, number) {
  const source = Buffer.alloc(8 + (random.chance(0.002) ? LONG_SIZE : random.pick(SIZES)), number & 0xff);
  source.writeDoubleLE(number);
  return source;
}

function cipherOf(name, random, source, aad) {
  const [key, iv] = [random.bytes(32), random.bytes(name === 'aes-256-ctr' ? 16 : 12)];
  const cipher = nodeCrypto.createCipheriv(name, key, iv);
  if (aad) cipher.setAAD(aad);
  const sealed = Buffer.concat([cipher.update(source), cipher.final()]);
  return { key, iv, sealed, tag: aad && cipher.getAuthTag() };
}

/** Each kind of call: checks its own result, and then calls `end`. */
const CALLS = {
  hash({ crypto, source }, end) {
    crypto.hash('sha256', source, (error, digest) => end(error, digest, sha256(source)));
  },
  hmac({ crypto, random, source }, end) {
    const key = random.bytes(20);
    const expected = nodeCrypto.createHmac('sha256', key).update(source).digest();
    crypto.promises.hmac('sha256', key, source).then((code) => end(undefined, code, expected), end);
  },
  ctr({ crypto, random, source }, end) {
    const { key, iv, sealed } = cipherOf('aes-256-ctr', random, source);
    const target = Buffer.alloc(source.length);
    const [keySize, ivSize] = [key.length, iv.length];
    crypto.cipher('aes-256-ctr', 1, key, 0, keySize, iv, 0, ivSize, source, 0, source.length, target, 0, (error, size) =>
      end(error, target.subarray(0, size), sealed));
  },
  gcm({ crypto, random, source }, end) {
    const aad = random.bytes(9);
    const { key, iv, sealed, tag } = cipherOf('aes-256-gcm', random, source, aad);
    crypto.cipher('aes-256-gcm', 0, key, iv, sealed, aad, tag, (error, opened) => end(error, opened, source));
  },
  corrupt({ crypto, random, source }, end) {
    const aad = random.bytes(9);
    const { key, iv, sealed, tag } = cipherOf('aes-256-gcm', random, source, aad);
    tag[0] ^= 1;
    crypto.cipher('aes-256-gcm', 0, key, iv, sealed, aad, tag, (error) => end(error?.message === 'corrupt' ? undefined : error ?? 'opened'));
  },
  batch({ crypto, source }, end) {
    const [target, half] = [Buffer.alloc(64), source.length >> 1];
    const operations = Uint32Array.of(0, 0, 0, half, 0, 0, 0, 0, 9, 0, 0, half, source.length - half, 32, 0, 0, 0, 9);
    const expected = Buffer.concat([sha256(source.subarray(0, half)), sha256(source.subarray(half))]);
    crypto.batch.promises.hash('sha256', { source, target }, operations).then(() => end(undefined, target, expected), end);
  },
  stream({ crypto, source }, end) {
    // Longer than `autoSizeMax`: on the pool.
    const long = Buffer.concat([source, Buffer.alloc(20_000)]);
    const stream = crypto.streams.hash('sha256');
    stream.on('data', (digest) => end(undefined, digest, sha256(long))).on('error', end);
    stream.end(long);
  },
  abort({ crypto, random, source }, end) {
    const controller = new AbortController();
    const { signal } = controller;
    crypto.promises.hash('sha256', source, { signal }).then(
      (digest) => end(undefined, digest, sha256(source)),
      (error) => end(error.name === 'AbortError' ? undefined : error),
    );
    if (random.chance(0.5)) controller.abort();
    else setImmediate(() => controller.abort());
  },
};
/** How often each kind is called, of 100 calls. */
const SHARES = { hash: 30, hmac: 15, ctr: 15, gcm: 15, corrupt: 5, batch: 5, stream: 3, abort: 12 };
const KINDS = Object.entries(SHARES).flatMap(([kind, share]) => Array(share).fill(kind));

/** Runs `calls` calls; `isStopped` ends it early. Returns how many ended, by kind. */
export async function stress(calls, seed, isStopped = () => false) {
  const random = new Random(seed, 'copies');
  const ways = Object.values(WAYS);
  const copies = Array.from({ length: COPIES }, (_, index) => ways[index % ways.length]());
  const ended = Object.fromEntries(Object.keys(SHARES).map((kind) => [kind, 0]));
  let [started, settled, failure] = [0, 0, undefined];
  const call = (number) => {
    const [kind, crypto, source] = [random.pick(KINDS), random.pick(copies), unique(random, number)];
    let isEnded = false;
    CALLS[kind]({ crypto, random, source }, (error, result, expected) => {
      if (isEnded) failure ??= new Error(`${kind} ${number} ended twice`);
      if (error) failure ??= new Error(`${kind} ${number}`, { cause: error });
      if (result && !expected.equals(result)) failure ??= new Error(`${kind} ${number}: the result of another call`);
      isEnded = true;
      settled += 1;
      ended[kind] += 1;
    });
  };
  while (settled < calls && failure === undefined && !isStopped()) {
    while (started < calls && started - settled < IN_FLIGHT_MAX) {
      call(started);
      started += 1;
      if (started % REPLACED_AFTER === 0) copies[random.below(COPIES)] = random.pick(ways)();
    }
    await new Promise(setImmediate);
  }
  if (failure) throw failure;
  if (settled === calls) assert.equal(Object.values(ended).reduce((sum, count) => sum + count, 0), calls);
  return ended;
}
