// Plugin for Fastify 5. Routes name their rules in `config.leafseal`.
//
// Request: `preParsing` replaces the body before the parser sees it. Response: `onSend` transforms the serialized body; one to which the
// rule cannot be applied is replaced by an error.

import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';

import type { FastifyInstance } from 'fastify';

import {
  type BodyRules, BodyError, type Message, type Transform, type Transforms, checkRequest, collect, compile, errorBody, hasBody, notJson,
  parse, responseNotJson, tooLarge, withoutValidators,
} from './body.js';
import type { Client } from './client.js';
import { LeafsealError } from './errors.js';

export { BodyError, type BodyRule, type BodyRules } from './body.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Rules of this route for `@leafseal/client`. */
    leafseal?: BodyRules;
  }
}

/** The parts of Fastify that the plugin uses. */
interface Instance {
  addHook: (name: 'onRoute' | 'preParsing' | 'onSend', hook: never) => unknown;
}
interface Route {
  readonly config?: { readonly leafseal?: BodyRules };
}
interface Request {
  readonly headers: IncomingHttpHeaders;
  readonly raw: Message & { readonly method?: string };
  readonly routeOptions: { readonly config: { readonly leafseal?: BodyRules } };
}
interface Reply {
  code: (status: number) => unknown;
  readonly statusCode: number;
  getHeader: (name: string) => unknown;
  getHeaders: () => Record<string, unknown>;
  header: (name: string, value: string | number) => unknown;
  removeHeader: (name: string) => unknown;
  readonly request: { readonly signal?: AbortSignal };
}

/** Options of the plugin. */
export interface PluginOptions {
  readonly client: Client;
}

/** Register it before routes with rules and after `@fastify/compress`. */
export function leafseal(instance: FastifyInstance, { client }: PluginOptions, done: (error?: Error) => void): void {
  const fastify = instance as unknown as Instance;
  const compiled = new WeakMap<BodyRules, Transforms>();
  const rulesOf = (rules: BodyRules): Transforms => {
    const known = compiled.get(rules) ?? compile(client, rules);
    compiled.set(rules, known);
    return known;
  };
  const rulesFor = (request: Request): Transforms | undefined => {
    const rules = request.routeOptions.config.leafseal;
    return rules && rulesOf(rules);
  };
  // Faults in rules are reported at the start.
  const onRoute = ({ config }: Route): void => {
    if (config?.leafseal) rulesOf(config.leafseal);
  };
  const preParsing = async (request: Request, _: Reply, payload: Readable): Promise<Readable> => {
    const rules = rulesFor(request);
    if (rules?.response) withoutValidators(request.headers);
    if (!rules?.request || !hasBody(request.raw)) return payload;
    return replaced(request.headers, rules.request, payload);
  };
  const onSend = async (request: Request, reply: Reply, payload: unknown): Promise<unknown> => {
    const rule = rulesFor(request)?.response;
    return rule ? await sealed(reply, rule, payload, request.raw.method === 'HEAD') : payload;
  };
  fastify.addHook('onRoute', onRoute as never);
  fastify.addHook('preParsing', preParsing as never);
  fastify.addHook('onSend', onSend as never);
  done();
}

// Hooks apply to the instance that registers the plugin, as with `fastify-plugin`.
Object.assign(leafseal, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: '@leafseal/client',
  [Symbol.for('plugin-meta')]: { name: '@leafseal/client', fastify: '5.x' },
});

async function replaced(headers: IncomingHttpHeaders, rule: Transform, payload: Readable): Promise<Readable> {
  checkRequest(headers, rule.sizeMax);
  const body = await rule.apply(await collect(payload, 'request', rule.sizeMax));
  parse(body);
  // Fastify compares the length of the new body with the header.
  headers['content-length'] = String(body.length);
  delete headers['transfer-encoding'];
  return Object.assign(Readable.from([body], { objectMode: false }), { receivedEncodedLength: body.length });
}

/** Headers that reveal the length or a hash of the plain body. */
const REVEALING = ['etag', 'content-length', 'last-modified', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest'];

async function sealed(reply: Reply, rule: Transform, payload: unknown, isHead: boolean): Promise<unknown> {
  for (const name of REVEALING) reply.removeHeader(name);
  try {
    const body = payload === undefined || payload === null || payload === '' ? undefined : await bytes(reply, rule, payload);
    if (!body || body.length === 0 || isHead) return null;
    const result = await rule.apply(body);
    reply.header('content-length', result.length);
    return result;
  } catch (error) {
    return replacement(reply, error);
  }
}

async function bytes(reply: Reply, rule: Transform, payload: unknown): Promise<Buffer> {
  const text = (name: string): string | undefined => reply.getHeader(name)?.toString();
  const problem = notJson(text('content-type'), text('content-encoding'));
  if (problem) {
    if (payload instanceof Readable) payload.destroy();
    throw responseNotJson(problem);
  }
  if (payload instanceof Readable) return collect(payload, 'response', rule.sizeMax);
  if (typeof payload !== 'string' && !(payload instanceof Uint8Array)) {
    throw responseNotJson('this kind of body');
  }
  const body = Buffer.from(payload as string);
  if (body.length > rule.sizeMax) throw tooLarge('response', rule.sizeMax);
  return body;
}

/** The error that takes the place of a response. Nothing of the original body remains. */
function replacement(reply: Reply, failure: unknown): Buffer {
  const error = failure instanceof LeafsealError ? failure : new BodyError(500, 'response_failed', 'the body could not be read');
  for (const name of Object.keys(reply.getHeaders())) if (name.startsWith('content-')) reply.removeHeader(name);
  if (reply.statusCode < 400) {
    reply.code(error instanceof BodyError ? error.status : 500);
    if (error.retryAfterMs !== undefined) reply.header('retry-after', Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
  }
  const body = errorBody(error);
  reply.header('content-type', 'application/json; charset=utf-8');
  reply.header('content-length', body.length);
  return body;
}
