// One TLS connection: many requests in flight, answers in any order.

import { isIP } from 'node:net';
import { type TLSSocket, checkServerIdentity, connect as connectTls } from 'node:tls';

import type { Target } from './scenario';
import type { Answer, Wire } from './wire';

const ALPN = 'fieldseal/1';
/** How long making a connection may take, TLS included, in milliseconds. */
export const CONNECT_TIMEOUT = 5000;
/** Ids of requests are below this. */
const IDS = 2 ** 32;

/** Why a request failed: a code of the protocol, or one that docs/load.md names besides. */
export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** An answer, and when its last bytes had arrived, by `performance.now()`. */
export interface Arrived {
  readonly answer: Answer;
  readonly at: number;
}

interface Pending {
  readonly done: (arrived: Arrived) => void;
  readonly failed: (failure: Failure) => void;
}

/** A request that was sent. */
export interface Sent {
  /** Its answer; rejected with a {@link Failure}, also where the answer is an error. */
  readonly arrived: Promise<Arrived>;
  /** Asks the engine to stop. The answer still comes. */
  cancel: () => void;
}

/** A connection that stands. */
export class Connection {
  private readonly decoder;
  private readonly inFlight = new Map<number, Pending>();
  private lastId = -1;
  private ended: Failure | undefined;

  private constructor(
    private readonly socket: TLSSocket,
    private readonly wire: Wire,
  ) {
    this.decoder = new wire.Decoder();
    socket.on('data', (bytes: Buffer) => {
      this.take(bytes);
    });
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
    const socket = connectTls({
      host,
      port,
      key,
      cert,
      ca,
      minVersion: 'TLSv1.3',
      maxVersion: 'TLSv1.3',
      ALPNProtocols: [ALPN],
      // An address is no name that TLS would send.
      servername: isIP(serverName) ? '' : serverName,
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
    });
    socket.setNoDelay(true);
    await new Promise<void>((resolve, reject) => {
      const fail = (message: string): void => {
        clearTimeout(timer);
        socket.destroy();
        reject(new Failure('connect_failed', `${host}:${port}: ${message}`));
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
        socket.removeAllListeners();
        resolve();
      });
    });
    return new Connection(socket, wire);
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  /** Sends what `encode` makes of the id that the request gets. */
  send(encode: (id: number) => Buffer): Sent {
    const id = this.freeId();
    const arrived = new Promise<Arrived>((done, failed) => {
      if (this.ended) {
        failed(this.ended);
        return;
      }
      const message = encode(id);
      if (this.inFlight.size === 0) this.socket.ref();
      this.inFlight.set(id, { done, failed });
      this.socket.write(message);
    });
    return {
      arrived,
      cancel: () => {
        if (this.inFlight.has(id) && this.isOpen) this.socket.write(this.wire.encodeCancel(id));
      },
    };
  }

  /** Ends the connection; what is in flight fails. */
  end(failure: Failure): void {
    if (this.ended) return;
    this.ended = failure;
    this.socket.destroy();
    const inFlight = [...this.inFlight.values()];
    this.inFlight.clear();
    for (const { failed } of inFlight) failed(failure);
  }

  private freeId(): number {
    do this.lastId = (this.lastId + 1) % IDS;
    while (this.inFlight.has(this.lastId));
    return this.lastId;
  }

  private take(bytes: Buffer): void {
    const at = performance.now();
    try {
      this.decoder.push(bytes);
      for (let answer = this.decoder.next(); answer && this.isOpen; answer = this.decoder.next()) this.deliver(answer, at);
    } catch (error) {
      this.end(new Failure('wrong_answer', error instanceof Error ? error.message : String(error)));
    }
  }

  private deliver(answer: Answer, at: number): void {
    const { id, error } = answer;
    if (id === null) {
      this.end(new Failure(error?.code ?? 'connection_lost', error?.message ?? 'the engine ended the connection'));
      return;
    }
    const pending = this.inFlight.get(id);
    if (!pending) throw new Error('an answer that nobody asked for');
    this.inFlight.delete(id);
    if (this.inFlight.size === 0) this.socket.unref();
    if (error) pending.failed(new Failure(error.code, error.message));
    else pending.done({ answer, at });
  }
}
