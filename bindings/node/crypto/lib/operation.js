'use strict';

// Operations whose arguments have been checked: on this thread, or on a thread of the pool.
//
// Short arguments are copied to the memory that is shared with the native module, so that the call passes none; long ones are passed as
// they are. What is copied is decided by size alone (COPY_SIZE_MAX).

const c = require('./constants.js');
const shared = require('./native.js');

const { native, header, bytes, words } = shared;
const { KEY_AT, IV_AT, TAG_AT, AAD_AT, SOURCE_AT, TARGET_AT, RESULTS_AT, KEY_SIZE_MAX, RESULT_HEAD } = shared;

/** Longest source and associated data that are copied, in bytes. Measured: docs/decisions/0021. */
const COPY_SIZE_MAX = 256;
/** Longest range that is copied byte by byte: shorter than it takes to create a view of it. */
const LOOP_SIZE_MAX = 96;

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
  c.E_CORRUPT,
  c.E_CANCELLED,
  c.E_OOM,
  c.E_SOURCE_RANGE,
  c.E_TARGET_RANGE,
  c.E_AAD_RANGE,
  'initialization failed',
  'internal error: please report it',
];
const TARGET_RANGE = MESSAGES.indexOf(c.E_TARGET_RANGE);

/** An argument that is absent: its offset and size are 0. */
const NOTHING = Buffer.alloc(0);

/** The bytes of a view of another type. */
function toBytes(view) {
  return view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Copies a range to the shared memory. */
function put(view, offset, size, at) {
  if (size === 0) return;
  const from = toBytes(view);
  if (size <= LOOP_SIZE_MAX) for (let i = 0; i < size; i++) bytes[at + i] = from[offset + i];
  else bytes.set(size === from.length ? from : from.subarray(offset, offset + size), at);
}

/** Copies from the shared memory to a range. */
function get(view, offset, size, at) {
  const to = toBytes(view);
  if (size <= LOOP_SIZE_MAX) for (let i = 0; i < size; i++) to[offset + i] = bytes[at + i];
  else to.set(bytes.subarray(at, at + size), offset);
}

/** Memory for a result, all of which is written to. */
function allocate(size) {
  return Buffer.allocUnsafeSlow(size);
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

/** Writes key, IV and tag of a cipher to the shared memory. */
function describeCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize) {
  header[KEY_SIZE] = algorithm.keySize;
  put(key, keyOffset, algorithm.keySize, KEY_AT);
  put(iv, ivOffset, algorithm.ivSize, IV_AT);
  header[TAG_SIZE] = tagSize;
  if (encrypt === 0) put(tag, tagOffset, tagSize, TAG_AT);
}

/** Writes associated data; returns the bit of what is passed as it is. */
function describeAad(aad, aadOffset, aadSize) {
  header[AAD_SIZE] = aadSize;
  if (aadSize <= COPY_SIZE_MAX) {
    put(aad, aadOffset, aadSize, AAD_AT);
    return 0;
  }
  header[AAD_OFFSET] = aadOffset;
  return AAD;
}

/** Writes a key of HMAC; returns the bit of what is passed as it is. */
function describeKey(key, keyOffset, keySize) {
  header[KEY_SIZE] = keySize;
  if (keySize <= KEY_SIZE_MAX) {
    put(key, keyOffset, keySize, KEY_AT);
    return 0;
  }
  header[KEY_OFFSET] = keyOffset;
  return KEY;
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
  describe(algorithm, encrypt, sourceOffset, sourceSize, targetOffset);
  describeCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize);
  const direct = describeAad(aad, aadOffset, aadSize);
  if (sourceSize <= COPY_SIZE_MAX) {
    put(source, sourceOffset, sourceSize, SOURCE_AT);
    header[DIRECT] = direct;
    if (direct === 0) native.run();
    else native.run(undefined, undefined, undefined, undefined, aad);
    const status = header[STATUS];
    if (status === 0) {
      get(target, targetOffset, sourceSize, TARGET_AT);
      if (encrypt === 0) bytes.fill(0, TARGET_AT, TARGET_AT + sourceSize);
    } else if (encrypt === 0) {
      toBytes(target).fill(0, targetOffset, targetOffset + sourceSize);
    }
  } else {
    header[DIRECT] = direct | SOURCE | TARGET;
    native.run(source, target, undefined, undefined, aad);
  }
  const status = header[STATUS];
  if (status !== 0) throw failed(status);
  if (encrypt === 1) get(tag, tagOffset, tagSize, TAG_AT);
  return sourceSize;
}

/** Hashes on this thread, under a key unless the algorithm has none. */
function digestSync(algorithm, key, keyOffset, keySize, source, sourceOffset, sourceSize, target, targetOffset) {
  describe(algorithm, 0, sourceOffset, sourceSize, targetOffset);
  let direct = describeKey(key, keyOffset, keySize);
  if (sourceSize <= COPY_SIZE_MAX) {
    put(source, sourceOffset, sourceSize, SOURCE_AT);
    header[DIRECT] = direct;
    if (direct === 0) native.run();
    else native.run(undefined, undefined, key);
  } else {
    direct |= SOURCE;
    header[DIRECT] = direct;
    native.run(source, undefined, key);
  }
  const status = header[STATUS];
  if (status !== 0) throw failed(status);
  get(target, targetOffset, algorithm.size, TARGET_AT);
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
  header,
  native,
  put,
  slots: { DIRECT, ID, IS_CANCELLABLE, SOURCE_OFFSET, STATUS, TARGET_OFFSET, WRITTEN },
  bits: { SOURCE, TARGET, KEY, AAD },
  statuses: { TARGET_RANGE },
  toBytes,
  results: { RESULTS_AT, RESULT_HEAD, SOURCE_AT, bytes, words },
};
