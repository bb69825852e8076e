// Points of P-256: an app's public key in any of its forms, checked to be on the curve, and the DER form that the key derivation hashes.
// Everything here is public; arithmetic on secrets is WebCrypto's alone.

import { fromBase64, fromHex, toHex, type Bytes } from './bytes.js';
import { LeafsealError } from './errors.js';

// FIPS 186-4, D.1.2.3. `A` is P − 3.
const P = 'ffffffff00000001000000000000000000000000ffffffffffffffffffffffff';
const A = 'ffffffff00000001000000000000000000000000fffffffffffffffffffffffc';
const B = '5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b';
const SEED = 'c49d360886e704936a6678e1139d26b7819f7e90';
const G =
  '046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296' +
  '4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5';
const N = 'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551';

/** SubjectPublicKeyInfo with explicit parameters (docs/format.md, rule 6), up to the uncompressed point. */
export const DER_PREFIX: Bytes = fromHex(
  `3082014b3082010306072a8648ce3d02013081f7020101302c06072a8648ce3d0101022100${P}305b0420${A}0420${B}031500${SEED}` +
    `0441${G}022100${N}020101034200`,
);

const COMPRESSED_SIZE = 33;
const UNCOMPRESSED_SIZE = 65;

const prime = BigInt(`0x${P}`);

/** A point on the curve, in both forms of SEC 1. */
export interface Point {
  readonly compressed: Bytes;
  readonly uncompressed: Bytes;
}

const number = (bytes: Uint8Array): bigint => BigInt(`0x${toHex(bytes)}`);

/** x³ − 3x + b. */
function squareAt(x: bigint): bigint {
  return (x * x * x - 3n * x + BigInt(`0x${B}`)) % prime;
}

/** A square root (the prime is 3 modulo 4). For a number that has none, the result is not a root: callers must check. */
function root(square: bigint): bigint {
  let [base, result] = [square, 1n];
  for (let exponent = (prime + 1n) / 4n; exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) result = (result * base) % prime;
    base = (base * base) % prime;
  }
  return result;
}

function fault(problem: string): LeafsealError {
  const advice = "take it from the engine's key endpoint or `leafseal keys public`";
  return new LeafsealError('invalid_key', `the public key ${problem}: ${advice}`);
}

/** Returns the point of an uncompressed key that is known to be on the curve, such as one that WebCrypto made. */
export function ofUncompressed(uncompressed: Bytes): Point {
  const compressed = uncompressed.slice(0, COMPRESSED_SIZE);
  compressed[0] = 2 + ((uncompressed.at(-1) ?? 0) & 1);
  return { compressed, uncompressed };
}

/**
 * Reads a public key of 33 or 65 bytes (SEC 1), or its text in base64 or hexadecimal.
 *
 * @throws LeafsealError `invalid_key` if it is malformed or not a point of P-256.
 */
export function readPublicKey(key: string | Uint8Array): Point {
  const bytes = typeof key === 'string' ? bytesOf(key) : key;
  if (!(bytes instanceof Uint8Array)) throw fault('must be a Uint8Array, or text in base64 or hexadecimal');
  const [form = 0] = bytes;
  const isCompressed = bytes.length === COMPRESSED_SIZE && (form === 2 || form === 3);
  if (!isCompressed && !(bytes.length === UNCOMPRESSED_SIZE && form === 4)) {
    throw fault(`must have ${COMPRESSED_SIZE} bytes that begin with 2 or 3, or ${UNCOMPRESSED_SIZE} that begin with 4 (SEC 1)`);
  }
  const x = number(bytes.subarray(1, COMPRESSED_SIZE));
  const square = x < prime ? (squareAt(x) + prime) % prime : -1n;
  const y = isCompressed ? withParity(root(square), form) : number(bytes.subarray(COMPRESSED_SIZE));
  if (y >= prime || (y * y) % prime !== square) throw fault('is not a point of the curve P-256');
  const uncompressed = new Uint8Array(UNCOMPRESSED_SIZE);
  uncompressed.set(bytes.subarray(0, COMPRESSED_SIZE));
  uncompressed[0] = 4;
  uncompressed.set(fromHex(y.toString(16).padStart(64, '0')), COMPRESSED_SIZE);
  return ofUncompressed(uncompressed);
}

const withParity = (y: bigint, form: number): bigint => (Number(y & 1n) === (form & 1) ? y : prime - y);

function bytesOf(text: string): Bytes | undefined {
  const isHex = text.length === 2 * COMPRESSED_SIZE || text.length === 2 * UNCOMPRESSED_SIZE;
  return isHex && /^[0-9a-f]+$/i.test(text) ? fromHex(text) : fromBase64(text);
}
