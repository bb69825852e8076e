/**
 * Symmetric encryption, hashes and HMAC: synchronous, or on threads of the package's own, on ranges of buffers without copies.
 *
 * `cipher`, `hash` and `hmac` have the contract of `@ronomon/crypto-async`. Every error is an `Error` whose message is one of the constants.
 * All checks of arguments throw at once, in asynchronous forms too. Buffers of an asynchronous call must not be touched before it has ended.
 */

/// <reference types="node" />

import { Transform, TransformOptions } from 'node:stream';

/** `aes-{128,192,256}-{ctr,gcm}`, `chacha20` or `chacha20-poly1305`, in any case; also OpenSSL's aliases of these. */
export type CipherName = string;

/** `md5`, `sha1`, `sha2*`, `sha3-*`, `shake*` (not for HMAC), `blake2s256`, `blake2b512`, `ripemd160`, `sm3`, `md5-sha1`, and aliases. */
export type DigestName = string;

/** 1 to encrypt, 0 to decrypt. */
export type Direction = 0 | 1;

/** Memory of the zero-copy forms; offsets and sizes are in bytes, whatever the type. */
export type View = NodeJS.ArrayBufferView;

/** Receives a result, or only an error. It is never called before the call that it was passed to has returned. */
export type Callback<T> = (error: Error | undefined, result: T) => void;

/** Encrypts or decrypts a whole buffer, with a cipher that does not authenticate. */
export function cipher(algorithm: CipherName, encrypt: Direction, key: Buffer, iv: Buffer, source: Buffer): Buffer;
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: Buffer, iv: Buffer, source: Buffer, callback: Callback<Buffer>,
): void;
/** The same with a cipher that authenticates. `tag` is written to when encrypting; its length is that of the tag. */
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: Buffer, iv: Buffer, source: Buffer, aad: Buffer, tag: Buffer,
): Buffer;
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: Buffer, iv: Buffer, source: Buffer, aad: Buffer, tag: Buffer,
  callback: Callback<Buffer>,
): void;
/** Encrypts or decrypts a range to another range, or to itself. Returns the number of bytes written: `sourceSize`. */
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: View, keyOffset: number, keySize: number, iv: View, ivOffset: number,
  ivSize: number, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number,
): number;
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: View, keyOffset: number, keySize: number, iv: View, ivOffset: number,
  ivSize: number, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number,
  callback: Callback<number>,
): void;
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: View, keyOffset: number, keySize: number, iv: View, ivOffset: number,
  ivSize: number, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number, aad: View,
  aadOffset: number, aadSize: number, tag: View, tagOffset: number, tagSize: number,
): number;
export function cipher(
  algorithm: CipherName, encrypt: Direction, key: View, keyOffset: number, keySize: number, iv: View, ivOffset: number,
  ivSize: number, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number, aad: View,
  aadOffset: number, aadSize: number, tag: View, tagOffset: number, tagSize: number, callback: Callback<number>,
): void;

/** Hashes a whole buffer. */
export function hash(algorithm: DigestName, source: Buffer): Buffer;
export function hash(algorithm: DigestName, source: Buffer, callback: Callback<Buffer>): void;
/** Hashes a range to a target. Returns the number of bytes written: the size of the digest. */
export function hash(
  algorithm: DigestName, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number,
): number;
export function hash(
  algorithm: DigestName, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number,
  callback: Callback<number>,
): void;

/** HMAC (RFC 2104) of a whole buffer. The key has any length. */
export function hmac(algorithm: DigestName, key: Buffer, source: Buffer): Buffer;
export function hmac(algorithm: DigestName, key: Buffer, source: Buffer, callback: Callback<Buffer>): void;
/** HMAC of a range, to a target. Returns the number of bytes written. */
export function hmac(
  algorithm: DigestName, key: View, keyOffset: number, keySize: number, source: View, sourceOffset: number,
  sourceSize: number, target: View, targetOffset: number,
): number;
export function hmac(
  algorithm: DigestName, key: View, keyOffset: number, keySize: number, source: View, sourceOffset: number,
  sourceSize: number, target: View, targetOffset: number, callback: Callback<number>,
): void;

/** Options of the forms that return promises. */
export interface AsyncOptions {
  /** Cancels the operation at its next slice. The promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** The forms without callbacks, as promises. Checks of arguments reject. */
export interface Promises {
  cipher(
    algorithm: CipherName, encrypt: Direction, key: Buffer, iv: Buffer, source: Buffer, options?: AsyncOptions,
  ): Promise<Buffer>;
  cipher(
    algorithm: CipherName, encrypt: Direction, key: Buffer, iv: Buffer, source: Buffer, aad: Buffer, tag: Buffer,
    options?: AsyncOptions,
  ): Promise<Buffer>;
  cipher(
    algorithm: CipherName, encrypt: Direction, key: View, keyOffset: number, keySize: number, iv: View, ivOffset: number,
    ivSize: number, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number,
    options?: AsyncOptions,
  ): Promise<number>;
  cipher(
    algorithm: CipherName, encrypt: Direction, key: View, keyOffset: number, keySize: number, iv: View, ivOffset: number,
    ivSize: number, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number, aad: View,
    aadOffset: number, aadSize: number, tag: View, tagOffset: number, tagSize: number, options?: AsyncOptions,
  ): Promise<number>;
  hash(algorithm: DigestName, source: Buffer, options?: AsyncOptions): Promise<Buffer>;
  hash(
    algorithm: DigestName, source: View, sourceOffset: number, sourceSize: number, target: View, targetOffset: number,
    options?: AsyncOptions,
  ): Promise<number>;
  hmac(algorithm: DigestName, key: Buffer, source: Buffer, options?: AsyncOptions): Promise<Buffer>;
  hmac(
    algorithm: DigestName, key: View, keyOffset: number, keySize: number, source: View, sourceOffset: number,
    sourceSize: number, target: View, targetOffset: number, options?: AsyncOptions,
  ): Promise<number>;
}

/** Always on the pool. */
export const promises: Promises;

/** At once up to `autoSizeMax` bytes of source, on the pool above. */
export const auto: Promises;

/**
 * Settings. `threads`, `threadPriority` and `queueMax` belong to the process. The others belong to the thread that sets them, and there to the
 * copy of the package that sets them.
 */
export interface Settings {
  /** Threads of the pool, 1 to 1024. Default: the available parallelism. */
  threads: number;
  /**
   * On Linux, the priority of the pool's threads beside all others: `low` is `nice` 10; `idle` (`SCHED_IDLE`) is preempted at once, and gets
   * almost nothing of a core that others keep busy. Threads that run take it over once they are idle. Default: `low`.
   */
  threadPriority: 'normal' | 'low' | 'idle';
  /** Asynchronous operations that wait or run; more are refused with `E_OOM`. Default: 1048576. */
  queueMax: number;
  /** Longest source that `auto` and streams process at once, in bytes. Default: 16384. */
  autoSizeMax: number;
  /** Expanded keys that are kept, 0 to 64. 0 keeps none. Default: 8. */
  keyCacheSize: number;
  /** Shortest asynchronous message of CTR, ChaCha20 or GCM that is spread over several threads, in bytes. Default: 4194304. */
  parallelSizeMin: number;
}

/** Changes settings: all that are given, or none if one is invalid. */
export function configure(settings: Partial<Settings>): void;

/** The current settings. */
export function settings(): Settings;

/** The buffers that the operations of a batch share. */
export interface BatchBuffers {
  keys?: View;
  ivs?: View;
  source: View;
  target: View;
  aad?: View;
  tags?: View;
  /** Bytes of each tag. Default: 16. */
  tagSize?: number;
}

/**
 * Operations of a batch: `batch.STRIDE` (9) numbers each, in the order of `batch.FIELDS`: `keyOffset`, `ivOffset`, `sourceOffset`,
 * `sourceSize`, `targetOffset`, `aadOffset`, `aadSize` (for HMAC: the size of the key), `tagOffset`, `status`. The status is written: 0 for
 * success, 1 for a failed authentication. Float64Array for offsets beyond 4 GiB.
 */
export type BatchOperations = Uint32Array | Float64Array;

/**
 * Many operations of one algorithm in one call. No operation may read what another of the same batch writes. All ranges are checked first: one
 * outside of its buffer is an error that names the operation, and nothing runs. Functions return how many operations failed.
 */
export interface Batch {
  readonly FIELDS: readonly string[];
  readonly STRIDE: 9;
  readonly KEY_SIZE_FIELD: 6;
  cipher(algorithm: CipherName, encrypt: Direction, buffers: BatchBuffers, operations: BatchOperations): number;
  hash(algorithm: DigestName, buffers: BatchBuffers, operations: BatchOperations): number;
  hmac(algorithm: DigestName, buffers: BatchBuffers, operations: BatchOperations): number;
  /** On the pool. Buffers must not be resizable. */
  readonly promises: {
    cipher(
      algorithm: CipherName, encrypt: Direction, buffers: BatchBuffers, operations: BatchOperations, options?: AsyncOptions,
    ): Promise<number>;
    hash(algorithm: DigestName, buffers: BatchBuffers, operations: BatchOperations, options?: AsyncOptions): Promise<number>;
    hmac(algorithm: DigestName, buffers: BatchBuffers, operations: BatchOperations, options?: AsyncOptions): Promise<number>;
  };
}

export const batch: Batch;

/** A piece of a message. Strings are UTF-8 unless an encoding is given. */
export type Chunk = View | string;

/** A message in pieces. Pieces longer than `autoSizeMax` that come through the stream are processed on the pool. */
export interface Pieces extends Transform {
  /** The output for the chunks of an iterable. */
  through(chunks: Iterable<Chunk> | AsyncIterable<Chunk>): AsyncIterable<Buffer>;
}

/** A hash or an HMAC. As a stream it emits the digest at the end. */
export interface DigestStream extends Pieces {
  /** Takes the next piece, on this thread. */
  update(chunk: Chunk, encoding?: BufferEncoding): this;
  /** Ends the message. May be called again for the same digest. */
  digest(): Buffer;
  digest(encoding: BufferEncoding): string;
}

export interface CipherPieces extends Pieces {
  /** Processes the next piece, on this thread. */
  update(chunk: Chunk, encoding?: BufferEncoding): Buffer;
}

export interface EncryptStream extends CipherPieces {
  /** Ends the message. Returns its tag; an empty one for a cipher that does not authenticate. */
  final(): Buffer;
  /** The tag, after the end of the message. */
  readonly tag: Buffer | undefined;
}

/**
 * Its output is not authenticated before the end: until `final` has returned, or the stream has emitted `end`, do not act on it. With a
 * wrong tag it fails with `corrupt`, and what was received must be discarded.
 */
export interface UnverifiedDecryptStream extends CipherPieces {
  /** Checks the tag. */
  final(): void;
}

/** Nothing shows whether its output is what was encrypted. */
export interface UnauthenticatedDecryptStream extends CipherPieces {
  final(): void;
}

export interface EncryptOptions extends TransformOptions {
  aad?: View;
  /** Default: 16 for ciphers that authenticate. */
  tagSize?: number;
}

export interface DecryptOptions extends TransformOptions {
  aad?: View;
}

export interface Streams {
  hash(algorithm: DigestName, options?: TransformOptions): DigestStream;
  hmac(algorithm: DigestName, key: View, options?: TransformOptions): DigestStream;
  encrypt(algorithm: CipherName, key: View, iv: View, options?: EncryptOptions): EncryptStream;
  /** For GCM and ChaCha20-Poly1305. */
  unverifiedDecrypt(algorithm: CipherName, key: View, iv: View, tag: View, options?: DecryptOptions): UnverifiedDecryptStream;
  /** For CTR and ChaCha20. */
  unauthenticatedDecrypt(algorithm: CipherName, key: View, iv: View, options?: TransformOptions): UnauthenticatedDecryptStream;
}

export const streams: Streams;

/** Recommended slack of a target. No cipher here needs it. */
export const CIPHER_BLOCK_MAX: 32;
export const E_AAD: 'aad must be a buffer';
export const E_AAD_INVALID: 'aadSize invalid';
export const E_AAD_OFFSET: 'aadOffset must be an unsigned integer';
export const E_AAD_RANGE: 'aadOffset + aadSize > aad.length';
export const E_AAD_SIZE: 'aadSize must be an unsigned integer';
export const E_ALGORITHM: 'algorithm must be a string';
export const E_ALGORITHM_DISABLED: 'algorithm disabled';
export const E_ALGORITHM_UNKNOWN: 'algorithm unknown';
export const E_ARGUMENTS: 'wrong number of arguments';
export const E_BUFFER_LENGTH: 'buffer.length > INT_MAX';
export const E_CALLBACK: 'callback must be a function';
export const E_CANCELLED: 'asynchronous task was cancelled';
export const E_CORRUPT: 'corrupt';
export const E_ENCRYPT: 'encrypt must be 0 or 1';
export const E_IV: 'iv must be a buffer';
export const E_IV_INVALID: 'ivSize invalid';
export const E_IV_OFFSET: 'ivOffset must be an unsigned integer';
export const E_IV_RANGE: 'ivOffset + ivSize > iv.length';
export const E_IV_SIZE: 'ivSize must be an unsigned integer';
export const E_KEY: 'key must be a buffer';
export const E_KEY_INVALID: 'keySize invalid';
export const E_KEY_OFFSET: 'keyOffset must be an unsigned integer';
export const E_KEY_RANGE: 'keyOffset + keySize > key.length';
export const E_KEY_SIZE: 'keySize must be an unsigned integer';
export const E_OOM: 'out of memory';
export const E_SOURCE: 'source must be a buffer';
export const E_SOURCE_OFFSET: 'sourceOffset must be an unsigned integer';
export const E_SOURCE_RANGE: 'sourceOffset + sourceSize > source.length';
export const E_SOURCE_SIZE: 'sourceSize must be an unsigned integer';
export const E_TAG: 'tag must be a buffer';
export const E_TAG_INVALID: 'tagSize invalid';
export const E_TAG_OFFSET: 'tagOffset must be an unsigned integer';
export const E_TAG_RANGE: 'tagOffset + tagSize > tag.length';
export const E_TAG_SIZE: 'tagSize must be an unsigned integer';
export const E_TARGET: 'target must be a buffer';
export const E_TARGET_OFFSET: 'targetOffset must be an unsigned integer';
export const E_TARGET_RANGE: 'targetOffset + targetSize > target.length';
