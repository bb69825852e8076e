// The connections that all users share. Each is opened on first use, and replaced when it has ended or the engine is closing it.

import { setTimeout as sleep } from 'node:timers/promises';

import { Connection, Failure } from './connection';
import type { Target } from './scenario';
import type { Wire } from './wire';

/** Initial backoff after a failed connection, in milliseconds, doubled after each failure. Requests fail immediately meanwhile. */
const BACKOFF_MIN = 50;
/** Maximum backoff, in milliseconds. */
const BACKOFF_MAX = 5000;

/** Timeout of the warm-up, in milliseconds. */
const WARM_TIMEOUT = 5000;

/** The slot of one connection. */
export class Slot {
  private connecting: Promise<Connection> | undefined;
  private connection: Connection | undefined;
  private failures = 0;
  private lastFailure: Failure | undefined;
  private nextAttempt = 0;

  constructor(
    private readonly target: Target,
    private readonly wire: Wire,
  ) {}

  /** The connection, if it accepts requests. */
  get current(): Connection | undefined {
    return this.connection?.takesRequests ? this.connection : undefined;
  }

  /**
   * Returns the connection; opens one if there is none. Concurrent callers share the same attempt.
   *
   * @throws {Failure} `connect_failed`.
   */
  async get(): Promise<Connection> {
    if (this.current) return this.current;
    if (this.connecting) return this.connecting;
    if (this.lastFailure && performance.now() < this.nextAttempt) throw this.lastFailure;
    this.connecting = this.connect();
    try {
      return await this.connecting;
    } finally {
      this.connecting = undefined;
    }
  }

  end(failure: Failure): void {
    this.connection?.end(failure);
  }

  private async connect(): Promise<Connection> {
    try {
      this.connection = await Connection.open(this.target, this.wire);
      this.failures = 0;
      this.lastFailure = undefined;
      return this.connection;
    } catch (error) {
      // Jitter over the upper half of the backoff, so that clients do not all reconnect at once.
      const pause = Math.min(BACKOFF_MIN * 2 ** this.failures, BACKOFF_MAX) * (0.5 + Math.random() / 2);
      this.failures += 1;
      this.nextAttempt = performance.now() + pause;
      this.lastFailure = error instanceof Failure ? error : new Failure('connect_failed', String(error));
      throw this.lastFailure;
    }
  }
}

/** All connections, used in rotation. */
export class Pool {
  private readonly slots: Slot[];
  private turn = 0;

  constructor(
    target: Target,
    wire: Wire,
  ) {
    this.slots = Array.from({ length: target.connections }, () => new Slot(target, wire));
  }

  /** Returns the next slot in rotation; a user keeps it for all of its requests. */
  next(): Slot {
    const slot = this.slots[this.turn];
    this.turn = (this.turn + 1) % this.slots.length;
    if (!slot) throw new Error('a pool has at least one connection');
    return slot;
  }

  /** Opens every connection and runs `warm` on each. A failed connection is retried by the user that needs it. */
  async open(warm: (slot: Slot) => Promise<void>): Promise<void> {
    const warmed = this.slots.map(async (slot) => {
      await slot.get();
      await warm(slot);
    });
    await Promise.race([Promise.allSettled(warmed), sleep(WARM_TIMEOUT, undefined, { ref: false })]);
  }

  /** Closes every connection and fails the requests in flight with this error. */
  end(failure: Failure): void {
    for (const slot of this.slots) slot.end(failure);
  }
}
