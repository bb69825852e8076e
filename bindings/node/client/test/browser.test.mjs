// The browser build on Node's WebCrypto: what it writes opens by the rules of docs/format.md over node:crypto, and it agrees with what
// other software wrote. tests/browser has it in Chromium, with an engine.

import assert from 'node:assert/strict';
import { ECDH, createDecipheriv, createECDH, createHash, webcrypto } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, mock, test } from 'node:test';
import { crc32 } from 'node:zlib';

import { Encryptor, LeafsealError } from '@leafseal/client/browser';
import { documents, wrongKeys, wrongRefusals } from './browser_cases.mjs';

const vectors = new URL('../../../../vectors/', import.meta.url);
const { r1 } = JSON.parse(readFileSync(new URL('ev-sdk/keys.json', vectors), 'utf8'));
const prefix = Buffer.from(/^r1 \d+ (\S+)$/m.exec(readFileSync(new URL('der-prefix.txt', vectors), 'utf8'))[1], 'hex');
const app = Buffer.from(r1.pub, 'base64');
const ecdh = createECDH('prime256v1');
ecdh.setPrivateKey(Buffer.from(r1.d.slice(2), 'hex'));

/** Decrypts with the app's private key; throws unless key, nonce and associated data are those of the rules. */
function decrypt(ephemeral, iv, sealed, associated) {
  const der = Buffer.concat([prefix, ECDH.convertKey(ephemeral, 'prime256v1', null, null, 'uncompressed')]);
  const key = createHash('sha256').update(ecdh.computeSecret(ephemeral)).update(Buffer.of(0, 0, 0, 1)).update(der).digest();
  const decipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(associated).setAuthTag(sealed.subarray(-16));
  return Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()]);
}

const TEXT = /^ev:(Tk9D|QkTC):(?:(number|boolean):)?([A-Za-z0-9+/]{16}):([A-Za-z0-9+/]{44}):([A-Za-z0-9+/]+):\$$/;

/** The value of an envelope, its role, and the parts that must not repeat. */
function opened(text) {
  const [, version, type = 'string', ...parts] = TEXT.exec(text) ?? assert.fail(`no envelope: ${text}`);
  const [iv, ephemeral, sealed] = parts.map(part => Buffer.from(part, 'base64'));
  const flag = ({ string: 0, number: 1, boolean: 2 }[type] << 4) | 1;
  const described = version === 'QkTC';
  let plain = decrypt(ephemeral, iv, sealed, described ? Buffer.concat([Buffer.of(flag), ephemeral, app]) : app);
  let metadata;
  if (described) {
    const size = plain.readUInt16LE();
    metadata = plain.subarray(2, 2 + size);
    plain = plain.subarray(2 + size);
  }
  const value = type === 'string' ? plain.toString() : JSON.parse(plain);
  assert.equal(typeof value, type);
  return { value, metadata, iv: parts[0], ephemeral: parts[1] };
}

/** Every leaf of an encrypted document, decrypted; `seen` gets all envelopes. */
function openedAll(value, seen = []) {
  if (typeof value === 'string') {
    seen.push(opened(value));
    return seen.at(-1).value;
  }
  if (value === null) return null;
  assert.equal(typeof value, 'object');
  if (Array.isArray(value)) return value.map(member => openedAll(member, seen));
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, openedAll(member, seen)]));
}

let encryptor;
before(async () => {
  encryptor = await Encryptor.of(r1.pub);
});

test('documents decrypt to what they were, under one ephemeral key per call and a nonce per value', async () => {
  const keys = new Set();
  for (const document of documents()) {
    const before = structuredClone(document);
    const seen = [];
    assert.deepEqual(openedAll(await encryptor.encrypt(document), seen), document);
    assert.deepEqual(document, before, 'the argument stays as it was');
    assert.equal(new Set(seen.map(({ iv }) => iv)).size, seen.length);
    const used = new Set(seen.map(({ ephemeral }) => ephemeral));
    assert.ok(used.size <= 1);
    for (const key of used) assert.ok(!keys.has(key), 'no call uses the key of another');
    used.forEach(key => keys.add(key));
  }
});

test('keying by field takes an ephemeral key for each value', async () => {
  const seen = [];
  openedAll(await encryptor.encrypt(['a', 1, true, { b: 'a' }], { keying: 'field' }), seen);
  assert.equal(new Set(seen.map(({ ephemeral }) => ephemeral)).size, 4);
});

test('nonces count from a random start, over the end of the counter', async () => {
  const random = mock.method(webcrypto, 'getRandomValues', bytes => bytes.fill(0xff));
  const seen = [];
  openedAll(await encryptor.encrypt(['a', 'b', 'c']), seen);
  random.mock.restore();
  assert.deepEqual(
    seen.map(({ iv }) => Buffer.from(iv, 'base64').toString('hex')),
    ['ffffffff' + 'ff'.repeat(8), 'ffffffff' + '00'.repeat(8), 'ffffffff' + '00'.repeat(7) + '01'],
  );
});

test('a role makes metadata with origin and time, in MessagePack', async context => {
  context.mock.timers.enable({ apis: ['Date'], now: 0xfedcba98 * 1000 + 999 });
  const [head, tail] = ['83a26472a8', 'a2656f46a26574cefedcba98'].map(digits => Buffer.from(digits, 'hex'));
  const expected = Buffer.concat([head, Buffer.from('pci-data'), tail]);
  const { a, b, c } = await encryptor.encrypt({ a: '', b: 1, c: false }, { role: 'pci-data' });
  for (const [text, value] of [[a, ''], [b, 1], [c, false]]) {
    const { metadata, ...rest } = opened(text);
    assert.deepEqual([rest.value, metadata.toString('hex')], [value, expected.toString('hex')]);
  }
  await encryptor.encrypt('x', { role: 'a'.repeat(20) }).then(text => assert.equal(opened(text).value, 'x'));
});

test('wrong options are refused', async () => {
  for (const role of ['', 'Upper', 'a'.repeat(21), 'é', 'a b', 1, null]) {
    await assert.rejects(encryptor.encrypt('x', { role }), { code: 'invalid_option' });
  }
  await assert.rejects(encryptor.encrypt('x', { keying: 'session' }), { code: 'invalid_option', name: 'LeafsealError' });
  for (const depthMax of [-1, 1.5, 1025, '8', NaN]) await assert.rejects(Encryptor.of(r1.pub, { depthMax }), { code: 'invalid_option' });
  await assert.rejects(encryptor.encryptFile('text'), { code: 'invalid_option' });
});

test('what JSON cannot represent is refused with its path, and no value is shown', async () => {
  assert.deepEqual(await wrongRefusals(encryptor), []);
});

test('a value that is shared and not cyclic, and undefined properties, are taken as JSON takes them', async () => {
  const shared = { card: '4111' };
  assert.deepEqual(openedAll(await encryptor.encrypt({ a: shared, b: [shared], c: undefined })), { a: shared, b: [shared] });
  assert.deepEqual(openedAll(await encryptor.encrypt(Object.assign(Object.create(null), { a: 1 }))), { a: 1 });
});

test('the depth limit is that of the option', async () => {
  const flat = await Encryptor.of(r1.pub, { depthMax: 1 });
  assert.deepEqual(openedAll(await flat.encrypt(['x'])), ['x']);
  await assert.rejects(flat.encrypt([['x']]), { code: 'too_large', path: '$[0]' });
});

test('the argument may change as soon as the call has returned', async () => {
  const document = { card: '4111', list: ['a'] };
  const sealed = encryptor.encrypt(document);
  document.card = 'changed';
  document.list.push('b');
  assert.deepEqual(openedAll(await sealed), { card: '4111', list: ['a'] });
});

test('keys are taken in every form and refused unless they are points of the curve', async () => {
  const forms = [r1.pub, r1.pubU, app, Buffer.from(r1.pubU, 'base64')];
  for (const key of [...forms, app.toString('hex'), Buffer.from(r1.pubU, 'base64').toString('hex').toUpperCase()]) {
    assert.equal(opened(await (await Encryptor.of(key)).encrypt('x')).value, 'x');
  }
  // Both parities of y.
  for (let round = 0; round < 16; round += 1) {
    const pair = createECDH('prime256v1');
    pair.generateKeys();
    await Encryptor.of(pair.getPublicKey(null, 'compressed'));
  }
  assert.deepEqual(await wrongKeys(Encryptor, r1.pubU), []);
});

/** The parts of a file, opened. */
function openedFile(file) {
  const bytes = Buffer.from(file);
  assert.equal(bytes.subarray(0, 9).toString('latin1'), '%EVENC\x03\x37\x00');
  assert.equal(bytes[54], 0);
  assert.equal(crc32(bytes.subarray(0, -4)), bytes.readUInt32LE(bytes.length - 4));
  return decrypt(bytes.subarray(9, 42), bytes.subarray(42, 54), bytes.subarray(55, -4), app);
}

test('files keep their kind and name', async () => {
  const content = Uint8Array.from({ length: 300_001 }, (_, index) => index % 251);
  const shared = new Uint8Array(new SharedArrayBuffer(content.length));
  shared.set(content);
  for (const bytes of [content, content.buffer, shared, Buffer.from(content), new Uint8Array()]) {
    assert.deepEqual(openedFile(await encryptor.encryptFile(bytes)), Buffer.from(bytes));
  }
  const blob = await encryptor.encryptFile(new Blob([content]));
  assert.deepEqual([blob.constructor, blob.type], [Blob, 'application/octet-stream']);
  const file = await encryptor.encryptFile(new File([content], 'scan.png', { type: 'image/png' }));
  assert.deepEqual([file.constructor, file.name, file.type], [File, 'scan.png', 'application/octet-stream']);
  for (const sealed of [blob, file]) assert.deepEqual(openedFile(await sealed.arrayBuffer()), Buffer.from(content));
});

test('a file over the limit is refused before it is read', async () => {
  const small = await Encryptor.of(r1.pub, { fileSizeMax: 3 });
  assert.deepEqual(openedFile(await small.encryptFile(new Uint8Array(3))), Buffer.alloc(3));
  const blob = new Blob(['four']);
  blob.arrayBuffer = () => assert.fail('it is read');
  await assert.rejects(small.encryptFile(blob), { code: 'too_large' });
});

/** A key endpoint that answers as `answer` has it. */
async function endpoint(context, answer) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

test('the key is fetched by team and app', async context => {
  const asked = [];
  const url = await endpoint(context, (request, response) => {
    asked.push(request.url);
    response.end(JSON.stringify({ ecdhP256Key: r1.pub, ecdhP256KeyUncompressed: r1.pubU }));
  });
  for (const base of [url, `${url}/`, `${url}/engine/`]) {
    assert.equal(opened(await (await Encryptor.fetch({ url: base, app: 'app_x' })).encrypt('x')).value, 'x');
  }
  await Encryptor.fetch({ url, app: 'a/b', team: 'team 1' });
  assert.deepEqual(asked, ['/leafseal/apps/app_x', '/leafseal/apps/app_x', '/engine/leafseal/apps/app_x', '/team%201/apps/a%2Fb']);
});

test('a key that cannot be had, or is none, is an error with its cause', async context => {
  const other = createECDH('prime256v1').generateKeys('base64', 'compressed');
  const answers = [
    [404, { detail: 'there is no app app_x' }, 'key_unavailable', /status 404: there is no app app_x$/],
    [500, 'no JSON', 'key_unavailable', /status 500$/],
    [200, {}, 'key_unavailable', /has no ecdhP256Key/],
    [200, null, 'key_unavailable', /has no ecdhP256Key/],
    [200, 'no JSON', 'key_unavailable', /has no ecdhP256Key/],
    [200, { ecdhP256Key: other, ecdhP256KeyUncompressed: r1.pubU }, 'key_unavailable', /differ$/],
    [200, { ecdhP256Key: r1.pub.slice(0, -4) }, 'invalid_key', /must have 33 bytes .*, or 65/],
  ];
  for (const [status, body, code, message] of answers) {
    const url = await endpoint(context, (_, response) => response.writeHead(status).end(body === 'no JSON' ? body : JSON.stringify(body)));
    await assert.rejects(Encryptor.fetch({ url, app: 'app_x' }), { name: 'LeafsealError', code, message });
  }
  const moved = await endpoint(context, (_, response) => response.writeHead(302, { location: '/' }).end());
  await assert.rejects(Encryptor.fetch({ url: moved, app: 'app_x' }), { code: 'key_unavailable' });
  for (const url of ['http://engine.example', 'ftp://127.0.0.1', 'engine.example:8443', '', undefined]) {
    await assert.rejects(Encryptor.fetch({ url, app: 'app_x' }), { code: 'invalid_option' });
  }
  await assert.rejects(Encryptor.fetch({ url: moved, app: '' }), { code: 'invalid_option' });
});

test('waiting for a key ends by the timeout or the signal', async context => {
  const url = await endpoint(context, () => {});
  await assert.rejects(Encryptor.fetch({ url, app: 'a', timeout: 50 }), { code: 'key_unavailable', message: /no answer in 50 ms/ });
  const reason = new Error('the user left');
  await assert.rejects(Encryptor.fetch({ url, app: 'a', signal: AbortSignal.abort(reason) }), reason);
  const controller = new AbortController();
  setImmediate(() => controller.abort(reason));
  await assert.rejects(Encryptor.fetch({ url, app: 'a', signal: controller.signal }), reason);
});

test('without WebCrypto it says so', async context => {
  context.mock.getter(globalThis, 'crypto', () => ({}));
  await assert.rejects(Encryptor.of(r1.pub), { code: 'unsupported' });
  assert.ok(new LeafsealError('unsupported', '') instanceof Error);
});

after(() => mock.restoreAll());
