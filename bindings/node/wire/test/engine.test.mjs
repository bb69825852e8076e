// The package against a real engine, over mTLS.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { after, before, test } from 'node:test';

import { APP, Engine } from '../../../../tests/artillery/engine.mjs';

const require = createRequire(import.meta.url);
const wire = require('..');
let engine;
before(async () => { engine = await Engine.start(); });
after(() => engine?.stop());

/** The answers of a connection, in order. */
async function* answers(socket, decoder = new wire.Decoder()) {
  for await (const bytes of socket) {
    decoder.push(bytes);
    for (let answer = decoder.next(); answer; answer = decoder.next()) yield answer;
  }
}

/** Sends messages and returns the answers by id. */
async function send(...messages) {
  const socket = await engine.connect();
  messages.forEach((message) => socket.write(message));
  const seen = new Map();
  for await (const answer of answers(socket)) {
    seen.set(answer.id, answer);
    if (seen.size === messages.length) break;
  }
  return seen;
}

test('values round-trip on both curves and with every keying', async () => {
  const values = ['text', '', 'Zoë', 42, -7, 12.5, true, false, null, 2n ** 60n, 'x'.repeat(5000)];
  for (const curve of ['r1', 'k1']) {
    for (const keying of ['field', 'request', 'session']) {
      const sealed = (await send(wire.encodeEncrypt(1, { app: APP, curve, keying, deadlineMs: 60_000 }, values))).get(1);
      assert.deepEqual([sealed.error, sealed.count], [null, values.length]);
      const envelopes = sealed.values();
      assert.equal(envelopes[8], null);
      assert.ok(envelopes.every((envelope, index) => index === 8 || /^ev:.*:\$$/.test(envelope)));
      const opened = await send(wire.encodeDecrypt(1, { app: APP }, envelopes), wire.encodeDecryptAnswer(2, { app: APP }, sealed));
      assert.deepEqual(opened.get(1).values(), values);
      assert.deepEqual(opened.get(2).values(), values);
    }
  }
});

test('60,000 fields from a Buffer round-trip in one answer', async () => {
  const content = Buffer.from(Array.from({ length: 60_000 }, (_, index) => String(index).padStart(32, '.')).join(''));
  const sealed = (await send(wire.encodeEncryptFields(5, { app: APP }, content, 32))).get(5);
  assert.equal(sealed.count, 60_000);
  const opened = (await send(wire.encodeDecryptAnswer(6, { app: APP }, sealed))).get(6);
  assert.equal(opened.values().join(''), content.toString());
});

test('many are in flight, and each answer is one of them', async () => {
  const messages = Array.from({ length: 200 }, (_, id) => wire.encodeEncrypt(id, { app: APP }, [`value ${id}`]));
  const sealed = await send(...messages);
  const requests = [...sealed].map(([id, answer]) => wire.encodeDecryptAnswer(id, { app: APP }, answer));
  const opened = await send(...requests);
  for (let id = 0; id < 200; id += 1) assert.deepEqual(opened.get(id).values(), [`value ${id}`]);
});

test('health, errors and cancelling', async () => {
  const content = Buffer.alloc(200_000 * 32, 'x');
  const socket = await engine.connect();
  socket.write(wire.encodeHealth(1));
  socket.write(wire.encodeEncrypt(2, { app: 'nobody' }, ['x']));
  socket.write(wire.encodeDecrypt(3, { app: APP }, ['fine', 'ev:Tk9D:damaged:$']));
  socket.write(wire.encodeEncryptFields(4, { app: APP, keying: 'field' }, content, 32));
  socket.write(wire.encodeCancel(4));
  const seen = new Map();
  for await (const answer of answers(socket)) {
    seen.set(answer.id, answer);
    if (seen.size === 4) break;
  }
  assert.equal(seen.get(1).status, 'ok');
  assert.deepEqual([seen.get(2).error.code, seen.get(2).error.retry], ['forbidden', 'never']);
  assert.deepEqual([seen.get(3).error.code, seen.get(3).error.index], ['invalid_envelope', 1]);
  assert.equal(seen.get(4).error.code, 'cancelled');
});

test('exceeding the limit of a decoder ends only its connection', async () => {
  const socket = await engine.connect();
  socket.write(wire.encodeEncrypt(1, { app: APP }, ['x'.repeat(10_000)]));
  const bounded = new wire.Decoder({ frameSizeMax: 5000 });
  await assert.rejects(answers(socket, bounded).next(), { code: 'too_large' });
  assert.equal((await send(wire.encodeHealth(9))).get(9).status, 'ok');
});

test('the example of README.md runs', async () => {
  const [, code] = /```js\n([^`]*(?:`[^`]+`[^`]*)*)```/.exec(readFileSync(new URL('../README.md', import.meta.url), 'utf8'));
  const script = code
    .replace("'.leafseal/certs'", JSON.stringify(dirname(engine.ca)))
    .replace('3443', engine.port)
    .replace("require('@leafseal/wire')", `require(${JSON.stringify(require.resolve('..'))})`);
  const child = spawn(process.execPath, ['--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.on('data', (text) => { printed += text; });
  const [status] = await once(child, 'close');
  assert.equal(status, 0);
  assert.match(printed, /^\[\s+'ev:[^']+:\$',\s+'ev:[^']+:\$',\s+null\s+\]\n\[ '4111111111111111', 12.5, null \]\n$/);
});

test('the engine sends the reason when it ends a connection', async () => {
  const socket = await engine.connect();
  socket.write(Buffer.from([0xc1]));
  for await (const answer of answers(socket)) {
    assert.deepEqual([answer.id, answer.error.code], [null, 'invalid_frame']);
    return;
  }
  assert.fail('no word came');
});
