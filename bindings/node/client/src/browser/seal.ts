// Sealing on P-256: one key agreement makes a key that seals values and files, each under a nonce of its own. Writes the versions Tk9D,
// QkTC and the file form of docs/format.md.

import { base64, concat, crc32, type Bytes } from './bytes.js';
import { LeafsealError } from './errors.js';
import { DER_PREFIX, ofUncompressed, type Point } from './point.js';

/** The types of values, with their numbers in the associated data. */
const TYPES = { string: 0, number: 1, boolean: 2 } as const;
export type ValueType = keyof typeof TYPES;

const ECDH = { name: 'ECDH', namedCurve: 'P-256' };
const SHARED_BITS = 256;
/** The counter of the key derivation's only block. */
const FIRST_BLOCK = Uint8Array.of(0, 0, 0, 1);
const NONCE_SIZE = 12;
/** Values under one key (docs/format.md, rule 11). */
const NONCES_MAX = 2 ** 32;
/** The origin that Leafseal writes into metadata. */
const ORIGIN = 70;
const FILE_MAGIC = '%EVENC';
const FILE_VERSION = 3;
const FILE_HEADER_SIZE = 55;
const TAG_SIZE = 16;
const CHECKSUM_SIZE = 4;
/** Bytes that the file form adds to its content. */
export const FILE_OVERHEAD = FILE_HEADER_SIZE + TAG_SIZE + CHECKSUM_SIZE;

const utf8 = new TextEncoder();

/** WebCrypto, which browsers offer only to secure contexts. */
export function subtle(): SubtleCrypto {
  // Its type says that it is always there.
  const found = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle;
  if (found) return found;
  throw new LeafsealError('unsupported', 'WebCrypto is not available: serve the page over HTTPS, or from localhost during development');
}

/** Metadata with a role and the time of encryption in Unix seconds, and its length before it (docs/format.md, rule 8). */
export function metadata(role: string, seconds: number): Bytes {
  const map = new Uint8Array([
    0x83, ...fixstr('dr'), ...fixstr(role), ...fixstr('eo'), ORIGIN, ...fixstr('et'), 0xce,
    seconds >>> 24, seconds >>> 16, seconds >>> 8, seconds,
  ]);
  return concat(Uint8Array.of(map.length, map.length >> 8), map);
}

/** A MessagePack string of at most 31 ASCII characters. */
function fixstr(text: string): number[] {
  return [0xa0 + text.length, ...utf8.encode(text)];
}

/** The AES key of a shared X coordinate and the ephemeral key (docs/format.md, rule 6). */
export async function deriveKey(shared: Bytes, ephemeral: Point): Promise<Bytes> {
  const hashed = concat(shared, FIRST_BLOCK, DER_PREFIX, ephemeral.uncompressed);
  const key = await subtle().digest('SHA-256', hashed);
  hashed.fill(0);
  return new Uint8Array(key);
}

/** A key for one fresh ephemeral key pair. Its private half exists only inside WebCrypto and is used once. */
export class SealingKey {
  readonly #key: CryptoKey;
  readonly #app: Point;
  readonly #ephemeral: Point;
  /** A random start; its last 64 bits count, so that no two nonces are equal. */
  readonly #start = crypto.getRandomValues(new Uint8Array(NONCE_SIZE));
  #taken = 0;

  private constructor(key: CryptoKey, app: Point, ephemeral: Point) {
    this.#key = key;
    this.#app = app;
    this.#ephemeral = ephemeral;
  }

  /** `recipient` is the key of `app`, imported for ECDH. */
  static async make(app: Point, recipient: CryptoKey): Promise<SealingKey> {
    const pair = await subtle().generateKey(ECDH, false, ['deriveBits']);
    const ephemeral = ofUncompressed(new Uint8Array(await subtle().exportKey('raw', pair.publicKey)));
    const shared = new Uint8Array(await subtle().deriveBits({ name: 'ECDH', public: recipient }, pair.privateKey, SHARED_BITS));
    const derived = await deriveKey(shared, ephemeral);
    const key = await subtle().importKey('raw', derived, 'AES-GCM', false, ['encrypt']);
    shared.fill(0);
    derived.fill(0);
    return new SealingKey(key, app, ephemeral);
  }

  /** Seals the text of one value; `described` is its metadata, if it has a role. */
  async seal(type: ValueType, text: string, described: Uint8Array | undefined): Promise<string> {
    const iv = this.#nonce();
    const plaintext = described ? concat(described, utf8.encode(text)) : utf8.encode(text);
    const sealed = await this.#encrypt(iv, described ? this.#flagged(type) : this.#app.compressed, plaintext);
    const label = type === 'string' ? '' : `${type}:`;
    const parts = [iv, this.#ephemeral.compressed, sealed].map(base64);
    return `ev:${described ? 'QkTC' : 'Tk9D'}:${label}${parts.join(':')}:$`;
  }

  /** Seals a file (docs/format.md, rule 12). */
  async sealFile(content: BufferSource): Promise<Bytes> {
    const iv = this.#nonce();
    const sealed = await this.#encrypt(iv, this.#app.compressed, content);
    const start = concat(utf8.encode(FILE_MAGIC), Uint8Array.of(FILE_VERSION, FILE_HEADER_SIZE, 0));
    const flags = Uint8Array.of(0);
    const file = concat(start, this.#ephemeral.compressed, iv, flags, sealed, new Uint8Array(CHECKSUM_SIZE));
    const end = file.length - CHECKSUM_SIZE;
    new DataView(file.buffer).setUint32(end, crc32(file.subarray(0, end)), true);
    return file;
  }

  /** Associated data that covers the type (docs/format.md, rule 7). */
  #flagged(type: ValueType): Bytes {
    return concat(Uint8Array.of((TYPES[type] << 4) | 1), this.#ephemeral.compressed, this.#app.compressed);
  }

  async #encrypt(iv: Bytes, additionalData: Bytes, plaintext: BufferSource): Promise<Bytes> {
    return new Uint8Array(await subtle().encrypt({ name: 'AES-GCM', iv, additionalData }, this.#key, plaintext));
  }

  #nonce(): Bytes {
    if (this.#taken >= NONCES_MAX) {
      throw new LeafsealError('too_large', `one call encrypts at most ${NONCES_MAX} values: split the document`);
    }
    const nonce = this.#start.slice();
    const view = new DataView(nonce.buffer);
    view.setBigUint64(4, BigInt.asUintN(64, view.getBigUint64(4) + BigInt(this.#taken)));
    this.#taken += 1;
    return nonce;
  }
}

/** Imports an app's key as the other side of agreements. WebCrypto checks once more that it is on the curve. */
export async function importRecipient(app: Point): Promise<CryptoKey> {
  return subtle().importKey('raw', app.uncompressed, ECDH, false, []);
}
