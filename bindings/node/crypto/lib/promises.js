'use strict';

// Forms that return promises: on the pool, or, where that is faster, at once.

const { E_ARGUMENTS } = require('./constants.js');
const contract = require('./contract.js');
const { findHash, findHmac } = require('./algorithms.js');
const { NOTHING } = require('./operation.js');
const { values } = require('./settings.js');

/** Splits a trailing `{ signal }` off the arguments of a form. */
function split(args, counts) {
  if (counts.includes(args.length)) return { count: args.length, signal: undefined };
  const count = args.length - 1;
  const options = args[count];
  if (!counts.includes(count) || options === null || (typeof options !== 'object' && options !== undefined)) {
    throw new Error(E_ARGUMENTS);
  }
  const signal = options?.signal;
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('options.signal must be an AbortSignal');
  signal?.throwIfAborted();
  return { count, signal };
}

/** A promise of what `run` passes to its callback. An aborted operation rejects with the signal's reason. */
function promise(signal, run) {
  return new Promise((resolve, reject) => {
    run((error, result) => {
      // Also when the operation has ended before it could be cancelled: whoever aborts does not wait for a result.
      if (signal?.aborted) reject(signal.reason);
      else if (error === undefined) resolve(result);
      else reject(error);
    });
  });
}

const CIPHER_COUNTS = [5, 7, 13, 19];
const HASH_COUNTS = [2, 6];
const HMAC_COUNTS = [3, 9];

/** Whether an operation is small enough to run at once. */
function isShort(size) {
  return size <= values.autoSizeMax;
}

function cipher(args, isAutomatic) {
  const { count, signal } = split(args, CIPHER_COUNTS);
  const a = args;
  if (count < 13) {
    const [aad, tag] = count === 7 ? [a[5], a[6]] : [NOTHING, NOTHING];
    if (isAutomatic && isShort(a[4]?.length)) return contract.cipherAllocating(a[0], a[1], a[2], a[3], a[4], aad, tag, false);
    return promise(signal, (done) =>
      contract.cipherAllocating(a[0], a[1], a[2], a[3], a[4], aad, tag, true, done, true, signal),
    );
  }
  const first = a.slice(0, 13);
  const rest = count === 19 ? a.slice(13, 19) : [NOTHING, 0, 0, NOTHING, 0, 0];
  if (isAutomatic && isShort(a[9])) return contract.cipherInto(...first, ...rest, false);
  return promise(signal, (done) => contract.cipherInto(...first, ...rest, true, done, true, signal));
}

function hash(args, isAutomatic) {
  const { count, signal } = split(args, HASH_COUNTS);
  const [name, source] = args;
  if (count === 2) {
    if (isAutomatic && isShort(source?.length)) return contract.digestAllocating(findHash, name, NOTHING, source, false);
    return promise(signal, (done) => contract.digestAllocating(findHash, name, NOTHING, source, true, done, true, signal));
  }
  const rest = args.slice(1, 6);
  if (isAutomatic && isShort(args[3])) return contract.digestInto(findHash, name, NOTHING, 0, 0, ...rest, false);
  return promise(signal, (done) => contract.digestInto(findHash, name, NOTHING, 0, 0, ...rest, true, done, true, signal));
}

function hmac(args, isAutomatic) {
  const { count, signal } = split(args, HMAC_COUNTS);
  const [name, key, source] = args;
  if (count === 3) {
    if (isAutomatic && isShort(source?.length)) return contract.digestAllocating(findHmac, name, key, source, false);
    return promise(signal, (done) => contract.digestAllocating(findHmac, name, key, source, true, done, true, signal));
  }
  const rest = args.slice(1, 9);
  if (isAutomatic && isShort(args[6])) return contract.digestInto(findHmac, name, ...rest, false);
  return promise(signal, (done) => contract.digestInto(findHmac, name, ...rest, true, done, true, signal));
}

/** Always on the pool. */
const promises = {
  cipher: async (...args) => cipher(args, false),
  hash: async (...args) => hash(args, false),
  hmac: async (...args) => hmac(args, false),
};

/** At once up to `autoSizeMax` bytes of source, else on the pool. */
const auto = {
  cipher: async (...args) => cipher(args, true),
  hash: async (...args) => hash(args, true),
  hmac: async (...args) => hmac(args, true),
};

module.exports = { auto, promise, promises };
