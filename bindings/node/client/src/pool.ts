// The connections to all engines: which one a request uses, when another is opened, and how long a failing address is not used.
//
// A request goes to the open connection with the fewest requests in flight. An address without enough connections gets another in the
// background while all are busy. After a failure an address is ejected for a time that doubles, with jitter; one that answers `unavailable`
// is a last resort for such a time.

import { type Credentials, Connection } from './connection.js';
import { LeafsealError } from './errors.js';
import { notifyAll } from './observer.js';
import { type Address, type Settings, readPem } from './settings.js';

/** One engine. */
interface Engine {
  readonly address: Address;
  readonly name: string;
  readonly connections: Set<Connection>;
  isDialing: boolean;
  /** Consecutive failures. */
  failures: number;
  /** Not used before this time, by `performance.now()`. */
  ejectedUntil: number;
  /** Consecutive answers `unavailable`. */
  refusals: number;
  /** Used only if no other engine is available before this time. */
  avoidedUntil: number;
  lastError: LeafsealError | undefined;
}

/** Selects and opens connections. `wake` is called when requests may be able to begin, or have to fail. */
export class Pool {
  private readonly engines: Engine[];
  /** Attempts to connect that have failed. */
  failedAttempts = 0;
  private turn: number;
  private isClosed = false;

  constructor(
    private readonly settings: Settings,
    private readonly wake: () => void,
  ) {
    this.engines = settings.addresses.map((address) => ({
      address, name: `${address.host}:${address.port}`, connections: new Set(), isDialing: false,
      failures: 0, ejectedUntil: 0, refusals: 0, avoidedUntil: 0, lastError: undefined,
    }));
    // Many clients that start together do not all begin with the same engine.
    this.turn = Math.floor(Math.random() * this.engines.length);
  }

  /** The connection for the next request, if one is available now; for one that an engine `refused`, preferably to another. */
  pick(refused?: Connection): Connection | undefined {
    const now = performance.now();
    const isPreferred = (engine: Engine): boolean => serves(engine, now) && !(refused && engine.connections.has(refused));
    // Even if they are busy: a request does better to wait for them than to be refused.
    const hasPreferred = this.engines.some((engine) => usable(engine) > 0 && isPreferred(engine));
    let best: Connection | undefined;
    for (const engine of this.engines) {
      if (hasPreferred && !isPreferred(engine)) continue;
      for (const connection of engine.connections) {
        if (connection.takesRequests && (!best || connection.inFlight < best.inFlight)) best = connection;
      }
    }
    const isBusy = !best || best.inFlight > 0;
    if (isBusy || !hasPreferred) this.grow(isBusy);
    return best;
  }

  /** The address of a connection. */
  nameOf(connection: Connection): string | undefined {
    return this.engineOf(connection)?.name;
  }

  /** The engine has answered `unavailable` on this connection. */
  refused(connection: Connection): void {
    const engine = this.engineOf(connection);
    const now = performance.now();
    // The answers to requests that were in flight together count once.
    if (!engine || engine.avoidedUntil > now) return;
    engine.avoidedUntil = now + backoff(this.settings, engine.refusals);
    engine.refusals += 1;
    this.grow(false);
  }

  /** Whether another engine than that of this connection may be asked. */
  hasOther(connection: Connection): boolean {
    const now = performance.now();
    const own = this.engineOf(connection);
    return this.engines.some((engine) => engine !== own && engine.avoidedUntil <= now && engine.ejectedUntil <= now);
  }

  /** A request for an app has succeeded on this connection. */
  served(connection: Connection): void {
    for (const engine of this.engines) {
      if (engine.refusals > 0 && engine.connections.has(connection)) engine.refusals = engine.avoidedUntil = 0;
    }
  }

  /** Whether a connection is open or being opened. */
  get isHopeful(): boolean {
    return this.engines.some((engine) => engine.isDialing || usable(engine) > 0);
  }

  /** Milliseconds until an ejected address is tried again. */
  get retryIn(): number {
    return Math.max(0, Math.min(...this.engines.map((engine) => engine.ejectedUntil)) - performance.now());
  }

  /** Why no connection is available. A network error is preferred to one of certificates, because it may pass. */
  get error(): LeafsealError {
    const errors = this.engines.flatMap((engine) => engine.lastError ?? []);
    const best = errors.find((error) => error.code !== 'tls_failed') ?? errors[0];
    return best ?? new LeafsealError('connect_failed', 'no engine is available');
  }

  /** Opens a connection to the engine with the fewest, if one may get another. Unless all are busy, only one that adds an engine to use. */
  grow(isBusy = true): void {
    const now = performance.now();
    const { connectionsMax } = this.settings;
    const may = (engine: Engine): boolean => !engine.isDialing && engine.ejectedUntil <= now && usable(engine) < connectionsMax;
    const rank = (engine: Engine): number => usable(engine) + (engine.avoidedUntil > now ? connectionsMax : 0);
    let best: Engine | undefined;
    for (let step = 0; step < this.engines.length; step += 1) {
      const engine = this.engines[(this.turn + step) % this.engines.length];
      if (engine && may(engine) && (!best || rank(engine) < rank(best))) best = engine;
    }
    if (!best || this.isClosed) return;
    const isAvoided = best.avoidedUntil > now;
    if (!isBusy && (isAvoided || usable(best) > 0)) return;
    // An engine that shuts down accepts connections for a while; it is a last resort.
    if (isAvoided && this.engines.some((engine) => engine !== best && (usable(engine) > 0 || engine.isDialing))) return;
    this.turn = (this.engines.indexOf(best) + 1) % this.engines.length;
    void this.dial(best);
  }

  /** Ends every connection with this error, or closes idle ones. */
  close(error?: LeafsealError): void {
    this.isClosed = true;
    for (const connection of this.engines.flatMap((engine) => [...engine.connections])) {
      if (error) connection.end(error);
      else connection.close();
    }
  }

  private async dial(engine: Engine): Promise<void> {
    engine.isDialing = true;
    try {
      const credentials = await this.credentials();
      const connection = await Connection.open(engine.address, credentials, this.settings, {
        changed: () => this.wake(),
        ended: (ended, error) => this.ended(engine, ended, error),
      });
      this.opened(engine, connection);
    } catch (error) {
      const failure = error instanceof LeafsealError ? error : new LeafsealError('connect_failed', String(error), { cause: error });
      this.eject(engine, failure);
      notifyAll(this.settings.observers, (observer) => observer.connection?.({ address: engine.name, kind: 'failed', error: failure }));
    } finally {
      engine.isDialing = false;
      this.wake();
    }
  }

  private opened(engine: Engine, connection: Connection): void {
    notifyAll(this.settings.observers, (observer) => observer.connection?.({ address: engine.name, kind: 'opened', error: undefined }));
    engine.connections.add(connection);
    // It may have ended before anyone could listen.
    if (connection.error) this.ended(engine, connection, connection.error);
    else if (this.isClosed) connection.close();
  }

  private async credentials(): Promise<Credentials> {
    const { ca, certificate, key } = this.settings;
    const [authority, cert, secret] = await Promise.all([readPem(ca, 'ca'), readPem(certificate, 'certificate'), readPem(key, 'key')]);
    return { ca: authority, cert, key: secret };
  }

  private ended(engine: Engine, connection: Connection, error: LeafsealError): void {
    if (!engine.connections.delete(connection)) return;
    // Requests that still succeed on its other connections do not shorten this.
    if (connection.isShutdown) {
      engine.avoidedUntil = performance.now() + this.settings.shutdownAvoidMs;
      engine.refusals = 0;
    }
    if (connection.hasAnswered) engine.failures = 0;
    // An engine that ends connections before it answers must not be reconnected to in a busy loop.
    else if (error.code !== 'closed') this.eject(engine, error);
    notifyAll(this.settings.observers, (observer) => observer.connection?.({ address: engine.name, kind: 'closed', error }));
    this.wake();
  }

  private engineOf(connection: Connection): Engine | undefined {
    return this.engines.find((engine) => engine.connections.has(connection));
  }

  private eject(engine: Engine, error: LeafsealError): void {
    engine.lastError = error;
    engine.ejectedUntil = performance.now() + backoff(this.settings, engine.failures);
    engine.failures += 1;
    this.failedAttempts += 1;
  }
}

/** Whether it is no last resort. One that has refused gets a single request at a time, until one succeeds. */
function serves(engine: Engine, now: number): boolean {
  if (engine.avoidedUntil > now) return false;
  return engine.refusals === 0 || [...engine.connections].every((connection) => connection.inFlight === 0);
}

function usable(engine: Engine): number {
  let count = 0;
  for (const connection of engine.connections) if (connection.isOpen && !connection.isLeft) count += 1;
  return count;
}

/** The pause after `failures` earlier failures. Jitter over its upper half, so that clients do not all return at once. */
export function backoff(settings: Settings, failures: number): number {
  const { backoffMinMs, backoffMaxMs } = settings;
  return Math.min(backoffMinMs * 2 ** Math.min(failures, 30), backoffMaxMs) * (0.5 + Math.random() / 2);
}
