// Bytes and their texts: base64, hexadecimal, concatenation and the checksum of files.

/** Bytes in memory of their own, as WebCrypto and Blobs require. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Arguments of one call that engines accept. */
const CHARACTERS_MAX = 0x8000;

export function concat(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Standard base64 without padding, as envelopes are written. */
export function base64(bytes: Uint8Array): string {
  let characters = '';
  for (let at = 0; at < bytes.length; at += CHARACTERS_MAX) {
    characters += String.fromCharCode(...bytes.subarray(at, at + CHARACTERS_MAX));
  }
  return btoa(characters).replace(/=+$/, '');
}

/** Returns the bytes of a base64 text, or nothing if it is not one. */
export function fromBase64(text: string): Bytes | undefined {
  try {
    return Uint8Array.from(atob(text), character => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** `text` has an even number of hexadecimal digits. */
export function fromHex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], digits => parseInt(digits, 16));
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}

let table: Uint32Array | undefined;

function crcTable(): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, byte) => {
    let rest = byte;
    for (let bit = 0; bit < 8; bit += 1) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
    return rest;
  });
}

/** CRC-32 (ISO-HDLC, as in gzip). */
export function crc32(bytes: Uint8Array): number {
  const steps = (table ??= crcTable());
  let sum = 0xffffffff;
  for (const byte of bytes) sum = (sum >>> 8) ^ (steps[(sum ^ byte) & 0xff] ?? 0);
  return (sum ^ 0xffffffff) >>> 0;
}
