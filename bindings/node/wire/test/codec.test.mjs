// Compares requests and answers byte by byte with the messages of the Rust crate (fuzz/corpus/frames).

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { decode, encode } from '@msgpack/msgpack';

const wire = createRequire(import.meta.url)('..');
const VALUES = [null, true, 300, -70000, 12.5, 'Zoë', 'a field of thirty-two characters'];

const seed = (name) => readFileSync(new URL(`../../../../fuzz/corpus/frames/${name}`, import.meta.url));
const read = (bytes) => decode(bytes, { useBigInt64: true });
const written = (message) => Buffer.from(encode(message, { useBigInt64: true }));
const has = (code, message = /./) => ({ code, message });

/** The answers of a stream that arrives in pieces of `size` bytes. */
function answers(stream, size = stream.length || 1, bounds = undefined) {
  const decoder = new wire.Decoder(bounds);
  const seen = [];
  for (let at = 0; at < stream.length; at += size) {
    decoder.push(stream.subarray(at, at + size));
    for (let answer = decoder.next(); answer; answer = decoder.next()) seen.push(answer);
  }
  assert.equal(decoder.partialSize, 0);
  return seen;
}

test('requests are those of the Rust crate, byte for byte', () => {
  const options = { app: 'acme', curve: 'k1', keying: 'session', role: 'card', deadlineMs: 500 };
  assert.deepEqual(wire.encodeEncrypt(1, options, VALUES), seed('encrypt'));
  assert.deepEqual(wire.encodeDecrypt(200, { app: 'acme', role: 'card', deadlineMs: 70_000 }, VALUES), seed('decrypt'));
  const health = seed('health');
  assert.deepEqual(wire.encodeHealth(7), health.subarray(0, wire.encodeHealth(7).length));
  assert.deepEqual(wire.encodeCancel(8), seed('cancel'));
});

test('an independent library reads the requests', () => {
  const [kind, id, method, params] = read(wire.encodeEncrypt(0xffffffff, { app: 'ä' }, ['€', 2n ** 64n - 1n, -(2n ** 63n)]));
  assert.deepEqual([kind, id, method], [0, 0xffffffff, 'encrypt']);
  assert.deepEqual(params, [{ app: 'ä', values: ['€', 2n ** 64n - 1n, -(2n ** 63n)] }]);
});

test('contexts accompany the values of a list, whichever function encodes it', () => {
  const [options, values, contexts] = [{ app: 'a' }, ['x', 'é'], ['row 1', 'ü'.repeat(512)]];
  const request = [0, 1, 'encrypt', [{ app: 'a', contexts, values }]];
  assert.deepEqual(read(wire.encodeEncrypt(1, options, values, contexts)), request);
  assert.deepEqual(read(wire.encodeTexts(1, 'encrypt', options, Buffer.from('xé'), new Uint32Array([1, 3]), contexts)), request);
  request[2] = 'decrypt';
  assert.deepEqual(read(wire.encodeDecrypt(1, options, values, contexts)), request);
  assert.deepEqual(read(wire.encodeTexts(1, 'decrypt', options, Buffer.from('xé'), new Uint32Array([1, 3]), contexts)), request);
  request[2] = 'rewrap';
  assert.deepEqual(read(wire.encodeRewrap(1, options, values, contexts)), request);
  for (const wrong of ['ab', [1, 2], ['a', '\ud800'], {}]) {
    assert.throws(() => wire.encodeEncrypt(1, options, values, wrong), has('invalid_params', /^contexts/));
  }
});

test('strings of every length arrive whole', () => {
  const lengths = [0, 1, 31, 32, 85, 126, 127, 128, 250, 251, 252, 253, 254, 255, 256, 257, 1000, 65_535, 65_536, 100_000];
  for (const letter of ['x', 'é', '€', '😀']) {
    const values = lengths.map((length) => letter.repeat(length));
    const [, , , [{ values: seen }]] = read(wire.encodeEncrypt(1, { app: 'a' }, values));
    assert.deepEqual(seen, values, letter);
    const [answer] = answers(written([1, 1, null, { values }]));
    assert.deepEqual(answer.values(), values, letter);
  }
});

test('long lists are whole', () => {
  const values = Array.from({ length: 60_001 }, (_, index) => (index % 3 ? `value ${index}` : index));
  const [, , , [{ values: seen }]] = read(wire.encodeEncrypt(1, { app: 'a' }, values));
  assert.deepEqual(seen, values);
  assert.deepEqual(answers(written([1, 1, null, { values }]), 16_384)[0].values(), values);
});

test('fields of one size go from a Buffer as they are', () => {
  const content = Buffer.from('abcdefghé!');
  const options = { app: 'acme', keying: 'request' };
  const request = wire.encodeEncryptFields(3, options, content.subarray(0, 8), 4);
  assert.deepEqual(request, wire.encodeEncrypt(3, options, ['abcd', 'efgh']));
  assert.deepEqual(wire.encodeEncryptFields(3, options, Buffer.alloc(0), 4), wire.encodeEncrypt(3, options, []));
  assert.throws(() => wire.encodeEncryptFields(3, options, content, 4), has('invalid_params', /content: 11 bytes/));
  assert.throws(() => wire.encodeEncryptFields(3, options, content.subarray(0, 9), 9), has('invalid_params', /field 0 is not UTF-8/));
  assert.throws(() => wire.encodeEncryptFields(3, options, Buffer.from('abcdéf!'), 5), has('invalid_params', /8 bytes/));
  assert.throws(() => wire.encodeEncryptFields(3, options, Buffer.from('abcdefgé'), 1), has('invalid_params', /field 7 is not UTF-8/));
  assert.throws(() => wire.encodeEncryptFields(3, options, content, 0), has('invalid_params', /fieldSize/));
});

test('the content of an answer becomes a request outside JavaScript', () => {
  const [answer] = answers(seed('answer_values'));
  assert.deepEqual(wire.encodeDecryptAnswer(200, { app: 'acme', role: 'card', deadlineMs: 70_000 }, answer), seed('decrypt'));
  const [failed] = answers(seed('answer_error'));
  assert.throws(() => wire.encodeDecryptAnswer(1, { app: 'acme' }, failed), has('invalid_answer'));
});

test('going_away is passed over and remembered', () => {
  const decoder = new wire.Decoder();
  assert.equal(decoder.goingAway, null);
  decoder.push(seed('going_away'));
  assert.equal(decoder.next(), null);
  assert.equal(decoder.goingAway, 'closed');
});

test('answers are read, however they are split', () => {
  const stream = Buffer.concat(['answer_values', 'answer_error', 'answer_health', 'connection_error'].map(seed));
  for (let size = 1; size <= stream.length; size += 1) {
    const [values, failed, health, ended] = answers(stream, size);
    assert.deepEqual([values.id, values.error, values.count], [1, null, VALUES.length]);
    assert.deepEqual(values.values(), VALUES);
    assert.equal(values.size, seed('answer_values').length);
    assert.equal(failed.error.code, 'decrypt_failed');
    assert.deepEqual(failed.error, { code: 'decrypt_failed', message: 'an envelope did not open', retry: 'never', index: 3 });
    assert.equal(health.status, 'ok');
    assert.deepEqual([ended.id, ended.error.code], [null, 'decrypt_failed']);
  }
});

test('the decoder returns the number of waiting messages', () => {
  const decoder = new wire.Decoder();
  const [values, health] = ['answer_values', 'answer_health'].map(seed);
  const pushes = [values.subarray(0, 5), values.subarray(5), health, Buffer.alloc(0), Buffer.concat([values, health])];
  assert.deepEqual(pushes.map((bytes) => decoder.push(bytes)), [0, 1, 2, 2, 4]);
  decoder.next();
  assert.equal(decoder.push(health.subarray(0, 1)), 3);
});

test('an answer that was released holds nothing', () => {
  for (const name of ['answer_values', 'answer_error', 'answer_health']) {
    const [answer] = answers(seed(name));
    const { id } = answer;
    answer.release();
    answer.release();
    assert.deepEqual([answer.id, answer.size], [id, 0]);
    assert.throws(() => answer.values(), has('invalid_answer', /released/));
    assert.throws(() => answer.count, has('invalid_answer', /released/));
    assert.throws(() => wire.encodeDecryptAnswer(1, { app: 'acme' }, answer), has('invalid_answer', /released/));
  }
});

test('numbers are returned as an exact type', () => {
  const [signed, unsigned, float] = [Buffer.alloc(8), Buffer.alloc(8), Buffer.alloc(8)];
  const int = (number) => [0xd3, ...(signed.writeBigInt64BE(number), signed)];
  const uint = (number) => [0xcf, ...(unsigned.writeBigUInt64BE(number), unsigned)];
  const double = (number) => [0xcb, ...(float.writeDoubleBE(number), float)];
  const cases = [
    [int(0n), 0], [int(-1n), -1], [uint(2n ** 53n - 1n), 2 ** 53 - 1], [int(1n - 2n ** 53n), 1 - 2 ** 53],
    [uint(2n ** 53n), 2n ** 53n], [uint(2n ** 64n - 1n), 2n ** 64n - 1n],
    [int(-(2n ** 53n)), -(2n ** 53n)], [int(-(2n ** 63n)), -(2n ** 63n)],
    [double(0.1), 0.1], [double(-0), -0], [double(1e300), 1e300], [[0xca, 0x3d, 0xcc, 0xcc, 0xcd], 0.1],
  ];
  const head = [0x94, 1, 9, 0xc0, 0x81, 0xa6, ...Buffer.from('values'), 0x90 + cases.length];
  const [answer] = answers(Buffer.from([head, ...cases.map(([bytes]) => bytes)].flat()));
  const seen = answer.values();
  for (const [index, [, number]] of cases.entries()) assert.ok(Object.is(seen[index], number), `${seen[index]} is ${number}`);
});

test('unexpected messages are errors with a code', () => {
  const [values, failed] = [answers(seed('answer_values'))[0], answers(seed('answer_error'))[0]];
  assert.throws(() => values.status, has('invalid_answer'));
  assert.throws(() => failed.values(), has('invalid_answer', /look at `error` first/));
  assert.throws(() => failed.count, has('invalid_answer'));
  assert.throws(() => answers(seed('answer_health'))[0].values(), has('invalid_answer'));
  assert.throws(() => answers(written([1, 1, 'odd', null]))[0].error, has('invalid_answer'));
});

test('arguments are checked, and named', () => {
  const encode = (options, values = []) => () => wire.encodeEncrypt(1, options, values);
  assert.throws(encode({}), has('invalid_params', /^app: /));
  assert.throws(encode(undefined), has('invalid_params', /^options: /));
  assert.throws(encode({ app: 5 }), has('invalid_params', /^app: /));
  assert.throws(encode({ app: 'a', curve: 'r2' }), has('invalid_params', /^curve: expected r1 or k1/));
  assert.throws(encode({ app: 'a', keying: 'never' }), has('invalid_params', /^keying: /));
  assert.throws(encode({ app: 'a', deadlineMs: 0 }), has('invalid_params', /^deadlineMs: /));
  assert.throws(encode({ app: 'a', deadlineMs: 1.5 }), has('invalid_params', /^deadlineMs: /));
  assert.throws(encode({ app: 'a' }, 'abc'), has('invalid_params', /^values: expected an array/));
  for (const value of [NaN, Infinity, undefined, {}, [], 2n ** 64n, -(2n ** 63n) - 1n, Symbol('s'), () => 1]) {
    assert.throws(encode({ app: 'a' }, [1, value]), has('invalid_params', /^values, index 1: /));
  }
  const half = /: the string has a lone surrogate$/;
  for (const text of ['\ud800', 'a\udc00', `${'\ufffd'.repeat(100)}\udfff\ud800`]) {
    assert.throws(encode({ app: 'a' }, ['\ufffd', text]), has('invalid_params', /^values, index 1: the string has a lone surrogate$/));
    assert.throws(encode({ app: 'a', role: text }), has('invalid_params', half));
    assert.throws(() => wire.encodeRewrap(1, { app: 'a' }, ['a', text]), has('invalid_params', /^values, index 1: /));
    assert.throws(() => wire.encodeEncryptDocument(1, { app: 'a' }, Buffer.from('{}'), [text]), has('invalid_params', half));
  }
  for (const text of ['\ufffd', '\ud83d\ude00\ufffd', '\ufffd'.repeat(1000)]) assert.ok(encode({ app: 'a' }, [text])().includes(Buffer.from(text)));
  for (const id of [-1, 1.5, NaN, 2 ** 32, '1', undefined]) {
    assert.throws(() => wire.encodeCancel(id), has('invalid_params', /^id: /));
    assert.throws(() => wire.encodeHealth(id), has('invalid_params', /^id: /));
  }
  const failing = { get app() { throw new RangeError('a getter of the caller'); } };
  assert.throws(encode(failing), /a getter of the caller|internal|exception/);
  assert.throws(() => new wire.Decoder(5), has('invalid_params', /^bounds: /));
  assert.throws(() => new wire.Decoder({ frameSizeMax: 0 }), has('invalid_params', /^frameSizeMax: /));
  assert.throws(() => new wire.Decoder().push('text'));
});

test('requests keep to their bound', () => {
  const values = ['x'.repeat(500), 'y'.repeat(600)];
  assert.throws(() => wire.encodeEncrypt(1, { app: 'a', frameSizeMax: 1000 }, values), has('too_large'));
  const size = wire.encodeEncrypt(1, { app: 'a' }, values).length;
  assert.equal(wire.encodeEncrypt(1, { app: 'a', frameSizeMax: size }, values).length, size);
  assert.throws(() => wire.encodeEncrypt(1, { app: 'a', frameSizeMax: size - 1 }, values), has('too_large'));
  const fields = Buffer.alloc(1000, 'x');
  assert.throws(() => wire.encodeEncryptFields(1, { app: 'a', frameSizeMax: 999 }, fields, 10), has('too_large'));
});

test('hostile bytes are refused, and the stream stays broken', () => {
  const bounds = { frameSizeMax: 100_000, elementsMax: 1024, depthMax: 8 };
  const codes = {
    depth_bomb: 'invalid_frame',
    reserved_marker: 'invalid_frame',
    elements_one_past: 'too_large',
    huge_count: 'too_large',
    huge_string: 'too_large',
  };
  for (const [name, code] of Object.entries(codes)) {
    for (const size of [1, 3, 1000]) {
      const decoder = new wire.Decoder(bounds);
      const feed = () => {
        for (let at = 0; at < seed(name).length; at += size) decoder.push(seed(name).subarray(at, at + size));
      };
      assert.throws(feed, has(code), name);
      assert.throws(() => decoder.push(seed('answer_values')), has(code), `${name} again`);
    }
  }
  const none = [[1, -1, null, {}], [1, 2], [3], 'no', []].map(written);
  for (const message of [seed('http'), seed('encrypt'), ...none]) assert.throws(() => answers(message), has('invalid_message'));
});

test('complete messages before a fault remain', () => {
  const decoder = new wire.Decoder();
  assert.throws(() => decoder.push(Buffer.concat([seed('answer_values'), Buffer.from([0xc1])])), has('invalid_frame'));
  assert.equal(decoder.next().id, 1);
  assert.equal(decoder.next(), null);
});

test('every change of a byte is an answer or an error with a code', () => {
  const codes = new Set();
  for (const name of ['answer_values', 'answer_error', 'answer_health', 'connection_error', 'answer_rewrap']) {
    const bytes = seed(name);
    for (let at = 0; at < bytes.length; at += 1) {
      for (const value of [0x00, 0x80, 0x91, 0xa0, 0xc0, 0xc1, 0xcb, 0xd4, 0xdb, 0xdd, 0xff]) {
        const changed = Buffer.from(bytes);
        changed[at] = value;
        const decoder = new wire.Decoder({ frameSizeMax: 10_000 });
        for (const look of [
          () => decoder.push(changed),
          () => {
            for (let answer = decoder.next(); answer; answer = decoder.next()) {
              for (const part of ['error', 'count', 'status']) {
                try { void answer[part]; } catch (error) { codes.add(error.code); }
              }
              answer.values();
            }
          },
        ]) {
          try { look(); } catch (error) { codes.add(error.code); }
        }
      }
    }
  }
  assert.deepEqual([...codes].sort(), ['invalid_answer', 'invalid_frame', 'invalid_message', 'too_large']);
});

test('memory of answers is given back', { timeout: 60_000 }, async () => {
  const stream = written([1, 1, null, { values: Array.from({ length: 2000 }, () => 'x'.repeat(100)) }]);
  const resident = () => process.memoryUsage().rss;
  const decode = async (rounds) => {
    for (let round = 0; round < rounds; round += 1) {
      answers(stream);
      // Collected memory is freed between two iterations of the event loop.
      if (round % 20 === 0) await new Promise(setImmediate);
    }
  };
  await decode(200);
  const before = resident();
  // 2,000 answers of 200 KB: 400 MB if external memory were not reported to the garbage collector.
  await decode(2000);
  const grown = (resident() - before) / 2 ** 20;
  assert.ok(grown < 150, `${grown} MiB more`);
});

test('threads of Node have the module each', async () => {
  const code = `
    const { parentPort, workerData } = require('node:worker_threads');
    const wire = require(workerData);
    parentPort.postMessage(wire.encodeHealth(7).toString('hex'));`;
  const path = createRequire(import.meta.url).resolve('..');
  const run = () => new Promise((resolve, reject) => {
    const worker = new Worker(code, { eval: true, workerData: path });
    worker.once('message', resolve).once('error', reject);
  });
  const expected = wire.encodeHealth(7).toString('hex');
  assert.deepEqual(await Promise.all([run(), run(), run()]), [expected, expected, expected]);
});

test('every method is encoded as the protocol describes it', () => {
  const base = { app: 'acme', deadlineMs: 500 };
  const document = Buffer.from('{"a":1}');
  const cases = [
    [wire.encodeEncryptDocument(1, { ...base, curve: 'k1', keying: 'field', role: 'r', skipSealed: true, strict: true, otherCase: 'same' }, document, ['$.a']),
      'encrypt_document', { app: 'acme', curve: 'k1', keying: 'field', role: 'r', other_case: 'same', deadline_ms: 500, skip_sealed: true, strict: true,
        select: ['$.a'], document }],
    [wire.encodeDecryptDocument(1, { ...base, onFailure: 'leave', keyId: 'k' }, document),
      'decrypt_document', { app: 'acme', on_failure: 'leave', key_id: 'k', deadline_ms: 500, document }],
    [wire.encodeEncryptFile(1, { ...base, curve: 'r1' }, document), 'encrypt_file', { app: 'acme', curve: 'r1', deadline_ms: 500, data: document }],
    [wire.encodeDecryptFile(1, { ...base, keyId: 'k' }, document), 'decrypt_file', { app: 'acme', key_id: 'k', deadline_ms: 500, data: document }],
    [wire.encodeRewrap(1, base, ['a', 'ü']), 'rewrap', { app: 'acme', deadline_ms: 500, values: ['a', 'ü'] }],
    [wire.encodeRewrap(1, { ...base, onFailure: 'leave' }, []), 'rewrap', { app: 'acme', on_failure: 'leave', deadline_ms: 500, values: [] }],
    [wire.encodeInspect(1, undefined, ['a']), 'inspect', { values: ['a'] }],
    [wire.encodeInspect(1, 'acme', []), 'inspect', { app: 'acme', values: [] }],
    [wire.encodeInspect(1, 'acme', ['a'], 'row 17'), 'inspect', { app: 'acme', context: 'row 17', values: ['a'] }],
    [wire.encodeInspect(1, 'acme', ['a'], undefined, 'symmetric'), 'inspect', { app: 'acme', accept: 'symmetric', values: ['a'] }],
    [wire.encodeQuery(1, 'public_keys', { app: 'acme' }), 'public_keys', { app: 'acme' }],
    [wire.encodeQuery(1, 'authenticate', { apiKey: 'secret' }), 'authenticate', { api_key: 'secret' }],
    [wire.encodeQuery(1, 'authenticate', { apiKey: 'secret', client: 'ü' }), 'authenticate', { api_key: 'secret', client: 'ü' }],
    [wire.encodeQuery(1, 'info', {}), 'info', {}],
  ];
  for (const [bytes, method, params] of cases) {
    const plain = (value) => (value instanceof Uint8Array ? Buffer.from(value) : value);
    const [kind, id, name, [seen]] = read(bytes);
    assert.deepEqual([kind, id, name], [0, 1, method]);
    assert.deepEqual(Object.fromEntries(Object.entries(seen).map(([key, value]) => [key, plain(value)])), params, method);
  }
});

test('texts in one piece are the same request as an array of them', () => {
  const options = { app: 'acme', role: 'card' };
  const values = ['', 'abc', 'ü€😀', 'x'.repeat(300), ''];
  const content = Buffer.from(values.join(''));
  let end = 0;
  const ends = Uint32Array.from(values, (value) => { end += Buffer.byteLength(value); return end; });
  assert.deepEqual(wire.encodeTexts(7, 'encrypt', options, content, ends), wire.encodeEncrypt(7, options, values));
  assert.deepEqual(wire.encodeTexts(7, 'decrypt', options, content, ends), wire.encodeDecrypt(7, options, values));
  assert.deepEqual(wire.encodeTexts(7, 'encrypt', options, Buffer.alloc(0), new Uint32Array(0)), wire.encodeEncrypt(7, options, []));
  assert.throws(() => wire.encodeRewrap(7, { app: 'acme', onFailure: 'null' }, []), has('invalid_params', /^onFailure: expected fail or leave$/));
  const wrong = [[3, 2, content.length], [content.length + 1], [1], [], [4, content.length], [0xffffffff, content.length]];
  for (const list of wrong) {
    assert.throws(() => wire.encodeTexts(7, 'encrypt', options, content, Uint32Array.from(list)), has('invalid_params', /ends/), String(list));
  }
  assert.throws(() => wire.encodeTexts(7, 'encrypt', options, Buffer.from([0xff]), Uint32Array.of(1)), has('invalid_params', /UTF-8/));
  assert.throws(() => wire.encodeTexts(7, 'seal', options, content, ends), has('invalid_params', /method/));
  assert.throws(() => wire.encodeTexts(7, 'encrypt', { ...options, frameSizeMax: 100 }, content, ends), has('too_large'));
});

test('values of ASCII become slices of few strings, others do not', () => {
  const slices = (values) => answers(written([1, 1, null, { values, count: 1 }]))[0].slices();
  for (const values of [['a'], ['', 'abc', ''], Array.from({ length: 6000 }, (_, index) => `value ${index}`), ['x'.repeat(70_000), 'y']]) {
    const { texts, counts, ranges } = slices(values);
    const owners = texts.flatMap((text, index) => Array.from({ length: counts[index] }, () => text));
    assert.deepEqual(owners.map((text, index) => text.slice(ranges[2 * index], ranges[2 * index + 1])), values);
    assert.equal(texts.length > 1, values.join('').length > 32_768, `${texts.length} strings`);
  }
  assert.deepEqual(slices([]).ranges, new Uint32Array(0));
  for (const values of [['a', null], ['a', 1], ['ü'], ['a', '€']]) assert.equal(slices(values), null);
});

test('documents, files and facts are read, and their memory is handed over', () => {
  const [document] = answers(written([1, 1, null, { document: Buffer.from('{"a": 1}'), count: 3, matched: [1, 2], failed: 2, failures: ['$.a', '$.b'] }]));
  assert.deepEqual(document.report(), { count: 3, matched: [1, 2], resealed: 0, rewrapped: 0, skipped: 0, symmetric: 0, failed: 2, failedIndexes: [], failedPaths: ['$.a', '$.b'] });
  assert.equal(document.document().toString(), '{"a": 1}');
  assert.throws(() => document.document(), has('invalid_answer', /released/));
  for (const size of [0, 10, 5000, 100_000]) {
    const data = Buffer.alloc(size, 'x');
    assert.deepEqual(answers(written([1, 1, null, { data }]))[0].data(), data, `${size}`);
  }
  const ephemeral = Buffer.alloc(33, 2);
  const inspected = { version: 'Tk9D', curve: 'r1', type: 'number', debug: false, ephemeral, role: 'card', origin: 8, encrypted_at: 1_700_000_000, key_version: 2 };
  const [inspections] = answers(written([1, 1, null, { values: [inspected] }]));
  assert.deepEqual(inspections.inspections(), [{ version: 'Tk9D', curve: 'r1', type: 'number', debug: false, ephemeral, role: 'card', origin: 8,
    encryptedAt: 1_700_000_000, keyVersion: 2 }]);
  const [key] = answers(written([1, 1, null, { key_id: 'id', app: 'acme', operations: ['encrypt'] }]));
  assert.deepEqual(key.resultOf('authenticate'), { keyId: 'id', app: 'acme', operations: ['encrypt'] });
  assert.deepEqual(answers(written([1, 1, null, { protocol: '1' }]))[0].resultOf('info'), { protocol: '1' });
  const [values] = answers(written([1, 1, null, { values: ['a'], failed: 1, failures: [0] }]));
  assert.deepEqual([values.report().failedIndexes, values.report().failedPaths], [[0], []]);
  for (const read of ['document', 'data', 'report', 'inspections']) {
    assert.throws(() => answers(written([1, 1, null, { other: 1 }]))[0][read](), has('invalid_answer'), read);
  }
  for (const method of ['public_keys', 'authenticate', 'health', 'info']) {
    assert.throws(() => answers(written([1, 1, null, { other: 1 }]))[0].resultOf(method), has('invalid_answer'), method);
  }
  assert.throws(() => key.resultOf('encrypt'), has('invalid_params', /method/));
  for (const [method, params] of [['encrypt', {}], [7, {}], ['public_keys', {}], ['public_keys', { app: 7 }], ['info', null]]) {
    assert.throws(() => wire.encodeQuery(1, method, params), has('invalid_params'), String(method));
  }
});

test('queries are those of the vectors', () => {
  const vectors = JSON.parse(readFileSync(new URL('../../../../vectors/client/queries.json', import.meta.url)));
  const camel = (name) => name.replace(/_./g, ([, letter]) => letter.toUpperCase());
  const named = (fields) => Object.fromEntries(Object.entries(fields).map(([name, value]) => [camel(name), value]));
  const plain = (value) => (Buffer.isBuffer(value) ? value.toString('hex') : value);
  for (const { method, params, request, results, incomplete } of vectors) {
    assert.equal(wire.encodeQuery(0, method, named(params)).subarray(3).toString('hex'), request);
    const answer = (result) => answers(Buffer.from(`940100c0${result}`, 'hex'))[0];
    for (const { answer: bytes, result } of results) {
      const seen = Object.entries(answer(bytes).resultOf(method)).map(([name, value]) => [name, plain(value)]);
      assert.deepEqual(Object.fromEntries(seen), named(result), method);
    }
    for (const bytes of incomplete) assert.throws(() => answer(bytes).resultOf(method), has('invalid_answer'), method);
  }
});
