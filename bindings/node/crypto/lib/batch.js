'use strict';

// Many operations of one algorithm in one call, described by numbers over shared buffers.

const { isFloat64Array, isUint32Array } = require('node:util').types;

const { E_TAG_INVALID } = require('./constants.js');
const check = require('./check.js');
const { findCipher, findHash, findHmac, takesTagSize } = require('./algorithms.js');
const o = require('./operation.js');
const { isResizable, sendOther } = require('./pending.js');
const { promise } = require('./promises.js');

const { header, native, NOTHING } = o;
const { ALGORITHM, DIRECT, ENCRYPT, ID, STATUS, TAG_SIZE, WRITTEN } = o.slots;

/** Numbers of an operation, in this order (src/batch.rs). Those that an algorithm does not use are ignored. */
const FIELDS = [
  'keyOffset', 'ivOffset', 'sourceOffset', 'sourceSize', 'targetOffset', 'aadOffset', 'aadSize', 'tagOffset', 'status',
];
const STRIDE = FIELDS.length;
/** HMAC has no associated data: the same place is the size of its key. */
const KEY_SIZE_FIELD = 6;

function bufferOf(buffers, name, isRequired) {
  const buffer = buffers[name];
  if (buffer === undefined && !isRequired) return NOTHING;
  if (!ArrayBuffer.isView(buffer)) throw new TypeError(`buffers.${name} must be a buffer`);
  return buffer;
}

/** Writes what all operations have in common to the header; returns the arguments of the native call. */
function describe(algorithm, encrypt, buffers, operations) {
  // Of any realm.
  const isFloat = isFloat64Array(operations);
  if (!isFloat && !isUint32Array(operations)) throw new TypeError('operations must be a Uint32Array or a Float64Array');
  if (operations.length % STRIDE !== 0) throw new RangeError(`operations.length must be a multiple of ${STRIDE}`);
  const isCipher = algorithm.keySize !== 0;
  const tagSize = algorithm.isAead ? (buffers.tagSize ?? 16) : 0;
  if (isCipher && !takesTagSize(algorithm, tagSize)) throw new Error(E_TAG_INVALID);
  const args = [
    bufferOf(buffers, 'keys', isCipher),
    bufferOf(buffers, 'ivs', isCipher),
    bufferOf(buffers, 'source', true),
    bufferOf(buffers, 'target', true),
    bufferOf(buffers, 'aad', false),
    bufferOf(buffers, 'tags', algorithm.isAead),
    operations,
  ];
  header[ALGORITHM] = algorithm.number;
  header[ENCRYPT] = encrypt;
  header[DIRECT] = isFloat ? 1 : 0;
  header[TAG_SIZE] = tagSize;
  return args;
}

/** Names the operation whose range is wrong. */
function explain(error) {
  if (header[STATUS] > o.statuses.CANCELLED) {
    error.message = `operation ${header[ID]}: a range is outside its buffer: ${error.message}`;
  }
  return error;
}

function run(algorithm, encrypt, buffers, operations) {
  native.run_batch(...describe(algorithm, encrypt, buffers, operations));
  const status = header[STATUS];
  if (status !== 0) throw explain(o.failed(status));
  return header[WRITTEN];
}

async function submit(algorithm, encrypt, buffers, operations, options) {
  const signal = options?.signal;
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('options.signal must be an AbortSignal');
  signal?.throwIfAborted();
  const args = describe(algorithm, encrypt, buffers, operations);
  if (args.some(isResizable)) throw new TypeError('buffers of an asynchronous batch must not be resizable');
  return promise(signal, (done) => {
    try {
      sendOther(done, signal, args, () => native.submit_batch(...args));
    } catch (error) {
      done(explain(error));
    }
  });
}

/** Both directions of a cipher, checked. */
function cipherOf(name, encrypt) {
  check.algorithm(name);
  const algorithm = findCipher(name);
  check.encrypt(encrypt);
  return algorithm;
}

function digestOf(find, name) {
  check.algorithm(name);
  return find(name);
}

const batch = {
  FIELDS: Object.freeze([...FIELDS]),
  STRIDE,
  KEY_SIZE_FIELD,
  cipher: (name, encrypt, buffers, operations) => run(cipherOf(name, encrypt), encrypt, buffers, operations),
  hash: (name, buffers, operations) => run(digestOf(findHash, name), 0, buffers, operations),
  hmac: (name, buffers, operations) => run(digestOf(findHmac, name), 0, buffers, operations),
  promises: {
    cipher: async (name, encrypt, buffers, operations, options) =>
      submit(cipherOf(name, encrypt), encrypt, buffers, operations, options),
    hash: async (name, buffers, operations, options) => submit(digestOf(findHash, name), 0, buffers, operations, options),
    hmac: async (name, buffers, operations, options) => submit(digestOf(findHmac, name), 0, buffers, operations, options),
  },
};

module.exports = { batch };
