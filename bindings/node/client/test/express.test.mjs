// The middleware in Express 4 and 5: both directions, every way to send a response, and attacks.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:http2';
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';

import { protectBody } from '../dist/express.mjs';
import { Engine, clientOf } from './support.mjs';
import { NUMBER, attack, attackFraming, attackHttp2, isEnvelope, send } from './web.mjs';

const require = createRequire(import.meta.url);
const compression = require('compression');
let engine;
let client;
before(async () => {
  engine = await Engine.start();
  client = clientOf(engine);
});
after(async () => {
  await client?.close();
  await engine?.stop();
});

for (const name of ['express', 'express4']) {
  describe(name, () => {
    const express = require(name);
    let bodies = [];
    const seen = () => bodies.splice(0);

    /** Serves one app for a test. */
    async function serving(set, use) {
      const app = express();
      app.disable('x-powered-by');
      set(app);
      app.use((error, request, response, next) => {
        if (response.headersSent) next(error);
        else response.status(error.status ?? 500).json({ code: error.code, message: error.expose ? error.message : 'error' });
      });
      const server = app.listen(0, '127.0.0.1');
      await once(server, 'listening');
      try {
        await use(server.address().port);
      } finally {
        server.closeAllConnections();
        server.close();
      }
    }

    const keep = (request, response) => {
      bodies.push(request.body);
      response.json({ ok: true });
    };

    test('a request is sealed before the handler sees it, whatever parser comes later', async () => {
      await serving((app) => {
        app.post('/cards', protectBody(client, { request: { encrypt: ['$.card.number'] } }), express.json(), express.urlencoded({ extended: true }), keep);
      }, async (port) => {
        const response = await send(port, '/cards', JSON.stringify({ card: { number: NUMBER, month: 12 }, note: 'Zoë' }));
        assert.equal(response.status, 200);
        const [body] = seen();
        assert.ok(isEnvelope(body.card.number));
        assert.deepEqual([body.card.month, body.note], [12, 'Zoë']);
        assert.equal(await client.decrypt(body.card.number), NUMBER);
        assert.equal((await send(port, '/cards', undefined, {})).status, 200);
        assert.equal(seen().length, 1);
      });
    });

    test('attacks on a request are refused or sealed', async () => {
      await serving((app) => {
        app.post('/cards', protectBody(client, { request: { encrypt: ['$.card'] } }), express.json(), keep);
      }, async (port) => {
        await attack(port, '/cards', seen);
        await attackFraming(port, '/cards', seen);
      });
    });

    test('a parser that ran first is an error', async () => {
      await serving((app) => {
        app.use(express.json());
        app.post('/cards', protectBody(client, { request: { encrypt: ['$.card'] } }), keep);
      }, async (port) => {
        const response = await send(port, '/cards', JSON.stringify({ card: NUMBER }));
        assert.deepEqual([response.status, response.json().code], [500, 'body_already_read']);
        assert.deepEqual(seen(), []);
      });
    });

    test('a request is decrypted, or refused', async () => {
      await serving((app) => {
        app.post('/pay', protectBody(client, { request: { decrypt: { select: ['$.card'] } } }), keep);
      }, async (port) => {
        const response = await send(port, '/pay', JSON.stringify({ card: await client.encrypt(NUMBER) }));
        assert.equal(response.status, 200);
        assert.deepEqual(seen(), [{ card: NUMBER }]);
        const bad = await send(port, '/pay', JSON.stringify({ card: 'ev:Tk9D:gn2eYKEeHRAhxVxM:A8cwVzmLe0gQ3u+S4wsdmDj2+T2/2hg+UzCFOQvJ3kqj:ch1SGM8dFczlhqyQfP3wX8M:$' }));
        assert.deepEqual([bad.status, bad.json().code], [422, 'decrypt_failed']);
      });
    });

    test('every way to send JSON is sealed', async () => {
      const text = JSON.stringify({ card: NUMBER, name: 'Zoë' });
      const ways = {
        json: (response) => response.json({ card: NUMBER, name: 'Zoë' }),
        send: (response) => response.send({ card: NUMBER, name: 'Zoë' }),
        text: (response) => response.type('json').send(text),
        buffer: (response) => response.type('json').send(Buffer.from(text)),
        end: (response) => response.setHeader('content-type', 'application/json').end(text),
        pieces: (response) => {
          response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
          response.flushHeaders();
          for (const byte of Buffer.from(text)) response.write(Buffer.from([byte]));
          response.end();
        },
        stream: (response) => Readable.from(text.match(/.{1,3}/gsu).map((piece) => Buffer.from(piece))).pipe(response.type('json')),
        head: (response) => response.writeHead(201, 'Created', ['content-type', 'application/problem+json']).end(text),
      };
      await serving((app) => {
        const rule = protectBody(client, { response: { encrypt: ['$.card'] } });
        for (const [way, answer] of Object.entries(ways)) app.get(`/${way}`, rule, (_, response) => answer(response));
      }, async (port) => {
        for (const way of Object.keys(ways)) {
          const response = await send(port, `/${way}`, undefined, {}, 'GET');
          assert.ok([200, 201].includes(response.status), `${way}: ${response.text}`);
          const { card, name: other } = response.json();
          assert.ok(isEnvelope(card), way);
          assert.equal(other, 'Zoë', way);
          assert.equal(response.headers.etag, undefined, `${way}: a hash of the plain body`);
          assert.equal(Number(response.headers['content-length']), Buffer.byteLength(response.text), way);
          const head = await send(port, `/${way}`, undefined, {}, 'HEAD');
          assert.deepEqual([head.text, head.headers.etag, head.headers['content-length']], ['', undefined, undefined], way);
        }
      });
    });

    test('a response to which the rule cannot be applied is replaced', async () => {
      const ways = {
        html: (response) => response.send(`<p>${NUMBER}</p>`),
        plain: (response) => response.type('text').send(NUMBER),
        untyped: (response) => response.end(NUMBER),
        broken: (response) => response.type('json').send(`{"card":"${NUMBER}"`),
        events: (response) => {
          response.type('text/event-stream').flushHeaders();
          response.write(`data: ${NUMBER}\n\n`);
        },
        large: (response) => response.json({ card: NUMBER.repeat(100) }),
        encoded: (response) => response.set('content-encoding', 'br').json({ card: NUMBER }),
        status: (response) => response.status(404).send(`no card ${NUMBER}`),
      };
      await serving((app) => {
        const rule = protectBody(client, { response: { encrypt: ['$.card'] }, responseSizeMax: 1000 });
        for (const [way, answer] of Object.entries(ways)) app.get(`/${way}`, rule, (_, response) => answer(response));
        app.get('/compressed', rule, compression({ threshold: 0 }), (_, response) => response.json({ card: NUMBER }));
        app.get('/outside', compression({ threshold: 0 }), rule, (_, response) => response.json({ card: NUMBER }));
        app.get('/empty', rule, (_, response) => response.status(204).end());
      }, async (port) => {
        for (const way of [...Object.keys(ways), 'compressed']) {
          const response = await send(port, `/${way}`, undefined, { 'accept-encoding': 'gzip' }, 'GET');
          assert.equal(response.status, way === 'status' ? 404 : 500, way);
          assert.ok(!response.text.includes(NUMBER), way);
          assert.ok(response.json().code, way);
        }
        assert.equal((await send(port, '/outside', undefined, { 'accept-encoding': 'gzip' }, 'GET')).headers['content-encoding'], 'gzip');
        assert.equal((await send(port, '/empty', undefined, {}, 'GET')).status, 204);
      });
    });

    test('a guess of a plain body is not confirmed by its hash', async () => {
      await serving((app) => {
        app.get('/plain', (_, response) => response.json({ card: NUMBER }));
        app.get('/sealed', protectBody(client, { response: { encrypt: ['$.card'] } }), (_, response) => response.json({ card: NUMBER }));
      }, async (port) => {
        const { etag } = (await send(port, '/plain', undefined, {}, 'GET')).headers;
        assert.ok(etag);
        assert.equal((await send(port, '/plain', undefined, { 'if-none-match': etag }, 'GET')).status, 304);
        assert.equal((await send(port, '/sealed', undefined, { 'if-none-match': etag }, 'GET')).status, 200);
      });
    });

    test('both directions: stored sealed, returned open', async () => {
      await serving((app) => {
        const rule = protectBody(client, { request: { encrypt: ['$.card'] }, response: { decrypt: ['$.card'] } });
        app.post('/echo', rule, (request, response) => {
          bodies.push(request.body);
          response.json(request.body);
        });
      }, async (port) => {
        const response = await send(port, '/echo', JSON.stringify({ card: NUMBER }));
        assert.deepEqual(response.json(), { card: NUMBER });
        assert.ok(isEnvelope(seen()[0].card));
      });
    });

    test('without an engine, requests and responses are refused', async () => {
      const lost = clientOf(engine, { addresses: '127.0.0.1:1', retriesMax: 0 });
      await serving((app) => {
        app.post('/in', protectBody(lost, { request: { encrypt: ['$.card'] } }), keep);
        app.get('/out', protectBody(lost, { response: { encrypt: ['$.card'] } }), (_, response) => response.json({ card: NUMBER }));
      }, async (port) => {
        assert.equal((await send(port, '/in', JSON.stringify({ card: NUMBER }))).status, 503);
        const out = await send(port, '/out', undefined, {}, 'GET');
        assert.deepEqual([out.status, out.text.includes(NUMBER)], [503, false]);
        assert.deepEqual(seen(), []);
      });
      await lost.close();
    });
  });
}

test('attacks over HTTP/2 on a server without a framework are refused or sealed', async () => {
  const bodies = [];
  const protect = protectBody(client, { request: { encrypt: ['$.card'] } });
  const server = createServer((request, response) => {
    protect(request, response, (error) => {
      if (!error) bodies.push(request.body);
      response.writeHead(error ? error.status : 200).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  await attackHttp2(server.address().port, '/', () => bodies.splice(0));
  server.close();
});

test('responses over HTTP/2 are held and sealed, and behave as sent', async () => {
  const protect = protectBody(client, { response: { encrypt: ['$.card'] } });
  const text = JSON.stringify({ card: NUMBER });
  const results = [];
  const ways = {
    '/end': (response) => {
      response.setHeader('content-type', 'application/json');
      response.end(text);
    },
    '/head': (response) => response.writeHead(201, { 'content-type': 'application/json' }).end(text),
    '/pieces': (response) => {
      response.setHeader('content-type', 'application/json');
      response.flushHeaders();
      for (const character of text) response.write(character);
      response.end();
    },
    '/html': (response) => {
      response.setHeader('content-type', 'text/html');
      response.end(NUMBER);
    },
    '/empty': (response) => response.writeHead(204).end(),
  };
  const server = createServer((request, response) => {
    protect(request, response, () => {
      ways[request.url](response);
      results.push([response.headersSent, response.writableEnded]);
      assert.throws(() => response.setHeader('x-late', '1'), { code: /^ERR_HTTP2?_HEADERS_SENT$/ });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${server.address().port}`);
  for (const [path, status] of Object.entries({ '/end': 200, '/head': 201, '/pieces': 200, '/html': 500, '/empty': 204 })) {
    const stream = session.request({ ':path': path });
    const [headers] = await once(stream, 'response');
    let body = '';
    for await (const piece of stream.setEncoding('utf8')) body += piece;
    assert.equal(headers[':status'], status, path);
    assert.ok(!body.includes(NUMBER), path);
    if (status < 204) assert.ok(isEnvelope(JSON.parse(body).card), path);
  }
  assert.deepEqual(results, Array.from({ length: 5 }, () => [true, true]));
  session.close();
  server.close();
});

test('rules are checked when they are created', () => {
  for (const rules of [{}, { request: {} }, { request: { encrypt: [] } }, { request: { encrypt: ['$.a'], decrypt: ['$.a'] } }, { request: { encrypt: ['$'] }, requestSizeMax: 0 }]) {
    assert.throws(() => protectBody(client, rules), { code: 'invalid_settings' });
  }
});
