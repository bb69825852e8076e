// Fastify with the plugin, compared with Fastify alone: on routes without a rule, and on those whose rule selects nothing, the client
// receives the same for every way to send, to fail and to do either after the response was sent, and hooks see the same.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { after, before, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';

import Fastify from 'fastify';

import { leafseal } from '../dist/fastify.mjs';
import { assertSame, assertThroughRule, inParallel, observe } from './differential.mjs';
import { Engine, clientOf } from './support.mjs';

const OBJECT = { name: 'Zoë', list: [1, null, true, 12.5], card: { number: '1' } };
const TEXT = JSON.stringify(OBJECT);
const NOTHING = ['$.no.such.member'];
let engine;
let client;
const served = {};

const stream = (...pieces) => Readable.from(pieces.map((piece) => Buffer.from(piece)), { objectMode: false });
const web = (...pieces) => new ReadableStream({
  start: (controller) => {
    for (const piece of pieces) controller.enqueue(Buffer.from(piece));
    controller.close();
  },
});
const failing = () => new Readable({ read() { this.destroy(Object.assign(new Error('no more'), { code: 'broken' })); } });
const fault = (message, statusCode) => Object.assign(new Error(message), { statusCode });

/** Ways to send a response; `async` handlers return it. */
const SENDERS = {
  object: async () => OBJECT,
  text: async () => 'text',
  number: async () => 1,
  nothing: async (_, reply) => reply.send(),
  null: async () => null,
  sendObject: (_, reply) => { reply.send(OBJECT); },
  sendNull: (_, reply) => { reply.send(null); },
  sendEmpty: (_, reply) => { reply.type('application/json').send(''); },
  sendJson: (_, reply) => { reply.type('application/json').send(TEXT); },
  sendJsonCharset: (_, reply) => { reply.type('application/json; charset=utf-8').send(TEXT); },
  sendProblem: (_, reply) => { reply.type('application/problem+json').send(OBJECT); },
  sendHtml: (_, reply) => { reply.type('text/html').send('<p>'); },
  sendBuffer: (_, reply) => { reply.type('application/json').send(Buffer.from(TEXT)); },
  sendBytes: (_, reply) => { reply.send(new Uint8Array([1, 2])); },
  sendTyped: (_, reply) => { reply.type('application/json').send(new Uint8Array(Buffer.from(TEXT))); },
  stream: async (_, reply) => reply.type('application/json').send(stream(TEXT.slice(0, 4), TEXT.slice(4))),
  streamEmpty: async (_, reply) => reply.type('application/json').send(stream()),
  streamText: async (_, reply) => reply.type('text/plain').send(stream('text')),
  streamLength: async (_, reply) => reply.type('application/json').header('content-length', Buffer.byteLength(TEXT)).send(stream(TEXT)),
  streamFailing: async (_, reply) => reply.type('application/json').send(failing()),
  web: async (_, reply) => reply.type('application/json').send(web(TEXT.slice(0, 4), TEXT.slice(4))),
  response: async () => new Response(TEXT, { status: 202, headers: { 'content-type': 'application/json', 'x-a': '1' } }),
  responseEmpty: async () => new Response(null, { status: 202, headers: { 'x-a': '1' } }),
  code: async (_, reply) => reply.code(201).send(OBJECT),
  headers: async (_, reply) => reply.headers({ 'x-a': '1', etag: '"mine"', 'last-modified': 'x' }).send(OBJECT),
  cookies: async (_, reply) => reply.header('set-cookie', ['a', 'b']).header('set-cookie', 'c').send(OBJECT),
  redirect: async (_, reply) => reply.redirect('/elsewhere'),
  notFound: (_, reply) => { reply.callNotFound(); },
  serializer: async (_, reply) => reply.type('application/json').serializer(() => '{"own":true}').send(OBJECT),
  trailer: async (_, reply) => reply.trailer('x-t', async () => 'end').send(OBJECT),
  later: (_, reply) => { setImmediate(() => reply.send(OBJECT)); },
  throwing: async () => { throw fault('thrown', 418); },
  throwingNow: () => { throw fault('thrown', 499); },
  sendError: (_, reply) => { reply.send(fault('sent', 501)); },
  badHeader: async (_, reply) => reply.header('x-a', 'a\nb').send(OBJECT),
  badHeaderNow: (_, reply) => { reply.header('x-a', 'a\nb').send(OBJECT); },
  badPayload: async (_, reply) => reply.type('text/plain').send({ a: 1 }),
  badStatus: async (_, reply) => reply.code(1000).send(OBJECT),
  unserializable: async () => { const loop = {}; loop.loop = loop; return loop; },
  raw: (_, reply) => {
    reply.hijack();
    reply.raw.end('raw');
  },
};
const FIRST = {
  201: (reply) => reply.code(201),
  204: (reply) => reply.code(204),
  304: (reply) => reply.code(304),
  404: (reply) => reply.code(404),
  500: (reply) => reply.code(500),
  header: (reply) => reply.header('x-first', '1'),
  rawHeader: (reply) => reply.raw.setHeader('x-raw', '1'),
  close: (reply) => reply.header('connection', 'close'),
};
/** Done after `send`, in the same call. */
const THEN = {
  throw: () => { throw new Error('after'); },
  send: (reply) => reply.send({ second: true }),
  sendError: (reply) => reply.send(new Error('second')),
  code: (reply) => reply.code(500),
  type: (reply) => reply.type('text/html'),
  header: (reply) => reply.header('x-late', '1'),
  removeHeader: (reply) => reply.removeHeader('content-type'),
  redirect: (reply) => reply.redirect('/'),
};
/** Those that send at once, so that something can come after it. */
const NOW = ['sendObject', 'sendNull', 'sendJson', 'sendBuffer', 'sendProblem'];
const HANDLERS = {
  none: () => undefined,
  own: (app) => app.setErrorHandler((error, request, reply) => reply.code(error.statusCode ?? 500).send({ own: error.message })),
  html: (app) => app.setErrorHandler((error, request, reply) => reply.code(500).type('text/html').send(`<p>${error.message}</p>`)),
};

function cases() {
  const all = [];
  for (const sender of Object.keys(SENDERS)) {
    for (const handler of Object.keys(HANDLERS)) all.push({ sender, handler });
    for (const first of Object.keys(FIRST)) all.push({ sender, first, handler: 'none' });
  }
  for (const sender of NOW) {
    for (const then of Object.keys(THEN)) for (const handler of Object.keys(HANDLERS)) all.push({ sender, then, handler });
  }
  // Fastify's last error handler sends a body with these, for which the client waits.
  const isLost = ({ sender, first }) => sender.startsWith('badHeader') && (first === '204' || first === '304');
  return all.filter((one) => !isLost(one)).flatMap((one) => (
    (one.first ? ['GET', 'HEAD'] : ['GET', 'HEAD', 'POST', 'PUT']).map((method) => ({ ...one, method }))
  ));
}

async function serve(rules, isRegistered = true) {
  const apps = {};
  const logs = new Map();
  for (const [name, handle] of Object.entries(HANDLERS)) {
    const app = Fastify();
    if (isRegistered) await app.register(leafseal, { client });
    handle(app);
    app.addHook('onRequest', async (request) => {
      const log = [];
      logs.set(request.headers['x-case'], log);
      });
    app.addHook('onError', async (request, reply, error) => {
      logs.get(request.headers['x-case']).push(['error', error.code, error.message]);
    });
    app.addHook('onResponse', async (request, reply) => {
      logs.get(request.headers['x-case']).push(['response', reply.statusCode]);
    });
    const handler = (request, reply) => {
      const { sender, first, then } = request.query;
      FIRST[first]?.(reply);
      if (!then) return SENDERS[sender](request, reply);
      SENDERS[sender](request, reply);
      logs.get(request.headers['x-case']).push(['sent', reply.sent]);
      THEN[then](reply);
      return undefined;
    };
    const config = rules ? { config: { leafseal: rules } } : {};
    app.route({ method: ['GET', 'POST'], url: '/case', ...config, handler });
    app.put('/case', config, handler);
    await app.listen({ port: 0, host: '127.0.0.1' });
    apps[name] = app;
  }
  return {
    port: (handler) => apps[handler].server.address().port, logs,
    close: () => Promise.all(Object.values(apps).map((app) => {
      app.server.closeAllConnections();
      return app.close();
    })),
  };
}

before(async () => {
  engine = await Engine.start();
  client = clientOf(engine);
  served.plain = await serve(undefined, false);
  served.registered = await serve();
  served.request = await serve({ request: { encrypt: NOTHING } });
  served.response = await serve({ response: { encrypt: NOTHING } });
});
after(async () => {
  await Promise.all(Object.values(served).map((one) => one.close()));
  await client?.close();
  await engine?.stop();
});

async function ask(where, one) {
  const { sender, first = '', then = '', handler, method } = one;
  const name = Buffer.from(JSON.stringify(one)).toString('base64');
  const body = method === 'POST' || method === 'PUT' ? { body: TEXT, headers: { 'content-type': 'application/json' } } : {};
  const seen = await observe(where.port(handler), {
    path: `/case?sender=${sender}&first=${first}&then=${then}`, method, ...body, headers: { 'x-case': name, ...body.headers },
  });
  assert.notEqual(seen.error, 'NO_ANSWER', JSON.stringify(one));
  await nextTurn();
  return { seen, log: where.logs.get(name).map((entry) => JSON.stringify(entry)).sort() };
}

for (const way of ['registered', 'request']) {
  test(`${way === 'registered' ? 'a route without rules' : 'a rule for requests'} changes nothing of a response`, async () => {
    await inParallel(cases(), async (one) => {
      const [plain, ruled] = await Promise.all([ask(served.plain, one), ask(served[way], one)]);
      assertSame(ruled.seen, plain.seen, JSON.stringify(one));
      assert.deepEqual(ruled.log, plain.log, JSON.stringify(one));
    });
  });
}

test('a rule for responses changes nothing of JSON, and refuses other bodies', async () => {
  await inParallel(cases(), async (one) => {
    // Refused by Fastify, too, for its type.
    if (one.sender === 'badPayload') return;
    // Fastify alone does not answer HEAD as GET here: it fails for a `Response`, and does not see that a stream fails.
    if (one.method === 'HEAD' && /^response|^streamFailing/.test(one.sender)) return;
    const full = { ...one, method: one.method === 'HEAD' ? 'GET' : one.method, first: one.first === '304' ? '' : one.first };
    const [plain, ruled, whole] = await Promise.all([ask(served.plain, one), ask(served.response, one), ask(served.plain, full)]);
    const isSame = JSON.stringify(full) === JSON.stringify(one);
    // Sent by Fastify's last error handler, which knows no body of the route, or past Fastify: no hooks run.
    const { 'transfer-encoding': framing, ...headers } = plain.seen.headers ?? {}; // eslint-disable-line no-unused-vars
    if (/^badHeader|^raw/.test(one.sender)) assertSame({ ...ruled.seen, headers }, { ...plain.seen, headers }, JSON.stringify(one));
    else assertThroughRule(ruled.seen, plain.seen, isSame ? plain.seen : whole.seen, JSON.stringify(one), one.method === 'HEAD');
  });
});

test('conditions reach hooks that follow the rule, and decide only about what is sent', async () => {
  const tag = (payload) => `"${createHash('sha256').update(payload).digest('hex')}"`;
  // As plugins for ETag do it.
  const addTags = (app) => app.addHook('onSend', async (request, reply, payload) => {
    if (!reply.hasHeader('etag')) reply.header('etag', tag(payload));
    if (request.headers['if-none-match'] !== reply.getHeader('etag')) return payload;
    reply.code(304);
    return '';
  });
  const answers = {};
  for (const [name, rules] of Object.entries({
    plain: undefined, same: { response: { encrypt: NOTHING } }, sealed: { response: { encrypt: ['$.card'] } },
  })) {
    const app = Fastify();
    await app.register(leafseal, { client });
    addTags(app);
    app.get('/', rules ? { config: { leafseal: rules } } : {}, async () => OBJECT);
    const ask = (method, match) => app.inject({ method, url: '/', headers: { 'if-none-match': match } });
    answers[name] = [];
    for (const method of ['GET', 'HEAD']) {
      for (const match of [tag(TEXT), '"other"']) {
        const { statusCode, headers: { date, ...headers }, body } = await ask(method, match); // eslint-disable-line no-unused-vars
        answers[name].push({ statusCode, headers, body });
      }
    }
    await app.close();
  }
  assert.deepEqual(answers.plain.map(({ statusCode }) => statusCode), [304, 200, 304, 200]);
  assert.deepEqual(answers.same, answers.plain);
  assert.deepEqual(answers.sealed.map(({ statusCode }) => statusCode), [200, 200, 200, 200]);
  assert.ok(answers.sealed.every(({ headers }) => headers.etag !== tag(TEXT)));
});
