// Lists of values to requests and back, without a call of the native module for each value.
//
// A list of strings is joined, written to memory at once, and cut at the ends of the strings. An answer of ASCII strings, such as
// envelopes, becomes one JavaScript string, of which each value is a slice. Other lists go value by value.

import {
  type Answer, type DecryptOptions, type EncryptOptions, type Value, encodeDecrypt, encodeEncrypt, encodeTexts,
} from '@fieldseal/wire';

/** Lists below this length are faster value by value. */
const BULK_MIN = 8;

/** Encodes `encrypt` or `decrypt` of a list. */
export function encodeValues(
  id: number,
  method: 'encrypt' | 'decrypt',
  options: EncryptOptions & DecryptOptions,
  values: readonly Value[],
): Buffer {
  const bulk = values.length >= BULK_MIN ? joined(values) : undefined;
  if (bulk) return encodeTexts(id, method, options, bulk.content, bulk.ends);
  return method === 'encrypt' ? encodeEncrypt(id, options, values) : encodeDecrypt(id, options, values);
}

/** Reads the values of an answer. */
export function readValues(answer: Answer): Value[] {
  const count = answer.count;
  const shared = count >= BULK_MIN ? answer.slices() : null;
  if (!shared) return answer.values();
  const { text, ranges } = shared;
  const values = new Array<Value>(count);
  for (let index = 0; index < count; index += 1) values[index] = text.slice(ranges[2 * index], ranges[2 * index + 1]);
  return values;
}

/** The UTF-8 of all strings and the end of each; undefined if a value is no string or not ASCII. */
function joined(values: readonly Value[]): { content: Buffer; ends: Uint32Array } | undefined {
  const ends = new Uint32Array(values.length);
  let length = 0;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (typeof value !== 'string') return undefined;
    length += value.length;
    ends[index] = length;
  }
  const content = Buffer.from(values.join(''));
  // Equal exactly if every character is ASCII: any other takes more bytes than UTF-16 units.
  return content.length === length && length <= 0xffff_ffff ? { content, ends } : undefined;
}
