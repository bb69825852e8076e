// Conditional requests (RFC 9110, section 13) for responses that a rule holds back.
//
// With validators of the plain body, a client could test guesses of it: conditions and ranges are hidden from the handler of the request.
// Once the rule has left the body as it is, the client receives that body anyway, and the conditions decide as they do without the rule.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

const NAMES = ['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since', 'if-range', 'range'] as const;

/** Removes conditions and ranges from the headers of a request, and returns them. */
export function takeConditions(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const taken: IncomingHttpHeaders = {};
  for (const name of NAMES) {
    if (headers[name] === undefined) continue;
    Object.assign(taken, { [name]: headers[name] });
    // eslint-disable-next-line @typescript-eslint/no-dynamic-delete
    delete headers[name];
  }
  return taken;
}

/** How Express sends a response: each way heeds conditions of its own, and others heed none. */
export type Way = 'send' | 'file';

/** The headers that Express removes from a response of status 304. */
const DESCRIBING: Readonly<Record<Way, readonly string[]>> = {
  send: ['content-type', 'content-length', 'transfer-encoding'],
  file: ['content-encoding', 'content-language', 'content-length', 'content-range', 'content-type'],
};

/** Whether Express would answer 304. Its own code decides. */
export function isFresh(request: IncomingMessage, conditions: IncomingHttpHeaders, way: Way): boolean {
  const headers = { ...request.headers, ...conditions };
  const conditional = seenAs(request, { headers, ...(way === 'file' && { method: 'GET' }) }) as { fresh?: unknown };
  return conditional.fresh === true;
}

export function removeDescribing(response: ServerResponse, way: Way): void {
  for (const name of DESCRIBING[way]) if (response.hasHeader(name)) response.removeHeader(name);
}

/** Whether Express would refuse to send a file. */
export function hasFailedCondition(response: ServerResponse, conditions: IncomingHttpHeaders): boolean {
  const match = conditions['if-match'];
  if (match) {
    const etag = weak(response.getHeader('etag')?.toString() ?? '');
    return etag === '' || (match !== '*' && !match.split(',').some((tag) => weak(tag.trim()) === etag));
  }
  const since = Date.parse(conditions['if-unmodified-since'] ?? '');
  if (Number.isNaN(since)) return false;
  const modified = Date.parse(response.getHeader('last-modified')?.toString() ?? '');
  return !(modified <= since);
}

function weak(tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag;
}

/** The error with which Express refuses to send a file. */
export function preconditionFailed(): Error {
  const error = new Error('Precondition Failed');
  return Object.assign(error, { name: 'PreconditionFailedError', status: 412, statusCode: 412, expose: true });
}

/** Calls a method of Express that sees a GET in place of HEAD, and so passes the body that the headers describe. */
export function asGet(request: IncomingMessage, response: ServerResponse, call: () => unknown): unknown {
  if (request.method !== 'HEAD') return call();
  const before = Object.getOwnPropertyDescriptor(response, 'req');
  const value = seenAs(request, { method: 'GET' });
  Object.defineProperty(response, 'req', { configurable: true, enumerable: true, writable: true, value });
  try {
    return call();
  } finally {
    if (before) Object.defineProperty(response, 'req', before);
    else delete (response as { req?: unknown }).req;
  }
}

function seenAs(request: IncomingMessage, members: object): unknown {
  const seen: unknown = Object.create(request);
  for (const [name, value] of Object.entries(members)) Object.defineProperty(seen, name, { value: value as unknown });
  return seen;
}
