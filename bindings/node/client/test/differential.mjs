// Shared by the differential tests of the middleware: one request as its sender sees it, and the comparison of many.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';

/** Members of the headers that differ between any two responses. */
const VARYING = new Set(['date', 'keep-alive']);
/** Headers that a rule removes from a response whose body it does not know. */
export const REVEALING = [
  'etag', 'content-length', 'last-modified', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest', 'transfer-encoding',
];
const LIMIT_MS = 20_000;

/** Sends a request and returns all that is received. */
export async function observe(port, { path, method = 'GET', headers = {}, body, abort = false }) {
  const outgoing = request({ port, host: '127.0.0.1', path, method, headers: { connection: 'keep-alive', ...headers }, agent: false });
  outgoing.on('error', () => undefined);
  if (abort) outgoing.once('socket', (socket) => socket.once('connect', () => setTimeout(() => outgoing.destroy(), 5)));
  outgoing.setTimeout(LIMIT_MS, () => outgoing.destroy(Object.assign(new Error('no answer'), { code: 'NO_ANSWER' })));
  outgoing.end(body);
  const answer = await once(outgoing, 'response').catch(({ code }) => ({ error: code }));
  if (!Array.isArray(answer)) return answer;
  const [response] = answer;
  const pieces = [];
  let error;
  try {
    for await (const piece of response) pieces.push(piece);
  } catch (failure) {
    error = failure.code;
  }
  outgoing.destroy();
  const pairs = [];
  for (let index = 0; index < response.rawHeaders.length; index += 2) {
    const name = response.rawHeaders[index].toLowerCase();
    if (!VARYING.has(name)) pairs.push([name, response.rawHeaders[index + 1]]);
  }
  return {
    status: response.statusCode, message: response.statusMessage, headers: Object.fromEntries(pairs.sort()),
    names: pairs.map(([name]) => name), body: Buffer.concat(pieces).toString(), trailers: { ...response.trailers }, ...(error && { error }),
  };
}

/** Runs `each` for all items, some at a time. Fails with all differences. */
export async function inParallel(items, each, width = 16) {
  const queue = [...items];
  const failures = [];
  await Promise.all(Array.from({ length: width }, async () => {
    while (queue.length > 0) await each(queue.shift()).catch((error) => failures.push(error));
  }));
  if (failures.length === 0) return;
  const texts = failures.map(({ message, actual, expected }) => `${message}\n  ${JSON.stringify(actual)}\n  ${JSON.stringify(expected)}`);
  assert.fail(`${failures.length} of ${items.length} differ:\n${texts.slice(0, 40).join('\n')}`);
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The body that is sent in place of a response that has a body and is not JSON, or `undefined` if the rule applies. */
export function refused(plain) {
  if (plain.body === '') return undefined;
  const isTyped = /^application\/(?:json|[\w.+-]+\+json)/.test(plain.headers['content-type'] ?? '');
  if (isTyped && isJson(plain.body)) return undefined;
  const body = JSON.stringify({ code: isTyped ? 'invalid_document' : 'response_not_json', message: 'the response was refused' });
  const isKept = ([name]) => !REVEALING.includes(name) && !name.startsWith('content-');
  const headers = Object.fromEntries(Object.entries(plain.headers).filter(isKept));
  headers['content-type'] = 'application/json; charset=utf-8';
  headers['content-length'] = String(body.length);
  if (!isTyped && plain.status >= 300 && plain.status < 400 && plain.headers.location) {
    delete headers['content-type'];
    return { ...plain, headers: { ...headers, 'content-length': '0' }, body: '' };
  }
  const status = plain.status < 400 ? { status: 500, message: 'Internal Server Error' } : {};
  return { ...plain, ...status, headers, body };
}

/**
 * Checks a response through a rule that selects nothing in it against the one without, as the README describes it. `whole` is the one
 * without that has the body, if `plain` is an answer to `HEAD` or has the status 304; `undefined` if the middleware receives no such body, or
 * none that is JSON, and therefore removes the headers that describe it.
 */
export function assertThroughRule(ruled, plain, whole, name, isHead = false) {
  // Responses that no client can read.
  if (plain.error?.startsWith('HPE_')) return;
  if (plain.error) {
    // It broke off in the middle. Through the rule nothing of it is sent, or that it was refused.
    if (plain.status === undefined || ruled.status === undefined) assert.equal(ruled.error, plain.error, name);
    else assert.deepEqual([ruled.status >= 500, ruled.body], [true, refused(plain).body], name);
    return;
  }
  const replaced = whole && refused(whole);
  const isKept = (header) => whole || !REVEALING.includes(header) || (isHead && header === 'transfer-encoding');
  const headers = Object.entries(plain.headers).filter(([header]) => isKept(header));
  if (replaced) assertSame(ruled, isHead ? { ...replaced, body: '' } : replaced, name);
  else assertSame(ruled, { ...plain, headers: Object.fromEntries(headers) }, name);
}

export function assertSame(actual, expected, name) {
  const comparable = ({ names, ...rest }) => rest; // eslint-disable-line no-unused-vars
  assert.deepEqual(comparable(actual), comparable(expected), name);
}
