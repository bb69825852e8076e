/**
 * Messages of the Fieldseal engine: requests into Buffers, answers out of them as they arrive.
 *
 * The package converts and does nothing else: sockets, TLS, ids, timeouts and retries are the caller's. What the messages mean stands
 * in Fieldseal's `docs/protocol.md`. All that a function refuses it refuses with a {@link WireError}.
 */

/** A native value. Integers beyond `Number.MAX_SAFE_INTEGER` are BigInts of 64 bits, both ways. */
export type Value = null | boolean | number | bigint | string;

/** What a request says besides its values. Options that are left out are left to the engine's settings. */
export interface DecryptOptions {
  /** The app whose keys serve the request; 1 to 128 bytes. */
  app: string;
  /** Encrypting: the data role written into the envelopes. Decrypting: the one that they must carry. */
  role?: string;
  /** How long the caller waits, in milliseconds, 1 to 4294967295. */
  deadlineMs?: number;
  /** Most bytes of the encoded message, 1 to 4294967295. Default: 1 GiB, as the engine takes. */
  frameSizeMax?: number;
}

/** The same, with what only encrypting takes. */
export interface EncryptOptions extends DecryptOptions {
  /** P-256 or secp256k1. */
  curve?: 'r1' | 'k1';
  /** How often a fresh ephemeral key is made. */
  keying?: 'field' | 'request' | 'session';
}

/**
 * `encrypt` of values. `id` is an integer from 0 to 4294967295 that no other request in flight on the connection has.
 *
 * @throws {WireError} `invalid_argument`, with the index where a value is at fault; `too_large`.
 */
export function encodeEncrypt(id: number, options: EncryptOptions, values: readonly Value[]): Buffer;

/**
 * `encrypt` of strings of `fieldSize` bytes each, which stand in `content` one after the other, in UTF-8: as many as it holds. Nothing
 * of them becomes a value of JavaScript.
 *
 * @throws {WireError} `invalid_argument` where `content` is no multiple of `fieldSize`, or a field is not UTF-8; `too_large`.
 */
export function encodeEncryptFields(id: number, options: EncryptOptions, content: Uint8Array, fieldSize: number): Buffer;

/**
 * `decrypt` of envelopes among any values.
 *
 * @throws {WireError} As {@link encodeEncrypt}.
 */
export function encodeDecrypt(id: number, options: DecryptOptions, values: readonly Value[]): Buffer;

/**
 * `decrypt` of what an answer to `encrypt` holds. Nothing of it becomes a value of JavaScript.
 *
 * @throws {WireError} `invalid_answer` where the answer has no values; `invalid_argument`, `too_large`.
 */
export function encodeDecryptAnswer(id: number, options: DecryptOptions, answer: Answer): Buffer;

/** `health`, which an engine answers as soon as it has read it. */
export function encodeHealth(id: number): Buffer;

/** The notification `cancel`: the request `id` shall stop. It is still answered. */
export function encodeCancel(id: number): Buffer;

/** Bounds of what an engine may send in one message. Integers from 1 to 4294967295. */
export interface Bounds {
  /** Bytes. Default: 1 GiB. */
  frameSizeMax?: number;
  /** Elements of an array, pairs of a map. Default: 2^24. */
  elementsMax?: number;
  /** Containers inside one another. Default: 32. */
  depthMax?: number;
}

/** Cuts what arrives on a connection into answers. One for each connection. */
export class Decoder {
  /** @throws {WireError} `invalid_argument`. */
  constructor(bounds?: Bounds);
  /**
   * Takes what has arrived, in pieces of any size. The bytes are copied once, so that the caller may use their memory again. No byte
   * is looked at twice, and nothing is allocated by a length that is only claimed.
   *
   * Gives how many messages wait for {@link next}.
   *
   * @throws {WireError} `too_large` or `invalid_frame`. The connection has no next message then: end it. Answers that were whole
   * before can still be taken.
   */
  push(bytes: Uint8Array): number;
  /**
   * The next answer that has arrived in full, in the order of arrival; null where there is none. Notifications of kinds that this
   * version does not know are passed over.
   *
   * @throws {WireError} `invalid_message`: what came is no message for a client. End the connection.
   */
  next(): Answer | null;
  /**
   * Why the engine leaves the connection, once {@link next} has passed its notification `going_away`; null before. With `shutdown` and
   * `age` it finishes what is in flight: send nothing new there, and open another connection. With `closed` it has begun nothing of what it
   * has not answered, and closes the connection.
   */
  readonly goingAway: 'shutdown' | 'age' | 'closed' | null;
  /** Bytes that have arrived of an answer that is not whole. */
  readonly partialSize: number;
}

/** An error object of the engine. */
export interface EngineError {
  /** Stable; `docs/protocol.md` has the table. */
  code: string;
  /** One sentence for a developer; may change. Holds no value and no secret. */
  message: string;
  /** Whether the same request may succeed: never, at the same engine after a pause, or on another connection now. */
  retry: 'never' | 'later' | 'elsewhere';
  /** With `later`: the least pause, in milliseconds. */
  retryAfterMs?: number;
  /** Position in the request's list of the first value at fault. */
  index?: number;
  /** Byte position in a document or selector. */
  offset?: number;
}

/** An answer. It keeps the message's bytes and reads them when it is asked. Made by {@link Decoder.next} alone. */
export class Answer {
  private constructor();
  /** The request that it answers; null for a `connection_error`, after which the engine closes the connection. */
  readonly id: number | null;
  /** Bytes of the whole message. */
  readonly size: number;
  /** Why the request failed; null where it succeeded. */
  readonly error: EngineError | null;
  /** How many values came. @throws {WireError} `invalid_answer` where there are none to count. */
  readonly count: number;
  /** The word of the answer to `health`. @throws {WireError} `invalid_answer` where it has none. */
  readonly status: string;
  /** The values, as an array of the request's order. @throws {WireError} `invalid_answer` where there are none. */
  values(): Value[];
  /**
   * Frees the message's bytes now, and not when the collector finds the answer: where many large answers come, the next one gets
   * memory that is at hand. `id` and `size`, which is 0 then, can still be read.
   */
  release(): void;
}

/** What `code` of an error says. */
export type WireErrorCode =
  /** An argument is not what the function takes; the message names it. */
  | 'invalid_argument'
  /** A message passes its bound. */
  | 'too_large'
  /** The engine's bytes are no MessagePack. */
  | 'invalid_frame'
  /** A frame is no message that a client receives. */
  | 'invalid_message'
  /** An answer does not hold what it was asked for. */
  | 'invalid_answer'
  /** Node refused a call, or the package is at fault. */
  | 'internal';

/** What the functions throw. The message holds none of the caller's values. */
export interface WireError extends Error {
  code: WireErrorCode;
}
