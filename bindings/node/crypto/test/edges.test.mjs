// Counters at their ends, large buffers that are cut into slices, and ranges beyond 2 GiB, each compared with node:crypto.

import assert from 'node:assert/strict';
import nodeCrypto from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { CIPHERS, MESSAGES, crypto } from './lib/contract.mjs';
import { Random, seed } from './lib/random.mjs';

const isOriginal = process.env.ORIGINAL !== undefined;
const random = new Random(seed, 'edges');
const noise = nodeCrypto.createCipheriv('aes-256-ctr', Buffer.alloc(32), Buffer.alloc(16)).update(Buffer.alloc(9 << 20));

function later(...args) {
  return new Promise((resolve, reject) => {
    crypto.cipher(...args, (error, value) => (error ? reject(error) : resolve(value)));
  });
}

/** Compares a cipher without authentication in all forms. */
async function compare(algorithm, iv, source, place) {
  const key = random.bytes(CIPHERS[algorithm].keySize);
  const expected = nodeCrypto.createCipheriv(algorithm, key, iv).update(source);
  const is = (actual, form) => assert.ok(actual.equals(expected), `${algorithm} ${iv.toString('hex')} ${form}, ${place}, SEED=${seed}`);
  is(crypto.cipher(algorithm, 1, key, iv, source), 'sync');
  is(await later(algorithm, 1, key, iv, source), 'async');
  const inPlace = Buffer.from(source);
  const range = [key, 0, key.length, iv, 0, 16, inPlace, 0, source.length, inPlace, 0];
  assert.equal(await later(algorithm, 1, ...range), source.length);
  is(inPlace, 'async, in place');
  assert.equal(crypto.cipher(algorithm, 0, ...range), source.length);
  assert.ok(inPlace.equals(source));
}

test('chacha20 carries its counter into the second word of the iv, and no further', async () => {
  for (const blocks of [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64]) {
    for (const second of [0, 1, 0xffffffff]) {
      const iv = random.bytes(16);
      iv.writeUInt32LE((0x100000000 - blocks) % 0x100000000, 0);
      iv.writeUInt32LE(second, 4);
      await compare('chacha20', iv, noise.subarray(0, random.between(1, 64 * 80)), `${blocks} blocks before the wrap`);
    }
  }
});

test('CTR carries through all 128 bits of its counter', async () => {
  for (const algorithm of ['aes-128-ctr', 'aes-192-ctr', 'aes-256-ctr']) {
    for (const ones of [0, 1, 2, 4, 7, 8, 9, 12, 15, 16]) {
      for (const blocks of [1, 2, 7, 8, 9, 16, 33]) {
        const iv = random.bytes(16).fill(0xff, 16 - ones);
        iv[15] -= blocks;
        await compare(algorithm, iv, noise.subarray(0, random.between(1, 16 * 80)), `${ones} bytes of ones, ${blocks} blocks before the carry`);
      }
    }
  }
});

test('counters wrap inside large buffers', async () => {
  for (const wrap of [1, 4096, 16384, 65535, 100_000]) {
    const iv = random.bytes(16).fill(0xff, 4);
    iv.writeUInt32BE(0xffffffff - wrap, 12);
    await compare('aes-256-ctr', iv, noise.subarray(0, (5 << 20) + 13), `${wrap} blocks before the carry`);
    iv.writeUInt32LE(0xffffffff - wrap, 0);
    await compare('chacha20', iv, noise.subarray(0, (7 << 20) + 13), `${wrap} blocks before the wrap`);
  }
});

test('large buffers with tags', async () => {
  for (const [algorithm, { keySize, ivSize, tags }] of Object.entries(CIPHERS)) {
    if (!tags.length) continue;
    for (const size of [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (8 << 20) + 5]) {
      const [key, iv, aad, tag] = [random.bytes(keySize), random.bytes(ivSize), noise.subarray(0, random.below(3 << 20)), Buffer.alloc(16)];
      const source = noise.subarray(3, 3 + size);
      const cipher = nodeCrypto.createCipheriv(algorithm, key, iv, { authTagLength: 16 }).setAAD(aad);
      const expected = cipher.update(source);
      cipher.final();
      const target = Buffer.alloc(size);
      const call = [key, 0, keySize, iv, 0, ivSize];
      await later(algorithm, 1, ...call, source, 0, size, target, 0, aad, 0, aad.length, tag, 0, 16);
      assert.ok(target.equals(expected), `${algorithm} of ${size}`);
      assert.deepEqual(tag, cipher.getAuthTag(), `${algorithm} of ${size}`);
      await later(algorithm, 0, ...call, target, 0, size, target, 0, aad, 0, aad.length, tag, 0, 16);
      assert.ok(target.equals(source), `${algorithm} of ${size}, in place`);
      // A fault in the last byte, found after every slice has been written.
      expected[size - 1] ^= 1;
      const wrong = later(algorithm, 0, ...call, expected, 0, size, target, 0, aad, 0, aad.length, tag, 0, 16);
      await assert.rejects(wrong, { message: MESSAGES.E_CORRUPT });
      if (!isOriginal) assert.ok(target.equals(Buffer.alloc(size)), 'the target is wiped');
    }
  }
});

/** Bytes of memory that are free, as far as the system says. */
function available() {
  try {
    return Number(/MemAvailable: +(\d+)/.exec(readFileSync('/proc/meminfo', 'utf8'))[1]) * 1024;
  } catch {
    return 0;
  }
}

const whyNot = isOriginal ? 'the original refuses such buffers' : available() < 5 * 2 ** 30 && 'needs 5 GiB of free memory';

test('ranges in buffers over 2 GiB', { skip: whyNot }, async () => {
  // Pages that are never touched take no memory.
  const large = Buffer.alloc(3 * 2 ** 30);
  const key = random.bytes(32);
  for (const offset of [2 ** 31 - 500, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, large.length - 1000]) {
    const source = random.bytes(1000);
    source.copy(large, offset);
    const iv = random.bytes(16);
    const expected = nodeCrypto.createCipheriv('aes-256-ctr', key, iv).update(source);
    assert.equal(crypto.cipher('aes-256-ctr', 1, key, 0, 32, iv, 0, 16, large, offset, 1000, large, offset), 1000);
    assert.ok(large.subarray(offset, offset + 1000).equals(expected));
    assert.equal(await later('aes-256-ctr', 0, key, 0, 32, iv, 0, 16, large, offset, 1000, large, offset), 1000);
    assert.ok(large.subarray(offset, offset + 1000).equals(source));
    const digest = Buffer.alloc(32);
    crypto.hash('sha256', large, offset, 1000, digest, 0);
    assert.deepEqual(digest, nodeCrypto.createHash('sha256').update(source).digest());
    crypto.hmac('sha256', large, offset, 700, source, 0, 1000, large, offset);
    assert.deepEqual(large.subarray(offset, offset + 32), nodeCrypto.createHmac('sha256', source.subarray(0, 700)).update(source).digest());
    assert.throws(() => crypto.hash('sha256', large, large.length - 999, 1000, digest, 0), { message: MESSAGES.E_SOURCE_RANGE });
  }
  // The size of a range may be that large, too.
  const size = 2 ** 31 + 5;
  const hasher = nodeCrypto.createHash('sha1');
  for (let at = 0; at < size; at += 2 ** 30) hasher.update(large.subarray(at, Math.min(size, at + 2 ** 30)));
  const digest = Buffer.alloc(20);
  await new Promise((resolve, reject) => {
    crypto.hash('sha1', large, 0, size, digest, 0, (error) => (error ? reject(error) : resolve()));
  });
  assert.deepEqual(digest, hasher.digest());
});

test('offsets that no buffer reaches are refused', () => {
  for (const offset of [2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 40, Number.MAX_SAFE_INTEGER]) {
    const allowed = [MESSAGES.E_SOURCE_OFFSET, MESSAGES.E_SOURCE_RANGE];
    assert.throws(() => crypto.hash('sha256', Buffer.alloc(10), offset, 1, Buffer.alloc(32), 0), (error) => allowed.includes(error.message));
    const sizes = [MESSAGES.E_SOURCE_SIZE, MESSAGES.E_SOURCE_RANGE];
    assert.throws(() => crypto.hash('sha256', Buffer.alloc(10), 1, offset, Buffer.alloc(32), 0), (error) => sizes.includes(error.message));
  }
});
