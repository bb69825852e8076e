// Shared by the middleware for Express and Fastify: rules, checks of bodies, and the errors of refused messages.
//
// A rule is applied to the bytes of a whole body, or the message is refused. Nothing that a rule selects passes because the body has
// another content type, is compressed, too large or not JSON.

import type { IncomingHttpHeaders, ServerResponse } from 'node:http';

import type { Client, DecryptOptions, DocumentOptions, EncryptOptions } from './client.js';
import { CAUSED_BY_DATA } from './codes_generated.js';
import { LeafsealError } from './errors.js';
import { copied, protocolOptions } from './options.js';

/** The rule for the bodies of one direction. Exactly one of the two. */
export interface BodyRule {
  /** Encrypts the selected values: JSONPath selectors, or options with `select`. */
  readonly encrypt?: readonly string[] | (EncryptOptions & DocumentOptions);
  /** Decrypts the selected envelopes. */
  readonly decrypt?: readonly string[] | (DecryptOptions & DocumentOptions);
}

/** The rules of a route. */
export interface BodyRules {
  /** Applied to the request's body before the handler and the framework's parser see it. */
  readonly request?: BodyRule;
  /** Applied to the response's body before it is sent. */
  readonly response?: BodyRule;
  /** Maximum bytes of a request's body. Default 1 MiB. */
  readonly requestSizeMax?: number;
  /** Maximum bytes of a response's body. Default 8 MiB. */
  readonly responseSizeMax?: number;
}

/** Why a message was refused, with the status for its sender. */
export class BodyError extends LeafsealError {
  readonly status: number;
  readonly statusCode: number;
  /** Whether the message may be shown to the sender. */
  readonly expose: boolean;

  constructor(status: number, code: string, message: string, cause?: LeafsealError) {
    super(code, message, { cause, retry: cause?.retry, retryAfterMs: cause?.retryAfterMs, offset: cause?.offset, source: cause?.source });
    this.status = status;
    this.statusCode = status;
    this.expose = status < 500;
  }
}

/** A rule ready for use. */
export interface Transform {
  readonly sizeMax: number;
  readonly isEncrypting: boolean;
  /** Transforms a JSON text. @throws {BodyError} */
  readonly apply: (text: Buffer, signal?: AbortSignal) => Promise<Buffer>;
}

/** Rules ready for use. */
export interface Transforms {
  readonly request: Transform | undefined;
  readonly response: Transform | undefined;
}

const REQUEST_SIZE_MAX = 1 << 20;
const RESPONSE_SIZE_MAX = 8 << 20;

/** Checks rules. @throws {LeafsealError} `invalid_settings`. */
export function check(rules: BodyRules): void {
  const { request, response, requestSizeMax = REQUEST_SIZE_MAX, responseSizeMax = RESPONSE_SIZE_MAX } = rules;
  if (!request && !response) throw new LeafsealError('invalid_settings', 'rules: expected request, response or both');
  for (const [name, size] of Object.entries({ requestSizeMax, responseSizeMax })) {
    if (Number.isSafeInteger(size) && size >= 1) continue;
    throw new LeafsealError('invalid_settings', `${name} must be an integer of at least 1`);
  }
  if (request) optionsOf('request', request);
  if (response) optionsOf('response', response);
}

/** @throws {LeafsealError} `invalid_settings`. */
export function compile(client: Client, rules: BodyRules): Transforms {
  check(rules);
  const { request, response, requestSizeMax = REQUEST_SIZE_MAX, responseSizeMax = RESPONSE_SIZE_MAX } = rules;
  return {
    request: request && transform(client, 'request', request, requestSizeMax),
    response: response && transform(client, 'response', response, responseSizeMax),
  };
}

type RuleOptions = EncryptOptions & DecryptOptions & DocumentOptions;

function optionsOf(direction: 'request' | 'response', { encrypt, decrypt }: BodyRule): RuleOptions {
  if ((encrypt === undefined) === (decrypt === undefined)) {
    throw new LeafsealError('invalid_settings', `${direction}: expected exactly one of encrypt and decrypt`);
  }
  const rule = (encrypt ?? decrypt) as readonly string[] | RuleOptions;
  const options: RuleOptions = Array.isArray(rule) ? { select: rule as string[] } : (rule as DecryptOptions);
  const { select } = options;
  if (select !== undefined && (!Array.isArray(select) || select.length === 0 || select.some((path) => typeof path !== 'string'))) {
    throw new LeafsealError('invalid_settings', `${direction}: select must be a list of at least one JSONPath selector`);
  }
  try {
    protocolOptions(encrypt ? 'encrypt_document' : 'decrypt_document', options);
  } catch (error) {
    throw new LeafsealError('invalid_settings', `${direction}: ${(error as LeafsealError).message}`);
  }
  return options;
}

function transform(client: Client, direction: 'request' | 'response', rule: BodyRule, sizeMax: number): Transform {
  const options = optionsOf(direction, rule);
  const isEncrypting = rule.encrypt !== undefined;
  return {
    sizeMax,
    isEncrypting,
    apply: async (text, signal) => {
      try {
        const signals = [options.signal, signal].filter((one) => one !== undefined);
        const call = { ...copied(options), signal: signals.length > 1 ? AbortSignal.any(signals) : signals[0] };
        return await (isEncrypting ? client.encryptDocument(text, call) : client.decryptDocument(text, call));
      } catch (error) {
        throw refusal(error as LeafsealError, direction);
      }
    },
  };
}

function refusal(error: LeafsealError, direction: 'request' | 'response'): BodyError {
  const status = direction === 'request' ? CAUSED_BY_DATA[error.code] : undefined;
  if (status !== undefined) return new BodyError(status, error.code, `the request's body: ${error.message}`, error);
  const isTemporary = error.retry !== 'never' || error.code === 'cancelled' || error.code === 'closed';
  return new BodyError(isTemporary ? 503 : 500, error.code, `the ${direction}'s body cannot be processed: ${error.message}`, error);
}

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^+-]+\+json)$/i;

/**
 * Checks that a body is plain JSON in UTF-8.
 *
 * @returns Why it is not; undefined if it is.
 */
export function notJson(type: string | undefined, encoding: string | undefined): string | undefined {
  const coding = encoding?.trim().toLowerCase() ?? '';
  if (coding !== '' && coding !== 'identity') return 'a body with Content-Encoding';
  const [media = '', ...parameters] = (type ?? '').split(';').map((part) => part.trim());
  if (!JSON_TYPE.test(media)) return 'a body that is not application/json';
  const names = parameters.map((parameter) => /^charset\s*=\s*"?([^"\s]+)"?$/i.exec(parameter)?.[1]);
  const charset = names.filter((name) => name !== undefined);
  return charset.every((name) => /^utf-?8$/i.test(name)) ? undefined : 'a body that is not UTF-8';
}

/** The common part of requests over HTTP/1.1 and HTTP/2. */
export interface Message {
  readonly headers: IncomingHttpHeaders;
  readonly httpVersionMajor?: number;
  /** Over HTTP/2. */
  readonly stream?: { readonly endAfterHeaders?: boolean };
}

/** Whether a request may have a body. Over HTTP/2 no header announces one. */
export function hasBody({ headers, httpVersionMajor = 1, stream }: Message): boolean {
  if (httpVersionMajor >= 2) return stream?.endAfterHeaders !== true;
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0');
}

/** @throws {BodyError} 415 or 413 if the rule cannot be applied to the announced body. */
export function checkRequest(headers: IncomingHttpHeaders, sizeMax: number): void {
  const problem = notJson(headers['content-type'], headers['content-encoding']);
  if (problem) throw new BodyError(415, 'unsupported_media_type', `this route accepts only JSON without compression; received ${problem}`);
  if (Number(headers['content-length'] ?? 0) > sizeMax) throw tooLarge('request', sizeMax);
}

/** Headers that reveal the length or a hash of a plain body, or frame it. */
export const REVEALING: readonly string[] = [
  'etag', 'content-length', 'last-modified', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest', 'transfer-encoding',
];

export function tooLarge(direction: 'request' | 'response', sizeMax: number): BodyError {
  return new BodyError(direction === 'request' ? 413 : 500, 'too_large', `the ${direction}'s body exceeds the limit of ${sizeMax} bytes`);
}

/** The error of a response that is not JSON. */
export function responseNotJson(problem: string): BodyError {
  const advice = 'send JSON as text, bytes or a stream, and compress it outside of the rule';
  return new BodyError(500, 'response_not_json', `the rule of this route cannot be applied to ${problem}; ${advice}`);
}

/** Whether a response says by its header alone where to go, so that a body that cannot be read is left out instead of an error. */
export function isRedirect(status: number, hasLocation: boolean): boolean {
  return status >= 300 && status < 400 && hasLocation;
}

/** Reads a stream of at most `sizeMax` bytes. The rest of a larger one is not read. */
export async function collect(stream: AsyncIterable<unknown>, direction: 'request' | 'response', sizeMax: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of stream) {
    const bytes = Buffer.isBuffer(piece) ? piece : piece instanceof Uint8Array ? Buffer.from(piece) : Buffer.from(String(piece));
    size += bytes.length;
    if (size > sizeMax) throw tooLarge(direction, sizeMax);
    pieces.push(bytes);
  }
  return Buffer.concat(pieces, size);
}

/** Member names that programs which merge objects turn into changes of prototypes. */
const SUSPICIOUS = /"(?:_|\\u005[fF]){2}(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[fF])|"(?:c|\\u0063)(?:o|\\u006[fF])(?:n|\\u006[eE])/;

/** The byte order mark that a JSON text may begin with (RFC 8259, section 8.1), as a character. */
const BYTE_ORDER_MARK = '\ufeff';

/** Whether a body has no text. */
export function isEmpty(body: Buffer): boolean {
  return body.length === 0 || (body.length === 3 && body.toString() === BYTE_ORDER_MARK);
}

/**
 * Parses a JSON text, and refuses names that pollute prototypes where objects are merged.
 *
 * @throws {BodyError} 400.
 */
export function parse(bytes: Buffer): unknown {
  const text = bytes.toString();
  let value: unknown;
  try {
    value = JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text);
  } catch {
    throw new BodyError(400, 'invalid_document', "the request's body is not JSON");
  }
  if (SUSPICIOUS.test(text) && isPolluting(value)) throw new BodyError(400, 'invalid_document', "the request's body has a forbidden name");
  return value;
}

function isPolluting(root: unknown): boolean {
  const pending = [root];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null) continue;
    if (Object.hasOwn(value, '__proto__')) return true;
    if (Object.hasOwn(value, 'constructor')) {
      const { constructor } = value as { constructor: unknown };
      if (typeof constructor === 'object' && constructor !== null && Object.hasOwn(constructor, 'prototype')) return true;
    }
    for (const child of Object.values(value)) pending.push(child);
  }
  return false;
}

/** Aborts calls of the engine when the client disconnects. */
export function abortedWith(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}

/** The body of a response that replaces one to which a rule could not be applied. */
export function errorBody(error: LeafsealError): Buffer {
  const message = error instanceof BodyError && error.expose ? error.message : 'the response was refused';
  return Buffer.from(JSON.stringify({ code: error.code, message }));
}
