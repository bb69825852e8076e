// Fresh strings and files of the real Node SDK, which fetches its keys from a local endpoint, opened by Leafseal.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { API_KEY, APP_ID, Leafseal, KeyEndpoint, loadSdk } from './harness.mjs';

const VERSIONS = { secp256k1: ['RFVC', 'S0lS'], prime256v1: ['Tk9D', 'QkTC'] };
const ROLES = [undefined, 'pci-data'];
const ORIGIN = 5;
const DATA = {
  string: 'héllo ✓ 😀',
  spaces: '  trimmed by the SDK \n',
  empty: '',
  escapes: '"\\\u0000"',
  long: 'x'.repeat(10_000),
  integer: 42,
  negative: -7,
  float: 3.14159,
  large: 2 ** 64,
  exponent: 1e21,
  small: 1e-7,
  yes: true,
  no: false,
  nothing: null,
  nested: { list: [1, 'x', { no: false }, null], object: {}, array: [] },
};
const SHAPES = {
  object: DATA,
  array: [1, 'a', true, null, [2.5, { b: 'c' }]],
  string: ' alone ',
  number: -12.5,
  boolean: true,
};

const leafseal = new Leafseal();
const endpoint = await KeyEndpoint.start(leafseal.publicKeys());
const Evervault = loadSdk(endpoint);
after(async () => {
  await endpoint.stop();
  leafseal.remove();
});

/** The value that the SDK seals for `value`: it trims strings. */
function trimmed(value) {
  if (typeof value === 'string') return value.trim();
  if (Array.isArray(value)) return value.map(trimmed);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, trimmed(member)]));
}

/** Every scalar but null, in order. */
function leaves(value) {
  if (value === null) return [];
  return typeof value === 'object' ? Object.values(value).flatMap(leaves) : [value];
}

const describe = (curve, role) => `${curve}, ${role ? `role ${role}` : 'no role'}`;
const flags = (role) => (role ? ['--role', role] : []);

for (const curve of Object.keys(VERSIONS)) {
  for (const role of ROLES) {
    test(`every shape: ${describe(curve, role)}`, async () => {
      const sdk = new Evervault(APP_ID, API_KEY, { curve });
      const sealed = {};
      for (const [name, value] of Object.entries(SHAPES)) sealed[name] = await sdk.encrypt(value, role);
      const version = VERSIONS[curve][role ? 1 : 0];
      const texts = leaves(sealed);
      assert.equal(texts.length, leaves(SHAPES).length);
      assert.ok(texts.every((text) => text.startsWith(`ev:${version}:`)));
      assert.deepStrictEqual(leafseal.decrypt(sealed, flags(role)), trimmed(SHAPES));
    });
  }

  for (const [first, second] of [ROLES, [...ROLES].reverse()]) {
    test(`the key of the first call serves the second: ${describe(curve, first)} first`, async () => {
      const sdk = new Evervault(APP_ID, API_KEY, { curve });
      const texts = [await sdk.encrypt('first', first), await sdk.encrypt('second', second)];
      const ephemerals = texts.map((text) => text.split(':').at(-3));
      assert.equal(ephemerals[0], ephemerals[1], 'without one key for both this test shows nothing');
      assert.deepStrictEqual(leafseal.decrypt(texts), ['first', 'second']);
    });
  }

  for (const [name, content] of [
    ['small', Buffer.from('file bytes \x00\x01')],
    ['large', Buffer.from(Array.from({ length: 500_000 }, (_, index) => index % 251))],
  ]) {
    test(`a ${name} file: ${curve}`, async () => {
      const sdk = new Evervault(APP_ID, API_KEY, { curve });
      assert.ok(leafseal.decryptFile(await sdk.encrypt(content)).equals(content));
    });
  }

  test(`keys by the app id alone: ${curve}`, async () => {
    const sdk = new Evervault(APP_ID, undefined, { curve, encryptionMode: true });
    const sealed = await sdk.encrypt({ value: 'without an API key' });
    assert.equal((await endpoint.requests()).at(-1), '/keys');
    assert.deepStrictEqual(leafseal.decrypt(sealed), { value: 'without an API key' });
  });
}

test('inspect returns origin, role and time', async () => {
  const sdk = new Evervault(APP_ID, API_KEY, { curve: 'prime256v1' });
  const begin = Math.floor(Date.now() / 1000);
  const metadata = leafseal.inspect(await sdk.encrypt(42, 'pci-data'));
  assert.deepStrictEqual([metadata.origin, metadata.role, metadata.type], [ORIGIN, 'pci-data', 'number']);
  assert.ok(begin <= metadata.encrypted_at && metadata.encrypted_at <= Date.now() / 1000);
});

test('a changed string is refused and shows nothing', async () => {
  const sdk = new Evervault(APP_ID, API_KEY, { curve: 'prime256v1' });
  const text = await sdk.encrypt('the secret');
  const sealed = text.split(':').at(-2);
  const changed = text.replace(sealed, (sealed[0] === 'A' ? 'B' : 'A') + sealed.slice(1));
  assert.throws(
    () => leafseal.decrypt([changed]),
    (error) => error.code === 1 && !error.message.includes('the secret'),
  );
});
