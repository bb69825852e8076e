// Plugin for Fastify 5. Routes name their rules in `config.leafseal`.
//
// Request: `preParsing` replaces the body before the parser sees it. Response: `onSend` transforms the serialized body; one to which the
// rule cannot be applied is replaced by an error.

import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';

import type { FastifyInstance } from 'fastify';

import {
  type BodyRules, BodyError, type Message, REVEALING, type Transform, type Transforms, abortedWith, checkRequest, collect, compile,
  errorBody, hasBody, isRedirect, notJson, parse, responseNotJson, tooLarge,
} from './body.js';
import type { Client } from './client.js';
import { takeConditions } from './conditions.js';
import { LeafsealError } from './errors.js';
import { type Instance, claim } from './scopes.js';

export { BodyError, type BodyRule, type BodyRules } from './body.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Rules of this route for `@leafseal/client`. */
    leafseal?: BodyRules;
  }
}

interface Request {
  readonly headers: IncomingHttpHeaders;
  readonly raw: Message;
  readonly routeOptions: { readonly config: { readonly leafseal?: BodyRules } };
}
interface Reply {
  code: (status: number) => unknown;
  readonly statusCode: number;
  readonly raw: ServerResponse;
  getHeader: (name: string) => unknown;
  getHeaders: () => Record<string, unknown>;
  header: (name: string, value: unknown) => unknown;
  removeHeader: (name: string) => unknown;
}
type Done = (error: unknown, value?: unknown) => void;

/** Options of the plugin. */
export interface PluginOptions {
  readonly client: Client;
}

/**
 * Register it once, in a scope that contains every route with rules, and after `@fastify/compress`. A rule that cannot take effect is an
 * error at the start.
 */
export function leafseal(instance: FastifyInstance, { client }: PluginOptions, done: (error?: Error) => void): void {
  const fastify = instance as unknown as Instance;
  const compiled = new WeakMap<BodyRules, Transforms>();
  const conditions = new WeakMap<Request, IncomingHttpHeaders>();
  const rulesFor = (request: Request): Transforms | undefined => {
    const rules = request.routeOptions.config.leafseal;
    if (!rules) return undefined;
    const known = compiled.get(rules) ?? compile(client, rules);
    compiled.set(rules, known);
    return known;
  };
  // Without a rule, the hooks take no turn of the event loop: the route behaves as without the plugin.
  const preParsing = (request: Request, reply: Reply, payload: Readable, next: Done): void => {
    const rules = rulesFor(request);
    if (rules?.response) conditions.set(request, takeConditions(request.headers));
    if (!rules?.request || !hasBody(request.raw)) next(null, payload);
    else settle(replaced(request.headers, rules.request, payload, abortedWith(reply.raw)), next);
  };
  const onSend = (request: Request, reply: Reply, payload: unknown, next: Done): void => {
    const rule = rulesFor(request)?.response;
    if (rule) {
      settle(held(reply, rule, payload), (error, value) => {
        // Hooks that follow see validators of the body that is sent, and no others.
        if (!error) Object.assign(request.headers, conditions.get(request));
        next(error, value);
      }, () => reply.raw.destroy());
    }
    else next(null, payload);
  };
  try {
    claim(fastify);
    fastify.addHook('preParsing', preParsing as never);
    fastify.addHook('onSend', onSend as never);
    done();
  } catch (error) {
    done(error as Error);
  }
}

// Hooks apply to the instance that registers the plugin, as with `fastify-plugin`.
Object.assign(leafseal, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: '@leafseal/client',
  [Symbol.for('plugin-meta')]: { name: '@leafseal/client', fastify: '5.x' },
});

/** Continues with a result. What Fastify throws then, such as for an invalid header, takes the way of its errors. */
function settle(result: Promise<unknown>, next: Done, lost: () => unknown = () => undefined): void {
  const proceed = (value: unknown): void => {
    try {
      next(null, value);
    } catch (error) {
      next(error);
    }
  };
  result.then(proceed, next).catch(lost);
}

async function replaced(headers: IncomingHttpHeaders, rule: Transform, payload: Readable, signal: AbortSignal): Promise<Readable> {
  checkRequest(headers, rule.sizeMax);
  const plain = await collect(payload, 'request', rule.sizeMax);
  // The parser refuses an empty body.
  const body = plain.length > 0 ? await rule.apply(plain, signal) : plain;
  if (body.length > 0) parse(body);
  // Fastify compares the length of the new body with the header.
  headers['content-length'] = String(body.length);
  delete headers['transfer-encoding'];
  return Object.assign(Readable.from([body], { objectMode: false }), { receivedEncodedLength: body.length });
}

/** Applies the rule to a response, which behaves meanwhile as one that was sent: later changes of it have no effect. */
async function held(reply: Reply, rule: Transform, payload: unknown): Promise<unknown> {
  if (isResponse(payload) && !payload.bodyUsed) {
    reply.code(payload.status);
    for (const [name, value] of payload.headers) reply.header(name, value);
    return held(reply, rule, payload.body);
  }
  const restore = kept(reply);
  let result: unknown;
  try {
    result = await transformed(reply, rule, payload);
  } catch (error) {
    restore();
    // The error of the handler's stream is Fastify's to handle.
    if (!(error instanceof LeafsealError)) throw error;
    withoutRevealing(reply);
    return replacement(reply, error);
  }
  restore();
  if (result instanceof Uint8Array && result !== payload) {
    withoutRevealing(reply);
    reply.header('content-length', result.length);
  }
  return result;
}

/** Keeps status and headers. Further calls of `send` are ignored, as after one without a rule, until the returned function is called. */
function kept(reply: Reply): () => void {
  const { statusCode } = reply;
  // Fastify adds cookies to the same list.
  const copy = (value: unknown): unknown => (Array.isArray(value) ? [...(value as unknown[])] : value);
  const headers: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(reply.getHeaders())) headers[name] = copy(value);
  Object.defineProperty(reply, 'sent', { configurable: true, get: () => true });
  return () => {
    delete (reply as { sent?: boolean }).sent;
    if (reply.statusCode !== statusCode) reply.code(statusCode);
    for (const name of Object.keys({ ...reply.getHeaders(), ...headers })) {
      if (headers[name] === reply.getHeader(name)) continue;
      reply.removeHeader(name);
      if (headers[name] !== undefined) reply.header(name, headers[name]);
    }
  };
}

/** Returns what is sent in place of the payload; a payload like it if the rule leaves the body as it is. */
async function transformed(reply: Reply, rule: Transform, payload: unknown): Promise<unknown> {
  // Fastify sends no body with these.
  if (payload === undefined || payload === null || payload === '' || reply.statusCode < 200 || reply.statusCode === 204) return payload;
  const text = (name: string): string | undefined => reply.getHeader(name)?.toString();
  const problem = notJson(text('content-type'), text('content-encoding'));
  const stream = streamOf(payload);
  if (problem) {
    stream?.on('error', () => undefined).destroy();
    throw responseNotJson(problem);
  }
  if (!stream && typeof payload !== 'string' && !(payload instanceof Uint8Array)) throw responseNotJson('this kind of body');
  const body = stream ? await collect(stream, 'response', rule.sizeMax) : Buffer.from(payload as string);
  if (body.length > rule.sizeMax) throw tooLarge('response', rule.sizeMax);
  const result = body.length > 0 ? await rule.apply(body, abortedWith(reply.raw)) : body;
  if (!result.equals(body)) return result;
  return stream ? Readable.from(body.length > 0 ? [body] : [], { objectMode: false }) : payload;
}

function isResponse(payload: unknown): payload is Response {
  return Object.prototype.toString.call(payload) === '[object Response]';
}

/** The payload as a stream of Node, if it is a stream of any kind. */
function streamOf(payload: unknown): Readable | undefined {
  if (payload instanceof Readable) return payload;
  const { pipe, getReader } = payload as { pipe?: unknown; getReader?: unknown };
  if (typeof getReader === 'function') return Readable.fromWeb(payload as never);
  return typeof pipe === 'function' ? new Readable().wrap(payload as Readable) : undefined;
}

function withoutRevealing(reply: Reply): void {
  for (const name of REVEALING) reply.removeHeader(name);
}

/** The error that takes the place of a response. Nothing of the original body remains. */
function replacement(reply: Reply, error: LeafsealError): Buffer {
  for (const name of Object.keys(reply.getHeaders())) if (name.startsWith('content-')) reply.removeHeader(name);
  if (error.code === 'response_not_json' && isRedirect(reply.statusCode, reply.getHeader('location') !== undefined)) {
    reply.header('content-length', 0);
    return Buffer.alloc(0);
  }
  if (reply.statusCode < 400) {
    reply.code(error instanceof BodyError ? error.status : 500);
    if (error.retryAfterMs !== undefined) reply.header('retry-after', Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
  }
  const body = errorBody(error);
  reply.header('content-type', 'application/json; charset=utf-8');
  reply.header('content-length', body.length);
  return body;
}
