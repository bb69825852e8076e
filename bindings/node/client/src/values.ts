// Lists of values to requests and back, without a call of the native module for each value.
//
// The strings of a list are written into one piece of memory, which crosses at once. An answer of ASCII strings, such as envelopes, becomes
// strings of about 32 KiB, of which each value is a slice. Other lists go value by value.

import {
  type Answer, type DecryptOptions, type EncryptOptions, type Value, encodeDecrypt, encodeEncrypt, encodeTexts,
} from '@leafseal/wire';

import { LeafsealError } from './errors.js';

/** Lists below this length are faster value by value. */
const BULK_MIN = 8;
/** Lists above this length go value by value, because their room would be much larger than their text. */
const BULK_UNITS_MAX = 1 << 26;

/** Strings of up to so many UTF-16 units on average are joined before they are written: a call for each would cost three times as much. */
const JOINED_UNITS_MAX = 64;

/** Where strings are written: reused, and wiped after each request. Longer lists get memory of their own. */
const scratch = Buffer.allocUnsafeSlow(1 << 20);
/** Maximum bytes of UTF-8 for each UTF-16 unit. */
const BYTES_PER_UNIT = 3;

/** Why a string with half of a surrogate pair is refused: UTF-8 cannot represent it, and another text would be encrypted. */
export const LONE_SURROGATE = 'the string has a lone surrogate';

/** Whether every surrogate of a string belongs to a pair. */
export function isWellFormed(text: string): boolean {
  // Of ES2024, which Node 20 has.
  return (text as string & { isWellFormed: () => boolean }).isWellFormed();
}

/** Encodes `encrypt` or `decrypt` of a list. */
export function encodeValues(
  id: number,
  method: 'encrypt' | 'decrypt',
  options: EncryptOptions & DecryptOptions,
  values: readonly Value[],
  contexts?: readonly string[],
): Buffer {
  const units = values.length >= BULK_MIN ? lengthOf(values) : -1;
  if (units >= 0 && units <= BULK_UNITS_MAX) {
    const room = units * BYTES_PER_UNIT;
    const memory = room <= scratch.length ? scratch : Buffer.allocUnsafeSlow(room);
    return encodeBulk(id, method, options, values as readonly string[], units, memory, contexts);
  }
  return method === 'encrypt' ? encodeEncrypt(id, options, values, contexts) : encodeDecrypt(id, options, values, contexts);
}

function encodeBulk(
  id: number,
  method: 'encrypt' | 'decrypt',
  options: EncryptOptions & DecryptOptions,
  values: readonly string[],
  units: number,
  memory: Buffer,
  contexts: readonly string[] | undefined,
): Buffer {
  const ends = new Uint32Array(values.length);
  let end = 0;
  try {
    end = units <= values.length * JOINED_UNITS_MAX ? memory.write(values.join('')) : 0;
    // As many bytes as units are ASCII, so that each string has as many of either.
    if (end === units) endsOf(values, ends);
    else end = writeAll(values, memory, ends);
    return encodeTexts(id, method, options, memory.subarray(0, end), ends, contexts);
  } finally {
    memory.fill(0, 0, end);
  }
}

/** The ends of ASCII strings that are written one after another. */
function endsOf(values: readonly string[], ends: Uint32Array): void {
  let end = 0;
  for (let index = 0; index < values.length; index += 1) {
    end += values[index]?.length ?? 0;
    ends[index] = end;
  }
}

/** Writes strings one after another, and their ends. Returns the last one. Node writes U+FFFD for a lone surrogate, which is refused. */
function writeAll(values: readonly string[], memory: Buffer, ends: Uint32Array): number {
  let end = 0;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] ?? '';
    if (!isWellFormed(value)) throw new LeafsealError('invalid_params', `values, index ${index}: ${LONE_SURROGATE}`, { index });
    end += memory.write(value, end);
    ends[index] = end;
  }
  return end;
}

/** Reads the values of an answer. */
export function readValues(answer: Answer): Value[] {
  const count = answer.count;
  const shared = count >= BULK_MIN ? answer.slices() : null;
  if (!shared) return answer.values();
  const { texts, counts, ranges } = shared;
  const values = new Array<Value>(count);
  let index = 0;
  for (let part = 0; part < texts.length; part += 1) {
    const text = texts[part] ?? '';
    const stop = index + (counts[part] ?? 0);
    for (; index < stop; index += 1) values[index] = text.slice(ranges[2 * index], ranges[2 * index + 1]);
  }
  return values;
}

/** UTF-16 units of all strings; -1 if a value is no string. */
function lengthOf(values: readonly Value[]): number {
  let length = 0;
  for (const value of values) {
    if (typeof value !== 'string') return -1;
    length += value.length;
  }
  return length;
}
