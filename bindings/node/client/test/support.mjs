// What the tests share: an engine of `fieldseal dev`, clients of it, and peers that misbehave.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';

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

/** A peer with the engine's certificate that handles connections as `serve` does. */
export async function peer(engine, serve, { alpn = ['fieldseal/1'], port = 0 } = {}) {
  const read = (name) => readFileSync(engine.file(name));
  const sockets = new Set();
  const options = { key: read('server.key'), cert: read('server.pem'), ca: read('ca.pem'), requestCert: true, ALPNProtocols: alpn };
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
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
