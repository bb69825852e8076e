// The connections that requests may begin on, and the places that are avoided: used only if there is no other.
//
// A place is an address of the settings. The algorithm is that of all clients, see `vectors/client/README.md`.

import type { Clock } from './clock.js';
import { type Connection, type Ending, type Listener, open } from './connection.js';
import { type Dialler, Dialling, type Kind } from './dialling.js';
import { LeafsealError } from './errors.js';
import { type ConnectionEvent, notifyAll } from './observer.js';
import { avoidanceAfter } from './rules.js';
import { RULES } from './rules_generated.js';
import type { Settings } from './settings.js';

/** Opens a connection to a place that reports to `listener`. */
export type Opener = (place: number, listener: Listener, done: (outcome: Connection | LeafsealError) => void) => void;

interface Avoided {
  readonly until: number;
  readonly since: number;
  /** Whether a call that succeeds ends it. */
  readonly untilSuccess: boolean;
}

/** The next action of a call. */
export type Choice = { readonly connection: Connection } | { readonly ending: Ending } | 'wait';

/** Selects and opens connections. `wake` is called when calls that wait may be able to begin, or have to fail. */
export class Pool {
  readonly dialling: Dialling;
  /** Those that requests may begin on, oldest first. */
  usable: readonly Connection[] = [];
  /** All that have not ended. */
  private readonly all = new Set<Connection>();
  private readonly avoided = new Map<number, Avoided>();
  private readonly names: readonly string[];
  private isClosed = false;

  constructor(
    private readonly settings: Settings,
    private readonly clock: Clock,
    private readonly wake: () => void,
    private readonly opener: Opener = opening(settings, clock),
  ) {
    this.names = settings.addresses.map(({ host, port }) => `${host}:${port}`);
    const dialler: Dialler = (place, done) => this.opener(place, this.listener, done);
    this.dialling = new Dialling(settings, clock, dialler, {
      isAvoided: (place) => this.isAvoided(place),
      usableAt: (place) => this.usable.filter((connection) => connection.place === place).length,
      opened: (connection) => this.opened(connection),
      failed: (place, error) => this.notify(place, 'failed', error),
      ended: () => this.wake(),
    });
  }

  private readonly listener: Listener = {
    answered: () => this.wake(),
    unusable: (connection, reason, wasUsable) => this.noteUnusable(connection, reason, wasUsable),
    ended: (connection, { event, error }) => {
      if (!this.all.delete(connection)) return;
      this.notify(connection.place, 'closed', error);
      if (event !== 'closed') this.wake();
    },
  };

  /** The action of a call that begins an attempt now; it prefers another connection than the one that `refused` it. */
  choose(refused: Connection | undefined): Choice {
    const best = this.best(refused);
    if (!best) {
      const { failedUntil, failedError } = this.dialling;
      if (this.clock.now() < failedUntil) {
        return { ending: { event: failedError.code === 'connect_failed' ? 'connect_failed' : 'tls_failed', error: failedError } };
      }
      this.start('any');
      return 'wait';
    }
    if (this.isAvoided(best.place) && this.dialling.mayDialElsewhere) {
      this.start('elsewhere');
      return 'wait';
    }
    if (best.inFlight > 0 && this.usable.length < this.settings.connectionsMax) this.start('any');
    return best.inFlight < this.settings.requestsInFlightMax ? { connection: best } : 'wait';
  }

  /** Whether a request could begin at once. */
  get hasRoom(): boolean {
    const best = this.best(undefined);
    return best !== undefined && best.inFlight < this.settings.requestsInFlightMax && !this.isAvoided(best.place);
  }

  /** The address of a connection. */
  nameOf(connection: Connection): string | undefined {
    return this.names[connection.place];
  }

  isAvoided(place: number): boolean {
    const avoided = this.avoided.get(place);
    return avoided !== undefined && this.clock.now() < avoided.until;
  }

  /** Avoids a place if the rules say so for this event. */
  avoidAfter(place: number, event: string, code: string): void {
    const rule = avoidanceAfter(event, code);
    if (!rule) return;
    const isLasting = this.isAvoided(place) && this.avoided.get(place)?.untilSuccess === false;
    const now = this.clock.now();
    this.avoided.set(place, { until: now + RULES.avoided_ms, since: now, untilSuccess: rule.untilSuccess && !isLasting });
  }

  /** A request that was sent at this time has succeeded. */
  succeeded(place: number, sent: number): void {
    const avoided = this.avoided.get(place);
    if (avoided?.untilSuccess && avoided.since <= sent) this.avoided.delete(place);
  }

  /** Ends every connection with this error, or closes idle ones; opens none any more. */
  close(error?: LeafsealError): void {
    this.isClosed = true;
    for (const connection of [...this.all]) connection.end('closed', error ?? closed());
  }

  private best(refused: Connection | undefined): Connection | undefined {
    const { requestsInFlightMax } = this.settings;
    const rank = (connection: Connection): number => (this.isAvoided(connection.place) ? 4 : 0)
      + (connection.inFlight >= requestsInFlightMax ? 2 : 0) + (connection === refused ? 1 : 0);
    let best: Connection | undefined;
    let bestRank = 0;
    for (const connection of this.usable) {
      const ownRank = rank(connection);
      if (!best || ownRank < bestRank || (ownRank === bestRank && connection.inFlight < best.inFlight)) {
        best = connection;
        bestRank = ownRank;
      }
    }
    return best;
  }

  private start(kind: Kind): void {
    if (!this.isClosed) this.dialling.start(kind);
  }

  private opened(connection: Connection): void {
    this.all.add(connection);
    this.notify(connection.place, 'opened', undefined);
    if (this.isClosed) {
      connection.end('closed', closed());
      return;
    }
    this.usable = [...this.usable, connection];
    this.replaceAvoided(connection);
  }

  /** Drains connections to avoided engines that a new one replaces: the older ones to its place, and one if there are too many. */
  private replaceAvoided(opened: Connection): void {
    const replaced = new Set<Connection>();
    if (this.isAvoided(opened.place)) {
      for (const other of this.usable) if (other !== opened && other.place === opened.place) replaced.add(other);
      this.avoided.delete(opened.place);
    }
    this.usable = this.usable.filter((connection) => !replaced.has(connection));
    if (this.usable.length > this.settings.connectionsMax) {
      const avoided = this.usable.filter(({ place }) => this.isAvoided(place));
      const [least] = avoided.sort((first, second) => first.inFlight - second.inFlight);
      if (least) replaced.add(least);
      this.usable = this.usable.filter((connection) => connection !== least);
    }
    // Calls that wait may begin here: only now is it clear where.
    for (const connection of replaced) connection.drain();
  }

  private noteUnusable(connection: Connection, reason: 'shutdown' | 'age' | Ending, wasUsable: boolean): void {
    this.usable = this.usable.filter((other) => other !== connection);
    const isEnding = typeof reason !== 'string';
    if (isEnding && reason.event === 'closed') return;
    if (wasUsable) this.dialling.noteUnusable(connection.hasAnswered);
    this.avoidAfter(connection.place, isEnding ? reason.event : 'going_away', isEnding ? reason.error.code : reason);
    if (!isEnding) this.wake();
  }

  private notify(place: number, kind: ConnectionEvent['kind'], error: LeafsealError | undefined): void {
    const address = this.names[place] ?? '';
    notifyAll(this.settings.observers, (observer) => observer.connection?.({ address, kind, error }));
  }
}

function closed(): LeafsealError {
  return new LeafsealError('closed', 'the client closed the connection');
}

/** Opens connections over TLS. */
function opening(settings: Settings, clock: Clock): Opener {
  return (place, listener, done) => {
    const address = settings.addresses[place];
    if (!address) throw new RangeError('no such address');
    open(place, address, settings, clock, listener).then(({ connection, listen }) => {
      done(connection);
      listen();
    }, (error: unknown) => {
      done(error instanceof LeafsealError ? error : new LeafsealError('connect_failed', String(error), { cause: error }));
    });
  };
}
