// Engines that die, restart, refuse or misbehave, and callers that stop waiting. Every call ends, with a result or a code.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from '../dist/index.mjs';
import { Engine, KEYS, UNAVAILABLE, clientOf, keysPeer, openAll, optionsFor, peer, rejects, until } from './support.mjs';

let engine;
before(async () => { engine = await Engine.start(); });
after(() => engine?.stop());

const CODES_OF_LOSS = new Set(['connection_lost', 'connect_failed', 'going_away', 'unavailable']);
const many = (count, call) => Promise.allSettled(Array.from({ length: count }, (_, index) => call(index)));

test('an engine killed in the middle fails its calls with a code, and the client returns once it is back', async () => {
  const victim = await Engine.start();
  const client = clientOf(victim, { retriesMax: 2 });
  await client.health();
  const values = Array.from({ length: 20_000 }, (_, index) => `value ${index}`);
  const calls = many(20, () => client.encrypt(values));
  await until(() => client.calls.bytesInFlight > 0);
  victim.process.kill('SIGKILL');
  const outcomes = await calls;
  for (const { status, reason } of outcomes) assert.ok(status === 'fulfilled' || CODES_OF_LOSS.has(reason.code), reason?.code);
  assert.ok(outcomes.some(({ status }) => status === 'rejected'));
  await victim.exited;
  assert.ok(CODES_OF_LOSS.has((await client.encrypt('x').catch((error) => error)).code));
  const next = await Engine.start([], victim.port, victim.folder);
  await until(() => client.health().catch(() => false), 'the client reconnects');
  assert.equal(await client.decrypt(await client.encrypt('back')), 'back');
  await client.close();
  await next.stop();
});

test('no call is lost when one of two engines restarts', async () => {
  const first = await Engine.start(['server.drain_delay=1s']);
  const folder = mkdtempSync(join(tmpdir(), 'leafseal-second-'));
  spawn('cp', ['-r', join(first.folder, 'store'), folder]);
  await until(() => import('node:fs').then(({ existsSync }) => existsSync(join(folder, 'store', 'certs', 'server.pem'))));
  await sleep(200);
  const second = await Engine.start(['server.drain_delay=1s'], 0, folder);
  const client = clientOf(first, { addresses: [`127.0.0.1:${first.port}`, `127.0.0.1:${second.port}`] });
  let isOver = false;
  let done = 0;
  const work = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      const sealed = await client.encrypt('value');
      assert.equal(await client.decrypt(sealed), 'value');
      done += 1;
    }
  });
  await until(() => done > 50);
  const stopped = second.stop({ keep: true });
  const before = done;
  await stopped;
  await until(() => done > before + 50);
  const again = await Engine.start([], second.port, folder);
  const left = first.stop();
  await until(() => client.calls.pool.usable.some(({ place, hasAnswered }) => place === 1 && hasAnswered), 'the restarted engine is used again');
  isOver = true;
  await Promise.all(work);
  await client.close();
  await Promise.all([left, again.stop()]);
});

test('dead addresses are skipped, and calls go to the living engine', async () => {
  const addresses = ['127.0.0.1:1', `127.0.0.1:${engine.port}`, '127.0.0.1:2'];
  const failures = [];
  const observers = [{ connection: ({ kind, address }) => kind === 'failed' && failures.push(address) }];
  const client = clientOf(engine, { addresses, observers });
  const outcomes = await many(200, (index) => client.encrypt(`value ${index}`));
  assert.ok(outcomes.every(({ status }) => status === 'fulfilled'));
  for (let round = 0; round < 5; round += 1) await many(50, () => client.encrypt('x'));
  assert.ok(failures.every((address) => address !== addresses[1]));
  assert.ok(failures.length <= 4, 'both connections are open, each after two attempts at most');
  await client.close();
});

test('certificates that do not fit are reported at once', async () => {
  const stranger = await Engine.start();
  const { cert, key } = stranger.stranger();
  const cases = [
    [{ ca: stranger.ca }, 'tls_failed'],
    [{ certificate: stranger.cert, key: stranger.key }, 'tls_failed'],
    [{ certificate: stranger.cert }, 'tls_failed'],
    [{ key: '/nonexistent/key.pem' }, 'tls_failed'],
    [{ serverName: 'another.example' }, 'tls_failed'],
    [{ ca: '-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----' }, 'tls_failed'],
  ];
  for (const [options, code] of cases) {
    const error = await rejects(Client.connect(optionsFor(engine, options)), code);
    assert.match(error.message, /\S/);
  }
  await rejects(Client.connect(optionsFor(engine, { addresses: engine.operator })), 'tls_failed');
  const other = clientOf(stranger, { certificate: cert, key });
  await rejects(other.encrypt('x'), 'forbidden');
  await other.close();
  await stranger.stop();
});

test('certificate files are read again for each connection', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'leafseal-client-'));
  const [certificate, key] = [join(folder, 'client.pem'), join(folder, 'client.key')];
  writeFileSync(certificate, 'nothing yet');
  writeFileSync(key, 'nothing yet');
  const client = clientOf(engine, { certificate, key, backoffMinMs: 1, backoffMaxMs: 1 });
  await rejects(client.health(), 'tls_failed');
  copyFileSync(engine.cert, certificate);
  copyFileSync(engine.key, key);
  await until(() => client.health().catch(() => false), 'the new files are used');
  await client.close();
  rmSync(folder, { recursive: true });
});

test('an aborted call rejects at once, and the engine stops', async () => {
  const requests = [];
  const silent = await peer(engine, (socket) => socket.on('data', (bytes) => requests.push(bytes)));
  const client = clientOf(engine, { addresses: silent.address, abandonedTimeoutMs: 100 });
  const controller = new AbortController();
  const call = client.encrypt('x', { signal: controller.signal });
  await until(() => requests.length > 0);
  controller.abort(new Error('the user left'));
  const error = await rejects(call, 'cancelled');
  assert.equal(error.name, 'AbortError');
  assert.equal(error.cause.message, 'the user left');
  await until(() => Buffer.concat(requests).includes('cancel'), 'cancel is sent');
  await until(() => silent.sockets.size === 0, 'a connection that does not answer is closed');
  await rejects(client.encrypt('x', { signal: AbortSignal.abort() }), 'cancelled');
  await client.close();
  silent.close();
});

test('calls aborted while they wait never begin', async () => {
  const client = clientOf(engine, { connectionsMax: 1, requestsInFlightMax: 1 });
  const controller = new AbortController();
  const first = client.encrypt('first');
  const others = many(5000, () => client.encrypt('x', { signal: controller.signal }));
  controller.abort();
  assert.ok((await others).every(({ reason }) => reason?.code === 'cancelled'));
  assert.ok(await first);
  assert.equal(client.callsInFlight, 0);
  assert.equal(await client.decrypt(await client.encrypt('next')), 'next');
  await client.close();
});

test('the bytes of an aborted call may be reused at once', async () => {
  const slow = await peer(engine, () => undefined);
  const client = clientOf(engine, { addresses: slow.address });
  const controller = new AbortController();
  // More than the buffers of the system hold, so that some of it is written later.
  const file = Buffer.alloc(16 << 20, 'the first file');
  const original = Buffer.from(file);
  const call = client.encryptFile(file, { signal: controller.signal });
  await until(() => client.calls.bytesInFlight > 0);
  controller.abort();
  await rejects(call, 'cancelled');
  file.fill('another');
  const received = [];
  await until(() => slow.sockets.size > 0);
  for (const socket of slow.sockets) socket.on('data', (bytes) => received.push(bytes));
  await until(() => Buffer.concat(received.slice(-2)).includes('cancel'));
  assert.ok(Buffer.concat(received).includes(original));
  await client.close({ force: true });
  slow.close();
});

test('aborts at random moments leave every other call correct', async () => {
  const client = clientOf(engine, { requestsInFlightMax: 8 });
  const outcomes = await many(2000, async (index) => {
    const controller = new AbortController();
    if (index % 2) setTimeout(() => controller.abort(), index % 50);
    const values = Array.from({ length: index % 200 }, (_, at) => `${index} ${at}`);
    const sealed = await client.encrypt(values, { signal: controller.signal });
    assert.deepEqual(await client.decrypt(sealed), values);
  });
  assert.ok(outcomes.every(({ status, reason }, index) => status === 'fulfilled' || (index % 2 === 1 && reason.code === 'cancelled')));
  assert.equal(client.callsInFlight, 0);
  assert.equal(client.calls.bytesInFlight, 0);
  await client.close();
});

test('a deadline ends a call, at the engine too', async () => {
  const silent = await peer(engine, () => undefined);
  const client = clientOf(engine, { addresses: silent.address, timeoutMs: 200 });
  assert.equal((await rejects(client.encrypt('x'), 'deadline_exceeded')).retry, 'later');
  await rejects(client.encrypt('x', { timeoutMs: 20 }), 'deadline_exceeded');
  await client.close();
  silent.close();
  const real = clientOf(engine);
  const values = Array.from({ length: 300_000 }, () => 'x'.repeat(32));
  await rejects(real.encrypt(values, { timeoutMs: 60, keying: 'field' }), 'deadline_exceeded');
  assert.equal(await real.decrypt(await real.encrypt('next')), 'next');
  await real.close();
});

test('an overloaded engine is retried within bounds, with its advice', async () => {
  const small = await Engine.start(['server.app_jobs_max=1', 'server.admission_wait=0s']);
  const retried = [];
  const observers = [{ retried: (method, error) => retried.push(error) }];
  const client = clientOf(small, { observers, connectionsMax: 8 });
  const values = Array.from({ length: 5000 }, () => 'x');
  const outcomes = await many(300, () => client.encrypt(values, { keying: 'field' }));
  for (const { status, reason } of outcomes) assert.ok(status === 'fulfilled' || (reason.code === 'overloaded' && reason.retry === 'later'), reason?.code);
  assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
  assert.ok(retried.length > 0 && retried.every(({ code }) => code === 'overloaded'));
  assert.ok(retried.length <= 10 + 300 / 10, `${retried.length} retries`);
  await client.close();
  await small.stop();
});

test('a peer that is no engine never crashes the client', async () => {
  const garbage = [
    (socket) => socket.write(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')),
    (socket) => socket.write(Buffer.from([0xc1, 0xff, 0x00])),
    // An answer to a request that was not made; a request; lengths beyond all limits.
    (socket) => socket.write(Buffer.from([0x94, 1, 99, 0xc0, 0x80])),
    (socket) => socket.write(Buffer.from([0x94, 0, 1, 0xa4, 0x69, 0x6e, 0x66, 0x6f, 0x90])),
    (socket) => socket.write(Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff])),
    (socket) => socket.write(Buffer.from([0x94, 1, 0, 0xc0, 0x81])) && socket.end(),
    (socket) => socket.once('data', () => socket.write(Buffer.from([0x94, 1, 0, 0xc0, 0xa1, 0x78]))),
    (socket) => socket.once('data', () => socket.write(Buffer.from([0x94, 1, 0, 0xa1, 0x78, 0xc0]))),
    (socket) => socket.destroy(),
  ];
  for (const [index, serve] of garbage.entries()) {
    const bad = await peer(engine, serve);
    const client = clientOf(engine, { addresses: bad.address, timeoutMs: 2000, retriesMax: 1 });
    const error = await client.encrypt('x').catch((failure) => failure);
    assert.ok(['protocol_error', 'connection_lost', 'too_large'].includes(error.code), `${index}: ${error.code} ${error.message}`);
    await client.close();
    bad.close();
  }
  const plain = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(plain, 'listening');
  const slow = clientOf(engine, { addresses: `127.0.0.1:${plain.address().port}`, connectTimeoutMs: 100, retriesMax: 0 });
  await rejects(slow.health(), 'connect_failed');
  await slow.close();
  plain.close();
});

test('an engine that closes before it read a request gets it retried elsewhere', async () => {
  // [2, "going_away", ["closed"]]
  const closed = Buffer.from([0x93, 2, 0xaa, ...Buffer.from('going_away'), 0x91, 0xa6, ...Buffer.from('closed')]);
  const leaving = await peer(engine, (socket) => socket.once('data', () => socket.end(closed)));
  const client = clientOf(engine, { addresses: [leaving.address, `127.0.0.1:${engine.port}`] });
  const outcomes = await many(100, () => client.encrypt('x'));
  assert.ok(outcomes.every(({ status }) => status === 'fulfilled'), outcomes.find(({ reason }) => reason)?.reason);
  await client.close();
  leaving.close();
});

test('an engine that answers unavailable gets no more calls while another serves', async () => {
  const refusing = await keysPeer(engine, () => UNAVAILABLE);
  const serving = await keysPeer(engine, () => KEYS);
  const addresses = [refusing.address, serving.address];
  const limits = { retriesMax: 0, requestsInFlightMax: 2 };
  const client = clientOf(engine, { addresses, ...limits });
  await openAll(client);
  await rejects(client.publicKeys(), 'unavailable');
  await client.publicKeys();
  // More than fit into the connection: they wait for it.
  const outcomes = await many(50, () => client.publicKeys());
  assert.ok(outcomes.every(({ status }) => status === 'fulfilled'));
  assert.deepEqual([refusing.asked, serving.asked], [1, 51]);
  await client.close();
  refusing.close();
  serving.close();
});

test('a call that was refused as unavailable is retried on another address', async () => {
  const refusing = await keysPeer(engine, () => UNAVAILABLE);
  const serving = await keysPeer(engine, () => KEYS);
  const retried = [];
  const observers = [{ retried: (method, { code }) => retried.push(code) }];
  const client = clientOf(engine, { addresses: [refusing.address, serving.address], observers });
  await openAll(client);
  for (let round = 0; round < 5; round += 1) await client.publicKeys();
  assert.deepEqual([refusing.asked, serving.asked, retried], [1, 5, ['unavailable']]);
  await client.close();
  refusing.close();
  serving.close();
});

test('many calls that were refused as unavailable are moved, whatever the limit on retries', async () => {
  const refusing = await keysPeer(engine, () => UNAVAILABLE);
  const serving = await keysPeer(engine, () => KEYS);
  const client = clientOf(engine, { addresses: [refusing.address, serving.address] });
  await openAll(client);
  const outcomes = await many(200, () => client.publicKeys());
  assert.ok(outcomes.every(({ status }) => status === 'fulfilled'), outcomes.find(({ reason }) => reason)?.reason);
  assert.ok(refusing.asked > 10 && serving.asked === 200, `${refusing.asked} refusals`);
  await client.close();
  refusing.close();
  serving.close();
});

test('a connection to another address is opened when the only one refuses', async () => {
  const refusing = await keysPeer(engine, () => UNAVAILABLE);
  const serving = await keysPeer(engine, () => KEYS);
  const addresses = [refusing.address, serving.address];
  const client = clientOf(engine, { addresses, retriesMax: 0 });
  client.calls.pool.dialling.nextPlace = 0;
  await rejects(client.publicKeys(), 'unavailable');
  await client.publicKeys();
  assert.deepEqual([refusing.asked, serving.asked], [1, 1]);
  await client.close();
  refusing.close();
  serving.close();
});

test('engines that all refuse are used as before, and the first that serves again gets the calls', async () => {
  const peers = await Promise.all([1, 2].map(() => keysPeer(engine, (count) => (count === 1 ? UNAVAILABLE : KEYS))));
  const limits = { retriesMax: 0 };
  const client = clientOf(engine, { addresses: peers.map(({ address }) => address), ...limits });
  await openAll(client);
  await rejects(client.publicKeys(), 'unavailable');
  await rejects(client.publicKeys(), 'unavailable');
  for (let round = 0; round < 5; round += 1) await client.publicKeys();
  assert.deepEqual(peers.map(({ asked }) => asked), [6, 1]);
  await client.close();
  for (const { close } of peers) close();
  const alone = await keysPeer(engine, (count) => (count === 1 ? UNAVAILABLE : KEYS));
  const single = clientOf(engine, { addresses: alone.address, ...limits });
  await rejects(single.publicKeys(), 'unavailable');
  await single.publicKeys();
  await single.close();
  alone.close();
});

test('close finishes what is in flight, or fails it', async () => {
  const client = clientOf(engine);
  const calls = many(500, (index) => client.encrypt(`value ${index}`));
  await client.close();
  assert.ok((await calls).every(({ status }) => status === 'fulfilled'));
  await rejects(client.encrypt('x'), 'closed');
  await client.close();
  const forced = clientOf(engine);
  const others = many(500, () => forced.encrypt('x'));
  await forced.close({ force: true });
  assert.ok((await others).every(({ status, reason }) => status === 'fulfilled' || reason.code === 'closed'));
});

test('a process with an idle client exits', async () => {
  const script = `
    import { Client } from ${JSON.stringify(new URL('../dist/index.mjs', import.meta.url).href)};
    const client = await Client.connect(${JSON.stringify(optionsFor(engine))});
    console.log(await client.health());`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (text) => { out += text; });
  const [code] = await once(child, 'exit');
  assert.deepEqual([code, out], [0, 'ok\n']);
});
