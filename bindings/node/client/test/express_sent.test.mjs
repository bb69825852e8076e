// A response that the middleware holds back behaves as one that was sent, and errors of the steps that follow reach the error handlers.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';

import { protectBody } from '../dist/express.mjs';
import { inParallel, observe } from './differential.mjs';
import { Engine, clientOf } from './support.mjs';
import { NUMBER, isEnvelope } from './web.mjs';

const require = createRequire(import.meta.url);
const SCRIPT = '<script>alert(1)</script>';
let engine;
let client;
let sealedScript;
before(async () => {
  engine = await Engine.start();
  client = clientOf(engine);
  sealedScript = await client.encrypt(SCRIPT);
});
after(async () => {
  await client?.close();
  await engine?.stop();
});

for (const name of ['express', 'express4']) {
  describe(name, () => {
    const express = require(name);
    const encrypt = () => protectBody(client, { response: { encrypt: ['$.card'] } });
    const incoming = () => protectBody(client, { request: { encrypt: ['$.card'] } });
    const decrypt = () => protectBody(client, { response: { decrypt: ['$.card'] } });

    /** Serves one app, and resolves to what is received from `/`. `seen` has the errors of the error handler. */
    async function ask(set, { seen = [], headers } = {}) {
      const app = express();
      set(app);
      app.use((error, req, res, next) => { // eslint-disable-line no-unused-vars
        seen.push([error.code, res.headersSent]);
        // Careless: it sends the error as it is.
        res.removeHeader('trailer');
        res.status(500).type('html').send(JSON.stringify({ code: error.code }));
      });
      app.use((error, req, res, next) => {
        seen.push([error.code, res.headersSent]);
        next(error);
      });
      app.set('env', 'test');
      const server = app.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const response = await observe(server.address().port, { path: '/', headers });
      server.closeAllConnections();
      server.close();
      return response;
    }

    test('what Node refuses is an error of the handler', async () => {
      const bad = {
        ERR_HTTP_INVALID_STATUS_CODE: (res) => { res.statusCode = 99; },
        ERR_INVALID_CHAR: (res) => { res.statusMessage = 'a\nb'; },
        ERR_HTTP_TRAILER_INVALID: (res) => { res.setHeader('trailer', 'x-t'); },
      };
      for (const [code, spoil] of Object.entries(bad)) {
        const seen = [];
        const response = await ask((app) => app.get('/', encrypt(), (req, res) => {
          spoil(res);
          res.json({ card: NUMBER });
        }), { seen });
        assert.deepEqual(seen[0], [code, false]);
        assert.deepEqual([response.status, response.body.includes(NUMBER)], [500, false]);
      }
    });

    test('an error of other middleware, after the engine has answered, reaches the error handlers', async () => {
      for (const times of [1, 100]) {
        const seen = [];
        let left = times;
        const response = await ask((app) => {
          app.use((req, res, next) => {
            const { writeHead } = res;
            res.writeHead = (...args) => {
              if (left > 0) {
                left -= 1;
                throw Object.assign(new Error('no head'), { code: 'no_head' });
              }
              return writeHead.apply(res, args);
            };
            next();
          });
          app.get('/', encrypt(), (req, res) => { res.json({ card: NUMBER }); });
        }, { seen });
        assert.equal(seen[0][0], 'no_head');
        assert.ok(!JSON.stringify(response).includes(NUMBER));
        // When that middleware refuses the error, too, only the connection is left to end.
        if (times === 1) assert.equal(response.status, 500);
        else assert.equal(response.error, 'ECONNRESET');
      }
    });

    test('an error handler cannot send a held body with another status or type', async () => {
      for (const spoil of [
        () => { throw new Error('after'); },
        (res) => { res.status(500).type('html'); },
        (res) => { res.json({ card: 'second' }); },
        (res) => { res.writeHead(500, { 'content-type': 'text/html' }); },
        (res) => {
          res.statusCode = 500;
          res.statusMessage = 'changed';
          res.setHeader('content-type', 'text/html');
        },
      ]) {
        const seen = [];
        const response = await ask((app) => app.get('/', decrypt(), (req, res) => {
          res.json({ card: sealedScript });
          assert.deepEqual([res.headersSent, res.writableEnded, res.writableFinished], [true, true, false]);
          spoil(res);
        }), { seen });
        assert.deepEqual([response.status, response.message], [200, 'OK']);
        assert.match(response.headers['content-type'], /^application\/json/);
        assert.deepEqual(JSON.parse(response.body), { card: SCRIPT });
        assert.ok(seen.length > 0 && seen.every(([, isSent]) => isSent), JSON.stringify(seen));
      }
    });

    test('headers that other middleware adds when the head is sent arrive, wherever it is mounted', async () => {
      const adding = (header) => (req, res, next) => {
        const { writeHead } = res;
        res.writeHead = (...args) => {
          if (!res.headersSent) res.setHeader(header, '1');
          return writeHead.apply(res, args);
        };
        next();
      };
      const response = await ask((app) => app.get('/', adding('x-outside'), encrypt(), adding('x-inside'), (req, res) => {
        res.json({ card: NUMBER });
      }));
      assert.deepEqual([response.status, response.headers['x-outside'], response.headers['x-inside']], [200, '1', '1']);
      assert.ok(isEnvelope(JSON.parse(response.body).card));
    });

    test('trailers follow a sealed body, without hashes of the plain one', async () => {
      const { body, trailers } = await ask((app) => app.get('/', encrypt(), (req, res) => {
        res.type('json').set('trailer', 'x-t, digest').write(JSON.stringify({ card: NUMBER }));
        res.addTrailers({ 'x-t': '1', digest: 'sha-256=x' });
        res.end();
      }));
      assert.ok(isEnvelope(JSON.parse(body).card), body);
      assert.deepEqual(trailers, { 'x-t': '1' });
    });

    test('a stream that was refused may go on', async () => {
      const results = [];
      const response = await ask((app) => app.get('/', encrypt(), (req, res) => {
        res.on('error', (error) => results.push(error.code));
        res.type('text/event-stream');
        const write = () => {
          res.write('data: x\n\n');
          if (results.push('written') < 50) setImmediate(write);
          else res.end('last');
        };
        write();
      }));
      assert.equal(response.status, 500);
      assert.ok(results.every((result) => result === 'written'), results.join());
    });

    test('a rule that comes twice or too late is refused', async () => {
      const handler = (req, res) => { res.json({ card: NUMBER }); };
      for (const [set, code] of [
        [(app) => app.use(encrypt()).get('/', encrypt(), handler), 'rule_applied_twice'],
        [(app) => app.use(incoming()).get('/', incoming(), handler), 'rule_applied_twice'],
        [(app) => app.get('/', (req, res, next) => {
          res.writeHead(200, { 'content-type': 'application/json' });
          next();
        }, encrypt(), handler), 'response_started'],
      ]) {
        const seen = [];
        const { body = '' } = await ask(set, { seen });
        assert.equal(seen[0][0], code);
        assert.ok(!body.includes(NUMBER));
      }
    });

    test('connections that are reused, and closed by errors, deliver every response', async () => {
      const app = express();
      app.set('env', 'test');
      app.get('/', encrypt(), (req, res) => {
        res.json({ card: NUMBER });
        if (req.headers['x-throw']) throw new Error('after');
      });
      const server = app.listen(0, '127.0.0.1');
      await once(server, 'listening');
      await inParallel(Array.from({ length: 100 }, (_, index) => index), async (index) => {
        const headers = index % 2 ? { 'x-throw': '1' } : {};
        const response = await observe(server.address().port, { path: '/', headers });
        assert.ok(isEnvelope(JSON.parse(response.body).card));
      });
      server.closeAllConnections();
      server.close();
    });
  });
}
