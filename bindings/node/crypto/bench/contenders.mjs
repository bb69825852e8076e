// The contenders: for each algorithm the forms of this package and of its peers. Each call gets 32-byte keys and its own buffers, which it
// uses again and again; nonces repeat, as they never may outside a benchmark.

import nodeCrypto from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { flights, loop, promised } from './measure.mjs';

const OURS = '@leafseal/crypto';
const { subtle } = nodeCrypto.webcrypto;
const key = Buffer.alloc(32, 7);
const iv = Buffer.alloc(12, 1);
const counter = Buffer.alloc(16, 1);
const none = Buffer.alloc(1).subarray(1);

/** Calls in flight beside one: small calls need many to hide the way there and back, large ones as many as there are cores. */
export function widthOf(size) {
  return size <= 65536 ? 64 : 2;
}

/** The peers, from the folder into which the benchmark installed them. */
export async function load(folder) {
  const require = createRequire(join(folder, 'package.json'));
  const module = (name) => import(pathToFileURL(require.resolve(name)).href);
  return {
    original: require('@ronomon/crypto-async'),
    sodium: require('sodium-native'),
    noble: {
      ...(await module('@noble/ciphers/aes.js')),
      ...(await module('@noble/ciphers/chacha.js')),
      ...(await module('@noble/hashes/sha2.js')),
      ...(await module('@noble/hashes/hmac.js')),
    },
  };
}

const sync = (who, form, op) => ({ who, form, run: loop(op) });
const one = (who, start) => ({ who, form: 'async, one in flight', run: flights(start, 1) });
const many = (who, size, start) => ({ who, form: `async, ${widthOf(size)} in flight`, run: flights(start, widthOf(size)) });

/**
 * The forms of the contract, which the original has too. `zeroCopy` makes the arguments of a call: calls that are in flight together have
 * buffers of their own, as in any use.
 */
function contract(who, crypto, size, method, allocating, zeroCopy) {
  const places = Array.from({ length: widthOf(size) }, zeroCopy);
  return [
    sync(who, 'sync, allocating', caller(crypto, method, allocating)),
    sync(who, 'sync', caller(crypto, method, places[0])),
    one(who, inTurn(places, (args, callback) => crypto[method](...args, callback))),
    many(who, size, (callback, place) => crypto[method](...places[place], callback)),
  ];
}

/** Calls that use the same memory one after another as several in flight do at once, so that both find as much of it in the caches. */
function inTurn(places, start) {
  let next = 0;
  return (callback) => {
    next = (next + 1) % places.length;
    start(places[next], callback);
  };
}

/**
 * A function that makes one call, with code of its own: callers have a call site for each of their calls, and one that all contenders share
 * would cost every one of them the compiler's work.
 */
function caller(crypto, method, args) {
  const list = args.map((_, index) => `a${index}`).join(', ');
  return new Function('call', 'args', `const [${list}] = args; return () => call(${list});`)(crypto[method], args);
}

function webCrypto(size, start) {
  return [
    { who: 'WebCrypto', form: 'async, one in flight', run: promised(start, 1) },
    { who: 'WebCrypto', form: `async, ${widthOf(size)} in flight`, run: promised(start, widthOf(size)) },
  ];
}

/** Bytes of a batch, at most; messages of one batch, at most. */
const BATCH_BYTES_MAX = 1 << 20;
const BATCH_MESSAGES_MAX = 1024;

/** Many messages in one call; figures are those of a message. Sizes of which few fit are left out. */
function batches(crypto, size, { method, name, tagSize = 0, resultSize = size }) {
  const messages = Math.min(BATCH_MESSAGES_MAX, Math.floor(BATCH_BYTES_MAX / size));
  if (!crypto.batch || messages < 8) return [];
  const { FIELDS, STRIDE, KEY_SIZE_FIELD } = crypto.batch;
  const operations = new Uint32Array(messages * STRIDE);
  for (let index = 0; index < messages; index += 1) {
    const set = (field, value) => { operations[index * STRIDE + FIELDS.indexOf(field)] = value; };
    if (method === 'hmac') operations[index * STRIDE + KEY_SIZE_FIELD] = 32;
    set('sourceOffset', index * size);
    set('sourceSize', size);
    set('targetOffset', index * resultSize);
    set('tagOffset', index * tagSize);
  }
  const buffers = {
    keys: key, ivs: counter, source: Buffer.alloc(messages * size, 1), target: Buffer.alloc(messages * resultSize), aad: none,
    ...(tagSize && { tags: Buffer.alloc(messages * tagSize), tagSize }),
  };
  const args = method === 'cipher' ? [name, 1, buffers, operations] : [name, buffers, operations];
  return [
    { who: OURS, form: `batch of ${messages}, sync`, messages, run: loop(() => crypto.batch[method](...args)) },
    { who: OURS, form: `batch of ${messages}, async`, messages, run: promised(() => crypto.batch.promises[method](...args), 1) },
  ];
}

async function aead(name, size, { crypto, original, sodium, noble }) {
  const [source, target, tag] = [Buffer.alloc(size, 1), Buffer.alloc(size + 32), Buffer.alloc(16)];
  const zeroCopy = () => [
    name, 1, key, 0, 32, iv, 0, 12, Buffer.alloc(size, 1), 0, size, Buffer.alloc(size + 32), 0, none, 0, 0, Buffer.alloc(16), 0, 16,
  ];
  const allocating = [name, 1, key, iv, source, none, tag];
  const keyObject = nodeCrypto.createSecretKey(key);
  const streaming = (secret) => () => {
    const cipher = nodeCrypto.createCipheriv(name, secret, iv, { authTagLength: 16 });
    cipher.update(source);
    cipher.final();
    cipher.getAuthTag();
  };
  const common = [
    ...contract(OURS, crypto, size, 'cipher', allocating, zeroCopy),
    ...batches(crypto, size, { method: 'cipher', name, tagSize: 16 }),
    sync('node:crypto', 'streaming', streaming(key)),
    sync('node:crypto', 'streaming, key object', streaming(keyObject)),
    ...contract('crypto-async', original, size, 'cipher', allocating, zeroCopy),
  ];
  if (name === 'aes-256-gcm') {
    const imported = await subtle.importKey('raw', key, 'AES-GCM', false, ['encrypt']);
    return [
      ...common,
      ...webCrypto(size, () => subtle.encrypt({ name: 'AES-GCM', iv }, imported, source)),
      sync('@noble/ciphers', 'sync', () => noble.gcm(key, iv).encrypt(source)),
    ];
  }
  return [
    ...common,
    sync('sodium-native', 'sync', () => {
      sodium.crypto_aead_chacha20poly1305_ietf_encrypt_detached(target.subarray(0, size), tag, source, null, null, iv, key);
    }),
    sync('@noble/ciphers', 'sync', () => noble.chacha20poly1305(key, iv).encrypt(source)),
  ];
}

async function ctr(size, { crypto, original, noble }) {
  const source = Buffer.alloc(size, 1);
  const name = 'aes-256-ctr';
  const zeroCopy = () => [name, 1, key, 0, 32, counter, 0, 16, Buffer.alloc(size, 1), 0, size, Buffer.alloc(size + 32), 0];
  const imported = await subtle.importKey('raw', key, 'AES-CTR', false, ['encrypt']);
  return [
    ...contract(OURS, crypto, size, 'cipher', [name, 1, key, counter, source], zeroCopy),
    ...batches(crypto, size, { method: 'cipher', name }),
    sync('node:crypto', 'streaming', () => nodeCrypto.createCipheriv(name, key, counter).update(source)),
    ...contract('crypto-async', original, size, 'cipher', [name, 1, key, counter, source], zeroCopy),
    ...webCrypto(size, () => subtle.encrypt({ name: 'AES-CTR', counter, length: 64 }, imported, source)),
    sync('@noble/ciphers', 'sync', () => noble.ctr(key, counter).encrypt(source)),
  ];
}

async function sha256(size, { crypto, original, sodium, noble }) {
  const [source, target] = [Buffer.alloc(size, 1), Buffer.alloc(32)];
  const zeroCopy = () => ['sha256', Buffer.alloc(size, 1), 0, size, Buffer.alloc(32), 0];
  return [
    ...contract(OURS, crypto, size, 'hash', ['sha256', source], zeroCopy),
    ...batches(crypto, size, { method: 'hash', name: 'sha256', resultSize: 32 }),
    sync('node:crypto', 'streaming', () => nodeCrypto.createHash('sha256').update(source).digest()),
    ...(nodeCrypto.hash ? [sync('node:crypto', 'one-shot', () => nodeCrypto.hash('sha256', source, 'buffer'))] : []),
    ...contract('crypto-async', original, size, 'hash', ['sha256', source], zeroCopy),
    ...webCrypto(size, () => subtle.digest('SHA-256', source)),
    sync('sodium-native', 'sync', () => sodium.crypto_hash_sha256(target, source)),
    sync('@noble/hashes', 'sync', () => noble.sha256(source)),
  ];
}

async function hmac(size, { crypto, original, noble }) {
  const source = Buffer.alloc(size, 1);
  const zeroCopy = () => ['sha256', key, 0, 32, Buffer.alloc(size, 1), 0, size, Buffer.alloc(32), 0];
  const imported = await subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const keyObject = nodeCrypto.createSecretKey(key);
  return [
    ...contract(OURS, crypto, size, 'hmac', ['sha256', key, source], zeroCopy),
    ...batches(crypto, size, { method: 'hmac', name: 'sha256', resultSize: 32 }),
    sync('node:crypto', 'streaming', () => nodeCrypto.createHmac('sha256', key).update(source).digest()),
    sync('node:crypto', 'streaming, key object', () => nodeCrypto.createHmac('sha256', keyObject).update(source).digest()),
    ...contract('crypto-async', original, size, 'hmac', ['sha256', key, source], zeroCopy),
    ...webCrypto(size, () => subtle.sign('HMAC', imported, source)),
    sync('@noble/hashes', 'sync', () => noble.hmac(noble.sha256, key, source)),
  ];
}

/** The algorithms: a title, and the contenders for a size. */
export const SUBJECTS = {
  gcm: { title: 'AES-256-GCM', contenders: (size, all) => aead('aes-256-gcm', size, all) },
  chacha: { title: 'ChaCha20-Poly1305', contenders: (size, all) => aead('chacha20-poly1305', size, all) },
  ctr: { title: 'AES-256-CTR', contenders: ctr },
  sha256: { title: 'SHA-256', contenders: sha256 },
  hmac: { title: 'HMAC-SHA-256', contenders: hmac },
};

export { OURS };
