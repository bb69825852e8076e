// Users against a real engine, and against misbehaving servers.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { createServer } from 'node:tls';

import { APP, Engine } from '../../tests/artillery/engine.mjs';

const require = createRequire(import.meta.url);
const E3Engine = require('..');
const { Failure } = require('../dist/connection.js');
const { Pool } = require('../dist/pool.js');
const { readConfig } = require('../dist/scenario.js');
const wire = require('@leafseal/wire');

let engine;
before(async () => { engine = await Engine.start(); });
after(() => engine?.stop());

/** The scenario file as Artillery passes it to engines. */
function script(flow, e3 = {}, more = {}) {
  const { host, port, key, cert, ca } = engine;
  const phases = [{ duration: 1, arrivalCount: 1 }];
  const config = { target: host, e3: { port, key, cert, ca, ...e3 }, phases, engines: { e3: {} }, ...more };
  return { config, scenarios: [{ name: 'all', engine: 'e3', flow }] };
}

/** Runs the scenario for one user. Returns the emitted events and the result. */
async function run(e3, spec) {
  const events = new EventEmitter();
  const report = { counter: {}, histogram: {}, rate: {}, error: [], started: 0 };
  events.on('counter', (name, value) => { report.counter[name] = (report.counter[name] ?? 0) + value; });
  events.on('histogram', (name, value) => { (report.histogram[name] ??= []).push(value); });
  events.on('rate', (name) => { report.rate[name] = (report.rate[name] ?? 0) + 1; });
  events.on('error', (code) => report.error.push(code));
  events.on('started', () => { report.started += 1; });
  const context = { vars: {} };
  const began = performance.now();
  const [error, returned] = await new Promise((resolve) => {
    e3.createScenario(spec, events)(context, (...ended) => resolve(ended));
  });
  assert.equal(returned, context);
  assert.equal(report.started, 1);
  return { ...report, failure: error?.code ?? error, took: performance.now() - began };
}

async function runFlow(flow, e3, more) {
  const whole = script(flow, e3, more);
  return run(new E3Engine(whole), whole.scenarios[0]);
}

test('requests of every kind are answered and reported', async () => {
  const sends = [
    { numEncrypts: 30 },
    { numEncrypts: 30, curve: 'k1', keying: 'field', fieldSize: 1 },
    { numEncrypts: 2000, keying: 'session', app: APP },
    { numEncrypts: 150, decrypt: true },
    { numEncrypts: 150, decrypt: true, curve: 'k1', keying: 'request' },
  ];
  const { counter, histogram, rate, error, failure } = await runFlow(sends.map((send) => ({ send })));
  assert.deepEqual([failure, error], [null, []]);
  assert.deepEqual(counter, {
    'e3.warm_up.users': 1,
    'e3.requests': 5, 'e3.requests.scenario.all': 5, 'e3.requests.size.30': 2, 'e3.requests.size.150': 2, 'e3.requests.size.2000': 1,
    'e3.answers': 5, 'e3.answers.scenario.all': 5, 'e3.answers.size.30': 2, 'e3.answers.size.150': 2, 'e3.answers.size.2000': 1,
    'e3.fields': 2360,
  });
  assert.deepEqual(rate, { 'e3.request_rate': 5 });
  for (const name of ['', '.scenario.all']) {
    assert.equal(histogram[`e3.latency${name}`].length, 5);
    histogram[`e3.latency${name}`].forEach((latency, index) => {
      const perSecond = histogram[`e3.fields_per_second${name}`][index];
      assert.ok(latency > 0 && Math.abs(perSecond * latency - sends[index].numEncrypts * 1000) < 1e-3);
    });
  }
  assert.equal(histogram['e3.latency.size.150'].length, 2);
});

test('loops and thinking take the steps and the time that they say', async () => {
  const inner = { count: 3, loop: [{ send: { numEncrypts: 1 } }, { think: '20ms' }] };
  const { counter, failure, took } = await runFlow([{ count: 2, loop: [{ send: { numEncrypts: 2 } }, inner] }, { think: 0.1 }]);
  assert.equal(failure, null);
  assert.deepEqual([counter['e3.requests.size.1'], counter['e3.requests.size.2'], counter['e3.fields']], [6, 2, 10]);
  assert.ok(took >= 220, `${took} ms`);
});

test('a cancelled request is reported, and its user continues', async () => {
  const slow = { send: { numEncrypts: 500_000, keying: 'field', cancelAfter: '30ms' } };
  const { counter, error, failure } = await runFlow([slow, { send: { numEncrypts: 1, cancelAfter: '20s' } }]);
  assert.deepEqual([failure, error], [null, ['cancelled']]);
  assert.deepEqual([counter['e3.requests'], counter['e3.answers'], counter['e3.answers.size.1']], [2, 1, 1]);
});

test('an error ends its user, by its code', async () => {
  for (const decrypt of [false, true]) {
    const { counter, error, failure } = await runFlow([{ send: { numEncrypts: 3, app: 'nobody', decrypt } }, { send: { numEncrypts: 1 } }]);
    assert.deepEqual([failure, error], ['forbidden', ['forbidden']]);
    assert.deepEqual([counter['e3.requests'], counter['e3.answers']], [1, undefined]);
  }
  const stranger = await runFlow([{ send: { numEncrypts: 3 } }], engine.stranger());
  assert.deepEqual(stranger.error, ['forbidden']);
});

test('many users share the connections', async () => {
  const whole = script([{ count: 5, loop: [{ send: { numEncrypts: 7 } }] }], { connections: 3 });
  const e3 = new E3Engine(whole);
  const users = await Promise.all(Array.from({ length: 100 }, () => run(e3, whole.scenarios[0])));
  assert.equal(users.reduce((sum, { counter }) => sum + counter['e3.fields'], 0), 100 * 5 * 7);
  assert.ok(users.every(({ failure }) => failure === null));
});

test('an engine that stops is noticed, and a restarted one is used again', async () => {
  const own = await Engine.start();
  const whole = script([{ send: { numEncrypts: 1 } }], { port: own.port, key: own.key, cert: own.cert, ca: own.ca, connections: 1 });
  const e3 = new E3Engine(whole);
  const [spec] = whole.scenarios;
  assert.equal((await run(e3, spec)).failure, null);
  await own.stop({ keep: true });
  const lost = await run(e3, spec);
  assert.ok(['connect_failed', 'connection_lost'].includes(lost.failure), lost.failure);
  assert.equal((await run(e3, spec)).failure, 'connect_failed');
  const again = await Engine.start([], own.port, own.folder);
  let ended;
  for (let attempt = 0; attempt < 100; attempt += 1) {
    ended = await run(e3, spec);
    if (ended.failure === null) break;
    assert.equal(ended.failure, 'connect_failed');
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
  assert.equal(ended.failure, null);
  await again.stop();
});

test('whom it does not trust it does not talk to', async () => {
  const flow = [{ send: { numEncrypts: 1 } }];
  assert.deepEqual((await runFlow(flow, { ca: engine.cert })).error, ['connect_failed']);
  assert.deepEqual((await runFlow(flow, { serverName: 'elsewhere.example' })).error, ['connect_failed']);
  assert.deepEqual((await runFlow(flow, { port: 1 })).error, ['connect_failed']);
  assert.equal((await runFlow(flow, { serverName: 'localhost' })).failure, null);
});

/** A server with the engine's certificate that answers a request with `answer(id)`. */
async function misbehaving(answer, ALPNProtocols = ['leafseal/1']) {
  const [key, cert, ca] = ['server.key', 'server.pem', 'ca.pem'].map((name) => readFileSync(engine.file(name)));
  const sockets = [];
  const server = createServer({ key, cert, ca, requestCert: true, ALPNProtocols }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    // The id, below 128, is the third byte of a request.
    socket.on('data', (bytes) => answer(socket, bytes[2]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.end = () => {
    server.close();
    sockets.forEach((socket) => socket.destroy());
  };
  return server;
}

/** Encodes an answer with this many values, in shortest form. */
const values = (id, count) =>
  Buffer.from([0x94, 1, id, 0xc0, 0x81, 0xa6, ...Buffer.from('values'), 0x90 + count, ...Array(count).fill(0xc0)]);

test('wrong, unexpected and missing answers are reported', async () => {
  const cases = [
    [(socket, id) => socket.write(values(id, 2)), 'wrong_answer'],
    [(socket, id) => socket.write(values(id + 1, 3)), 'wrong_answer'],
    [(socket) => socket.write(Buffer.from([0xc1])), 'wrong_answer'],
    [(socket) => socket.write(wire.encodeHealth(1)), 'wrong_answer'],
    [(socket) => socket.destroy(), 'connection_lost'],
    [(socket, id) => { socket.end(values(id, 3).subarray(0, 8)); }, 'connection_lost'],
    [(socket, id) => { for (const byte of values(id, 3)) socket.write(Buffer.from([byte])); }, null],
  ];
  for (const [answer, failure] of cases) {
    const server = await misbehaving(answer);
    const { failure: ended, error } = await runFlow([{ send: { numEncrypts: 3 } }], { port: server.address().port });
    assert.deepEqual([ended, error], [failure, failure === null ? [] : [failure]], String(answer));
    server.end();
  }
  const server = await misbehaving(() => undefined, ['http/1.1']);
  assert.equal((await runFlow([{ send: { numEncrypts: 3 } }], { port: server.address().port })).failure, 'connect_failed');
  server.end();
});

test('connections are warmed up as configured, without being reported', async () => {
  for (const warmUp of [0, 3]) {
    let received = 0;
    const server = await misbehaving((socket, id) => {
      received += 1;
      const word = Buffer.from([0x94, 1, id, 0xc0, 0x81, 0xa6, ...Buffer.from('status'), 0xa2, ...Buffer.from('ok')]);
      socket.write(received <= warmUp ? word : values(id, 3));
    });
    const flow = [{ count: 2, loop: [{ send: { numEncrypts: 3 } }] }];
    const { failure, counter, error } = await runFlow(flow, { port: server.address().port, connections: 1, warmUp });
    assert.deepEqual([failure, error, counter['e3.requests'], received], [null, [], 2, warmUp + 2]);
    server.end();
  }
});

test('users held by the warm-up and its duration are reported, but not in the latency', async () => {
  const DELAY = 150;
  let received = 0;
  const server = await misbehaving((socket, id) => {
    received += 1;
    const word = Buffer.from([0x94, 1, id, 0xc0, 0x81, 0xa6, ...Buffer.from('status'), 0xa2, ...Buffer.from('ok')]);
    if (received <= 2) setTimeout(() => socket.write(word), DELAY);
    else socket.write(values(id, 3));
  });
  const whole = script([{ send: { numEncrypts: 3 } }], { port: server.address().port, connections: 1, warmUp: 2 });
  const e3 = new E3Engine(whole);
  const held = await Promise.all([0, 1].map(() => run(e3, whole.scenarios[0])));
  const took = held.flatMap(({ histogram }) => histogram['e3.warm_up'] ?? []);
  assert.equal(took.length, 1, 'reported once');
  // Timers and the clock may round differently by a millisecond.
  assert.ok(took[0] >= 2 * DELAY - 2, `${took} ms`);
  for (const { failure, counter, histogram, took: whole } of held) {
    assert.deepEqual([failure, counter['e3.warm_up.users']], [null, 1]);
    const [[waited], [latency]] = [histogram['e3.warm_up.held'], histogram['e3.latency']];
    assert.ok(waited > 0, `held for ${waited} of ${took} ms`);
    assert.ok(waited + latency <= whole + 2, `a latency of ${latency} ms that counts the warm-up, held for ${waited} of ${whole} ms`);
  }
  const late = await run(e3, whole.scenarios[0]);
  assert.deepEqual([late.failure, late.counter['e3.warm_up.users'], late.histogram['e3.warm_up']], [null, undefined, undefined]);
  server.end();
});

test('abandoned requests fail, and an unanswered cancel changes nothing', async () => {
  const received = [];
  const server = await misbehaving((_, id) => received.push(id));
  const { target } = readConfig(script([], { port: server.address().port }), []);
  const pool = new Pool(target, wire);
  const connection = await pool.next().get();
  const request = (encode) => {
    let id;
    const ended = new Promise((resolve) => { id = connection.send(encode, resolve); });
    return { id, ended };
  };
  const sent = request((id) => wire.encodeEncrypt(id, { app: APP }, ['x']));
  connection.cancel(sent.id);
  while (received.length === 0) await new Promise(setImmediate);
  pool.end(new Failure('no_answer', 'no answer came'));
  assert.equal((await sent.ended).code, 'no_answer');
  assert.equal((await request((id) => wire.encodeHealth(id)).ended).code, 'no_answer');
  assert.notEqual(await pool.next().get(), connection);
  pool.end(new Failure('no_answer', 'the end'));
  server.end();
});

test('a file that is wrong is refused before anything is sent', () => {
  const whole = script([{ send: { numEncrypts: 'all' } }], { rpc: './nothing' });
  const e3 = new E3Engine(whole);
  const refused = () => e3.createScenario(whole.scenarios[0], new EventEmitter());
  assert.throws(refused, { message: /numEncrypts: must be a whole number[^\n]*, found `all`/ });
  assert.throws(refused, { message: /config\.e3\.rpc: cannot load the wire bindings/ });
});
