// Project Wycheproof's vectors from Node: AES-GCM of all key sizes, ChaCha20-Poly1305, and HMAC over every digest that has some.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

import { MESSAGES, crypto } from './lib/contract.mjs';

const folder = new URL('../../../../vectors/wycheproof/', import.meta.url);
const isOriginal = process.env.ORIGINAL !== undefined;
const DIGESTS = { sha512_224: 'sha512-224', sha512_256: 'sha512-256', sha3_224: 'sha3-224', sha3_256: 'sha3-256', sha3_384: 'sha3-384', sha3_512: 'sha3-512' };

function vectors(name) {
  const { numberOfTests, testGroups } = JSON.parse(readFileSync(new URL(name, folder), 'utf8'));
  const all = testGroups.flatMap(({ tests, ...group }) => tests.map((vector) => ({ ...group, ...vector })));
  assert.equal(all.length, numberOfTests);
  return all.filter((vector) => !isOriginal || ![vector.msg, vector.aad, vector.ct, vector.key].includes(''));
}

/** Fields of a vector as bytes. */
function bytes(vector, ...names) {
  return names.map((name) => Buffer.from(vector[name], 'hex'));
}

/** A call in its synchronous and asynchronous form; both must agree. */
async function both(method, ...args) {
  let sync;
  try {
    sync = { value: crypto[method](...args) };
  } catch (error) {
    sync = { message: error.message };
  }
  const later = await new Promise((resolve) => {
    try {
      crypto[method](...args, (error, value) => resolve(error ? { message: error.message } : { value }));
    } catch (error) {
      resolve({ message: error.message });
    }
  });
  assert.deepEqual(later, sync);
  return sync;
}

async function aead(vector, algorithm) {
  const [key, iv, aad, msg, ct, tag] = bytes(vector, 'key', 'iv', 'aad', 'msg', 'ct', 'tag');
  const opened = await both('cipher', algorithm, 0, key, iv, ct, aad, tag);
  const made = Buffer.alloc(tag.length);
  const sealed = await both('cipher', algorithm, 1, key, iv, msg, aad, made);
  const place = `${algorithm}, case ${vector.tcId}`;
  if (iv.length !== 12) {
    // The contract has nonces of 12 bytes only.
    assert.deepEqual([opened.message, sealed.message], [MESSAGES.E_IV_INVALID, MESSAGES.E_IV_INVALID], place);
    return 'other nonces';
  }
  if (vector.result === 'invalid') {
    assert.equal(opened.message, MESSAGES.E_CORRUPT, place);
    return 'invalid';
  }
  assert.deepEqual([opened.value, sealed.value, made], [msg, ct, tag], place);
  return 'valid';
}

async function report(context, name, run) {
  const counts = {};
  for (const vector of vectors(name)) {
    const kind = await run(vector);
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  assert.ok(isOriginal || (counts.valid > 10 && counts.invalid > 10));
  context.diagnostic(`${name}: ${Object.entries(counts).map(([kind, count]) => `${count} ${kind}`).join(', ')}`);
}

test('AES-GCM', async (context) => {
  const seen = new Set();
  await report(context, 'aes_gcm.json', (vector) => {
    seen.add(vector.keySize);
    return aead(vector, `aes-${vector.keySize}-gcm`);
  });
  assert.deepEqual([...seen].sort(), [128, 192, 256]);
});

test('ChaCha20-Poly1305', (context) => report(context, 'chacha20_poly1305.json', (vector) => aead(vector, 'chacha20-poly1305')));

const macs = readdirSync(folder).filter((name) => name.startsWith('hmac_'));

test('HMAC has vectors of twelve digests', () => assert.equal(macs.length, 12));

for (const name of macs) {
  const digest = name.slice('hmac_'.length, -'.json'.length);
  test(`HMAC ${digest}`, (context) => report(context, name, async (vector) => {
    const [key, msg, tag] = bytes(vector, 'key', 'msg', 'tag');
    const { value } = await both('hmac', DIGESTS[digest] ?? digest, key, msg);
    const isEqual = value.subarray(0, vector.tagSize / 8).equals(tag);
    assert.equal(isEqual, vector.result === 'valid', `${digest}, case ${vector.tcId}`);
    return vector.result;
  }));
}
