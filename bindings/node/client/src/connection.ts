// One TLS connection: many requests in flight, answers in any order.
//
// Every request gets exactly one outcome: its answer, or the error that ended the connection. An id is reused only after its answer.
// Received bytes bypass the socket's stream, whose overhead is as large as the latency of a small request.

import { type OnReadOpts, isIP } from 'node:net';
import { type ConnectionOptions, type TLSSocket, checkServerIdentity, connect } from 'node:tls';

import { type Answer, Decoder, encodeCancel } from '@leafseal/wire';

import { LeafsealError, engineError, wireError } from './errors.js';
import { chainExpiry } from './expiry.js';
import type { Address, Settings } from './settings.js';

const ALPN = 'leafseal/1';
/** AES-128 first, as the engine's native client offers them: records of 256-bit keys cost more on both sides. */
const CIPHERS = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256';
/** Size of the read buffer in bytes: more than the content of a TLS record (RFC 8446, section 5.1). */
const READ_SIZE = 1 << 16;
/** Idle time in milliseconds after which TCP probes the peer. */
const KEEP_ALIVE_MS = 30_000;
/** The longest time that a timer of Node can wait. */
const TIMER_MAX_MS = 2_147_483_647;

/** Certificates and key of one attempt to connect. */
export interface Credentials {
  readonly ca: string | Buffer;
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** Receives the outcome of a request, once. */
export type Done = (outcome: Answer | LeafsealError) => void;

/** What a connection reports to its pool. */
export interface Listener {
  /** Requests may begin again, or no longer. */
  changed: () => void;
  /** The connection has ended. */
  ended: (connection: Connection, error: LeafsealError) => void;
}

interface Slot {
  readonly id: number;
  /** Undefined while the slot is free, and after the caller stopped waiting. */
  done: Done | undefined;
  inUse: boolean;
  watch: NodeJS.Timeout | undefined;
}

/** An established connection. */
export class Connection {
  /** Requests without an answer, cancelled ones included. */
  inFlight = 0;
  hasAnswered = false;
  /** The engine announced its shutdown here. */
  isShutdown = false;
  private ended: LeafsealError | undefined;
  private isLeaving = false;
  /** Fires when the engine's chain expires. */
  private expiry: NodeJS.Timeout | undefined;
  private hasExpired = false;
  private isCorked = false;
  private readonly decoder: Decoder;
  private readonly slots: Slot[] = [];
  private readonly free: Slot[] = [];

  private constructor(
    private readonly socket: TLSSocket,
    private readonly settings: Settings,
    private readonly listener: Listener,
  ) {
    this.decoder = new Decoder({ frameSizeMax: settings.answerSizeMax });
    // An idle connection does not keep the process alive.
    socket.unref();
  }

  /**
   * Connects and authenticates. `listener` is called only after the returned promise has resolved.
   *
   * @throws {LeafsealError} `connect_failed`, `tls_failed`.
   */
  static async open(address: Address, credentials: Credentials, settings: Settings, listener: Listener): Promise<Connection> {
    const early: Buffer[] = [];
    let take = (bytes: Buffer): void => void early.push(Buffer.from(bytes));
    const name = settings.serverName ?? address.host;
    const options: ConnectionOptions & { onread: OnReadOpts } = {
      ...address,
      ...credentials,
      minVersion: 'TLSv1.3',
      ciphers: CIPHERS,
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
    const connection = new Connection(socket, settings, listener);
    take = (bytes) => connection.take(bytes);
    for (const bytes of early) connection.take(bytes);
    socket.on('error', (error: Error) => connection.end(lost(error, connection.hasAnswered)));
    socket.on('close', () => connection.end(lost(undefined, connection.hasAnswered)));
    if (socket.destroyed) connection.end(lost(undefined, false));
    // The chain is still valid in its last second.
    connection.leaveAt(chainExpiry(socket, credentials.ca) + 1_000);
    return connection;
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  /** Why it has ended. */
  get error(): LeafsealError | undefined {
    return this.ended;
  }

  /** Whether the engine has announced that it leaves the connection, or its chain has expired. */
  get isLeft(): boolean {
    return this.isLeaving;
  }

  /** Whether requests may begin here. */
  get takesRequests(): boolean {
    return this.ended === undefined && !this.isLeaving && this.inFlight < this.settings.requestsInFlightMax;
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
    this.write(bytes);
    return { id: slot.id, size: bytes.length };
  }

  /** The caller of a request in flight stops waiting: the engine is asked to stop it. It is still answered, and must be in time. */
  cancel(id: number): void {
    const slot = this.slots[id];
    if (!slot?.done || this.ended) return;
    slot.done = undefined;
    this.write(encodeCancel(id));
    slot.watch = setTimeout(() => {
      this.end(new LeafsealError('connection_lost', 'the engine does not answer on this connection', { retry: 'elsewhere' }));
    }, this.settings.abandonedTimeoutMs).unref();
  }

  /** Closes the connection; requests in flight fail with this error. */
  end(error: LeafsealError): void {
    if (this.ended) return;
    this.ended = error;
    clearTimeout(this.expiry);
    this.socket.destroy();
    const slots = this.slots.splice(0);
    for (const slot of slots) {
      clearTimeout(slot.watch);
      const { done } = slot;
      slot.done = undefined;
      done?.(error);
    }
    this.inFlight = 0;
    this.listener.ended(this, error);
  }

  /** Closes an idle connection. */
  close(): void {
    if (this.ended) return;
    this.socket.end();
    this.end(new LeafsealError('closed', 'the client closed the connection'));
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

  private take(bytes: Buffer): void {
    if (this.ended) return;
    try {
      if (this.decoder.push(bytes) === 0) return;
      for (let answer = this.decoder.next(); answer && this.isOpen; answer = this.decoder.next()) this.deliver(answer);
      if (this.decoder.goingAway) this.leave(this.decoder.goingAway);
    } catch (error) {
      const { message } = wireError(error);
      this.end(new LeafsealError('protocol_error', message, { retry: 'elsewhere', cause: error }));
    }
  }

  private leave(reason: 'shutdown' | 'age' | 'closed'): void {
    if (this.ended) return;
    this.isShutdown ||= reason === 'shutdown';
    const isNew = !this.isLeaving;
    this.isLeaving = true;
    if (reason === 'closed' || this.inFlight === 0) {
      const message = this.hasExpired
        ? 'a certificate of the engine\'s chain has expired'
        : 'the engine left the connection before it started the request';
      this.end(new LeafsealError('going_away', message, { retry: 'elsewhere' }));
    } else if (isNew) this.listener.changed();
  }

  /** Leaves the connection at this time, when a certificate of the engine's chain has expired; requests in flight are finished. */
  private leaveAt(moment: number): void {
    if (this.ended) return;
    const left = moment - Date.now();
    if (left > 0) {
      this.expiry = setTimeout(() => this.leaveAt(moment), Math.min(left, TIMER_MAX_MS)).unref();
      return;
    }
    this.hasExpired = true;
    this.leave('age');
  }

  private deliver(answer: Answer): void {
    const { id } = answer;
    if (id === null) {
      const { error } = answer;
      this.end(error ? engineError(error, 'the engine ended the connection: ') : lost(undefined, true));
      return;
    }
    const slot = this.slots[id];
    if (!slot?.inUse) throw new LeafsealError('protocol_error', 'an answer without a request');
    const { done } = slot;
    clearTimeout(slot.watch);
    Object.assign(slot, { done: undefined, inUse: false, watch: undefined });
    this.free.push(slot);
    this.hasAnswered = true;
    this.inFlight -= 1;
    if (this.inFlight === 0) this.socket.unref();
    if (done) done(answer);
    else answer.release();
    this.listener.changed();
    if (this.isLeaving && this.inFlight === 0) this.leave('closed');
  }
}

/** The error of a connection that ended. With TLS 1.3 a refused client certificate is noticed only here. */
function lost(error: Error | undefined, hasAnswered: boolean): LeafsealError {
  const { code = '' } = (error ?? {}) as NodeJS.ErrnoException;
  if (code.startsWith('ERR_SSL') && !hasAnswered) {
    return new LeafsealError('tls_failed', `the engine refused the connection: ${code}; check the client's certificate`, { cause: error });
  }
  const message = error ? `the connection failed: ${error.message}` : 'the engine closed the connection';
  return new LeafsealError('connection_lost', message, { retry: 'elsewhere', cause: error });
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
