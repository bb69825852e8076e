// One TLS connection: many requests in flight, answers in any order.
//
// What happens between a request's due moment and its bytes' way into TLS, and between the arrival of its answer and the look at the
// clock, is part of every latency that is told: no promise, no copy and no encoding stands there where it can be helped.

import { type OnReadOpts, isIP } from 'node:net';
import { type ConnectionOptions, type TLSSocket, checkServerIdentity, connect as connectTls } from 'node:tls';

import type { Target } from './scenario';
import type { Answer, Wire } from './wire';

const ALPN = 'fieldseal/1';
/** In this order, which is that of `fieldseal load`: both have the engine do the same work. */
const CIPHERS = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256';
/** How long making a connection may take, TLS included, in milliseconds. */
export const CONNECT_TIMEOUT = 5000;
/** Room for what is read at once, in bytes: more than the content of a TLS record (RFC 8446, section 5.1). */
const READ_SIZE = 1 << 16;
/** Most bytes of messages that are kept for further requests like them, on each connection. */
const IDLE_BYTES_MAX = 16 << 20;

/** Why a request failed: a code of the protocol, or one that docs/load.md names besides. */
export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Makes a message of the id that it gets. Whoever sends the same again gives the same function. */
export type Encode = (id: number) => Buffer;

/** What a request ended with, and when the last bytes of that had arrived, by `performance.now()`. */
export type Done = (outcome: Answer | Failure, at: number) => void;

/** A request, encoded with an id of its own. When it is answered it waits to be sent again. */
interface Message {
  readonly id: number;
  readonly encode: Encode;
  readonly bytes: Buffer;
  /** While it is in flight. */
  done: Done | undefined;
}

/** A connection that stands. */
export class Connection {
  private readonly decoder;
  private readonly messages: (Message | undefined)[] = [];
  private readonly freeIds: number[] = [];
  private readonly idle = new Map<Encode, Message[]>();
  private idleBytes = 0;
  private inFlight = 0;
  private ended: Failure | undefined;
  private leaving = false;

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
    // A connection at rest keeps no process alive.
    socket.unref();
  }

  /**
   * Connects, and shows who we are.
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
      // An address is no name that TLS would send.
      servername: isIP(serverName) ? '' : serverName,
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
      // Past the stream that a socket is, which would take as long as a small request does.
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

  /** Whether requests may begin here: not any more once the engine has said that it leaves the connection. */
  get takesRequests(): boolean {
    return this.isOpen && !this.leaving;
  }

  /** Makes a message to be sent later, so that who sends it first need not. */
  prepare(encode: Encode): void {
    this.keep(this.message(encode));
  }

  /** Sends what `encode` makes; the id of the request. `done` is called once, also where the answer is an error. */
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

  /** Asks the engine to stop a request that is in flight. Its answer still comes. */
  cancel(id: number): void {
    if (this.messages[id]?.done && this.isOpen) this.socket.write(this.wire.encodeCancel(id));
  }

  /** Ends the connection; what is in flight fails. */
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

  /** Keeps a message for the next request like it, where there is room. */
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
      if (this.decoder.goingAway && this.isOpen) this.leave(this.decoder.goingAway === 'closed');
    } catch (error) {
      this.end(new Failure('wrong_answer', error instanceof Error ? error.message : String(error)));
    }
  }

  /** The engine leaves the connection, which ends once nothing is in flight, or now where the engine has closed it. */
  private leave(isClosed: boolean): void {
    this.leaving = true;
    if (isClosed || this.inFlight === 0) this.end(new Failure('connection_lost', 'the engine left the connection'));
  }

  private deliver(answer: Answer, at: number): void {
    const { id, error } = answer;
    if (id === null) {
      this.end(new Failure(error?.code ?? 'connection_lost', error?.message ?? 'the engine ended the connection'));
      return;
    }
    const message = this.messages[id];
    const done = message?.done;
    if (!message || !done) throw new Error('an answer that nobody asked for');
    message.done = undefined;
    this.keep(message);
    this.inFlight -= 1;
    if (this.inFlight === 0) this.socket.unref();
    done(error ? new Failure(error.code, error.message) : answer, at);
  }
}

/** Waits until TLS stands. What ends the socket later is told to nobody here. */
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
