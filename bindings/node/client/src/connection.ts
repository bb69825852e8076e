// One TLS connection: many requests in flight, answers in any order.
//
// Every request gets exactly one outcome: its answer, or why the connection ended. An id is reused only after its answer. Received bytes
// bypass the socket's stream, whose overhead is as large as the latency of a small request.

import { type OnReadOpts, isIP } from 'node:net';
import { type ConnectionOptions, type TLSSocket, checkServerIdentity, connect, createSecureContext } from 'node:tls';

import { type Answer, Decoder, encodeCancel } from '@leafseal/wire';

import { type Clock, TIMER_MAX_MS, type Timer } from './clock.js';
import { LeafsealError, engineError, wireError } from './errors.js';
import { chainExpiry } from './expiry.js';
import type { Event } from './rules.js';
import { type Address, type Settings, readPem } from './settings.js';

const ALPN = 'leafseal/1';
/** AES-128 first, as the engine's native client offers them: records of 256-bit keys cost more on both sides. */
const CIPHERS = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256';
/** Groups of the key exchange, the preferred first, as engines have them; and for a Node whose OpenSSL is older than 3.5. */
const GROUPS = 'X25519MLKEM768:X25519:P-256';
const CLASSIC_GROUPS = 'X25519:P-256';
/** Size of the read buffer in bytes: more than the content of a TLS record (RFC 8446, section 5.1). */
const READ_SIZE = 1 << 16;
/** Idle time in milliseconds after which TCP probes the peer. */
const KEEP_ALIVE_MS = 30_000;

/** Why a connection, or an attempt of a call, ended without an answer; `event` as in the clients' rules. */
export interface Ending {
  readonly event: Event;
  readonly error: LeafsealError;
}

/** Receives the outcome of a request, once. */
export type Done = (outcome: Answer | Ending) => void;

/** The events that a connection reports to its pool. */
export interface Listener {
  /** A request in flight was answered, after its own outcome. */
  answered: () => void;
  /** The connection has ended or drains: no request begins there. `wasUsable` unless that was so before. */
  unusable: (connection: Connection, reason: 'shutdown' | 'age' | Ending, wasUsable: boolean) => void;
  /** The connection has ended, after the outcomes of its requests. */
  ended: (connection: Connection, ending: Ending) => void;
}

/** The part of a socket that a connection needs. */
export type Transport = Pick<TLSSocket, 'cork' | 'destroy' | 'end' | 'ref' | 'uncork' | 'unref' | 'write'>;

interface Slot {
  readonly id: number;
  /** Undefined while the slot is free, and after the caller stopped waiting. */
  done: Done | undefined;
  inUse: boolean;
  watch: Timer;
}

/** An established connection. */
export class Connection {
  /** Requests without an answer, cancelled ones included. */
  inFlight = 0;
  hasAnswered = false;
  private ended: LeafsealError | undefined;
  private isDraining = false;
  /** The last reason that the engine has announced with `going_away`. */
  private announced: string | undefined;
  /** Requests in flight whose callers wait. */
  private awaited = 0;
  /** Fires when the engine's chain expires. */
  private expiry: Timer;
  private hasExpired = false;
  private isCorked = false;
  private readonly decoder: Decoder;
  private readonly slots: Slot[] = [];
  private readonly free: Slot[] = [];

  /** `place` is the index of its address. */
  constructor(
    readonly place: number,
    private readonly socket: Transport,
    private readonly settings: Settings,
    private readonly clock: Clock,
    private readonly listener: Listener,
  ) {
    this.decoder = new Decoder({ frameSizeMax: settings.answerSizeMax });
    // An idle connection does not keep the process alive.
    socket.unref();
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  /** Whether requests may begin here, as soon as there is a free slot: it has not ended and does not drain. */
  get isUsable(): boolean {
    return this.ended === undefined && !this.isDraining;
  }

  /**
   * Encodes a request with a free id, and writes it. Returns the id. The message of `encode` is not changed afterwards.
   *
   * @throws what `encode` throws; then nothing was written.
   */
  send(encode: (id: number) => Buffer, done: Done): { id: number; size: number } {
    const slot = this.free.pop() ?? this.newSlot();
    let bytes;
    try {
      bytes = encode(slot.id);
    } catch (error) {
      this.free.push(slot);
      throw error;
    }
    slot.done = done;
    slot.inUse = true;
    if (this.inFlight === 0) this.socket.ref();
    this.inFlight += 1;
    this.awaited += 1;
    this.write(bytes);
    return { id: slot.id, size: bytes.length };
  }

  /** The caller of a request in flight stops waiting: the engine is asked to stop it. It is still answered, and must be in time. */
  cancel(id: number): void {
    const slot = this.slots[id];
    if (!slot?.done || this.ended) return;
    slot.done = undefined;
    this.awaited -= 1;
    this.write(encodeCancel(id));
    slot.watch = this.clock.after(this.settings.abandonedTimeoutMs, () => {
      const message = 'the engine does not answer on this connection';
      this.end('connection_lost', new LeafsealError('connection_lost', message, { retry: 'elsewhere' }));
    }, 'idle');
    this.closeIfIdle();
  }

  /** Closes the connection; requests in flight fail with this error. */
  end(event: Event, error: LeafsealError): void {
    if (this.ended) return;
    this.ended = error;
    this.clock.cancel(this.expiry);
    this.socket.destroy();
    const ending = { event, error };
    this.listener.unusable(this, ending, !this.isDraining);
    const slots = this.slots.splice(0);
    for (const slot of slots) {
      this.clock.cancel(slot.watch);
      const { done } = slot;
      slot.done = undefined;
      done?.(ending);
    }
    this.inFlight = 0;
    this.awaited = 0;
    this.listener.ended(this, ending);
  }

  /** Begins no more requests, and closes the connection when no caller waits for one. */
  drain(): void {
    this.isDraining = true;
    this.closeIfIdle();
  }

  private newSlot(): Slot {
    const slot = { id: this.slots.length, done: undefined, inUse: false, watch: undefined };
    this.slots.push(slot);
    return slot;
  }

  /** Messages of one turn of the event loop become one write. */
  private write(bytes: Buffer): void {
    if (!this.isCorked) {
      this.isCorked = true;
      this.socket.cork();
      process.nextTick(() => {
        this.isCorked = false;
        this.socket.uncork();
      });
    }
    this.socket.write(bytes);
  }

  /** Received bytes. */
  take(bytes: Buffer): void {
    if (this.ended) return;
    try {
      if (this.decoder.push(bytes) === 0) return;
      for (let answer = this.decoder.next(); answer && this.isOpen; answer = this.decoder.next()) this.deliver(answer);
      const { goingAway } = this.decoder;
      if (goingAway && goingAway !== this.announced) {
        this.announced = goingAway;
        this.drainFor(goingAway);
      }
    } catch (error) {
      const { message } = wireError(error);
      this.end('protocol_error', new LeafsealError('protocol_error', message, { retry: 'elsewhere', cause: error }));
    }
  }

  /** The socket has ended. */
  lost(error?: Error): void {
    const { code = '' } = (error ?? {}) as NodeJS.ErrnoException;
    // With TLS 1.3 a refused client certificate is noticed only here.
    if (code.startsWith('ERR_SSL') && !this.hasAnswered) {
      const message = `the engine refused the connection: ${code}; check the client's certificate`;
      this.end('tls_failed', new LeafsealError('tls_failed', message, { cause: error }));
      return;
    }
    const message = error ? `the connection failed: ${error.message}` : 'the engine closed the connection';
    this.end('connection_lost', new LeafsealError('connection_lost', message, { retry: 'elsewhere', cause: error }));
  }

  /** Drains the connection at this time, when a certificate of the engine's chain has expired; requests in flight are finished. */
  drainAt(moment: number): void {
    if (this.ended) return;
    const left = moment - Date.now();
    if (left > 0) {
      this.expiry = this.clock.after(Math.min(left, TIMER_MAX_MS), () => this.drainAt(moment), 'idle');
      return;
    }
    this.hasExpired = true;
    this.drainFor('age');
  }

  private drainFor(reason: 'shutdown' | 'age' | 'closed'): void {
    if (this.ended) return;
    if (reason === 'closed') {
      this.end('going_away', this.drainError());
      return;
    }
    const wasUsable = !this.isDraining;
    this.isDraining = true;
    this.listener.unusable(this, reason, wasUsable);
    this.closeIfIdle();
  }

  private closeIfIdle(): void {
    if (this.ended || !this.isDraining || this.awaited > 0) return;
    this.socket.end();
    this.end('closed', this.drainError());
  }

  private drainError(): LeafsealError {
    const message = this.hasExpired
      ? 'a certificate of the engine\'s chain has expired'
      : 'the engine closed the connection before it started the request';
    return new LeafsealError('going_away', message, { retry: 'elsewhere' });
  }

  private deliver(answer: Answer): void {
    const { id } = answer;
    if (id === null) {
      const { error } = answer;
      if (error) this.end('connection_error', engineError(error, 'the engine ended the connection: '));
      else this.lost();
      return;
    }
    const slot = this.slots[id];
    if (!slot?.inUse) throw new LeafsealError('protocol_error', 'an answer without a request');
    const { done } = slot;
    this.clock.cancel(slot.watch);
    Object.assign(slot, { done: undefined, inUse: false, watch: undefined });
    this.free.push(slot);
    this.hasAnswered = true;
    this.inFlight -= 1;
    if (this.inFlight === 0) this.socket.unref();
    if (done) {
      this.awaited -= 1;
      done(answer);
    } else answer.release();
    this.listener.answered();
    this.closeIfIdle();
  }
}

/**
 * Connects and authenticates. The returned function hands the connection what has arrived, and listens from then on.
 *
 * @throws {LeafsealError} `connect_failed`, `tls_failed`.
 */
export async function open(
  place: number,
  address: Address,
  settings: Settings,
  clock: Clock,
  listener: Listener,
): Promise<{ connection: Connection; listen: () => void }> {
  const early: Buffer[] = [];
  let take = (bytes: Buffer): void => void early.push(Buffer.from(bytes));
  const [ca, cert, key] = await Promise.all([
    readPem(settings.ca, 'ca'), readPem(settings.certificate, 'certificate'), readPem(settings.key, 'key'),
  ]);
  const name = settings.serverName ?? address.host;
  const options: ConnectionOptions & { onread: OnReadOpts } = {
    ...address, ca, cert, key,
    minVersion: 'TLSv1.3',
    ciphers: CIPHERS,
    ecdhCurve: groups(),
    ALPNProtocols: [ALPN],
    // TLS does not send IP addresses as server name.
    servername: isIP(name) ? '' : name,
    checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate),
    onread: {
      buffer: Buffer.allocUnsafeSlow(READ_SIZE),
      callback: (size, buffer) => {
        take((buffer as Buffer).subarray(0, size));
        return true;
      },
    },
  };
  const socket = await secured(options, settings.connectTimeoutMs, `${address.host}:${address.port}`);
  const connection = new Connection(place, socket, settings, clock, listener);
  const listen = (): void => {
    take = (bytes) => connection.take(bytes);
    for (const bytes of early) connection.take(bytes);
    socket.on('error', (error: Error) => connection.lost(error));
    socket.on('close', () => connection.lost());
    if (socket.destroyed) connection.lost();
    // The chain is still valid in its last second.
    connection.drainAt(chainExpiry(socket, ca) + 1_000);
  };
  return { connection, listen };
}

let knownGroups: string | undefined;

/** The groups that this Node offers. Its TLS library rejects a list with a name that it does not have. */
export function groups(): string {
  if (knownGroups === undefined) {
    try {
      createSecureContext({ ecdhCurve: GROUPS });
      knownGroups = GROUPS;
    } catch {
      knownGroups = CLASSIC_GROUPS;
    }
  }
  return knownGroups;
}

/** Failures of the network, rather than of certificates. */
const NETWORK = /^(E[A-Z]+|ERR_SOCKET\w*)$/;

/** Waits until the TLS handshake is complete. */
async function secured(options: ConnectionOptions, timeoutMs: number, address: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    let socket: TLSSocket | undefined;
    const fail = (code: 'connect_failed' | 'tls_failed', message: string, cause?: unknown): void => {
      clearTimeout(timer);
      socket?.destroy();
      reject(new LeafsealError(code, `${address}: ${message}`, { retry: code === 'tls_failed' ? 'never' : 'elsewhere', cause }));
    };
    const timer = setTimeout(() => fail('connect_failed', `no connection within ${timeoutMs} ms`), timeoutMs);
    let connecting: TLSSocket;
    try {
      socket = connecting = connect(options);
    } catch (error) {
      // Node parses certificates and keys here.
      fail('tls_failed', `the certificate or key cannot be used: ${(error as Error).message}`, error);
      return;
    }
    connecting.setNoDelay(true);
    connecting.setKeepAlive(true, KEEP_ALIVE_MS);
    const failed = (error: NodeJS.ErrnoException): void => {
      fail(NETWORK.test(error.code ?? '') && !error.code?.startsWith('ERR_TLS') ? 'connect_failed' : 'tls_failed', error.message, error);
    };
    const closed = (): void => fail('connect_failed', 'the engine closed the connection');
    connecting.once('error', failed);
    connecting.once('close', closed);
    connecting.once('secureConnect', () => {
      if (connecting.alpnProtocol !== ALPN) {
        fail('tls_failed', `the server does not support ${ALPN}; connect to the engine's RPC port`);
        return;
      }
      clearTimeout(timer);
      // Errors until the connection has its own handlers must not be unhandled.
      connecting.on('error', () => undefined);
      connecting.off('error', failed);
      connecting.off('close', closed);
      resolve(connecting);
    });
  });
}
