// The error of every call: a stable code, and whether a retry may succeed. Messages contain no values and no secrets.

import type { KnownErrorCode } from './codes_generated.js';

// The intersection keeps completion of the known codes in editors.
export type ErrorCode = KnownErrorCode | (string & Record<never, never>);

/** Whether the same call may succeed: never, after a pause, or now on another connection. */
export type Retry = 'never' | 'later' | 'elsewhere';

/** The parts of an error beside code and message. */
export interface ErrorDetails {
  readonly retry?: Retry;
  readonly retryAfterMs?: number | undefined;
  readonly index?: number | undefined;
  readonly offset?: number | undefined;
  readonly source?: 'client' | 'engine';
  readonly cause?: unknown;
}

/** Every error that this package throws or rejects with. */
export class LeafsealError extends Error {
  readonly code: ErrorCode;
  readonly retry: Retry;
  /** With `later`: the minimum pause in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** Index of the first value or selector at fault. */
  readonly index: number | undefined;
  /** Byte offset in the document or selector. */
  readonly offset: number | undefined;
  /** Whether the engine reported the error. */
  readonly source: 'client' | 'engine';

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    // The name by which callers recognise an aborted operation of any library.
    this.name = code === 'cancelled' ? 'AbortError' : 'LeafsealError';
    this.code = code;
    this.retry = details.retry ?? 'never';
    this.retryAfterMs = details.retryAfterMs;
    this.index = details.index;
    this.offset = details.offset;
    this.source = details.source ?? 'client';
  }
}

// `instanceof` holds for errors of any copy of this package: a client of one copy may serve the middleware of another, with two versions in
// one tree or in a test runner. Subclasses are those of one copy.
const BRAND = Symbol.for('@leafseal/client.LeafsealError');
Object.defineProperty(LeafsealError.prototype, BRAND, { value: true });
Object.defineProperty(LeafsealError, Symbol.hasInstance, {
  value(this: unknown, value: unknown): boolean {
    if (this !== LeafsealError) return Function.prototype[Symbol.hasInstance].call(this as () => void, value);
    return typeof value === 'object' && value !== null && BRAND in value;
  },
});

interface RemoteError {
  readonly code: string;
  readonly message: string;
  readonly retry: Retry;
  readonly retryAfterMs?: number;
  readonly index?: number;
  readonly offset?: number;
}

/** The error of an answer, or of the notification with which an engine ends a connection. */
export function engineError(error: RemoteError, prefix = ''): LeafsealError {
  const { code, message, retry, retryAfterMs, index, offset } = error;
  return new LeafsealError(code, `${prefix}${message}`, { retry, retryAfterMs, index, offset, source: 'engine' });
}

/** Converts an error of `@leafseal/wire`, which a caller's argument or a peer's bytes caused. */
export function wireError(error: unknown): LeafsealError {
  if (error instanceof LeafsealError) return error;
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = typeof message === 'string' ? message : 'unknown error';
  if (code === 'invalid_params' || code === 'too_large') {
    // The native module has no property for it.
    const index = /^\w+, index (\d+): /.exec(text)?.[1];
    return new LeafsealError(code, text, { index: index === undefined ? undefined : Number(index) });
  }
  if (code === 'invalid_answer' || code === 'invalid_message' || code === 'invalid_frame') {
    return new LeafsealError('protocol_error', `the engine's answer cannot be read: ${text}`, { retry: 'elsewhere' });
  }
  return new LeafsealError('invalid_params', text, { cause: error });
}
