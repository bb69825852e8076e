// Two copies of the package in a process, as two versions in one tree or a test runner with isolated modules load them.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import Fastify from 'fastify';

const require = createRequire(import.meta.url);
const dist = fileURLToPath(new URL('../dist/', import.meta.url));

/** The entries of another copy. */
function load() {
  for (const file of Object.keys(require.cache)) if (file.startsWith(dist)) delete require.cache[file];
  return { ...require('../dist/index.js'), ...require('../dist/fastify.js'), ...require('../dist/body.js') };
}

test('an error of one copy is an instance of the class of the other, those of subclasses are not', () => {
  const [one, other] = [load(), load()];
  assert.notEqual(one.LeafsealError, other.LeafsealError);
  const error = new one.LeafsealError('busy', 'busy');
  const bodyError = new one.BodyError(400, 'client_broke', 'ended');
  for (const { LeafsealError, BodyError } of [one, other]) {
    assert.ok(error instanceof LeafsealError);
    assert.ok(bodyError instanceof LeafsealError);
    assert.ok(!(error instanceof BodyError));
    for (const value of [undefined, null, 'busy', { code: 'busy' }, new Error('busy'), LeafsealError]) assert.ok(!(value instanceof LeafsealError));
  }
  assert.ok(bodyError instanceof one.BodyError);
  assert.ok(!(bodyError instanceof other.BodyError));
});

/** The response of the middleware of a copy when the client rejects with an error of a copy. */
async function answer(ofMiddleware, ofClient) {
  const error = new ofClient.LeafsealError('overloaded', 'try later', { retry: 'later', retryAfterMs: 3000 });
  const app = Fastify();
  await app.register(ofMiddleware.leafseal, { client: { encryptDocument: () => Promise.reject(error) } });
  app.get('/', { config: { leafseal: { response: { encrypt: ['$.a'] } } } }, async () => ({ a: 1 }));
  const { statusCode, headers, body } = await app.inject('/');
  return [statusCode, headers['retry-after'], body];
}

test('the middleware of one copy answers with the error of a client of the other', async () => {
  const [one, other] = [load(), load()];
  const expected = await answer(one, one);
  assert.match(expected[2], /overloaded/);
  assert.deepEqual(await answer(other, one), expected);
});
