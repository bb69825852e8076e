// Client-side tokens, which let a browser decrypt one payload. The binary protocol has none; these calls use the engine's HTTPS API.

import { readFile } from 'node:fs/promises';
import { request } from 'node:https';

import { LeafsealError } from './errors.js';
import type { PemSource } from './settings.js';

/** Where the HTTPS API is, and the API key. */
export interface TokenOptions {
  /** The API's base URL, such as `https://engine.internal:8443`. */
  readonly url: string;
  readonly app: string;
  /** An API key that allows `client-side-tokens` and `decrypt`. */
  readonly apiKey: string;
  /** The authority that signs the API's certificate: a path, read for each call, or PEM text. Default: those that Node trusts. */
  readonly ca?: PemSource;
  /** Time limit in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
}

/** A token for one payload. */
export interface ClientToken {
  readonly id: string;
  /** Secret: gives its holder the decrypted payload until it expires. */
  readonly token: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

const TIMEOUT_MS = 10_000;
const ANSWER_SIZE_MAX = 64 * 1024;

/**
 * Creates a token with which a page can decrypt `payload`, a JSON value with envelopes, at `POST /decrypt`.
 *
 * @param expiresInMs From 1,000 to 600,000 milliseconds. Default: 5 minutes.
 * @throws {LeafsealError} The engine's code, `connect_failed`, `deadline_exceeded`, `cancelled` or `protocol_error`.
 */
export async function createClientToken(
  options: TokenOptions,
  payload: unknown,
  { expiresInMs, signal }: { readonly expiresInMs?: number; readonly signal?: AbortSignal } = {},
): Promise<ClientToken> {
  const body = JSON.stringify({ action: 'api:decrypt', payload, expiry: expiresInMs });
  const { status, text } = await post(options, '/client-side-tokens', body, signal);
  const answer = parsed(text);
  if (status !== 200) throw apiError(status, answer);
  const { id, token, createdAt, expiry } = answer;
  if (typeof id !== 'string' || typeof token !== 'string' || typeof createdAt !== 'number' || typeof expiry !== 'number') {
    throw new LeafsealError('protocol_error', 'the API returned no token');
  }
  return { id, token, createdAt: new Date(createdAt), expiresAt: new Date(expiry) };
}

async function post(options: TokenOptions, path: string, body: string, signal?: AbortSignal): Promise<{ status: number; text: string }> {
  const { url, app, apiKey, ca, timeoutMs = TIMEOUT_MS } = options;
  const authority = typeof ca === 'string' && !ca.includes('-----BEGIN') ? await readFile(ca) : ca;
  const deadline = AbortSignal.timeout(timeoutMs);
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      if (signal?.aborted) reject(new LeafsealError('cancelled', 'the caller cancelled the call', { cause: signal.reason as unknown }));
      else if (deadline.aborted) reject(new LeafsealError('deadline_exceeded', `no answer within ${timeoutMs} ms`, { retry: 'later' }));
      else reject(new LeafsealError('connect_failed', error.message, { retry: 'later', cause: error }));
    };
    const outgoing = request(`${url.replace(/\/$/, '')}${path}`, {
      method: 'POST',
      ca: authority as Buffer | string | undefined,
      auth: `${app}:${apiKey}`,
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    }, (incoming) => {
      let text = '';
      incoming.setEncoding('utf8').on('error', fail).on('data', (piece: string) => {
        text += piece;
        if (text.length > ANSWER_SIZE_MAX) outgoing.destroy(new Error(`the answer exceeds ${ANSWER_SIZE_MAX} bytes`));
      }).on('end', () => resolve({ status: incoming.statusCode ?? 0, text }));
    });
    outgoing.on('error', fail).end(body);
  });
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new LeafsealError('protocol_error', 'the API returned no JSON object');
}

function apiError(status: number, { code, detail }: Record<string, unknown>): LeafsealError {
  const retry = status === 429 || status >= 500 ? 'later' : 'never';
  const known = typeof code === 'string' ? code : 'protocol_error';
  return new LeafsealError(known, typeof detail === 'string' ? detail : `the API returned status ${status}`, { retry, source: 'engine' });
}
