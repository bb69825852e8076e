// The life of a call: waiting for its turn, in flight, retried, ended. Each call ends exactly once.
//
// A call is retried only if no engine executes it: no connection could be opened, the engine left the connection before it read the
// request, or it answered `unavailable` or `overloaded`. Retries of refused calls are limited over all calls, so that a client adds little
// to an overload.

import type { Answer } from '@leafseal/wire';

import type { Connection } from './connection.js';
import { LeafsealError, engineError, wireError } from './errors.js';
import { type CallEnd, type Method, notifyAll } from './observer.js';
import { Pool, backoff } from './pool.js';
import { Queue } from './queue.js';
import type { Settings } from './settings.js';

/** Cost of retrying a refused call, if an answer earns 1: at most a tenth more calls reach an overloaded engine. */
const RETRY_COST = 10;
const CREDIT_MAX = 100 * RETRY_COST;
const CREDIT_AT_START = 10 * RETRY_COST;

/** What a call is. */
export interface Request<T> {
  readonly method: Method;
  readonly app: string | undefined;
  readonly values: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly signal: AbortSignal | undefined;
  /** Encodes the request; `deadlineMs` is the time left. */
  readonly encode: (id: number, deadlineMs: number) => Buffer;
  readonly read: (answer: Answer) => T;
}

interface Call {
  readonly request: Request<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: LeafsealError) => void;
  readonly began: number;
  readonly deadline: number;
  readonly ends: (((end: CallEnd) => void) | undefined)[];
  timer: NodeJS.Timeout | undefined;
  onAbort: (() => void) | undefined;
  connection: Connection | undefined;
  /** Where it was answered with `unavailable` last. */
  refusedBy: Connection | undefined;
  id: number;
  /** Bytes of the request while it is in flight. */
  size: number;
  requestSize: number;
  answerSize: number;
  address: string | undefined;
  retries: number;
  /** Of the pool's failed attempts to connect, those before it began to wait or counted already. */
  failedAttempts: number;
  isWaiting: boolean;
  hasEnded: boolean;
}

/** All calls of a client. */
export class Calls {
  private readonly pool: Pool;
  private readonly waiting = new Queue<Call>((call) => !call.hasEnded);
  /** Calls in `waiting` that have not ended. Those that pause before a retry are elsewhere. */
  private waitingCount = 0;
  private active = 0;
  private bytesInFlight = 0;
  /** Of the pool's failed attempts to connect, those after which all waiting calls were considered. */
  private failedAttempts = 0;
  private credit = CREDIT_AT_START;
  private wakeTimer: NodeJS.Timeout | undefined;
  private isPumping = false;
  private closing: (() => void) | undefined;
  private isClosed = false;

  constructor(private readonly settings: Settings) {
    this.pool = new Pool(settings, () => this.pump());
  }

  /** Calls that have not ended. */
  get count(): number {
    return this.active;
  }

  start<T>(request: Request<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const refusal = this.refusal(request.signal);
      if (refusal) {
        reject(refusal);
        return;
      }
      const { method, app, values, signal } = request;
      const began = performance.now();
      const timeoutMs = request.timeoutMs ?? this.settings.timeoutMs;
      const { observers } = this.settings;
      const call: Call = {
        request, resolve: resolve as (value: unknown) => void, reject, began, deadline: began + timeoutMs,
        ends: observers.length > 0 ? notifyAll(observers, (observer) => observer.call?.({ method, app, values })) : [],
        timer: undefined, onAbort: undefined, connection: undefined, refusedBy: undefined, id: -1, size: 0, requestSize: 0, answerSize: 0,
        address: undefined, retries: 0, failedAttempts: 0, isWaiting: false, hasEnded: false,
      };
      call.timer = setTimeout(() => this.expire(call, timeoutMs), timeoutMs);
      if (signal) {
        call.onAbort = () => this.stop(call, aborted(signal));
        signal.addEventListener('abort', call.onAbort, { once: true });
      }
      this.active += 1;
      this.enqueue(call);
    });
  }

  /** Accepts no more calls; resolves when those under way have ended. With `isForced` they fail. */
  async close(isForced: boolean): Promise<void> {
    this.isClosed = true;
    if (isForced) {
      const error = new LeafsealError('closed', 'the client was closed');
      for (let call = this.next(); call; call = this.next()) this.settle(call, error);
      this.pool.close(error);
    }
    if (this.active > 0) await new Promise<void>((resolve) => (this.closing = resolve));
    clearTimeout(this.wakeTimer);
    this.pool.close();
  }

  private refusal(signal: AbortSignal | undefined): LeafsealError | undefined {
    if (this.isClosed) return new LeafsealError('closed', 'the client is closed');
    if (signal?.aborted) return aborted(signal);
    const { requestsWaitingMax } = this.settings;
    if (this.waitingCount < requestsWaitingMax || (requestsWaitingMax === 0 && this.mayBegin && this.pool.pick())) return undefined;
    const message = `${this.waitingCount} calls wait already; start fewer at a time, or raise requestsWaitingMax (${requestsWaitingMax})`;
    return new LeafsealError('busy', message, { retry: 'later' });
  }

  private enqueue(call: Call): void {
    this.wait(call);
    this.pump();
    if (call.isWaiting && !this.pool.isHopeful) this.consider(call);
  }

  private wait(call: Call): void {
    call.failedAttempts = this.pool.failedAttempts;
    call.isWaiting = true;
    this.waiting.push(call);
    this.waitingCount += 1;
  }

  private get mayBegin(): boolean {
    return this.bytesInFlight < this.settings.bytesInFlightMax;
  }

  /** Begins waiting calls while there is a connection for them. */
  private pump(): void {
    // Outcomes that arrive meanwhile, such as those of a connection that ends in `send`, are seen by the loop.
    if (this.isPumping) return;
    this.isPumping = true;
    try {
      while (this.waitingCount > 0 && this.mayBegin) {
        const connection = this.pool.pick();
        if (!connection) {
          if (!this.pool.isHopeful) this.disappoint();
          break;
        }
        const call = this.next();
        if (call) this.begin(call, (call.refusedBy && this.pool.pick(call.refusedBy)) ?? connection);
      }
    } finally {
      this.isPumping = false;
    }
  }

  private next(): Call | undefined {
    const call = this.waiting.shift();
    if (call) {
      call.isWaiting = false;
      this.waitingCount -= 1;
    }
    return call;
  }

  private begin(call: Call, connection: Connection): void {
    const left = Math.max(1, Math.ceil(call.deadline - performance.now()));
    try {
      call.connection = connection;
      if (this.settings.observers.length > 0) call.address = this.pool.nameOf(connection);
      const { id, size } = connection.send((id) => call.request.encode(id, left), (outcome) => this.outcome(call, connection, outcome));
      call.id = id;
      call.size = size;
      call.requestSize = size;
      this.bytesInFlight += size;
    } catch (error) {
      call.connection = undefined;
      this.settle(call, wireError(error));
    }
  }

  private outcome(call: Call, connection: Connection, outcome: Answer | LeafsealError): void {
    this.release(call);
    if (call.hasEnded) return;
    if (outcome instanceof LeafsealError) {
      this.failed(call, outcome, outcome.code === 'going_away' ? 'elsewhere' : 'no');
      return;
    }
    call.answerSize = outcome.size;
    try {
      this.answered(call, connection, outcome);
    } catch (failure) {
      // The answer cannot be read.
      this.settle(call, wireError(failure));
    }
  }

  private answered(call: Call, connection: Connection, answer: Answer): void {
    const { error } = answer;
    if (error?.code === 'unavailable') {
      call.refusedBy = connection;
      this.pool.refused(connection);
      const mode = connection.isLeft ? 'elsewhere' : this.pool.hasOther(connection) ? 'later' : 'charged';
      this.failed(call, engineError(error), mode);
      return;
    }
    if (error) {
      this.failed(call, engineError(error), error.code === 'overloaded' ? 'charged' : 'no');
      return;
    }
    // Others, such as `health`, are answered without the key store.
    if (call.request.app !== undefined) this.pool.served(connection);
    this.credit = Math.min(this.credit + 1, CREDIT_MAX);
    const value = call.request.read(answer);
    // Large answers are not left to the garbage collector.
    answer.release();
    this.settle(call, undefined, value);
  }

  private release(call: Call): void {
    this.bytesInFlight -= call.size;
    call.size = 0;
  }

  /** Retries the call, at once or after a pause and at the expense of the credit, or rejects it. */
  private failed(call: Call, error: LeafsealError, mode: 'no' | 'elsewhere' | 'later' | 'charged'): void {
    const isFirst = mode === 'elsewhere' && call.retries === 0;
    const pause = isFirst ? 0 : Math.max(backoff(this.settings, call.retries), error.retryAfterMs ?? 0);
    if (mode === 'no' || call.retries >= this.settings.retriesMax || performance.now() + pause >= call.deadline) {
      this.settle(call, error);
      return;
    }
    if (mode === 'charged') {
      if (this.credit < RETRY_COST) {
        this.settle(call, error);
        return;
      }
      this.credit -= RETRY_COST;
    }
    call.retries += 1;
    call.connection = undefined;
    call.id = -1;
    notifyAll(this.settings.observers, (observer) => observer.retried?.(call.request.method, error));
    if (isFirst) setImmediate(() => this.resume(call));
    else setTimeout(() => this.resume(call), pause);
  }

  private resume(call: Call): void {
    if (!call.hasEnded) this.enqueue(call);
  }

  /** No engine is connected or being connected to: calls wait for the next attempt if that may help, others fail. */
  private disappoint(): void {
    const pause = this.pool.retryIn;
    if (pause <= 0) {
      this.pool.grow();
      return;
    }
    // For calls that wait already, nothing has changed until another attempt has failed.
    if (this.failedAttempts !== this.pool.failedAttempts) {
      this.failedAttempts = this.pool.failedAttempts;
      for (const call of this.waiting.alive()) this.consider(call);
    }
    if (this.waitingCount === 0 || this.wakeTimer) return;
    this.wakeTimer = setTimeout(() => {
      this.wakeTimer = undefined;
      this.pump();
    }, pause + 1);
  }

  /** Fails a waiting call that the next attempt to connect cannot help. A retry counts only if an attempt failed while it waited. */
  private consider(call: Call): void {
    const { error, failedAttempts, retryIn } = this.pool;
    const { retriesMax } = this.settings;
    const hasFailed = failedAttempts > call.failedAttempts;
    const isSpent = call.retries >= retriesMax && (hasFailed || retriesMax === 0);
    if (error.code === 'tls_failed' || error.code === 'forbidden' || isSpent || performance.now() + retryIn >= call.deadline) {
      this.settle(call, error);
    } else if (hasFailed) {
      call.retries += 1;
      call.failedAttempts = failedAttempts;
    }
  }

  private expire(call: Call, timeoutMs: number): void {
    const where = call.connection ? 'the engine did not answer' : 'no connection was available';
    this.stop(call, new LeafsealError('deadline_exceeded', `${where} within ${timeoutMs} ms`, { retry: 'later' }));
  }

  /** The caller stops waiting. */
  private stop(call: Call, error: LeafsealError): void {
    if (call.hasEnded) return;
    if (call.connection && call.id >= 0) {
      call.connection.cancel(call.id);
      this.release(call);
    }
    this.settle(call, error);
    this.pump();
  }

  private settle(call: Call, error: LeafsealError | undefined, value?: unknown): void {
    call.hasEnded = true;
    if (call.isWaiting) {
      call.isWaiting = false;
      this.waitingCount -= 1;
      this.waiting.noteDead();
    }
    clearTimeout(call.timer);
    if (call.onAbort) call.request.signal?.removeEventListener('abort', call.onAbort);
    this.active -= 1;
    if (call.ends.length > 0) this.report(call, error);
    if (error) call.reject(error);
    else call.resolve(value);
    if (this.active === 0) this.closing?.();
  }

  private report(call: Call, error: LeafsealError | undefined): void {
    const { retries, address, requestSize: requestBytes, answerSize: answerBytes } = call;
    const end = { durationMs: performance.now() - call.began, retries, requestBytes, answerBytes, address, error };
    for (const ended of call.ends) {
      try {
        ended?.(end);
      } catch {
        // Metrics and traces are never a reason to fail.
      }
    }
  }
}

function aborted(signal: AbortSignal): LeafsealError {
  return new LeafsealError('aborted', 'the caller aborted the call', { cause: signal.reason as unknown });
}
