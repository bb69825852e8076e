// The order of validation: calls with one, two and three faults, each compared with a model of the contract (lib/order.mjs). Every error is
// thrown by the call itself, in asynchronous forms too, and then the callback is never called.
//
//   ORIGINAL=yes CRYPTO=…/crypto-async node --test order.test.mjs    against the original, without the empty buffers that abort it

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  CIPHERS, CIPHER_ALIASES, DIGESTS, DIGEST_ALIASES, DISABLED, FORMS, MESSAGES, UNKNOWN_CIPHERS, UNKNOWN_DIGESTS, crypto,
} from './lib/contract.mjs';
import { firstFault } from './lib/order.mjs';
import { Random, seed } from './lib/random.mjs';

const isOriginal = process.env.ORIGINAL !== undefined;
const empty = isOriginal ? Buffer.alloc(1).subarray(1) : Buffer.alloc(0);
const random = new Random(seed, 'order');

const NOT_BUFFERS = [0, 1, '', {}, [], null, true, false, undefined, Symbol('key'), 1n, () => {}, new ArrayBuffer(64)];
const NOT_UNSIGNED = [
  Infinity, -Infinity, NaN, -1, 1e-7, 1.0000001, '', '1', {}, [], null, true, false, undefined, empty, 2 ** 53, -(2 ** 53), 1n,
  Object(1), { valueOf: () => 1 }, Symbol('size'),
];
const NOT_ENCRYPT = [2, -1, 0.5, NaN, '', '0', '1', {}, [], null, true, false, undefined, 1n, Object(1), empty];
const NOT_STRINGS = [0, 1, {}, [], null, true, false, undefined, Symbol('name'), 1n, Object('aes-256-gcm'), Buffer.from('aes-256-gcm'), () => {}];
const NOT_FUNCTIONS = [0, 1, '', {}, [], null, true, false, undefined, 1n, Symbol('callback'), empty];

function never() {
  assert.fail('the callback of a refused call was called');
}

/** A valid call by argument name. Sizes leave room before and behind each range. */
function valid(method, algorithm, isAllocating) {
  const cipher = CIPHERS[algorithm];
  const call = { algorithm, encrypt: 1, callback: never };
  const sizes = { key: cipher?.keySize ?? 20, iv: cipher?.ivSize ?? 0, source: 40, target: 40 + 64, aad: 0, tag: 0 };
  if (cipher?.tags.length) Object.assign(sizes, { aad: 12, tag: 16 });
  for (const [name, size] of Object.entries(sizes)) {
    const slack = isAllocating ? 0 : 3;
    call[name] = size === 0 ? empty : Buffer.alloc(size + 2 * slack, 7);
    call[`${name}Offset`] = size === 0 ? 0 : slack;
    call[`${name}Size`] = size;
  }
  return call;
}

/** Every single fault of an argument, as functions that change a call. */
function faultsOf(name, method) {
  const set = (value) => (call) => { call[name] = value; };
  // Not of what another fault has made of it: the probes leave out numbers between 2^31 and 2^53.
  const shift = (by) => (call) => { if (call[name] < 1000) call[name] += by; };
  const unknown = method === 'cipher' ? [...UNKNOWN_CIPHERS, ...DISABLED] : UNKNOWN_DIGESTS;
  if (name === 'algorithm') return [...NOT_STRINGS, ...unknown].map(set);
  if (name === 'encrypt') return NOT_ENCRYPT.map(set);
  if (name === 'callback') return NOT_FUNCTIONS.map(set);
  if (name.endsWith('Offset')) return [...NOT_UNSIGNED.map(set), set(1000), set(2147483647), shift(4)];
  if (name.endsWith('Size')) return [...NOT_UNSIGNED.map(set), set(0), set(1), set(5), set(17), set(2147483647), shift(-1)];
  return [...NOT_BUFFERS.map(set), set(empty), (call) => { call[name] = call[name]?.subarray?.(1); }];
}

/** Makes the call and compares what it throws with the model. Valid calls with a callback are not made: they would run. */
function probe(method, names, call, shown) {
  const args = names.map((name) => call[name]);
  const fault = firstFault(method, args);
  if (fault === undefined) return false;
  let thrown;
  try {
    crypto[method](...args);
  } catch (error) {
    thrown = error;
  }
  const place = `${method} with ${args.length} arguments, ${shown}, SEED=${seed}`;
  assert.ok(thrown, `${place}: nothing thrown, ${fault} expected`);
  assert.equal(thrown.message, MESSAGES[fault], place);
  assert.equal(Object.getPrototypeOf(thrown), Error.prototype, place);
  assert.equal(thrown.code, undefined, place);
  return true;
}

/** Each form of a method, with and without callback: the names of the arguments. */
function* shapes(method) {
  for (const [form, names] of Object.entries(FORMS[method])) {
    yield { form, names };
    yield { form, names: [...names, 'callback'] };
  }
}

function eachCall(method, run) {
  const algorithms = Object.keys(method === 'cipher' ? CIPHERS : DIGESTS).filter((name) => method !== 'hmac' || DIGESTS[name].hmac);
  let probes = 0;
  for (const { form, names } of shapes(method)) {
    for (const algorithm of algorithms) {
      probes += run({ algorithm, names, isAllocating: !form.startsWith('zero-copy') });
    }
  }
  return probes;
}

for (const method of Object.keys(FORMS)) {
  test(`${method}: every single fault`, () => {
    const probes = eachCall(method, ({ algorithm, names, isAllocating }) => {
      let count = 0;
      for (const name of names) {
        for (const [index, fault] of faultsOf(name, method).entries()) {
          const call = valid(method, algorithm, isAllocating);
          fault(call);
          count += probe(method, names, call, `${algorithm}, fault ${index} of ${name}`);
        }
      }
      return count;
    });
    assert.ok(probes > 500, `${probes} probes`);
  });

  test(`${method}: pairs and triples of faults`, () => {
    const probes = eachCall(method, ({ algorithm, names, isAllocating }) => {
      let count = 0;
      for (const [index, first] of names.entries()) {
        for (const second of names.slice(index + 1)) {
          for (let round = 0; round < 4; round += 1) {
            const faulty = round < 3 ? [first, second] : [first, second, random.pick(names)];
            const call = valid(method, algorithm, isAllocating);
            const chosen = faulty.map((name) => [name, random.below(faultsOf(name, method).length)]);
            for (const [name, fault] of chosen) {
              // A fault may have replaced the value that another one would change.
              try { faultsOf(name, method)[fault](call); } catch { /* the first fault remains */ }
            }
            count += probe(method, names, call, `${algorithm}, faults ${JSON.stringify(chosen)}`);
          }
        }
      }
      return count;
    });
    assert.ok(probes > 100, `${probes} probes`);
  });

  test(`${method}: other numbers of arguments`, () => {
    const counts = new Set([...shapes(method)].map(({ names }) => names.length));
    for (let count = 0; count <= 40; count += 1) {
      if (counts.has(count)) continue;
      for (const value of [undefined, 'aes-256-gcm', Buffer.alloc(1), () => {}]) {
        assert.throws(() => crypto[method](...Array(count).fill(value)), { name: 'Error', message: MESSAGES.E_ARGUMENTS });
      }
    }
  });
}

test('key, iv, aad and tag of every size', () => {
  for (const [algorithm, { keySize, ivSize }] of Object.entries(CIPHERS)) {
    for (let size = 0; size <= 64; size += 1) {
      const buffer = size === 0 ? empty : Buffer.alloc(size);
      const call = (changed) => ({ ...valid('cipher', algorithm, true), ...changed });
      const names = FORMS.cipher['allocating with tag'];
      if (size !== keySize) probe('cipher', names, call({ key: buffer }), `${algorithm}, key of ${size}`);
      if (size !== ivSize) probe('cipher', names, call({ iv: buffer }), `${algorithm}, iv of ${size}`);
      probe('cipher', names, call({ aad: buffer }), `${algorithm}, aad of ${size}`);
      for (const encrypt of [0, 1]) probe('cipher', names, call({ tag: buffer, encrypt }), `${algorithm}, tag of ${size}`);
    }
  }
});

test('aliases are accepted', () => {
  for (const [alias, name] of Object.entries(CIPHER_ALIASES)) {
    const call = valid('cipher', name, true);
    const names = FORMS.cipher[CIPHERS[name].tags.length ? 'allocating with tag' : 'allocating'];
    const run = (algorithm) => crypto.cipher(...names.map((argument) => ({ ...call, algorithm })[argument]));
    assert.deepEqual(run(alias), run(name), alias);
  }
  for (const [alias, name] of Object.entries(DIGEST_ALIASES)) {
    assert.deepEqual(crypto.hash(alias, Buffer.from('abc')), crypto.hash(name, Buffer.from('abc')), alias);
    assert.deepEqual(crypto.hmac(alias, Buffer.from('key'), Buffer.from('abc')), crypto.hmac(name, Buffer.from('key'), Buffer.from('abc')), alias);
  }
});

test('names end at a NUL, and long ones are unknown', () => {
  assert.deepEqual(crypto.hash('sha256\0x', Buffer.from('abc')), crypto.hash('sha256', Buffer.from('abc')));
  const rejects = (name) => assert.throws(() => crypto.hash(name, Buffer.from('abc')), { message: MESSAGES.E_ALGORITHM_UNKNOWN });
  ['\0sha256', 'ſha256', 'sha256é', `sha256${' '.repeat(30)}`, 'a'.repeat(1 << 20), '𝔰𝔥𝔞256', '\ud800'].forEach(rejects);
});

test('HMAC over an extendable-output function is refused', () => {
  for (const [name, { hmac }] of Object.entries(DIGESTS)) {
    if (!hmac) assert.throws(() => crypto.hmac(name, Buffer.from('key'), Buffer.from('abc')), { name: 'Error' }, name);
  }
});
