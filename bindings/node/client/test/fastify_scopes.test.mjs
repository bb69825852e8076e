// Rules of Fastify's routes take effect, once, or the server does not start; and limits, `HEAD` and responses that were sent.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import Fastify from 'fastify';

import { leafseal } from '../dist/fastify.mjs';
import { Engine, clientOf, optionsFor, until } from './support.mjs';
import { NUMBER, isEnvelope, send } from './web.mjs';

const ENCRYPT = { config: { leafseal: { response: { encrypt: ['$.card'] } } } };
const card = async () => ({ card: NUMBER });
let engine;
let client;
const ended = [];
before(async () => {
  engine = await Engine.start();
  client = clientOf(engine, { observers: [{ call: () => ({ error }) => ended.push(error) }] });
});
after(async () => {
  await client?.close();
  await engine?.stop();
});

/** Starts a server that `set` has defined, and uses it. */
async function serving(set, use, options = {}) {
  const app = Fastify(options);
  try {
    await app.register(leafseal, { client });
    set(app);
    await app.listen({ port: 0, host: '127.0.0.1' });
    await use(app.server.address().port);
  } finally {
    app.server.closeAllConnections();
    await app.close();
  }
}

test('a rule outside of the scope of the plugin is an error at the start', async () => {
  const child = async (inner) => { await inner.register(leafseal, { client }); };
  const ways = {
    'of the parent, before': (app) => app.get('/', ENCRYPT, card).register(child),
    'of the parent, after': (app) => app.register(child).get('/', ENCRYPT, card),
    'of a sibling': (app) => app.register(child).register(async (other) => other.get('/', ENCRYPT, card)),
    'without the plugin': (app) => app.get('/', ENCRYPT, card),
  };
  for (const [name, set] of Object.entries(ways)) {
    const app = Fastify();
    set(app);
    await assert.rejects(async () => app.ready(), (error) => error.code === 'invalid_settings' && /route \/ /.test(error.message), name);
    await app.close();
  }
});

test('a plugin that is registered twice is an error at the start', async () => {
  const child = async (inner) => {
    await inner.register(leafseal, { client });
    inner.get('/', ENCRYPT, card);
  };
  const ways = {
    'on one instance': (app) => app.register(leafseal, { client }).register(leafseal, { client }),
    'in a scope inside': (app) => app.register(leafseal, { client }).register(child),
    'in the scope around, later': (app) => app.register(child).register(leafseal, { client }),
  };
  for (const [name, set] of Object.entries(ways)) {
    const app = Fastify();
    set(app);
    await assert.rejects(async () => app.ready(), (error) => error.code === 'invalid_settings' && /twice/.test(error.message), name);
    await app.close();
  }
});

test('rules are in effect in every scope inside, whatever the order', async () => {
  const app = Fastify();
  app.register(async (inner) => inner.get('/inside', ENCRYPT, card));
  app.get('/before', ENCRYPT, card);
  app.register(leafseal, { client });
  app.get('/after', ENCRYPT, card);
  app.register(async (inner) => inner.get('/later', ENCRYPT, card), { prefix: '/scope' });
  for (const url of ['/inside', '/before', '/after', '/scope/later']) {
    assert.ok(isEnvelope((await app.inject(url)).json().card), url);
  }
  await app.close();
});

test('two scopes with plugins of their own do not meet', async () => {
  const app = Fastify();
  for (const prefix of ['/a', '/b']) {
    app.register(async (inner) => {
      await inner.register(leafseal, { client });
      inner.get('/', ENCRYPT, card);
    }, { prefix });
  }
  for (const url of ['/a', '/b']) assert.equal(await client.decrypt((await app.inject(url)).json().card), NUMBER);
  await app.close();
});

test('faults in rules, and rules without effect, are reported where the route is defined', async () => {
  const rule = { encrypt: ['$.card'] };
  const faults = [
    [{ config: { leafseal: { response: {} } } }, 'post'],
    [{ config: { leafseal: { request: rule } } }, 'get'],
    [{ config: { leafseal: { request: rule, requestSizeMax: 2000 } }, bodyLimit: 1000 }, 'post'],
  ];
  for (const [options, method] of faults) {
    const app = Fastify();
    assert.throws(() => app[method]('/', options, card), { code: 'invalid_settings' });
    await app.close();
  }
});

test('an instance that is older than this package refuses requests for routes without effect', () => {
  const script = `
    import Fastify from 'fastify';
    const app = Fastify();
    const { leafseal } = await import(${JSON.stringify(new URL('../dist/fastify.mjs', import.meta.url).href)});
    const { Client } = await import(${JSON.stringify(new URL('../dist/index.mjs', import.meta.url).href)});
    const client = new Client(${JSON.stringify(optionsFor(engine))});
    const rule = ${JSON.stringify(ENCRYPT)};
    const card = async () => ({ card: '${NUMBER}' });
    app.get('/outside', rule, card);
    app.get('/plain', card);
    app.register(async (inner) => {
      await inner.register(leafseal, { client });
      inner.get('/inside', rule, card);
    });
    for (const url of ['/outside', '/plain', '/inside']) {
      const { statusCode, body } = await app.inject(url);
      console.log(statusCode, body.includes('${NUMBER}'));
    }
    await client.close();`;
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const out = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd, encoding: 'utf8', timeout: 20_000 });
  assert.equal(out, '500 false\n200 true\n200 false\n');
});

test('HEAD answers as GET, for every kind of payload', async () => {
  const text = JSON.stringify({ card: NUMBER });
  const ways = {
    object: card,
    buffer: async (_, reply) => reply.type('application/json').send(Buffer.from(text)),
    stream: async (_, reply) => reply.type('application/json').send(Readable.from([Buffer.from(text)])),
    web: async (_, reply) => reply.type('application/json').send(ReadableStream.from([Buffer.from(text)])),
    response: async () => new Response(text, { headers: { 'content-type': 'application/json' } }),
    empty: async (_, reply) => reply.code(204).send(),
    created: async (_, reply) => reply.code(201).send(),
    html: async (_, reply) => reply.type('text/html').send(NUMBER),
  };
  await serving((app) => {
    for (const [way, handler] of Object.entries(ways)) app.get(`/${way}`, ENCRYPT, handler);
  }, async (port) => {
    for (const way of Object.keys(ways)) {
      const [get, head] = await Promise.all(['GET', 'HEAD'].map((method) => send(port, `/${way}`, undefined, {}, method)));
      const expected = { empty: 204, created: 201, html: 500 }[way] ?? 200;
      assert.deepEqual([get.status, head.status, head.text], [expected, expected, ''], way);
      assert.equal(head.headers['content-type'], get.headers['content-type'], way);
      if (get.text !== '') assert.equal(head.headers['content-length'], get.headers['content-length'], way);
      if (expected === 200) assert.ok(isEnvelope(get.json().card), way);
    }
  });
});

test('a body within requestSizeMax is accepted, whatever bodyLimit its sealed form exceeds', async () => {
  const rule = { encrypt: ['$.list'] };
  const body = JSON.stringify({ list: Array.from({ length: 100 }, () => 'x') });
  const length = async ({ body: { list } }) => ({ length: list.length, isSealed: list.every(isEnvelope) });
  await serving((app) => {
    app.post('/limit', { config: { leafseal: { request: rule, requestSizeMax: 1000 } } }, length);
    app.post('/own', { config: { leafseal: { request: rule } }, bodyLimit: 700 }, length);
    app.post('/small', { config: { leafseal: { request: rule } }, bodyLimit: 100 }, length);
    app.post('/instance', { config: { leafseal: { request: rule } } }, length);
    app.post('/plain', async () => ({}));
  }, async (port) => {
    assert.ok(body.length > 400 && body.length < 700);
    for (const path of ['/limit', '/own']) assert.deepEqual((await send(port, path, body)).json(), { length: 100, isSealed: true }, path);
    for (const path of ['/small', '/instance', '/plain']) assert.equal((await send(port, path, body)).status, 413, path);
    assert.equal((await send(port, '/limit', JSON.stringify('x'.repeat(1000)))).status, 413);
  }, { bodyLimit: 300 });
});

test('a response that waits for the engine behaves as sent', async () => {
  const sealed = await client.encrypt('<script>');
  const rule = { config: { leafseal: { response: { decrypt: ['$.card'] } } } };
  const spoilers = [
    (reply) => reply.code(500).type('text/html'),
    (reply) => reply.header('content-type', 'text/html').header('set-cookie', 'b'),
    (reply) => reply.removeHeader('content-type'),
    (reply) => reply.send({ second: true }),
    (reply) => reply.code(500).type('text/html').send('second'),
    () => { throw new Error('after'); },
  ];
  for (const isAsync of [false, true]) {
    await serving((app) => {
      app.setErrorHandler((error, request, reply) => reply.code(500).type('text/html').send(error.message));
      const answer = (request, reply) => {
        reply.header('set-cookie', ['a']).send({ card: sealed });
        assert.equal(reply.sent, true);
        spoilers[request.query.index](reply);
      };
      app.get('/', rule, isAsync ? async (request, reply) => answer(request, reply) : answer);
    }, async (port) => {
      for (const index of spoilers.keys()) {
        const response = await send(port, `/?index=${index}`, undefined, {}, 'GET');
        assert.equal(response.status, 200, `${index}`);
        assert.match(response.headers['content-type'], /^application\/json/);
        assert.deepEqual([response.json(), response.headers['set-cookie']], [{ card: '<script>' }, ['a']]);
      }
    });
  }
});

test('the engine does not work for a client that left', async () => {
  const values = JSON.stringify({ card: Array.from({ length: 20_000 }, (_, index) => `value ${index}`) });
  const options = { config: { leafseal: { request: { encrypt: { select: ['$.card'], keying: 'field' } }, requestSizeMax: 1 << 20 } } };
  await serving((app) => app.post('/', options, async () => ({})), async (port) => {
    const outgoing = request({ port, host: '127.0.0.1', path: '/', method: 'POST', headers: { 'content-type': 'application/json' } });
    outgoing.on('error', () => undefined).end(values);
    await until(() => client.callsInFlight === 1);
    outgoing.destroy();
    await until(() => client.callsInFlight === 0);
    assert.equal(ended.at(-1)?.code, 'cancelled');
  });
});

test('an empty body is refused by the parser, and a byte order mark is read', async () => {
  await serving((app) => {
    app.post('/', { config: { leafseal: { request: { encrypt: ['$.card'] } } } }, async ({ body }) => body);
  }, async (port) => {
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' };
    const empty = await send(port, '/', undefined, headers);
    assert.deepEqual([empty.status, empty.json().code], [400, 'FST_ERR_CTP_EMPTY_JSON_BODY']);
    assert.ok(isEnvelope((await send(port, '/', `\ufeff{"card":"${NUMBER}"}`)).json().card));
  });
});
