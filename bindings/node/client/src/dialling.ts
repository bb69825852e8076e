// Opens connections: at most one at a time, whichever call caused it, and not at once after failures.

import type { Clock } from './clock.js';
import type { Connection } from './connection.js';
import { LeafsealError } from './errors.js';
import { backoff } from './rules.js';
import { RULES } from './rules_generated.js';
import type { Settings } from './settings.js';

/** The purpose of a new connection: `elsewhere` to reach an engine that is not avoided. */
export type Kind = 'any' | 'elsewhere';

/** Opens a connection to a place, and reports it or the error, once and later. */
export type Dialler = (place: number, done: (outcome: Connection | LeafsealError) => void) => void;

/** The pool's part. */
export interface Places {
  isAvoided: (place: number) => boolean;
  /** The number of usable connections to a place. */
  usableAt: (place: number) => number;
  opened: (connection: Connection) => void;
  failed: (place: number, error: LeafsealError) => void;
  /** A dial has ended, however. */
  ended: () => void;
}

interface Dial {
  readonly kind: Kind;
  order: readonly number[];
  /** Those that were not avoided when it began to try. */
  fresh: readonly number[];
  readonly errors: LeafsealError[];
}

export class Dialling {
  /** Before this time nothing is dialled, because every address has failed with this error. */
  failedUntil = -Infinity;
  failedError = new LeafsealError('connect_failed', 'no engine is available');
  private failures = 0;
  /** Before this time no connection to a place that is not avoided is sought, because none could be opened. */
  private stuckUntil = -Infinity;
  private stuckFailures = 0;
  /** Before this time none is sought while all places are avoided: behind a balancer it might reach another engine. */
  private renewedUntil = -Infinity;
  /** Whether the last connection that became unusable had answered; undefined if a dial has begun since then. */
  private lastUnusable: boolean | undefined;
  private unusedInARow = 0;
  private nextPlace: number;
  private running: Dial | undefined;

  constructor(
    private readonly settings: Settings,
    private readonly clock: Clock,
    private readonly dialler: Dialler,
    private readonly places: Places,
  ) {
    // Many clients that start together do not all begin with the same engine.
    this.nextPlace = this.randomPlace();
  }

  private randomPlace(): number {
    return Math.floor(this.clock.random() * this.count) % this.count;
  }

  private get count(): number {
    return this.settings.addresses.length;
  }

  /** Whether a new connection may reach an engine that is not avoided. */
  get mayDialElsewhere(): boolean {
    if (this.running?.kind === 'elsewhere') return true;
    const now = this.clock.now();
    return now >= this.stuckUntil && now >= this.failedUntil && (this.fresh(this.order()).length > 0 || now >= this.renewedUntil);
  }

  /** A connection has become unusable: it has ended, or drains. */
  noteUnusable(hasAnswered: boolean): void {
    this.lastUnusable = hasAnswered;
  }

  /** Starts a dial, unless one runs or all addresses have failed a moment ago. */
  start(kind: Kind): void {
    if (this.running || this.clock.now() < this.failedUntil) return;
    this.running = { kind, order: [], fresh: [], errors: [] };
    // Load that is uneven evens out as connections age; the next place in order would only hand it on.
    if (this.lastUnusable !== undefined) this.nextPlace = this.randomPlace();
    // An engine that ends connections before it answers must not be reconnected to in a busy loop.
    let pause = 0;
    if (this.lastUnusable === true) this.unusedInARow = 0;
    if (this.lastUnusable === false) {
      if (this.unusedInARow > 0) pause = this.backoff(this.unusedInARow - 1);
      this.unusedInARow += 1;
    }
    this.lastUnusable = undefined;
    const dial = this.running;
    if (pause > 0) this.clock.after(pause, () => this.dial(dial), 'idle');
    else this.dial(dial);
  }

  private dial(dial: Dial): void {
    dial.order = this.order();
    dial.fresh = this.fresh(dial.order);
    if (dial.fresh.length === 0) this.renewedUntil = this.clock.now() + RULES.avoided_ms;
    else if (dial.kind === 'elsewhere') dial.order = dial.fresh;
    this.connect(dial);
  }

  private connect(dial: Dial): void {
    const place = dial.order[dial.errors.length] ?? 0;
    this.nextPlace = (place + 1) % this.count;
    this.dialler(place, (outcome) => {
      if (!(outcome instanceof LeafsealError)) {
        this.succeeded(dial, outcome);
        return;
      }
      dial.errors.push(outcome);
      this.places.failed(place, outcome);
      if (dial.errors.length < dial.order.length) this.connect(dial);
      else this.failed(dial);
    });
  }

  private succeeded(dial: Dial, connection: Connection): void {
    this.running = undefined;
    this.failures = 0;
    this.failedUntil = -Infinity;
    if (dial.fresh.includes(connection.place)) {
      this.stuckFailures = 0;
      this.stuckUntil = -Infinity;
    } else if (dial.fresh.length > 0) this.beStuck();
    this.places.opened(connection);
    this.places.ended();
  }

  private failed(dial: Dial): void {
    this.running = undefined;
    if (dial.fresh.length > 0) this.beStuck();
    if (dial.order.length === this.count) {
      // A network error is preferred to one of certificates, because it may pass.
      const error = dial.errors.findLast(({ code }) => code === 'connect_failed') ?? dial.errors.at(-1);
      if (error) this.failedError = error;
      this.failedUntil = this.clock.now() + this.backoff(this.failures);
      this.failures += 1;
    }
    this.places.ended();
  }

  private beStuck(): void {
    this.stuckUntil = this.clock.now() + this.backoff(this.stuckFailures);
    this.stuckFailures += 1;
  }

  /** All places from the next one on, those that are avoided last, before them those with more usable connections. */
  private order(): number[] {
    const places = Array.from({ length: this.count }, (_, step) => (this.nextPlace + step) % this.count);
    places.sort((first, second) => this.places.usableAt(first) - this.places.usableAt(second));
    const fresh = this.fresh(places);
    return [...fresh, ...places.filter((place) => !fresh.includes(place))];
  }

  private fresh(places: readonly number[]): number[] {
    return places.filter((place) => !this.places.isAvoided(place));
  }

  private backoff(failures: number): number {
    return backoff(this.settings, failures, this.clock.random());
  }
}
