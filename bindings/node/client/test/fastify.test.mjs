// The plugin in Fastify 5: both directions, every kind of payload, and attacks.

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';

import Fastify from 'fastify';

import { leafseal } from '../dist/fastify.mjs';
import { Engine, clientOf } from './support.mjs';
import { NUMBER, attack, attackFraming, attackHttp2, isEnvelope, send } from './web.mjs';

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

let bodies = [];
const seen = () => bodies.splice(0);

async function serving(set, use, options = {}) {
  const app = Fastify();
  app.register(leafseal, { client, ...options });
  app.register(async (inner) => set(inner));
  await app.listen({ port: 0, host: '127.0.0.1' });
  try {
    await use(app.server.address().port);
  } finally {
    app.server.closeAllConnections();
    await app.close();
  }
}

const rules = (leafsealRules) => ({ config: { leafseal: leafsealRules } });
const keep = async (request) => {
  bodies.push(request.body);
  return { ok: true };
};

test('a request is sealed before the parser and the schema see it', async () => {
  await serving((app) => {
    const schema = { body: { type: 'object', properties: { card: { type: 'object', properties: { number: { type: 'string', pattern: '^ev:' } } } } } };
    app.post('/cards', { ...rules({ request: { encrypt: ['$.card.number'] } }), schema }, keep);
    app.post('/plain', keep);
  }, async (port) => {
    const response = await send(port, '/cards', JSON.stringify({ card: { number: NUMBER, month: 12 } }));
    assert.equal(response.status, 200, response.text);
    const [body] = seen();
    assert.ok(isEnvelope(body.card.number));
    assert.equal(await client.decrypt(body.card.number), NUMBER);
    await send(port, '/plain', JSON.stringify({ card: NUMBER }));
    assert.deepEqual(seen(), [{ card: NUMBER }]);
  });
});

test('attacks on a request are refused or sealed', async () => {
  await serving((app) => app.post('/cards', rules({ request: { encrypt: ['$.card'] } }), keep), async (port) => {
    await attack(port, '/cards', seen);
    await attackFraming(port, '/cards', seen);
  });
});

test('attacks over HTTP/2 are refused or sealed', async () => {
  const app = Fastify({ http2: true });
  app.register(leafseal, { client });
  app.register(async (inner) => inner.post('/cards', rules({ request: { encrypt: ['$.card'] } }), keep));
  await app.listen({ port: 0, host: '127.0.0.1' });
  await attackHttp2(app.server.address().port, '/cards', seen);
  await app.close();
});

test('every kind of JSON payload is sealed, and no other is sent', async () => {
  const text = JSON.stringify({ card: NUMBER });
  const good = {
    object: async () => ({ card: NUMBER }),
    text: async (_, reply) => reply.type('application/json').send(text),
    buffer: async (_, reply) => reply.type('application/json').send(Buffer.from(text)),
    stream: async (_, reply) => reply.type('application/json').send(Readable.from([Buffer.from(text)])),
  };
  const bad = {
    html: async (_, reply) => reply.type('text/html').send(NUMBER),
    bytes: async (_, reply) => reply.send(Buffer.from(text)),
    files: async (_, reply) => reply.send(Readable.from([Buffer.from(text)])),
    broken: async (_, reply) => reply.type('application/json').send(`{"card":"${NUMBER}"`),
    encoded: async (_, reply) => reply.header('content-encoding', 'gzip').send({ card: NUMBER }),
    large: async () => ({ card: NUMBER.repeat(100) }),
    error: async () => { throw Object.assign(new Error('failed'), { statusCode: 418 }); },
  };
  await serving((app) => {
    const rule = rules({ response: { encrypt: ['$.card'] }, responseSizeMax: 1000 });
    for (const [way, handler] of Object.entries({ ...good, ...bad })) app.get(`/${way}`, rule, handler);
    app.get('/empty', rule, async (_, reply) => reply.code(204).send());
  }, async (port) => {
    for (const way of Object.keys(good)) {
      const response = await send(port, `/${way}`, undefined, {}, 'GET');
      assert.equal(response.status, 200, `${way}: ${response.text}`);
      assert.ok(isEnvelope(response.json().card), way);
      assert.equal(Number(response.headers['content-length']), Buffer.byteLength(response.text), way);
    }
    for (const way of Object.keys(bad)) {
      const response = await send(port, `/${way}`, undefined, {}, 'GET');
      assert.equal(response.status, way === 'error' ? 418 : 500, `${way}: ${response.text}`);
      assert.ok(!response.text.includes(NUMBER), way);
    }
    assert.equal((await send(port, '/empty', undefined, {}, 'GET')).status, 204);
  });
});

test('both directions, and requests are refused without an engine', async () => {
  await serving((app) => {
    app.post('/echo', rules({ request: { encrypt: ['$.card'] }, response: { decrypt: ['$.card'] } }), async (request) => {
      bodies.push(request.body);
      return request.body;
    });
  }, async (port) => {
    assert.deepEqual((await send(port, '/echo', JSON.stringify({ card: NUMBER }))).json(), { card: NUMBER });
    assert.ok(isEnvelope(seen()[0].card));
  });
  const lost = clientOf(engine, { addresses: '127.0.0.1:1', retriesMax: 0 });
  await serving((app) => {
    app.post('/in', rules({ request: { encrypt: ['$.card'] } }), keep);
    app.get('/out', rules({ response: { encrypt: ['$.card'] } }), async () => ({ card: NUMBER }));
  }, async (port) => {
    assert.equal((await send(port, '/in', JSON.stringify({ card: NUMBER }))).status, 503);
    const out = await send(port, '/out', undefined, {}, 'GET');
    assert.deepEqual([out.status, out.text.includes(NUMBER)], [503, false]);
    assert.deepEqual(seen(), []);
  }, { client: lost });
  await lost.close();
});

test('faults in rules are reported at the start', async () => {
  const app = Fastify();
  app.register(leafseal, { client });
  app.register(async (inner) => inner.get('/', rules({ response: {} }), keep));
  await assert.rejects(app.ready(), { code: 'invalid_settings' });
  await app.close();
});
