// Middleware for Express 4 and 5, and for any framework with `(request, response, next)` over Node's HTTP server.
//
// Request: reads the body before any parser, transforms it and sets `request.body`. Response: holds the body back until it is complete,
// whichever way the handler sends it, transforms it and sends it with the right length. A response to which the rule cannot be applied is
// replaced by an error.

import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';

import {
  type BodyRules, BodyError, type Transform, checkRequest, collect, compile, errorBody, hasBody, notJson, parse, responseNotJson,
  tooLarge, withoutValidators,
} from './body.js';
import type { Client } from './client.js';
import { LeafsealError } from './errors.js';

export { BodyError, type BodyRule, type BodyRules } from './body.js';

type Next = (error?: unknown) => void;
type Request = IncomingMessage & { body?: unknown; _body?: boolean };

/** Middleware of Express. */
export type Middleware = (request: IncomingMessage, response: ServerResponse, next: Next) => void;

/**
 * Creates middleware that applies the rules. Mount it on the route, before body parsers and inside of `compression`.
 *
 * @throws {LeafsealError} `invalid_settings`.
 */
export function protectBody(client: Client, rules: BodyRules): Middleware {
  const { request: incoming, response: outgoing } = compile(client, rules);
  return (request, response, next) => {
    const signal = abortedWith(response);
    if (outgoing) hold(request, response, outgoing, signal);
    if (!incoming) {
      next();
      return;
    }
    read(request, incoming, signal).then(() => next(), next);
  };
}

/** Aborts calls of the engine when the client disconnects. */
function abortedWith(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}

async function read(request: Request, rule: Transform, signal: AbortSignal): Promise<void> {
  if (!hasBody(request)) return;
  if (request._body || request.readableDidRead || request.readableEnded) {
    throw new BodyError(500, 'body_already_read', 'a body parser ran first: mount the middleware before body parsers');
  }
  checkRequest(request.headers, rule.sizeMax);
  const sealed = await rule.apply(await collected(request, rule.sizeMax), signal);
  request.body = parse(sealed);
  // Parsers that come later see that the body was read.
  request._body = true;
}

/** Reads the body. If it is too large, the rest is discarded, so that the sender can read the response. */
async function collected(request: Request, sizeMax: number): Promise<Buffer> {
  try {
    return await collect(request.iterator({ destroyOnReturn: false }), 'request', sizeMax);
  } catch (error) {
    request.resume();
    if (error instanceof LeafsealError) throw error;
    throw new BodyError(400, 'aborted', 'the request ended before its body was complete');
  }
}

/** Takes the place of the methods that send a body. */
function hold(request: IncomingMessage, response: ServerResponse, rule: Transform, signal: AbortSignal): void {
  withoutValidators(request.headers);
  new HeldResponse(request, response, rule, signal).install();
}

const METHODS = ['write', 'end', 'writeHead', 'flushHeaders'] as const;

/** Headers that reveal the length or a hash of the plain body. */
const REVEALING = [
  'etag', 'content-length', 'last-modified', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest', 'transfer-encoding',
];

class HeldResponse {
  private readonly pieces: Buffer[] = [];
  private size = 0;
  private isEnded = false;
  private failure: BodyError | undefined;
  private readonly original;

  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly rule: Transform,
    private readonly signal: AbortSignal,
  ) {
    // Own properties of the response, if other middleware has set them; else those of the class.
    // eslint-disable-next-line @typescript-eslint/unbound-method
    this.original = Object.fromEntries(METHODS.map((name) => [name, response[name] as unknown]));
  }

  install(): void {
    const { response } = this;
    response.writeHead = (status: number, ...rest: unknown[]) => {
      this.head(status, rest);
      return response;
    };
    // The head depends on the body.
    response.flushHeaders = () => undefined;
    response.write = (chunk: unknown, encoding?: unknown, callback?: unknown) => {
      this.add(chunk, encoding);
      later(typeof encoding === 'function' ? encoding : callback);
      return true;
    };
    response.end = (chunk?: unknown, encoding?: unknown, callback?: unknown) => {
      if (this.isEnded) return response;
      this.isEnded = true;
      if (typeof chunk !== 'function') this.add(chunk, encoding);
      const done = [chunk, encoding, callback].find((argument) => typeof argument === 'function');
      if (done) response.once('finish', done as () => void);
      void this.send();
      return response;
    };
  }

  /** Keeps status and headers, which are sent later. */
  private head(status: number, rest: unknown[]): void {
    const { response } = this;
    response.statusCode = status;
    if (typeof rest[0] === 'string') response.statusMessage = rest[0];
    type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined;
    const headers = rest.find((argument) => typeof argument === 'object' && argument !== null) as Headers;
    if (Array.isArray(headers)) {
      const flat = headers.flat() as string[];
      for (let index = 0; index + 1 < flat.length; index += 2) response.appendHeader(flat[index] ?? '', flat[index + 1] ?? '');
    } else if (headers) {
      for (const [name, value] of Object.entries(headers)) if (value !== undefined) response.setHeader(name, value);
    }
  }

  private add(chunk: unknown, encoding: unknown): void {
    if (chunk === undefined || chunk === null || this.failure) return;
    const bytes = typeof chunk === 'string'
      ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
      : Buffer.from(chunk as Uint8Array);
    this.size += bytes.length;
    if (this.size > this.rule.sizeMax) this.refuse(tooLarge('response', this.rule.sizeMax));
    else if (bytes.length > 0) {
      this.pieces.push(bytes);
      this.check();
    }
  }

  /** A body that is not JSON, such as an event stream, is refused at its first byte. */
  private check(): void {
    const { response } = this;
    const text = (name: string): string | undefined => response.getHeader(name)?.toString();
    const problem = notJson(text('content-type'), text('content-encoding'));
    if (problem === undefined) return;
    this.refuse(responseNotJson(problem));
  }

  private refuse(error: BodyError): void {
    this.failure = error;
    this.pieces.length = 0;
    // A stream that does not end, such as server-sent events, gets its answer now.
    if (!this.isEnded) {
      this.isEnded = true;
      void this.send();
    }
  }

  private async send(): Promise<void> {
    const { response, rule, pieces } = this;
    for (const name of REVEALING) response.removeHeader(name);
    let body: Buffer | undefined;
    try {
      if (this.failure) throw this.failure;
      if (pieces.length > 0) body = await rule.apply(Buffer.concat(pieces), this.signal);
    } catch (error) {
      body = this.replace(error as BodyError);
    }
    Object.assign(response, this.original);
    if (response.destroyed) return;
    if (body && this.request.method !== 'HEAD') response.setHeader('content-length', body.length);
    if (body && this.request.method !== 'HEAD') response.end(body);
    else response.end();
  }

  private replace(error: BodyError): Buffer {
    const { response } = this;
    for (const name of response.getHeaderNames()) if (name.startsWith('content-')) response.removeHeader(name);
    if (response.statusCode < 400) {
      response.statusCode = error.status;
      response.statusMessage = '';
      if (error.status === 503) response.setHeader('retry-after', Math.max(1, Math.ceil((error.retryAfterMs ?? 0) / 1000)));
    }
    response.setHeader('content-type', 'application/json; charset=utf-8');
    response.emit('leafseal:refused', error);
    return errorBody(error);
  }
}

function later(callback: unknown): void {
  if (typeof callback === 'function') queueMicrotask(callback as () => void);
}
