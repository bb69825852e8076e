// One TLS connection: many requests in flight, answers in any order.
//
// Work between a request's due time and the write to TLS, and between the arrival of an answer and reading the clock, adds to every
// reported latency. Promises, copies and encoding are therefore avoided on these paths.

import { type OnReadOpts, isIP } from 'node:net';
import { type ConnectionOptions, type TLSSocket, checkServerIdentity, connect as connectTls } from 'node:tls';

import type { Target } from './scenario';
import type { Answer, Wire } from './wire';

const ALPN = 'leafseal/1';
/** The same order as in `leafseal load`, so that both cause the same work in the engine. */
const CIPHERS = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256';
/** Timeout of a connection attempt including TLS, in milliseconds. */
export const CONNECT_TIMEOUT = 5000;
/** Size of the read buffer in bytes: more than the content of a TLS record (RFC 8446, section 5.1). */
const READ_SIZE = 1 << 16;
/** Maximum bytes of encoded messages that each connection keeps for reuse. */
const IDLE_BYTES_MAX = 16 << 20;

/** Why a request failed: a code of the protocol, or one of those in docs/load.md. */
export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Encodes a message with the given id. Pass the same function to send the same message again. */
export type Encode = (id: number) => Buffer;

/** The result of a request, and when its last bytes arrived, by `performance.now()`. */
export type Done = (outcome: Answer | Failure, at: number) => void;

/** An encoded request with its own id. After its answer it is kept for reuse. */
interface Message {
  readonly id: number;
  readonly encode: Encode;
  readonly bytes: Buffer;
  /** Set while it is in flight. */
  done: Done | undefined;
}

/** An established connection. */
export class Connection {
  private readonly decoder;
  private readonly messages: (Message | undefined)[] = [];
  private readonly freeIds: number[] = [];
  private readonly idle = new Map<Encode, Message[]>();
  private idleBytes = 0;
  private inFlight = 0;
  private ended: Failure | undefined;
  private draining = false;

  private constructor(
    private readonly socket: TLSSocket,
    private readonly wire: Wire,
  ) {
    this.decoder = new wire.Decoder();
    socket.on('error', (error: Error) => {
      this.end(new Failure('connection_lost', error.message));
    });
    socket.on('close', () => {
      this.end(new Failure('connection_lost', 'the engine closed the connection'));
    });
    // An idle connection does not keep the process alive.
    socket.unref();
  }

  /**
   * Connects and authenticates with the client certificate.
   *
   * @throws {Failure} `connect_failed`.
   */
  static async open(target: Target, wire: Wire): Promise<Connection> {
    const { host, port, serverName, key, cert, ca } = target;
    const early: [Buffer, number][] = [];
    let take = (bytes: Buffer, at: number): void => void early.push([Buffer.from(bytes), at]);
    const options: ConnectionOptions & { onread: OnReadOpts } = {
      host,
      port,
      key,
      cert,
      ca,
      minVersion: 'TLSv1.3',
      maxVersion: 'TLSv1.3',
      ciphers: CIPHERS,
      ALPNProtocols: [ALPN],
      // TLS does not send IP addresses as server name.
      servername: isIP(serverName) ? '' : serverName,
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
      // Bypasses the socket's stream, whose overhead is as large as the latency of a small request.
      onread: {
        buffer: Buffer.allocUnsafeSlow(READ_SIZE),
        callback: (size, buffer) => {
          const at = performance.now();
          take((buffer as Buffer).subarray(0, size), at);
          return true;
        },
      },
    };
    const socket = connectTls(options);
    socket.setNoDelay(true);
    await secured(socket, `${host}:${port}`);
    const connection = new Connection(socket, wire);
    take = (bytes, at) => connection.take(bytes, at);
    for (const [bytes, at] of early) take(bytes, at);
    return connection;
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  /** Whether new requests may use it: no longer once the engine has announced that it will close the connection. */
  get takesRequests(): boolean {
    return this.isOpen && !this.draining;
  }

  /** Encodes a message in advance, so that its first sender does not have to. */
  prepare(encode: Encode): void {
    this.keep(this.message(encode));
  }

  /** Sends the message of `encode` and returns its id. `done` is called once, also if the answer is an error. */
  send(encode: Encode, done: Done): number {
    if (this.ended) {
      queueMicrotask(done.bind(undefined, this.ended, performance.now()));
      return -1;
    }
    const message = this.taken(encode) ?? this.message(encode);
    message.done = done;
    if (this.inFlight === 0) this.socket.ref();
    this.inFlight += 1;
    this.socket.write(message.bytes);
    return message.id;
  }

  /** Cancels a request in flight. It is still answered. */
  cancel(id: number): void {
    if (this.messages[id]?.done && this.isOpen) this.socket.write(this.wire.encodeCancel(id));
  }

  /** Closes the connection and fails the requests in flight. */
  end(failure: Failure): void {
    if (this.ended) return;
    this.ended = failure;
    this.socket.destroy();
    const at = performance.now();
    const messages = this.messages.splice(0);
    for (const message of messages) message?.done?.(failure, at);
  }

  private message(encode: Encode): Message {
    const id = this.freeIds.pop() ?? this.messages.length;
    const message = { id, encode, bytes: encode(id), done: undefined };
    this.messages[id] = message;
    return message;
  }

  private taken(encode: Encode): Message | undefined {
    const message = this.idle.get(encode)?.pop();
    if (message) this.idleBytes -= message.bytes.length;
    return message;
  }

  /** Keeps a message for reuse, up to the limit. */
  private keep(message: Message): void {
    if (this.idleBytes + message.bytes.length > IDLE_BYTES_MAX) {
      this.messages[message.id] = undefined;
      this.freeIds.push(message.id);
      return;
    }
    this.idleBytes += message.bytes.length;
    const alike = this.idle.get(message.encode);
    if (alike) alike.push(message);
    else this.idle.set(message.encode, [message]);
  }

  private take(bytes: Buffer, at: number): void {
    if (this.ended) return;
    try {
      if (this.decoder.push(bytes) === 0) return;
      for (let answer = this.decoder.next(); answer && this.isOpen; answer = this.decoder.next()) this.deliver(answer, at);
      if (this.decoder.goingAway && this.isOpen) this.drain(this.decoder.goingAway === 'closed');
    } catch (error) {
      this.end(new Failure('wrong_answer', error instanceof Error ? error.message : String(error)));
    }
  }

  /** The engine is closing the connection. Ends it once nothing is in flight, or immediately if the engine has closed it. */
  private drain(isClosed: boolean): void {
    this.draining = true;
    if (isClosed || this.inFlight === 0) this.end(new Failure('connection_lost', 'the engine closed the connection'));
  }

  private deliver(answer: Answer, at: number): void {
    const { id, error } = answer;
    if (id === null) {
      this.end(new Failure(error?.code ?? 'connection_lost', error?.message ?? 'the engine ended the connection'));
      return;
    }
    const message = this.messages[id];
    const done = message?.done;
    if (!message || !done) throw new Error('an answer without a request');
    message.done = undefined;
    this.keep(message);
    this.inFlight -= 1;
    if (this.inFlight === 0) this.socket.unref();
    done(error ? new Failure(error.code, error.message) : answer, at);
  }
}

/** Waits until the TLS handshake is complete. Later errors of the socket are not reported here. */
async function secured(socket: TLSSocket, address: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const fail = (message: string): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(new Failure('connect_failed', `${address}: ${message}`));
    };
    const timer = setTimeout(fail, CONNECT_TIMEOUT, `no connection within ${CONNECT_TIMEOUT} ms`);
    socket.once('error', (error: Error) => {
      fail(error.message);
    });
    socket.once('close', () => {
      fail('the engine closed the connection');
    });
    socket.once('secureConnect', () => {
      if (socket.alpnProtocol !== ALPN) {
        fail(`the server does not speak ${ALPN}`);
        return;
      }
      clearTimeout(timer);
      resolve();
    });
  });
}
