// @leafseal/client/browser: encrypts in a page, with an app's public key. It holds no secret and cannot decrypt. The engine decrypts what
// it writes (docs/format.md, the versions of P-256).
//
// It promises that a document is encrypted as a whole or refused as a whole, and that a fresh ephemeral key serves one call at most.
// Cryptography is WebCrypto's.

import type { Bytes } from './bytes.js';
import { Walk, put, type Leaf } from './document.js';
import { LeafsealError } from './errors.js';
import { fetchPublicKey, type KeyEndpoint } from './key_endpoint.js';
import { readPublicKey, type Point } from './point.js';
import { FILE_OVERHEAD, SealingKey, importRecipient, metadata } from './seal.js';

export type { ErrorCode } from './codes_generated.js';
export { LeafsealError } from './errors.js';
export type { KeyEndpoint } from './key_endpoint.js';

/** A value after encryption: the same shape, with an envelope for each string, number and boolean. */
export type Encrypted<T> = T extends string | number | boolean
  ? string
  : T extends null | undefined
    ? T
    : T extends bigint | symbol | Date | Blob | ArrayBuffer | ArrayBufferView | ((...rest: never) => unknown)
      ? never
      : { [K in keyof T]: Encrypted<T[K]> };

/** Limits of an {@link Encryptor}. */
export interface EncryptorOptions {
  /** Nesting of arrays and objects. Default: 128, as in the engine (`document.depth_max`). */
  readonly depthMax?: number;
  /** Bytes of a file. Default: what an engine accepts by default to decrypt (`api.body_size_max`), 64 MiB less the 75 bytes of the form. */
  readonly fileSizeMax?: number;
}

/** Options of one {@link Encryptor.encrypt}. */
export interface EncryptOptions {
  /** A data role (`[a-z0-9-]{1,20}`), which the engine's policy checks on decryption. It is stored with the time, authenticated. */
  readonly role?: string;
  /** A fresh ephemeral key for the call (`request`, the default) or for each value (`field`, slower). */
  readonly keying?: 'request' | 'field';
}

const DEPTH_MAX_DEFAULT = 128;
/** Deeper documents could exhaust the stack of the page. The engine's setting has the same maximum. */
const DEPTH_CEILING = 1024;
const FILE_SIZE_MAX_DEFAULT = 64 * 1024 * 1024 - FILE_OVERHEAD;
/** Values handed to WebCrypto at a time. */
const BATCH_SIZE = 256;
const KEYINGS: readonly unknown[] = ['request', 'field'];
const ROLE = /^[a-z0-9-]{1,20}$/;

/** Encrypts for one app. Holds its public key only. */
export class Encryptor {
  readonly #app: Point;
  readonly #recipient: CryptoKey;
  readonly #depthMax: number;
  readonly #fileSizeMax: number;

  private constructor(app: Point, recipient: CryptoKey, { depthMax, fileSizeMax }: EncryptorOptions) {
    this.#app = app;
    this.#recipient = recipient;
    this.#depthMax = limit('depthMax', depthMax ?? DEPTH_MAX_DEFAULT, DEPTH_CEILING);
    this.#fileSizeMax = limit('fileSizeMax', fileSizeMax ?? FILE_SIZE_MAX_DEFAULT, Number.MAX_SAFE_INTEGER);
  }

  /**
   * Makes an encryptor with a known public key: 33 or 65 bytes (SEC 1), or their text in base64 or hexadecimal.
   *
   * @throws LeafsealError `invalid_key`, `invalid_option` or `unsupported`.
   */
  static async of(publicKey: string | Uint8Array, options: EncryptorOptions = {}): Promise<Encryptor> {
    return Encryptor.#make(readPublicKey(publicKey), options);
  }

  /**
   * Fetches the app's public key from an engine.
   *
   * @throws LeafsealError `key_unavailable`, `invalid_key`, `invalid_option` or `unsupported`; the reason of `signal` if it aborts.
   */
  static async fetch(endpoint: KeyEndpoint, options: EncryptorOptions = {}): Promise<Encryptor> {
    return Encryptor.#make(await fetchPublicKey(endpoint), options);
  }

  static async #make(app: Point, options: EncryptorOptions): Promise<Encryptor> {
    return new Encryptor(app, await importRecipient(app), options);
  }

  /**
   * Encrypts every string, number and boolean of a JSON value, and keeps its shape, its property names and `null`. The argument is read
   * before the first pause and not changed. Properties with the value `undefined` are left out, as by JSON.stringify. Anything else that
   * JSON cannot represent is refused: NaN, infinities, BigInt, strings with half of a surrogate pair, dates, bytes, cycles.
   *
   * @throws LeafsealError `invalid_value` or `too_large` with the path, or `invalid_option`; then nothing was encrypted.
   */
  async encrypt<T>(value: T, options: EncryptOptions = {}): Promise<Encrypted<T>> {
    const { role, keying = 'request' } = options;
    if (!KEYINGS.includes(keying)) throw new LeafsealError('invalid_option', "keying must be 'request' or 'field'");
    const described = role === undefined ? undefined : metadataOf(role);
    const { root, leaves } = new Walk(value, this.#depthMax);
    const shared = keying === 'request' && leaves.length > 0 ? await this.#key() : undefined;
    for (let at = 0; at < leaves.length; at += BATCH_SIZE) {
      await Promise.all(leaves.slice(at, at + BATCH_SIZE).map(async ({ type, text, container, key }: Leaf) => {
        const sealing = shared ?? (await this.#key());
        put(container, key, await sealing.seal(type, text, described));
      }));
    }
    return root[0] as Encrypted<T>;
  }

  /**
   * Encrypts a file to the file form. A File becomes a File of the same name, a Blob a Blob, bytes become bytes. The form holds no role.
   *
   * @throws LeafsealError `too_large` or `invalid_option`.
   */
  async encryptFile(file: File): Promise<File>;
  async encryptFile(file: Blob): Promise<Blob>;
  async encryptFile(file: Uint8Array | ArrayBuffer): Promise<Uint8Array<ArrayBuffer>>;
  async encryptFile(file: Blob | Uint8Array | ArrayBuffer): Promise<Blob | Uint8Array<ArrayBuffer>> {
    const isBlob = file instanceof Blob;
    if (!isBlob && !(file instanceof ArrayBuffer) && !(file instanceof Uint8Array)) {
      throw new LeafsealError('invalid_option', 'file must be a File, a Blob, a Uint8Array or an ArrayBuffer');
    }
    const size = isBlob ? file.size : file.byteLength;
    if (size > this.#fileSizeMax) {
      const advice = 'raise fileSizeMax here and api.body_size_max in the engine';
      throw new LeafsealError('too_large', `the file has ${size} bytes, more than fileSizeMax (${this.#fileSizeMax}): ${advice}`);
    }
    const sealed = await (await this.#key()).sealFile(isBlob ? await file.arrayBuffer() : unshared(file));
    if (!isBlob) return sealed;
    const type = 'application/octet-stream';
    return file instanceof File ? new File([sealed], file.name, { type }) : new Blob([sealed], { type });
  }

  async #key(): Promise<SealingKey> {
    return SealingKey.make(this.#app, this.#recipient);
  }
}

/** WebCrypto does not read memory that other threads may write. */
function unshared(bytes: Uint8Array | ArrayBuffer): Bytes | ArrayBuffer {
  return bytes instanceof ArrayBuffer || bytes.buffer instanceof ArrayBuffer ? (bytes as Bytes | ArrayBuffer) : bytes.slice();
}

function metadataOf(role: unknown): Bytes {
  if (typeof role !== 'string' || !ROLE.test(role)) {
    throw new LeafsealError('invalid_option', 'role must have 1 to 20 of the characters a-z, 0-9 and -');
  }
  return metadata(role, Math.floor(Date.now() / 1000));
}

function limit(name: string, value: number, ceiling: number): number {
  if (Number.isSafeInteger(value) && value >= 0 && value <= ceiling) return value;
  throw new LeafsealError('invalid_option', `${name} must be a whole number from 0 to ${ceiling}`);
}
