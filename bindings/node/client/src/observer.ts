// The events that an observer receives: calls and connections. Never values, keys or tokens.

import type { LeafsealError } from './errors.js';
import type { Method } from './methods_generated.js';

/** A call that begins. */
export interface CallStart {
  readonly method: Method;
  readonly app: string | undefined;
  /** The number of values of a list. */
  readonly values: number | undefined;
}

/** How a call ended. */
export interface CallEnd {
  readonly durationMs: number;
  readonly retries: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
  /** `HOST:PORT` of the engine that answered last. */
  readonly address: string | undefined;
  readonly error: LeafsealError | undefined;
}

/** A change of a connection. */
export interface ConnectionEvent {
  readonly address: string;
  readonly kind: 'opened' | 'closed' | 'failed';
  readonly error: LeafsealError | undefined;
}

/** Receives calls and connections. What it throws is ignored. */
export interface Observer {
  /** A call begins, in the caller's asynchronous context. The returned function is called once when it ends. */
  readonly call?: (call: CallStart) => ((end: CallEnd) => void) | undefined;
  /** A call is about to be retried because of this error. */
  readonly retried?: (method: Method, error: LeafsealError) => void;
  readonly connection?: (event: ConnectionEvent) => void;
}

/** Calls `notify` for each observer. An observer that throws must not fail the call that it observes. */
export function notifyAll<T>(observers: readonly Observer[], notify: (observer: Observer) => T): T[] {
  const results: T[] = [];
  for (const observer of observers) {
    try {
      results.push(notify(observer));
    } catch {
      // Metrics and traces are never a reason to fail.
    }
  }
  return results;
}
