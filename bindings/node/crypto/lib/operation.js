'use strict';

// Operations whose arguments have been checked: on this thread, or on a thread of the pool.
//
// Short arguments are copied to the memory that is shared with the native module, so that the call passes none; long ones are passed as
// they are. What is copied is decided by size alone (COPY_SIZE_MAX).

const { Buffer } = require('node:buffer');

const {
  E_AAD_RANGE,
  E_CANCELLED,
  E_CORRUPT,
  E_OOM,
  E_SOURCE_RANGE,
  E_TARGET_RANGE,
} = require('./constants.js');
const shared = require('./native.js');

const { native, header, short, bytes, words, memory } = shared;
// The module has more functions than objects keep in fast properties.
const { run, run_short: runShort } = native;
// Looked up on views of several types, it would cost as much as what it does.
const { set } = Uint8Array.prototype;
const { KEY_AT, IV_AT, TAG_AT, AAD_AT, SOURCE_AT, TARGET_AT, RESULTS_AT, KEY_SIZE_MAX, RESULT_HEAD } = shared;

/** Longest argument that is copied, in bytes. Measured: docs/decisions/0021-node-crypto.md. */
const COPY_SIZE_MAX = 256;
/** Longest part of a buffer that is copied byte by byte. To pass it takes 25 ns, to create a view of it twice as long. */
const LOOP_SIZE_MAX = 24;
/** Longest result that shares memory with other small buffers, as those of `Buffer.from` do: half a slab of Node's pool. */
const POOLED_SIZE_MAX = Buffer.poolSize >>> 1;

// Places of the header (src/layout.rs, `Slot`).
const ALGORITHM = 0;
const ENCRYPT = 1;
const DIRECT = 2;
const SOURCE_OFFSET = 3;
const SOURCE_SIZE = 4;
const TARGET_OFFSET = 5;
const KEY_OFFSET = 6;
const KEY_SIZE = 7;
const AAD_OFFSET = 9;
const AAD_SIZE = 10;
const TAG_SIZE = 12;
const ID = 13;
const STATUS = 14;
const WRITTEN = 15;
const IS_CANCELLABLE = 16;

// Bits of DIRECT.
const SOURCE = 1;
const TARGET = 2;
const KEY = 4;
const AAD = 16;

/** Messages by status (src/fault.rs). */
const MESSAGES = [
  undefined,
  E_CORRUPT,
  E_CANCELLED,
  E_OOM,
  E_SOURCE_RANGE,
  E_TARGET_RANGE,
  E_AAD_RANGE,
  'initialization failed',
  'internal error: please report it',
];
const CORRUPT = MESSAGES.indexOf(E_CORRUPT);
const TARGET_RANGE = MESSAGES.indexOf(E_TARGET_RANGE);

/** An argument that is absent: its offset and size are 0. */
const NOTHING = Buffer.alloc(0);

/** The bytes of a view of another type. */
function toBytes(view) {
  return view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/**
 * Copies an argument to the shared memory if that is faster than to pass it. Returns whether it was copied: short parts and whole short
 * buffers are. Every argument has its own room there.
 */
function put(view, offset, size, at) {
  if (size <= COPY_SIZE_MAX && view instanceof Uint8Array && size === view.length) {
    if (size !== 0) set.call(bytes, view, at);
    return true;
  }
  if (size > LOOP_SIZE_MAX) return false;
  const from = toBytes(view);
  for (let i = 0; i < size; i++) bytes[at + i] = from[offset + i];
  return true;
}

/** Copies an argument, in any case. */
function putWhole(view, offset, size, at) {
  if (!put(view, offset, size, at)) bytes.set(toBytes(view).subarray(offset, offset + size), at);
}

/** Views of the shared results by length, made when they are first used. */
const outputs = [];

/** Copies a result from the shared memory: up to COPY_SIZE_MAX bytes from TARGET_AT. */
function getTarget(view, offset, size) {
  if (size === 0) return;
  const from = (outputs[size] ??= new Uint8Array(memory, TARGET_AT, size));
  set.call(toBytes(view), from, offset);
}

/** Copies bytes to where results are. */
function putTarget(view) {
  bytes.set(toBytes(view), TARGET_AT);
}

const tags = [];

/** Copies a tag from the shared memory. */
function getTag(view, offset, size) {
  if (size === 0) return;
  const from = (tags[size] ??= new Uint8Array(memory, TAG_AT, size));
  set.call(toBytes(view), from, offset);
}

/** Copies from any place of the shared memory. */
function get(view, offset, size, at) {
  toBytes(view).set(bytes.subarray(at, at + size), offset);
}

/** Memory for a result, all of which is written to. */
function allocate(size) {
  return size <= POOLED_SIZE_MAX ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size);
}

/** Writes what all calls have to the header. */
function describe(algorithm, encrypt, sourceOffset, sourceSize, targetOffset) {
  header[ALGORITHM] = algorithm.number;
  header[ENCRYPT] = encrypt;
  header[SOURCE_OFFSET] = sourceOffset;
  header[SOURCE_SIZE] = sourceSize;
  header[TARGET_OFFSET] = targetOffset;
  header[AAD_SIZE] = 0;
  header[TAG_SIZE] = 0;
  header[KEY_SIZE] = 0;
}

/** Copies key, IV and tag of a cipher to the shared memory. Returns the bit of a key that is passed as it is. */
function putCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize) {
  put(iv, ivOffset, algorithm.ivSize, IV_AT);
  if (encrypt === 0) put(tag, tagOffset, tagSize, TAG_AT);
  return put(key, keyOffset, algorithm.keySize, KEY_AT) ? 0 : KEY;
}

/** Copies associated data; returns the bit of what is passed as it is. */
function putAad(aad, aadOffset, aadSize) {
  return aadSize === 0 || put(aad, aadOffset, aadSize, AAD_AT) ? 0 : AAD;
}

/** Copies a key of HMAC; returns the bit of what is passed as it is. */
function putKey(key, keyOffset, keySize) {
  return keySize === 0 || put(key, keyOffset, keySize, KEY_AT) ? 0 : KEY;
}

/** Writes key, IV and tag of a cipher for a call; returns the bit of a key that is passed as it is. */
function describeCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize) {
  header[KEY_SIZE] = algorithm.keySize;
  header[KEY_OFFSET] = keyOffset;
  header[TAG_SIZE] = tagSize;
  return putCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize);
}

/** Writes associated data for a call; returns the bit of what is passed as it is. */
function describeAad(aad, aadOffset, aadSize) {
  header[AAD_SIZE] = aadSize;
  header[AAD_OFFSET] = aadOffset;
  return putAad(aad, aadOffset, aadSize);
}

/** Writes a key of HMAC for a call; returns the bit of what is passed as it is. */
function describeKey(key, keyOffset, keySize) {
  header[KEY_SIZE] = keySize;
  header[KEY_OFFSET] = keyOffset;
  return putKey(key, keyOffset, keySize);
}

/** Writes the header of a call all of whose arguments have been copied (src/layout.rs, `Short`). No size exceeds COPY_SIZE_MAX. */
function describeShort(algorithm, encrypt, sourceSize, keySize, aadSize, tagSize) {
  short[0] = algorithm.number | (encrypt << 8) | (tagSize << 16);
  short[1] = sourceSize | (keySize << 10) | (aadSize << 20);
}

function failed(status) {
  return new Error(MESSAGES[status]);
}

/** Runs a cipher on this thread. Returns the number of bytes written. */
function cipherSync(
  algorithm,
  encrypt,
  key,
  keyOffset,
  iv,
  ivOffset,
  source,
  sourceOffset,
  sourceSize,
  target,
  targetOffset,
  aad,
  aadOffset,
  aadSize,
  tag,
  tagOffset,
  tagSize,
) {
  let direct = putCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize);
  direct |= putAad(aad, aadOffset, aadSize);
  // What is read from the shared memory is written to it.
  const isCopied = put(source, sourceOffset, sourceSize, SOURCE_AT);
  if (!isCopied) direct |= SOURCE | TARGET;
  if (direct === 0) {
    describeShort(algorithm, encrypt, sourceSize, algorithm.keySize, aadSize, tagSize);
    runShort();
  } else {
    describe(algorithm, encrypt, sourceOffset, sourceSize, targetOffset);
    header[KEY_SIZE] = algorithm.keySize;
    header[KEY_OFFSET] = keyOffset;
    header[AAD_SIZE] = aadSize;
    header[AAD_OFFSET] = aadOffset;
    header[TAG_SIZE] = tagSize;
    header[DIRECT] = direct;
    run(source, target, key, undefined, aad);
  }
  const status = header[STATUS];
  if (isCopied) {
    // On failure the shared result is zeros.
    if (status === 0 || (status === CORRUPT && sourceSize !== 0)) getTarget(target, targetOffset, sourceSize);
    if (encrypt === 0 && sourceSize !== 0) outputs[sourceSize].fill(0);
  }
  if (status !== 0) throw failed(status);
  if (encrypt === 1) getTag(tag, tagOffset, tagSize);
  return sourceSize;
}

/** Hashes on this thread, under a key unless the algorithm has none. */
function digestSync(algorithm, key, keyOffset, keySize, source, sourceOffset, sourceSize, target, targetOffset) {
  let direct = putKey(key, keyOffset, keySize);
  if (!put(source, sourceOffset, sourceSize, SOURCE_AT)) direct |= SOURCE;
  if (direct === 0) {
    describeShort(algorithm, 0, sourceSize, keySize, 0, 0);
    runShort();
  } else {
    describe(algorithm, 0, sourceOffset, sourceSize, targetOffset);
    header[KEY_SIZE] = keySize;
    header[KEY_OFFSET] = keyOffset;
    header[DIRECT] = direct;
    run(source, undefined, key);
  }
  const status = header[STATUS];
  if (status !== 0) throw failed(status);
  getTarget(target, targetOffset, algorithm.size);
  return algorithm.size;
}

module.exports = {
  COPY_SIZE_MAX,
  LOOP_SIZE_MAX,
  NOTHING,
  allocate,
  cipherSync,
  describe,
  describeAad,
  describeCipher,
  describeKey,
  digestSync,
  failed,
  get,
  getTarget,
  header,
  native,
  put,
  putTarget,
  putWhole,
  slots: { ALGORITHM, ENCRYPT, SOURCE_SIZE, TAG_SIZE, AAD_OFFSET, DIRECT, ID, IS_CANCELLABLE, SOURCE_OFFSET, STATUS, TARGET_OFFSET, WRITTEN },
  bits: { SOURCE, TARGET, KEY, AAD },
  statuses: { CANCELLED: 2, INTERNAL: MESSAGES.length - 1, TARGET_RANGE },
  toBytes,
  results: { RESULTS_AT, RESULT_HEAD, SOURCE_AT, bytes, words },
};
