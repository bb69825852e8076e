// The connections that all users share. Each is made when it is first used, and again when it has ended or the engine leaves it.

import { setTimeout as sleep } from 'node:timers/promises';

import { Connection, Failure } from './connection';
import type { Target } from './scenario';
import type { Wire } from './wire';

/** The pause after a failed connection, in milliseconds, doubled at each further failure; requests fail at once in the meantime. */
const BACKOFF_MIN = 50;
/** The longest such pause, in milliseconds. */
const BACKOFF_MAX = 5000;

/** How long the first user waits for connections and for what runs on them before it, in milliseconds. */
const WARM_TIMEOUT = 5000;

/** The place of one connection. */
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

  /** The connection, where there is one that takes requests. */
  get current(): Connection | undefined {
    return this.connection?.takesRequests ? this.connection : undefined;
  }

  /**
   * The connection, made where there is none. Whoever asks while it is being made waits for the same one.
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
      // In the upper half of the pause by chance, so that those who wait for an engine do not come all at once.
      const pause = Math.min(BACKOFF_MIN * 2 ** this.failures, BACKOFF_MAX) * (0.5 + Math.random() / 2);
      this.failures += 1;
      this.nextAttempt = performance.now() + pause;
      this.lastFailure = error instanceof Failure ? error : new Failure('connect_failed', String(error));
      throw this.lastFailure;
    }
  }
}

/** All connections, in turn. */
export class Pool {
  private readonly slots: Slot[];
  private turn = 0;

  constructor(
    target: Target,
    wire: Wire,
  ) {
    this.slots = Array.from({ length: target.connections }, () => new Slot(target, wire));
  }

  /** The place whose turn it is: a user keeps it for all that it sends. */
  next(): Slot {
    const slot = this.slots[this.turn];
    this.turn = (this.turn + 1) % this.slots.length;
    if (!slot) throw new Error('a pool has at least one connection');
    return slot;
  }

  /** Makes every connection, and does `warm` on each. A connection that cannot be made is left for whoever needs it. */
  async open(warm: (slot: Slot) => Promise<void>): Promise<void> {
    const warmed = this.slots.map(async (slot) => {
      await slot.get();
      await warm(slot);
    });
    await Promise.race([Promise.allSettled(warmed), sleep(WARM_TIMEOUT, undefined, { ref: false })]);
  }

  /** Ends every connection; what is in flight fails so. */
  end(failure: Failure): void {
    for (const slot of this.slots) slot.end(failure);
  }
}
