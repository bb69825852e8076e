// Shared by the tests: an engine of `leafseal dev`, clients of it, and peers that misbehave.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';

import wire from '@leafseal/wire';

import { APP, Engine } from '../../../../tests/artillery/engine.mjs';
import { Client } from '../dist/index.mjs';

export { APP, Engine, Client };

/** The options of a client of the engine. */
export function optionsFor(engine, options = {}) {
  return { addresses: `${engine.host}:${engine.port}`, ca: engine.ca, certificate: engine.cert, key: engine.key, app: APP, ...options };
}

export const clientOf = (engine, options) => new Client(optionsFor(engine, options));

/** Checks that a promise rejects with an error of this code. Returns the error. */
export async function rejects(promise, code) {
  try {
    await promise;
  } catch (error) {
    if (error.code !== code) throw new Error(`expected ${code}, received ${error.code}: ${error.message}`, { cause: error });
    return error;
  }
  throw new Error(`expected ${code}, but the promise resolved`);
}

/** Waits for a condition. */
export async function until(condition, what = String(condition)) {
  for (let tries = 0; tries < 3000; tries += 1) {
    if (await condition()) return;
    await sleep(10);
  }
  throw new Error(`never: ${what}`);
}

/** A peer with the engine's certificate, or that of `shown`, that handles connections as `serve` does. */
export async function peer(engine, serve, { alpn = ['leafseal/1'], port = 0, shown = undefined } = {}) {
  const read = (name) => readFileSync(engine.file(name));
  const sockets = new Set();
  const optionsOf = ({ key, cert }) => ({ key, cert, ca: read('ca.pem'), requestCert: true, ALPNProtocols: alpn });
  const options = optionsOf(shown ?? { key: read('server.key'), cert: read('server.pem') });
  const server = createServer(options, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    serve(socket);
  });
  server.on('tlsClientError', () => undefined);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = `127.0.0.1:${server.address().port}`;
  return {
    address, sockets,
    /** Shows another certificate on new connections. */
    show: (next) => server.setSecureContext(optionsOf(next)),
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const text = (word) => [0xa0 | word.length, ...Buffer.from(word)];
const publicKey = [0xc4, 33, ...Buffer.alloc(33)];
/** Error and result of answers. */
const HEALTHY = [0xc0, 0x81, ...['status', 'ok'].flatMap(text)];
export const KEYS = [0xc0, 0x84, ...['app', APP, 'version'].flatMap(text), 1, ...text('r1'), ...publicKey, ...text('k1'), ...publicKey];
export const UNAVAILABLE = [0x83, ...['code', 'unavailable', 'message', 'no keystore', 'retry', 'elsewhere'].flatMap(text), 0xc0];

/** A peer that answers `public_keys` with what `reply` resolves to, and `health`. `asked` counts the former. */
export async function keysPeer(engine, reply, options = {}) {
  const answering = await peer(engine, (socket) => {
    let rest = Buffer.alloc(0);
    const take = () => {
      const isHealth = rest[3] === text('health')[0];
      const { length } = isHealth ? wire.encodeHealth(0) : wire.encodeQuery(0, 'public_keys', { app: APP });
      if (rest.length < length) return false;
      const id = rest[2];
      rest = rest.subarray(length);
      if (!isHealth) answering.asked += 1;
      const answer = Promise.resolve(isHealth ? HEALTHY : reply(answering.asked));
      void answer.then((parts) => socket.write(Buffer.from([0x94, 1, id, ...parts])));
      return true;
    };
    socket.on('data', (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      while (rest.length > 3 && take());
    });
  }, options);
  return Object.assign(answering, { asked: 0 });
}

/** Opens a connection to each address, in their order. */
export async function openAll(client) {
  const { pool } = client.calls;
  pool.dialling.nextPlace = 0;
  const places = () => new Set(pool.usable.map(({ place }) => place));
  // The second call finds the first in flight.
  await until(async () => {
    await Promise.all([client.health(), client.health()]);
    return places().size === pool.names.length;
  });
}
