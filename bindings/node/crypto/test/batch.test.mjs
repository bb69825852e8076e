// Batches of many operations over shared buffers, against a loop of node:crypto: keys that change or stay, messages of all sizes, wrong tags
// in between, results in place, and arrays that are wrong.

import assert from 'node:assert/strict';
import nodeCrypto from 'node:crypto';
import { test } from 'node:test';

import { CIPHERS, DIGESTS, MESSAGES, crypto } from './lib/contract.mjs';
import { Random, seed } from './lib/random.mjs';

const { batch } = crypto;
const random = new Random(seed, 'batch');
const at = (index, field) => index * batch.STRIDE + batch.FIELDS.indexOf(field);

/** Shared buffers for `count` messages, and the array that describes them. */
function layout({ keySize, ivSize, tagSize, count, keys, sizeMax, isInPlace, Numbers }) {
  const sizes = Array.from({ length: count }, () => random.below(random.chance(0.02) ? 20_000 : sizeMax));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const source = random.bytes(total + 7);
  const buffers = {
    keys: random.bytes(keys * keySize + 3), ivs: random.bytes(count * ivSize), source, target: isInPlace ? source : random.bytes(total + 20),
    aad: random.bytes(200), tags: random.bytes(count * tagSize), ...(tagSize && { tagSize }),
  };
  const operations = new Numbers(count * batch.STRIDE);
  let offset = 0;
  sizes.forEach((size, index) => {
    const set = (field, value) => { operations[at(index, field)] = value; };
    set('keyOffset', 3 + keySize * random.below(keys));
    set('ivOffset', index * ivSize);
    set('sourceOffset', offset);
    set('sourceSize', size);
    set('targetOffset', isInPlace ? offset : offset + 13);
    set('aadOffset', random.below(100));
    set('aadSize', tagSize ? random.below(100) : 0);
    set('tagOffset', index * tagSize);
    set('status', 77);
    offset += size;
  });
  return { buffers, operations, count };
}

/** Runs the operations one by one through node:crypto on copies; returns the copies and the statuses. */
function oneByOne(name, encrypt, { buffers, operations, count }) {
  const { keySize, ivSize } = CIPHERS[name];
  const copies = Object.fromEntries(Object.entries(buffers).map(([key, value]) => [key, Buffer.isBuffer(value) ? Buffer.from(value) : value]));
  if (buffers.target === buffers.source) copies.target = copies.source;
  const statuses = [];
  for (let index = 0; index < count; index += 1) {
    const get = (field) => operations[at(index, field)];
    const part = (buffer, field, size) => copies[buffer].subarray(get(field), get(field) + size);
    const create = encrypt ? nodeCrypto.createCipheriv : nodeCrypto.createDecipheriv;
    const options = buffers.tagSize ? { authTagLength: buffers.tagSize } : {};
    const cipher = create(name, part('keys', 'keyOffset', keySize), part('ivs', 'ivOffset', ivSize), options);
    const tag = part('tags', 'tagOffset', buffers.tagSize ?? 0);
    if (buffers.tagSize) cipher.setAAD(part('aad', 'aadOffset', get('aadSize')));
    if (buffers.tagSize && !encrypt) cipher.setAuthTag(tag);
    let made = cipher.update(part('source', 'sourceOffset', get('sourceSize')));
    let status = 0;
    try { cipher.final(); } catch { [made, status] = [Buffer.alloc(made.length), 1]; }
    copies.target.set(made, get('targetOffset'));
    if (buffers.tagSize && encrypt) tag.set(cipher.getAuthTag());
    statuses.push(status);
  }
  return { copies, statuses };
}

async function compare(name, encrypt, made, isAsync) {
  const { copies, statuses } = oneByOne(name, encrypt, made);
  const { buffers, operations } = made;
  const failed = isAsync ? await batch.promises.cipher(name, encrypt, buffers, operations) : batch.cipher(name, encrypt, buffers, operations);
  const place = `${name} ${encrypt} of ${made.count}, ${isAsync ? 'async' : 'sync'}, SEED=${seed}`;
  assert.equal(failed, statuses.filter(Boolean).length, place);
  assert.deepEqual(statuses.map((_, index) => operations[at(index, 'status')]), statuses, place);
  for (const key of ['keys', 'ivs', 'source', 'target', 'aad', 'tags']) assert.ok(buffers[key].equals(copies[key]), `${place}: ${key}`);
}

for (const [name, { keySize, ivSize, tags }] of Object.entries(CIPHERS)) {
  test(`batches of ${name}`, async () => {
    for (const count of [0, 1, 2, 7, 8, 9, 31, 32, 33, 100, 1023, 1025]) {
      for (const isAsync of [false, true]) {
        const tagSize = tags.length ? (random.chance(0.7) ? 16 : random.pick(tags)) : 0;
        const options = {
          keySize, ivSize, tagSize, count, keys: random.pick([1, 1, 2, 5]), sizeMax: random.pick([33, 100, 520, 3000]),
          isInPlace: random.chance(0.4), Numbers: random.pick([Uint32Array, Float64Array]),
        };
        const made = layout(options);
        await compare(name, 1, made, isAsync);
        // The sealed messages become the source, every tenth with a damaged tag.
        if (!options.isInPlace) {
          made.buffers.source = made.buffers.target;
          made.buffers.target = random.bytes(made.buffers.source.length);
          for (let index = 0; index < count; index += 1) made.operations[at(index, 'sourceOffset')] += 13;
        }
        for (let index = 0; tagSize && index < count; index += 1) {
          if (random.chance(0.1)) made.buffers.tags[index * tagSize + random.below(tagSize)] ^= 1 << random.below(8);
        }
        await compare(name, 0, made, isAsync);
      }
    }
  });
}

test('batches of hashes and HMAC', async () => {
  for (const [name, { size, hmac }] of Object.entries(DIGESTS)) {
    for (const method of hmac ? ['hash', 'hmac'] : ['hash']) {
      const count = random.between(1, 300);
      const [source, keys, target] = [random.bytes(4000), random.bytes(500), random.bytes(count * size)];
      const operations = new Uint32Array(count * batch.STRIDE);
      for (let index = 0; index < count; index += 1) {
        operations[at(index, 'sourceOffset')] = random.below(2000);
        operations[at(index, 'sourceSize')] = random.below(2000);
        operations[at(index, 'targetOffset')] = index * size;
        operations[at(index, 'keyOffset')] = random.below(250);
        operations[index * batch.STRIDE + batch.KEY_SIZE_FIELD] = random.below(250);
      }
      const isAsync = random.chance(0.5);
      assert.equal(await (isAsync ? batch.promises : batch)[method](name, { keys, source, target }, operations), 0);
      for (let index = 0; index < count; index += 1) {
        const get = (field) => operations[at(index, field)];
        const key = keys.subarray(get('keyOffset'), get('keyOffset') + operations[index * batch.STRIDE + batch.KEY_SIZE_FIELD]);
        const hasher = method === 'hash' ? nodeCrypto.createHash(name) : nodeCrypto.createHmac(name, key);
        const expected = hasher.update(source.subarray(get('sourceOffset'), get('sourceOffset') + get('sourceSize'))).digest();
        assert.deepEqual(target.subarray(index * size, (index + 1) * size), expected, `${method} ${name}, SEED=${seed}`);
      }
    }
  }
});

test('numbers that are not whole, or negative, are outside of every buffer', () => {
  for (const wrong of [-1, 0.5, Number.NaN, Infinity, -Infinity]) {
    for (const field of ['sourceOffset', 'sourceSize', 'targetOffset']) {
      const operations = new Float64Array(batch.STRIDE);
      operations[at(0, field)] = wrong;
      assert.throws(() => batch.hash('sha256', { source: Buffer.alloc(9), target: Buffer.alloc(64) }, operations), /operation 0: a range/, `${field} ${wrong}`);
    }
  }
});

// Two messages of SHA-256 run side by side, unless the second reads what the first writes.
test('an operation of a batch may read what the one before it wrote', () => {
  for (const method of ['hash', 'hmac']) {
    const [source, keys] = [random.bytes(32 * 8), random.bytes(64)];
    const operations = new Uint32Array(7 * batch.STRIDE);
    for (let index = 0; index < 7; index += 1) {
      operations[at(index, 'sourceOffset')] = index * 32;
      operations[at(index, 'sourceSize')] = 32;
      operations[at(index, 'targetOffset')] = (index + 1) * 32;
      operations[index * batch.STRIDE + batch.KEY_SIZE_FIELD] = 64;
    }
    let expected = source.subarray(0, 32);
    for (let index = 0; index < 7; index += 1) {
      const hasher = method === 'hash' ? nodeCrypto.createHash('sha256') : nodeCrypto.createHmac('sha256', keys);
      expected = hasher.update(expected).digest();
    }
    assert.equal(batch[method]('sha256', { keys, source, target: source }, operations), 0);
    assert.deepEqual(source.subarray(7 * 32), expected, `SEED=${seed}`);
  }
});

test('a wrong range is refused before anything runs, with the number of the operation', async () => {
  const limits = { keyOffset: 'keys', ivOffset: 'ivs', sourceOffset: 'source', targetOffset: 'target', aadOffset: 'aad', tagOffset: 'tags' };
  for (const [field, buffer] of Object.entries(limits)) {
    for (const Numbers of [Uint32Array, Float64Array]) {
      const values = [(made) => made.buffers[buffer].length + 1, () => 2 ** 32 - 1, ...(Numbers === Float64Array ? [() => 2 ** 53, () => Infinity] : [])];
      for (const value of values) {
        const made = layout({ keySize: 32, ivSize: 12, tagSize: 16, count: 20, keys: 2, sizeMax: 50, isInPlace: false, Numbers });
        made.operations[at(17, field)] = value(made);
        const target = Buffer.from(made.buffers.target);
        const refused = (error) => error instanceof Error && error.message.includes('17');
        assert.throws(() => batch.cipher('aes-256-gcm', 1, made.buffers, made.operations), refused, field);
        await assert.rejects(batch.promises.cipher('aes-256-gcm', 1, made.buffers, made.operations), refused, field);
        assert.ok(made.buffers.target.equals(target));
      }
    }
  }
});

test('other wrong arguments', () => {
  const made = layout({ keySize: 32, ivSize: 12, tagSize: 16, count: 3, keys: 1, sizeMax: 50, isInPlace: false, Numbers: Uint32Array });
  const { buffers, operations } = made;
  assert.throws(() => batch.cipher('nothing', 1, buffers, operations), { message: MESSAGES.E_ALGORITHM_UNKNOWN });
  assert.throws(() => batch.cipher('aes-256-cbc', 1, buffers, operations), { message: MESSAGES.E_ALGORITHM_DISABLED });
  assert.throws(() => batch.cipher('aes-256-gcm', 2, buffers, operations), { message: MESSAGES.E_ENCRYPT });
  assert.throws(() => batch.cipher('aes-256-gcm', 1, { ...buffers, tagSize: 5 }, operations), { message: MESSAGES.E_TAG_INVALID });
  assert.throws(() => batch.cipher('aes-256-gcm', 1, { ...buffers, keys: undefined }, operations), TypeError);
  assert.throws(() => batch.cipher('aes-256-gcm', 1, buffers, operations.subarray(1)), RangeError);
  for (const wrong of [undefined, null, [], {}, new Uint8Array(9), new Int32Array(9), new DataView(new ArrayBuffer(72))]) {
    assert.throws(() => batch.cipher('aes-256-gcm', 1, buffers, wrong), TypeError);
  }
});

test('operations that change while a batch is in flight', async () => {
  const made = layout({ keySize: 32, ivSize: 12, tagSize: 16, count: 5000, keys: 2, sizeMax: 600, isInPlace: false, Numbers: Uint32Array });
  const running = batch.promises.cipher('aes-256-gcm', 1, made.buffers, made.operations);
  for (let turn = 0; turn < 20; turn += 1) {
    made.operations.fill(0xffffffff, random.below(made.operations.length));
    await new Promise(setImmediate);
  }
  // In every case there is an outcome, and no crash.
  assert.ok((await running) <= 5000);
});
