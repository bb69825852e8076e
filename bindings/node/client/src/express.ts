// Middleware for Express 4 and 5, and for any framework with `(request, response, next)` over Node's HTTP server.
//
// Request: reads the body before any parser, transforms it and sets `request.body`. Response: holds the body back until it is complete,
// whichever way the handler sends it, transforms it and sends it with the right length. A response to which the rule cannot be applied is
// replaced by an error.

import type { IncomingMessage, ServerResponse } from 'node:http';

import {
  type BodyRules, BodyError, type Transform, abortedWith, checkRequest, collect, compile, hasBody, isEmpty, parse,
} from './body.js';
import type { Client } from './client.js';
import { LeafsealError } from './errors.js';
import { HeldResponse } from './held.js';

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
    try {
      if (incoming) mark(request, REQUEST_RULE);
      if (outgoing) {
        mark(request, RESPONSE_RULE);
        if (response.headersSent || response.writableEnded) {
          throw new BodyError(500, 'response_started', 'the response was sent before its rule: mount the middleware before what sends');
        }
      }
    } catch (error) {
      next(error);
      return;
    }
    const signal = abortedWith(response);
    if (outgoing) new HeldResponse(request, response, outgoing, signal, next).install();
    if (!incoming) {
      next();
      return;
    }
    read(request, incoming, signal).then(() => {
      next();
    }, next);
  };
}

/** Mark a request to which a rule is applied, also for other copies of this package. */
const REQUEST_RULE = Symbol.for('@leafseal/client:request');
const RESPONSE_RULE = Symbol.for('@leafseal/client:response');

/** @throws {BodyError} if the request passes a second rule of a direction: it would be applied to the result of the first. */
function mark(request: IncomingMessage, name: symbol): void {
  if (Object.hasOwn(request, name)) {
    const direction = name === REQUEST_RULE ? 'request' : 'response';
    throw new BodyError(500, 'rule_applied_twice', `the ${direction} passes two rules: mount the middleware once, with all selectors`);
  }
  Object.defineProperty(request, name, { value: true });
}

async function read(request: Request, rule: Transform, signal: AbortSignal): Promise<void> {
  if (!hasBody(request)) return;
  if (request._body || request.readableDidRead || request.readableEnded) {
    throw new BodyError(500, 'body_already_read', 'a body parser ran first: mount the middleware before body parsers');
  }
  checkRequest(request.headers, rule.sizeMax);
  const plain = await collected(request, rule.sizeMax);
  // As `express.json` reads an empty body.
  request.body = isEmpty(plain) ? {} : parse(await rule.apply(plain, signal));
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
    throw new BodyError(400, 'client_broke', 'the request ended before its body was complete');
  }
}
