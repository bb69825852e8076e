/**
 * Messages of the Leafseal engine: encodes requests to Buffers and decodes answers as they arrive.
 *
 * The package only converts: the caller handles sockets, TLS, ids, timeouts and retries. Leafseal's `docs/protocol.md` describes the
 * messages. Invalid input is refused with a {@link WireError}, strings with lone surrogates included.
 */

/** The version of the native module, which is that of the package: another one is refused when the package is loaded. */
export const VERSION: string;

/** A native value. Integers beyond `Number.MAX_SAFE_INTEGER` are 64-bit BigInts, in requests and answers. */
export type Value = null | boolean | number | bigint | string;

import type { DecryptionOptions, EncryptionOptions, RewrappingOptions, SelectionOptions } from './options';

export type { DecryptionOptions, EncryptionOptions, InspectionOptions, RewrappingOptions, SelectionOptions } from './options';

import type { Inspection, Queries } from './queries';

export type * from './queries';

/** Options of all requests. Missing options default to the engine's settings. */
export interface RequestOptions {
  /** The app whose keys serve the request; 1 to 128 bytes. */
  app: string;
  /** How long the caller waits, in milliseconds, 1 to 4294967295. */
  deadlineMs?: number;
  /** Maximum bytes of the encoded message, 1 to 4294967295. Default: 1 GiB, the engine's limit. */
  frameSizeMax?: number;
}

/** The options of `encrypt`. */
export interface EncryptOptions extends RequestOptions, EncryptionOptions {}

/** The options of `decrypt`. */
export interface DecryptOptions extends RequestOptions, DecryptionOptions {}

/** The options of `rewrap`. */
export interface RewrapOptions extends RequestOptions, RewrappingOptions {}

/**
 * Encodes `encrypt` of values. `contexts` has what each is bound to, in place of `context`: as many as there are values. `id` is an integer from 0 to 4294967295 that no other request in flight on the connection has.
 *
 * @throws {WireError} `invalid_params`, with the index of an invalid value; `too_large`.
 */
export function encodeEncrypt(id: number, options: EncryptOptions, values: readonly Value[], contexts?: readonly string[]): Buffer;

/**
 * Encodes `encrypt` of strings of `fieldSize` bytes each, which `content` contains one after another in UTF-8. No JavaScript strings are
 * created.
 *
 * @throws {WireError} `invalid_params` if the size of `content` is not a multiple of `fieldSize`, or a field is not UTF-8; `too_large`.
 */
export function encodeEncryptFields(id: number, options: EncryptOptions, content: Uint8Array, fieldSize: number): Buffer;

/**
 * Encodes `decrypt` of values, some or all of which are envelopes. `contexts` as in {@link encodeEncrypt}.
 *
 * @throws {WireError} As {@link encodeEncrypt}.
 */
export function encodeDecrypt(id: number, options: DecryptOptions, values: readonly Value[], contexts?: readonly string[]): Buffer;

/**
 * Encodes `decrypt` of the values of an answer to `encrypt`. No JavaScript values are created.
 *
 * @throws {WireError} `invalid_answer` if the answer has no values; `invalid_params`, `too_large`.
 */
export function encodeDecryptAnswer(id: number, options: DecryptOptions, answer: Answer): Buffer;

/**
 * Encodes `encrypt` or `decrypt` of strings whose UTF-8 text lies one after another in `content`; `ends` has the end of each in bytes. One
 * call for a list of any length. `contexts` as in {@link encodeEncrypt}.
 *
 * @throws {WireError} `invalid_params` if `content` is not UTF-8, or `ends` does not cover it in ascending order; `too_large`.
 */
export function encodeTexts(
  id: number,
  method: 'encrypt' | 'decrypt',
  options: EncryptOptions | DecryptOptions,
  content: Uint8Array,
  ends: Uint32Array,
  contexts?: readonly string[],
): Buffer;

/** Encodes `encrypt_document` of a JSON text. `select` has JSONPath selectors; without it every scalar is selected. */
export function encodeEncryptDocument(
  id: number,
  options: EncryptOptions & SelectionOptions,
  document: Uint8Array,
  select?: readonly string[],
): Buffer;

/** Encodes `decrypt_document` of a JSON text. Without `select` every envelope is selected. */
export function encodeDecryptDocument(
  id: number,
  options: DecryptOptions & SelectionOptions,
  document: Uint8Array,
  select?: readonly string[],
): Buffer;

/** Encodes `encrypt_file`, which ignores options that files do not have. */
export function encodeEncryptFile(id: number, options: EncryptOptions, data: Uint8Array): Buffer;

/** Encodes `decrypt_file`, which ignores options that files do not have. */
export function encodeDecryptFile(id: number, options: DecryptOptions, data: Uint8Array): Buffer;

/** Encodes `rewrap`. `contexts` as in {@link encodeEncrypt}. */
export function encodeRewrap(id: number, options: RewrapOptions, envelopes: readonly string[], contexts?: readonly string[]): Buffer;

/** Encodes `inspect`; with an app, the envelopes are opened, in a context if there is one, to read the fields inside. */
export function encodeInspect(
  id: number, app: string | undefined, envelopes: readonly string[], context?: string, accept?: string,
): Buffer;

/**
 * Encodes a query: a method without values of users, such as `public_keys`, with its parameters.
 *
 * @throws {WireError} `invalid_params`.
 */
export function encodeQuery<M extends keyof Queries>(id: number, method: M, params: Queries[M]['params']): Buffer;

/** Encodes `health`, which an engine answers immediately. */
export function encodeHealth(id: number): Buffer;

/** Encodes the notification `cancel` of the request `id`, which is still answered. */
export function encodeCancel(id: number): Buffer;

/** Limits of a received message. Integers from 1 to 4294967295. */
export interface Bounds {
  /** Bytes. Default: 1 GiB. */
  frameSizeMax?: number;
  /** Elements of an array or pairs of a map. Default: 2^24. */
  elementsMax?: number;
  /** Nesting depth. Default: 32. */
  depthMax?: number;
}

/** Splits the bytes of a connection into answers. Use one for each connection. */
export class Decoder {
  /** @throws {WireError} `invalid_params`. */
  constructor(bounds?: Bounds);
  /**
   * Adds received bytes, in pieces of any size. They are copied once, so that the caller may reuse the memory. No byte is scanned twice,
   * and no memory is allocated for a length that is only claimed.
   *
   * Returns the number of messages that wait for {@link next}.
   *
   * @throws {WireError} `too_large` or `invalid_frame`. The stream cannot be continued: close the connection. Answers that were complete
   * before can still be read.
   */
  push(bytes: Uint8Array): number;
  /**
   * Returns the next complete answer, in the order of arrival, or null. Notifications of unknown kinds are skipped.
   *
   * @throws {WireError} `invalid_message`: the message is not one for a client. Close the connection.
   */
  next(): Answer | null;
  /**
   * Why the engine closes the connection, once {@link next} has read its notification `going_away`; null before. With `shutdown` and `age`
   * it finishes the requests in flight: send new requests on another connection. With `closed` it has not started any unanswered request,
   * and closes the connection.
   */
  readonly goingAway: 'shutdown' | 'age' | 'closed' | null;
  /** Received bytes of an incomplete answer. */
  readonly partialSize: number;
}

/** An error object of the engine. */
export interface EngineError {
  /** Stable; `docs/protocol.md` has the table. */
  code: string;
  /** One sentence for a developer; may change. Contains no values and no secrets. */
  message: string;
  /** Whether to retry: never, later on the same engine, or now on another connection. */
  retry: 'never' | 'later' | 'elsewhere';
  /** With `later`: the minimum delay in milliseconds. */
  retryAfterMs?: number;
  /** Index of the first invalid value of the request. */
  index?: number;
  /** Byte offset in a document or selector. */
  offset?: number;
}

/** The report of the engine about values or a document. */
export interface Report {
  /** Documents and `rewrap`: how many values were encrypted, decrypted or rewrapped. */
  count?: number;
  /** Documents: how many values each selector matched. */
  matched: number[];
  /** Encrypting: how many values were envelopes already. */
  resealed: number;
  /** Encrypting with `skipSealed`: how many envelopes were left alone. */
  skipped: number;
  /** How many envelopes to a public key `reseal` made symmetric ones of. */
  rewrapped: number;
  /** How many of the values were sealed, or opened, with a symmetric key; the others have envelopes to a public key. */
  symmetric: number;
  /** Decrypting or rewrapping with `onFailure` of `leave` or `null`: how many envelopes did not open. */
  failed: number;
  /** The indexes of the first of those, in a list. */
  failedIndexes: number[];
  /** The paths of the first of those, in a document. */
  failedPaths: string[];
}

/** An answer. It keeps the message's bytes and decodes them on access. Only {@link Decoder.next} creates answers. */
export class Answer {
  private constructor();
  /** The request that it answers; null for a `connection_error`, after which the engine closes the connection. */
  readonly id: number | null;
  /** Bytes of the whole message. */
  readonly size: number;
  /** Why the request failed; null if it succeeded. */
  readonly error: EngineError | null;
  /** The number of values. @throws {WireError} `invalid_answer` if the answer has no list of values. */
  readonly count: number;
  /** The status of an answer to `health`. @throws {WireError} `invalid_answer` if it has none. */
  readonly status: string;
  /** The values, in the request's order. @throws {WireError} `invalid_answer` if the answer has no values. */
  values(): Value[];
  /**
   * The values as strings of about 32 KiB, if all values are ASCII strings; otherwise null. `counts` has the number of values in each, `ranges`
   * the start and end of each value in its string. A slice costs a fraction of a string of its own, and keeps the string that it is from alive.
   */
  slices(): { texts: string[]; counts: number[]; ranges: Uint32Array } | null;
  /** The JSON text of an answer with a document. Hands over the message's memory: the answer is then released. */
  document(): Buffer;
  /** The bytes of an answer with a file. Hands over the message's memory: the answer is then released. */
  data(): Buffer;
  /** The engine's report. */
  report(): Report;
  /** The content of an answer to `inspect`. */
  inspections(): Inspection[];
  /** The content of an answer to a query. @throws {WireError} `invalid_answer` if it is another one. */
  resultOf<M extends keyof Queries>(method: M): Queries[M]['result'];
  /**
   * Frees the message's bytes now rather than at garbage collection, so that the next large answer can reuse the memory. `id` and `size`,
   * which is then 0, can still be read.
   */
  release(): void;
}

/** The values of an error's `code`. */
export type WireErrorCode =
  /** An argument is invalid; the message names it. */
  | 'invalid_params'
  /** A message exceeds its limit. */
  | 'too_large'
  /** The received bytes are not MessagePack. */
  | 'invalid_frame'
  /** A frame is not a message for a client. */
  | 'invalid_message'
  /** An answer does not have the requested content. */
  | 'invalid_answer'
  /** A call of Node failed, or the package has a defect. */
  | 'internal';

/** The error that all functions throw. The message contains none of the caller's values. */
export interface WireError extends Error {
  code: WireErrorCode;
}
