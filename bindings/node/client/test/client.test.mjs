// Every call against a real engine: what goes in comes out, and errors have codes.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Client, LeafsealError, createClientToken } from '../dist/index.mjs';
import { APP, Engine, clientOf, optionsFor, rejects } from './support.mjs';

let engine;
let client;
before(async () => {
  engine = await Engine.start();
  client = await Client.connect(optionsFor(engine));
});
after(async () => {
  await client?.close();
  await engine?.stop();
});

const isEnvelope = (text) => typeof text === 'string' && /^ev:.*:\$$/.test(text);

test('values of every kind come back', async () => {
  const values = ['4111111111111111', '', 'Zoë 😀', 0, -1, 12.5, 1e300, 2 ** 53 - 1, 2n ** 63n, true, false, null];
  const sealed = await client.encrypt(values);
  assert.ok(sealed.slice(0, -1).every(isEnvelope));
  assert.equal(sealed.at(-1), null);
  assert.deepEqual(await client.decrypt(sealed), values);
  assert.equal(await client.encrypt(null), null);
  assert.equal(await client.decrypt(await client.encrypt('one')), 'one');
  assert.equal(await client.decrypt('no envelope'), 'no envelope');
  assert.deepEqual(await client.encrypt([]), []);
});

test('lists of every length come back, in one request each', async () => {
  for (const count of [1, 7, 8, 9, 2000, 10_001]) {
    for (const text of ['x'.repeat(32), '', 'ä']) {
      const values = Array.from({ length: count }, (_, index) => `${text}${index}`);
      assert.deepEqual(await client.decrypt(await client.encrypt(values)), values, `${count} of ${text}`);
    }
  }
  const mixed = Array.from({ length: 100 }, (_, index) => (index % 3 ? `value ${index}` : index));
  assert.deepEqual(await client.decrypt(await client.encrypt(mixed)), mixed);
});

test('a string with half of a surrogate pair is refused, wherever it stands', async () => {
  const filler = (count) => Array.from({ length: count }, (_, index) => `value ${index} \ufffd ä`);
  for (const half of ['\ud83d', 'a\ude00', `${'x'.repeat(100)}\ud83d`, '\ufffd\udc00\ud800']) {
    for (const count of [0, 1, 7, 2000]) {
      for (const call of [client.encrypt([...filler(count), half, 'last']), client.decrypt([...filler(count), half])]) {
        const error = await rejects(call, 'invalid_params');
        assert.deepEqual([error.index, error.source], [count, 'client']);
        assert.match(error.message, new RegExp(`^values, index ${count}: the string has a lone surrogate$`));
      }
    }
    // Half a character in neighbouring values, which together would be one.
    const halves = [...filler(10), 'a\ud83d', '\ude00b'];
    assert.equal((await rejects(client.encrypt(halves), 'invalid_params')).index, 10);
    assert.equal((await rejects(client.encrypt([1, true, half]), 'invalid_params')).index, 2);
    await rejects(client.encrypt(half), 'invalid_params');
    await rejects(client.decrypt(half), 'invalid_params');
    await rejects(client.encrypt('a', { role: half }), 'invalid_params');
    await rejects(client.encrypt('a', { app: half }), 'invalid_params');
    await rejects(client.decrypt('a', { keyId: half }), 'invalid_params');
    assert.equal((await rejects(client.rewrap(['a', half]), 'invalid_params')).index, 1);
    assert.equal((await rejects(client.inspect(['a', half]), 'invalid_params')).index, 1);
    assert.equal((await rejects(client.encryptDocument({}, { select: ['$.a', half] }), 'invalid_params')).index, 1);
    await rejects(client.authenticate(half), 'invalid_params');
    for (const method of ['encryptDocument', 'decryptDocument']) {
      await rejects(client[method](`{"a":"${half}"}`), 'invalid_params');
    }
    for (const document of [{ a: half }, [half], half === '' ? {} : { a: { b: [1, half] } }]) {
      const error = await client.encryptDocument(document).catch((failure) => failure);
      assert.ok(error instanceof LeafsealError, JSON.stringify(error));
      assert.ok(['invalid_document', 'invalid_params'].includes(error.code), error.code);
    }
  }
  const whole = ['\ufffd', '😀\ufffd', ...filler(20)];
  assert.deepEqual(await client.decrypt(await client.encrypt(whole)), whole);
  assert.deepEqual(await client.decryptDocument(await client.encryptDocument(whole)), whole);
});

test('errors have the index of the element at fault', async () => {
  for (const values of [['a', 1, NaN], [...'ab', {}], ['a', 2n ** 70n]]) {
    assert.equal((await rejects(client.encrypt(values), 'invalid_params')).index, values.length - 1);
  }
  assert.equal((await rejects(client.encryptDocument({}, { select: ['$.a', 5] }), 'invalid_params')).index, 1);
  assert.equal((await rejects(client.encryptDocument({}, { select: ['$.a', '$.['] }), 'invalid_selector')).index, 1);
  assert.equal((await rejects(client.encrypt('a', { role: 5 }), 'invalid_params')).index, undefined);
});

test('roles, curves and keying reach the engine', async () => {
  const sealed = await client.encrypt(['a', 'b'], { role: 'support', curve: 'k1', keying: 'field' });
  const inspected = await client.inspect(sealed, { app: APP });
  assert.deepEqual(inspected.map(({ role, curve, type, keyVersion }) => [role, curve, type, keyVersion]), [
    ['support', 'k1', 'string', 1], ['support', 'k1', 'string', 1],
  ]);
  assert.notDeepEqual(inspected[0].ephemeral, inspected[1].ephemeral);
  assert.equal(typeof inspected[0].encryptedAt, 'number');
  await rejects(client.decrypt(sealed, { role: 'other' }), 'forbidden');
  const plain = await client.inspect(sealed[0]);
  assert.deepEqual([plain.curve, plain.role], ['k1', undefined]);
});

test('inherited options and those of getters reach the engine', async () => {
  class Card { get role() { return 'support'; } }
  for (const options of [Object.create({ role: 'support' }), new Card(), Object.create(new Card(), { curve: { value: 'k1' } })]) {
    const { role, curve } = await client.inspect(await client.encrypt('a', options), { app: APP });
    assert.deepEqual([role, curve], ['support', options.curve ?? 'r1']);
    assert.equal((await client.inspect(JSON.parse(await client.encryptDocument('"a"', options)), { app: APP })).role, 'support');
  }
});

test('an option that a call does not have is refused, and nothing is sent', async () => {
  const file = Buffer.from('a');
  const sealed = await client.encrypt('a');
  for (const [call, message] of [
    [() => client.encrypt('a', { requireRole: 'support' }), /"requireRole": there is no such option/],
    [() => client.encrypt('a', Object.create({ rol: 'support' })), /"rol"/],
    [() => client.encrypt('a', { onFailure: 'leave' }), /onFailure: not an option of encrypt/],
    [() => client.encrypt(['a'], { select: ['$'] }), /select: not an option of encrypt/],
    [() => client.encrypt('a', { strict: true }), /strict: not/],
    [() => client.encrypt('a', { otherCase: 'refuse' }), /otherCase: not/],
    [() => client.decrypt(sealed, { skipSealed: true }), /skipSealed: not an option of decrypt/],
    [() => client.encryptFile(file, { role: 'support' }), /role: not an option of encrypt_file/],
    [() => client.encryptFile(file, { onReport: () => {} }), /onReport: not/],
    [() => client.decryptFile(file, { onFailure: 'null' }), /onFailure: not/],
    [() => client.rewrap([sealed], { role: 'support' }), /role: not an option of rewrap/],
    [() => client.inspect(sealed, { app: APP, role: 'support' }), /role: not an option of inspect/],
    [() => client.publicKeys({ curve: 'k1' }), /curve: not an option of public_keys/],
    [() => client.health({ timeout: 5 }), /"timeout"/],
  ]) {
    const error = await rejects(call(), 'invalid_params');
    assert.match(error.message, message);
    assert.equal(error.source, 'client');
  }
  const unset = { role: undefined, keyId: null, strict: false, select: undefined, extra: undefined };
  assert.equal(await client.decrypt(await client.encrypt('a', unset)), 'a');
});

test('documents keep their kind, and text its bytes', async () => {
  const document = { card: { number: '4111', holder: 'Zoë' }, amount: 12.5, tags: ['a', null] };
  let report;
  const sealed = await client.encryptDocument(document, { select: ['$.card', '$.missing'], onReport: (seen) => { report = seen; } });
  assert.ok(isEnvelope(sealed.card.number) && isEnvelope(sealed.card.holder));
  assert.deepEqual([sealed.amount, sealed.tags], [12.5, ['a', null]]);
  assert.deepEqual([report.count, report.matched], [2, [2, 0]]);
  assert.deepEqual(await client.decryptDocument(sealed), document);
  const text = '{ "amount": 1.50,  "id": 12345678901234567890 }';
  const sealedText = await client.encryptDocument(text);
  assert.equal(typeof sealedText, 'string');
  assert.equal(await client.decryptDocument(sealedText), text);
  const bytes = await client.encryptDocument(Buffer.from(text), { select: ['$.amount'] });
  assert.ok(Buffer.isBuffer(bytes) && bytes.includes('"id": 12345678901234567890'));
  assert.equal((await client.decryptDocument(bytes)).toString(), text);
});

test('documents of every size come back', async () => {
  for (const size of [0, 100, 4000, 5000, 3_000_000]) {
    const document = { text: 'x'.repeat(size) };
    assert.deepEqual(await client.decryptDocument(await client.encryptDocument(document)), document, `${size}`);
  }
});

test('files come back', async () => {
  for (const size of [0, 1, 5000, 10_000_000]) {
    const file = Buffer.alloc(size, 'leafseal');
    const sealed = await client.encryptFile(file, { curve: 'k1' });
    assert.ok(!sealed.includes('leafseal'));
    assert.ok(file.equals(await client.decryptFile(sealed)), `${size}`);
  }
  await rejects(client.decryptFile(Buffer.from('no file')), 'invalid_envelope');
});

test('a rewrap leaves envelopes of the newest key alone and replaces others', async () => {
  const old = await client.encrypt(['a', 'b']);
  assert.deepEqual(await client.rewrap(old), { envelopes: old, count: 0 });
  const rotated = spawnSync(process.env.LEAFSEAL, ['--dir', join(engine.folder, 'store'), 'keys', 'rotate', APP], { encoding: 'utf8' });
  assert.equal(rotated.status, 0, rotated.stderr);
  let result = { count: 0 };
  for (let tries = 0; tries < 100 && result.count === 0; tries += 1) {
    result = await client.rewrap(old);
    if (result.count === 0) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(result.count, 2);
  assert.deepEqual(await client.decrypt(result.envelopes), ['a', 'b']);
  assert.equal((await client.publicKeys()).version, 2);
  const [mixed, reports] = [[old[0], 'ev:Tk9D:planted:$'], []];
  await rejects(client.rewrap(mixed), 'invalid_envelope');
  await rejects(client.rewrap(mixed, { onFailure: 'null' }), 'invalid_params');
  const left = await client.rewrap(mixed, { onFailure: 'leave', onReport: (report) => reports.push(report) });
  assert.deepEqual([left.count, left.envelopes[1]], [1, mixed[1]]);
  assert.deepEqual(reports.map(({ failed, failedIndexes }) => [failed, failedIndexes]), [[1, [1]]]);
});

test('a value opens in its own context, and in no other row', async () => {
  const symmetric = { scheme: 'symmetric' };
  // Short lists, and those that cross at once.
  for (const count of [3, 100]) {
    const values = Array.from({ length: count }, (_, index) => `value ${index}`);
    const contexts = values.map((_, index) => `row ${index} – ä`);
    const sealed = await client.encrypt(values, { ...symmetric, contexts });
    assert.deepEqual(await client.decrypt(sealed, { contexts }), values);
    // One context for all is the same context.
    assert.equal(await client.decrypt(sealed[1], { context: contexts[1] }), 'value 1');
    const moved = [sealed[1], sealed[0], ...sealed.slice(2)];
    assert.equal((await rejects(client.decrypt(moved, { contexts }), 'decrypt_failed')).index, 0);
    await rejects(client.decrypt(sealed), 'decrypt_failed');
    const reports = [];
    const left = await client.decrypt(moved, { contexts, onFailure: 'null', onReport: (report) => reports.push(report) });
    assert.deepEqual([left, reports[0].failedIndexes], [[null, null, ...values.slice(2)], [0, 1]]);
    assert.deepEqual(await client.rewrap(sealed, { contexts }), { envelopes: sealed, count: 0 });
    await rejects(client.rewrap(moved, { contexts }), 'decrypt_failed');
    const wrong = [[], contexts.slice(1), [...contexts, 'more'], ['', ...contexts.slice(1)], ['x'.repeat(1025), ...contexts.slice(1)]];
    for (const others of wrong) {
      await rejects(client.encrypt(values, { ...symmetric, contexts: others }), 'invalid_params');
      await rejects(client.decrypt(sealed, { contexts: others }), 'invalid_params');
    }
    await rejects(client.encrypt(values, { ...symmetric, contexts, context: 'row' }), 'invalid_params');
  }
  const mixed = ['a', 1, null, true];
  const contexts = ['1', '2', '3', 'x'.repeat(1024)];
  assert.deepEqual(await client.decrypt(await client.encrypt(mixed, { ...symmetric, contexts }), { contexts }), mixed);
  await rejects(client.encrypt(mixed, { ...symmetric, contexts: ['1', '2', 3, '4'] }), 'invalid_params');
  await rejects(client.encrypt(mixed, { ...symmetric, contexts: '1234' }), 'invalid_params');
  await rejects(client.encryptDocument('{}', { ...symmetric, contexts }), 'invalid_params');
});

test('inspection in a context shows the fields inside', async () => {
  const sealed = await client.encrypt('a', { scheme: 'symmetric', context: 'row 17', role: 'support' });
  const { role, scheme } = await client.inspect(sealed, { app: APP, context: 'row 17' });
  assert.deepEqual([role, scheme], ['support', 'symmetric']);
  await rejects(client.inspect(sealed, { app: APP }), 'decrypt_failed');
  await rejects(client.inspect(sealed, { app: APP, context: 'row 18' }), 'decrypt_failed');
  await rejects(client.inspect(sealed, { context: 'row 17' }), 'invalid_params');
  await rejects(client.inspect(sealed, { accept: 'symmetric' }), 'invalid_params');
  const bound = { app: APP, context: 'row 17' };
  assert.equal((await client.inspect(sealed, { ...bound, accept: 'symmetric' })).role, 'support');
  await rejects(client.inspect(sealed, { ...bound, accept: 'public-key' }), 'decrypt_failed');
  await rejects(client.inspect(sealed, { ...bound, accept: 'symetric' }), 'invalid_params');
  await rejects(client.inspect(await client.encrypt('a', { scheme: 'public-key' }), bound), 'decrypt_failed');
});

test('symmetric envelopes open as they were made, and in no other form', async () => {
  const file = new URL('../../../../vectors/symmetric/refused.json', import.meta.url);
  const { value, other, context, refused } = JSON.parse(readFileSync(file, 'utf8'));
  const sealed = await client.encrypt([value, other], { scheme: 'symmetric', context });
  assert.deepEqual(await client.decrypt(sealed, { context }), [value, other]);
  const [[, , id, nonce, ciphertext], [, , , other_nonce, other_ciphertext]] = sealed.map((text) => text.split(':'));
  const parts = { id, nonce, ciphertext, other_nonce, other_ciphertext };
  for (const vector of refused) {
    const text = vector.template.replace(/\{(\w+)\}/g, (_, name) => parts[name]);
    const options = 'context' in vector ? (vector.context === null ? {} : { context: vector.context }) : { context };
    const error = await rejects(client.decrypt(text, options), vector.code);
    assert.equal(error.source, 'engine', vector.name);
  }
  assert.ok(refused.length > 30);
  const open = await client.encrypt(value, { scheme: 'public-key' });
  await rejects(client.decrypt(open, { context }), 'decrypt_failed');
  await rejects(client.decrypt(open, { accept: 'symmetric' }), 'decrypt_failed');
  await rejects(client.decrypt(open, { accept: 'symetric' }), 'invalid_params');
  const inspected = await client.inspect(sealed[0]);
  assert.deepEqual([inspected.scheme, inspected.symmetricKeyId.length, inspected.curve], ['symmetric', 16, undefined]);
});

test('envelopes to a public key are resealed with a mark that stays, and counted', async () => {
  const role = 'card';
  const arrived = [await client.encrypt('text', { role }), await client.encrypt(2.5, { role, curve: 'k1' }), await client.encrypt(true, { role })];
  const own = await client.encrypt('own', { role, scheme: 'symmetric' });
  const otherRole = await client.encrypt('other role', { role: 'pii' });
  const reports = [];
  const options = { role, reseal: 'symmetric', onReport: (report) => reports.push(report) };
  const counts = ({ rewrapped, skipped, resealed, symmetric }) => [rewrapped, skipped, resealed, symmetric];
  const sealed = await client.encrypt([...arrived, own, 'plain', otherRole], options);
  assert.deepEqual(counts(reports[0]), [3, 1, 1, 5]);
  assert.equal(sealed[3], own);
  assert.deepEqual(await client.decrypt(sealed, { accept: 'symmetric,from-public-key' }), ['text', 2.5, true, 'own', 'plain', otherRole]);
  for (const [at, envelope] of sealed.entries()) {
    const isMarked = at < 3;
    const inspected = await client.inspect(envelope, { app: APP });
    assert.deepEqual([inspected.scheme, inspected.role, inspected.fromPublicKey ?? false], ['symmetric', role, isMarked]);
    for (const [accept, isOpened] of [['public-key', false], ['symmetric', !isMarked], ['from-public-key', isMarked]]) {
      const opening = client.decrypt(envelope, { accept });
      await (isOpened ? opening : rejects(opening, 'decrypt_failed'));
    }
  }
  assert.deepEqual(await client.encrypt(sealed, options), sealed);
  assert.deepEqual(counts(reports[1]), [0, 6, 0, 0]);
  const document = await client.encryptDocument({ card: arrived[0], note: arrived[1] }, { ...options, select: ['$.card'] });
  assert.match(document.card, /^ev:WEFN:/);
  assert.equal(document.note, arrived[1]);
  assert.deepEqual([reports[2].count, ...counts(reports[2])], [1, 1, 0, 0, 1]);
  await rejects(client.encrypt(arrived, { reseal: 'symmetric' }), 'invalid_params');
  await rejects(client.encrypt(arrived, { role, reseal: 'public-key' }), 'invalid_params');
  await rejects(client.encrypt(arrived, { ...options, scheme: 'public-key' }), 'invalid_params');
});

test('envelopes that do not open fail the call, or are left or replaced', async () => {
  const [good, other] = await client.encrypt(['good', 'other']);
  const at = other.length - 6;
  const bad = other.slice(0, at) + (other[at] === 'A' ? 'B' : 'A') + other.slice(at + 1);
  const error = await rejects(client.decrypt([good, bad]), 'decrypt_failed');
  assert.deepEqual([error.index, error.retry, error.source, error instanceof LeafsealError], [1, 'never', 'engine', true]);
  const reports = [];
  const onReport = (report) => reports.push(report);
  assert.deepEqual(await client.decrypt([good, bad], { onFailure: 'leave', onReport }), ['good', bad]);
  assert.deepEqual(await client.decryptDocument({ good, bad }, { onFailure: 'null', onReport }), { good: 'good', bad: null });
  assert.deepEqual(reports.map(({ failed, failedIndexes, failedPaths }) => [failed, failedIndexes, failedPaths]), [[1, [1], []], [1, [], ["$['bad']"]]]);
  assert.deepEqual(await client.encrypt([good], { skipSealed: true }), [good]);
});

test('every error has a code, and no error a value', async () => {
  const secret = 'a secret value';
  const cases = [
    [() => client.encrypt([secret, undefined]), 'invalid_params'],
    [() => client.encrypt([secret, NaN]), 'invalid_params'],
    [() => client.encrypt({ [secret]: 1 }), 'invalid_params'],
    [() => client.encryptDocument(undefined), 'invalid_params'],
    [() => client.encryptDocument({ secret: 1n }), 'invalid_params'],
    [() => client.encryptDocument(`{"a": "${secret}"`), 'invalid_document'],
    [() => client.encryptDocument({ a: secret }, { select: ['$.['] }), 'invalid_selector'],
    [() => client.encryptDocument({ a: secret }, { select: ['$.b'], strict: true }), 'unmatched_selector'],
    [() => client.encryptDocument({ A: secret }, { select: ['$.a'], otherCase: 'refuse' }), 'ambiguous_name'],
    [() => client.encrypt(secret, { app: 'unknown' }), 'forbidden'],
    [() => client.encrypt(secret, { app: '' }), 'invalid_params'],
    [() => client.encrypt(secret, { curve: 'p9' }), 'invalid_params'],
    [() => client.encrypt(secret, { timeoutMs: 0 }), 'invalid_params'],
    [() => client.encryptFile(secret.length), 'invalid_params'],
    [() => client.inspect([secret]), 'invalid_envelope'],
    [() => client.authenticate(secret), 'forbidden'],
    [() => clientOf(engine, { app: undefined }).encrypt(secret), 'invalid_params'],
    [() => clientOf(engine, { requestSizeMax: 100 }).encrypt(secret.repeat(100)), 'too_large'],
  ];
  for (const [call, code] of cases) {
    const error = await rejects(call(), code);
    assert.ok(error instanceof LeafsealError);
    assert.ok(!error.message.includes(secret), error.message);
  }
});

test('settings are checked, and named in errors', () => {
  for (const [options, name] of [
    [{ addresses: [] }, 'addresses'], [{ addresses: 'a:b:c' }, 'addresses'], [{ addresses: 'host:0' }, 'addresses'], [{ ca: undefined }, 'ca'],
    [{ timeoutMs: -1 }, 'timeoutMs'], [{ connectionsMax: 0 }, 'connectionsMax'], [{ retriesMax: 1.5 }, 'retriesMax'],
    [{ backoffMinMs: 100, backoffMaxMs: 10 }, 'backoffMaxMs'],
  ]) {
    assert.throws(() => clientOf(engine, options), (error) => error.code === 'invalid_settings' && error.message.includes(name), name);
  }
});

test('certificates may be PEM text', async () => {
  const [ca, certificate, key] = ['ca', 'cert', 'key'].map((name) => readFileSync(engine[name]));
  const other = await Client.connect(optionsFor(engine, { ca: ca.toString(), certificate, key }));
  assert.equal(await other.health(), 'ok');
  assert.equal((await other.info()).get('protocol'), '1');
  await other.close();
});

test('an API key is verified, and a token for a browser decrypts one payload', async () => {
  const command = ['--dir', join(engine.folder, 'store'), 'api-keys', 'create', APP, '--allow', 'encrypt,decrypt,client-side-tokens'];
  const created = spawnSync(process.env.LEAFSEAL, command, { encoding: 'utf8' });
  const apiKey = created.stdout.trim();
  const seen = await client.authenticate(apiKey);
  assert.deepEqual([seen.app, seen.operations.toSorted?.() ?? seen.operations.sort()], [APP, ['client-side-tokens', 'decrypt', 'encrypt']]);
  const sealed = await client.encrypt('4111');
  assert.equal(await client.decrypt(sealed, { keyId: seen.keyId }), '4111');

  const url = `https://${engine.api}`;
  const token = await createClientToken({ url, app: APP, apiKey, ca: engine.ca }, { card: sealed }, { expiresInMs: 60_000 });
  assert.ok(token.token && token.expiresAt > token.createdAt);
  const error = await rejects(createClientToken({ url, app: APP, apiKey: 'wrong', ca: engine.ca }, { card: sealed }), 'unauthorized');
  assert.ok(!error.message.includes(sealed));
  await rejects(createClientToken({ url: 'https://127.0.0.1:1', app: APP, apiKey, ca: engine.ca }, {}), 'connect_failed');
});

test('CommonJS and ES modules share their classes', () => {
  const common = createRequire(import.meta.url)('..');
  assert.equal(common.Client, Client);
  assert.equal(common.LeafsealError, LeafsealError);
});

test('10,000 calls at once stay within the bounds', async () => {
  const bounded = clientOf(engine, { requestsInFlightMax: 16, connectionsMax: 2, bytesInFlightMax: 1 << 16 });
  const calls = Array.from({ length: 10_000 }, (_, index) => bounded.encrypt(`value ${index}`));
  assert.equal(bounded.callsInFlight, 10_000);
  let most = 0;
  const sample = setInterval(() => {
    const connections = bounded.calls.pool.usable;
    most = Math.max(most, ...connections.map(({ inFlight }) => inFlight));
    assert.ok(connections.length <= 2);
  }, 1);
  const sealed = await Promise.all(calls);
  clearInterval(sample);
  assert.ok(most > 0 && most <= 16, `${most}`);
  assert.deepEqual(await bounded.decrypt(sealed), sealed.map((_, index) => `value ${index}`));
  assert.equal(bounded.callsInFlight, 0);
  await bounded.close();
});

test('more calls than may wait are refused, and the others finish', async () => {
  const bounded = clientOf(engine, { requestsWaitingMax: 100, requestsInFlightMax: 4, connectionsMax: 1 });
  const outcomes = await Promise.allSettled(Array.from({ length: 1000 }, () => bounded.encrypt('x')));
  const refused = outcomes.filter(({ status }) => status === 'rejected');
  assert.equal(outcomes.length - refused.length, 100);
  assert.ok(refused.every(({ reason }) => reason.code === 'busy' && reason.retry === 'later'));
  assert.equal(await bounded.decrypt(await bounded.encrypt('again')), 'again');
  await bounded.close();
});
