// The life of a call: waiting, in flight, retried, ended. Each call ends exactly once.
//
// A call is retried only if no engine executes it: no connection could be opened, the engine closed the connection before it read the
// request, or it answered `unavailable`, `audit_unavailable` or `overloaded`. Retries of refused calls are limited over all calls, so that
// a client adds little to an overload. The rules are those of all clients, see `vectors/client/README.md`.

import type { Answer } from '@leafseal/wire';

import { CLOCK, type Clock, type Timer } from './clock.js';
import type { Connection, Ending } from './connection.js';
import { LeafsealError, engineError, wireError } from './errors.js';
import type { Method } from './methods_generated.js';
import { type CallEnd, notifyAll } from './observer.js';
import { type Opener, Pool } from './pool.js';
import { Queue } from './queue.js';
import { actionAfter, backoff, earns } from './rules.js';
import { RULES } from './rules_generated.js';
import type { Settings } from './settings.js';

/** A call. */
export interface Request<T> {
  readonly method: Method;
  readonly app: string | undefined;
  readonly values: number | undefined;
  readonly timeoutMs: number | undefined;
  /** The engine's time, if it is not all of `timeoutMs`. */
  readonly deadlineMs?: number;
  readonly signal: AbortSignal | undefined;
  /** Encodes the request; `deadlineMs` is the engine's time. */
  readonly encode: (id: number, deadlineMs: number) => Buffer;
  readonly read: (answer: Answer) => T;
}

/** A place in the queue. */
interface QueueEntry {
  readonly call: Call;
  isWaiting: boolean;
}

interface Call {
  readonly request: Request<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: LeafsealError) => void;
  readonly began: number;
  readonly timeoutMs: number;
  /** The engine's time, and that of retries. */
  readonly deadlineMs: number;
  readonly ends: (((end: CallEnd) => void) | undefined)[];
  timer: Timer;
  onAbort: (() => void) | undefined;
  /** While its request is in flight. */
  connection: Connection | undefined;
  /** The connection on which its last request ended. */
  refusedBy: Connection | undefined;
  id: number;
  sentAt: number;
  /** Bytes of the request while it is in flight. */
  size: number;
  requestSize: number;
  answerSize: number;
  address: string | undefined;
  retries: number;
  entry: QueueEntry | undefined;
  hasEnded: boolean;
}

/** All calls of a client. */
export class Calls {
  /** Bytes of requests in flight. */
  bytesInFlight = 0;
  readonly pool: Pool;
  private readonly waiting = new Queue<QueueEntry>((entry) => entry.isWaiting);
  /** Calls in `waiting` that have not ended. Those that pause before a retry are elsewhere. */
  private waitingCount = 0;
  private active = 0;
  private credit: number = RULES.budget.start;
  private isPumping = false;
  private closing: (() => void) | undefined;
  private isClosed = false;
  /** Why no call begins an attempt any more. */
  private forced: LeafsealError | undefined;

  constructor(
    private readonly settings: Settings,
    private readonly clock: Clock = CLOCK,
    opener?: Opener,
  ) {
    this.pool = new Pool(settings, clock, () => this.pump(), opener);
  }

  /** Calls that have not ended. */
  get count(): number {
    return this.active;
  }

  start<T>(request: Request<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => this.begin(request, resolve as (value: unknown) => void, reject));
  }

  /** Begins a call, and calls one of the two functions when it has ended. */
  begin(request: Request<unknown>, resolve: (value: unknown) => void, reject: (error: LeafsealError) => void): void {
    const refusal = this.refusal(request.signal);
    if (refusal) {
      reject(refusal);
      return;
    }
    const { method, app, values, signal } = request;
    const timeoutMs = request.timeoutMs ?? this.settings.timeoutMs;
    const { observers } = this.settings;
    const call: Call = {
      request, resolve, reject, began: this.clock.now(), timeoutMs, deadlineMs: request.deadlineMs ?? timeoutMs,
      ends: observers.length > 0 ? notifyAll(observers, (observer) => observer.call?.({ method, app, values })) : [],
      timer: undefined, onAbort: undefined, connection: undefined, refusedBy: undefined, id: -1, sentAt: 0, size: 0, requestSize: 0,
      answerSize: 0, address: undefined, retries: 0, entry: undefined, hasEnded: false,
    };
    call.timer = this.clock.after(timeoutMs, () => this.expire(call), 'inCall');
    if (signal) {
      call.onAbort = () => this.stop(call, aborted(signal));
      signal.addEventListener('abort', call.onAbort, { once: true });
    }
    this.active += 1;
    this.attempt(call);
  }

  /** Accepts no more calls; resolves when those under way have ended. With `isForced` they fail. */
  async close(isForced: boolean): Promise<void> {
    this.isClosed = true;
    if (isForced) {
      const error = new LeafsealError('closed', 'the client was closed');
      this.forced = error;
      for (let entry = this.waiting.first(); entry; entry = this.waiting.first()) this.settle(entry.call, error);
      this.pool.close(error);
    }
    if (this.active > 0) await new Promise<void>((resolve) => (this.closing = resolve));
    this.pool.close();
  }

  private refusal(signal: AbortSignal | undefined): LeafsealError | undefined {
    if (this.isClosed) return new LeafsealError('closed', 'the client is closed');
    if (signal?.aborted) return aborted(signal);
    const { requestsWaitingMax } = this.settings;
    if (this.waitingCount < requestsWaitingMax || (requestsWaitingMax === 0 && this.hasRoomForBytes && this.pool.hasRoom)) return undefined;
    const message = `${this.waitingCount} calls wait already; start fewer at a time, or raise requestsWaitingMax (${requestsWaitingMax})`;
    return new LeafsealError('busy', message, { retry: 'later' });
  }

  private get hasRoomForBytes(): boolean {
    return this.bytesInFlight < this.settings.bytesInFlightMax;
  }

  /** Begins an attempt of a call, unless it has to wait. A call that waits already keeps its position. */
  private attempt(call: Call): void {
    if (this.forced) {
      this.settle(call, this.forced);
      return;
    }
    const choice = this.hasRoomForBytes ? this.pool.choose(call.refusedBy) : 'wait';
    if (choice === 'wait') {
      if (call.entry) return;
      call.entry = { call, isWaiting: true };
      this.waiting.push(call.entry);
      this.waitingCount += 1;
      return;
    }
    this.leaveQueue(call);
    if ('ending' in choice) this.attemptEnds(call, undefined, choice.ending);
    else this.send(call, choice.connection);
  }

  private leaveQueue(call: Call): void {
    if (!call.entry) return;
    call.entry.isWaiting = false;
    call.entry = undefined;
    this.waitingCount -= 1;
  }

  /** The calls that wait look again, in their order. */
  private pump(): void {
    // The loop sees changes that occur meanwhile, such as the end of a connection in `send`.
    if (this.isPumping) return;
    this.isPumping = true;
    try {
      for (let entry = this.waiting.first(); entry; entry = this.waiting.first()) {
        this.attempt(entry.call);
        // The others wait for the same.
        if (entry.isWaiting) break;
      }
    } finally {
      this.isPumping = false;
    }
  }

  private send(call: Call, connection: Connection): void {
    const now = this.clock.now();
    // The engine's time begins when it reads the request: a first attempt has all of it, however long it waited.
    const left = call.retries === 0 ? call.deadlineMs : Math.max(1, Math.ceil(call.began + call.deadlineMs - now));
    try {
      call.connection = connection;
      call.sentAt = now;
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

  private outcome(call: Call, connection: Connection, outcome: Answer | Ending): void {
    this.release(call);
    if (call.hasEnded) return;
    call.connection = undefined;
    call.id = -1;
    if ('event' in outcome) {
      this.attemptEnds(call, connection, outcome);
      return;
    }
    call.answerSize = outcome.size;
    try {
      const { error } = outcome;
      if (error) {
        this.pool.avoidAfter(connection.place, 'answer', error.code);
        this.attemptEnds(call, connection, { event: 'answer', error: engineError(error) });
        return;
      }
      this.succeeded(call, connection, outcome);
    } catch (failure) {
      // The answer cannot be read.
      this.settle(call, wireError(failure));
    }
  }

  private succeeded(call: Call, connection: Connection, answer: Answer): void {
    if (earns(call.request.method)) {
      this.credit = Math.min(this.credit + RULES.budget.earned, RULES.budget.max);
      this.pool.succeeded(connection.place, call.sentAt);
    }
    const value = call.request.read(answer);
    // Large answers are not left to the garbage collector.
    answer.release();
    this.settle(call, undefined, value);
  }

  private release(call: Call): void {
    this.bytesInFlight -= call.size;
    call.size = 0;
  }

  /** An attempt has ended with an error: the call is retried, or ends with it. */
  private attemptEnds(call: Call, connection: Connection | undefined, { event, error }: Ending): void {
    if (connection) call.refusedBy = connection;
    const { dialling } = this.pool;
    const isUnusable = event === 'answer' && connection?.isUsable === false;
    const isRefusal = error.code === 'unavailable' || error.code === 'audit_unavailable';
    const isElsewhere = isUnusable || (isRefusal && dialling.mayDialElsewhere);
    const action = actionAfter(event, error.code, isElsewhere);
    const now = this.clock.now();
    let pause = backoff(this.settings, call.retries, this.clock.random());
    if (action === 'retry_later') pause = Math.max(pause, dialling.failedUntil - now);
    else if (action === 'retry_elsewhere' && call.retries === 0) pause = 0;
    else pause = Math.max(pause, error.retryAfterMs ?? 0);
    const isCharged = action === 'retry_charged';
    const limit = call.began + Math.min(call.deadlineMs, call.timeoutMs);
    const mayRetry = action !== 'fail' && call.retries < this.settings.retriesMax && now + pause < limit
      && (!isCharged || this.credit >= RULES.budget.retry_cost);
    if (!mayRetry) {
      this.settle(call, error);
      return;
    }
    if (isCharged) this.credit -= RULES.budget.retry_cost;
    call.retries += 1;
    notifyAll(this.settings.observers, (observer) => observer.retried?.(call.request.method, error));
    this.clock.after(pause, () => {
      if (!call.hasEnded) this.attempt(call);
    }, 'inCall');
  }

  private expire(call: Call): void {
    const where = call.connection ? 'the engine did not answer' : 'no connection was available';
    this.stop(call, new LeafsealError('deadline_exceeded', `${where} within ${call.timeoutMs} ms`, { retry: 'later' }));
  }

  /** The caller stops waiting. */
  private stop(call: Call, error: LeafsealError): void {
    if (call.hasEnded) return;
    // Before the connection may close, so that the call does not end with that.
    const { connection, id } = call;
    const wasFull = !this.hasRoomForBytes;
    this.settle(call, error);
    if (connection && id >= 0) {
      this.release(call);
      connection.cancel(id);
    }
    if (wasFull) this.pump();
  }

  private settle(call: Call, error: LeafsealError | undefined, value?: unknown): void {
    call.hasEnded = true;
    if (call.entry) {
      this.leaveQueue(call);
      this.waiting.noteDead();
    }
    this.clock.cancel(call.timer);
    if (call.onAbort) call.request.signal?.removeEventListener('abort', call.onAbort);
    this.active -= 1;
    if (call.ends.length > 0) this.report(call, error);
    if (error) call.reject(error);
    else call.resolve(value);
    if (this.active === 0) this.closing?.();
  }

  private report(call: Call, error: LeafsealError | undefined): void {
    const { retries, address, requestSize: requestBytes, answerSize: answerBytes } = call;
    const end = { durationMs: this.clock.now() - call.began, retries, requestBytes, answerBytes, address, error };
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
  return new LeafsealError('cancelled', 'the caller cancelled the call', { cause: signal.reason as unknown });
}
