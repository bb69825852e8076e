'use strict';

// `cipher`, `hash` and `hmac`: the form is chosen by the number of arguments alone, and checks follow the contract's order.

const c = require('./constants.js');
const check = require('./check.js');
const { findCipher, findHash, findHmac } = require('./algorithms.js');
const { NOTHING, allocate, cipherSync, digestSync } = require('./operation.js');
const { cipherAsync, digestAsync } = require('./pending.js');

/** The forms that return a buffer of their own: 5 to 8 arguments. */
function cipherAllocating(name, encrypt, key, iv, source, aad, tag, isAsync, callback, isInternal, signal) {
  check.buffer(key, c.E_KEY);
  check.buffer(iv, c.E_IV);
  check.buffer(source, c.E_SOURCE);
  check.buffer(aad, c.E_AAD);
  check.buffer(tag, c.E_TAG);
  if (isAsync) check.callback(callback);
  check.algorithm(name);
  const algorithm = findCipher(name);
  check.encrypt(encrypt);
  const { length } = source;
  check.sizes(algorithm, key.length, iv.length, aad.length, tag.length);
  if (isAsync) {
    return cipherAsync(
      algorithm, encrypt, key, 0, iv, 0, source, 0, length, undefined, 0, aad, 0, aad.length, tag, 0, tag.length, callback, isInternal, signal,
    );
  }
  const target = allocate(length);
  cipherSync(algorithm, encrypt, key, 0, iv, 0, source, 0, length, target, 0, aad, 0, aad.length, tag, 0, tag.length);
  return target;
}

/** The forms that write to a target: 13, 14, 19 and 20 arguments. */
function cipherInto(
  name, encrypt, key, keyOffset, keySize, iv, ivOffset, ivSize, source, sourceOffset, sourceSize, target, targetOffset,
  aad, aadOffset, aadSize, tag, tagOffset, tagSize, isAsync, callback, isInternal, signal,
) {
  check.algorithm(name);
  const algorithm = findCipher(name);
  check.encrypt(encrypt);
  check.view(key, c.E_KEY);
  check.unsigned(keyOffset, c.E_KEY_OFFSET);
  check.unsigned(keySize, c.E_KEY_SIZE);
  check.view(iv, c.E_IV);
  check.unsigned(ivOffset, c.E_IV_OFFSET);
  check.unsigned(ivSize, c.E_IV_SIZE);
  check.view(source, c.E_SOURCE);
  check.unsigned(sourceOffset, c.E_SOURCE_OFFSET);
  check.unsigned(sourceSize, c.E_SOURCE_SIZE);
  check.view(target, c.E_TARGET);
  check.unsigned(targetOffset, c.E_TARGET_OFFSET);
  check.view(aad, c.E_AAD);
  check.unsigned(aadOffset, c.E_AAD_OFFSET);
  check.unsigned(aadSize, c.E_AAD_SIZE);
  check.view(tag, c.E_TAG);
  check.unsigned(tagOffset, c.E_TAG_OFFSET);
  check.unsigned(tagSize, c.E_TAG_SIZE);
  check.range(key, keyOffset, keySize, c.E_KEY_RANGE);
  check.range(iv, ivOffset, ivSize, c.E_IV_RANGE);
  check.range(source, sourceOffset, sourceSize, c.E_SOURCE_RANGE);
  check.range(target, targetOffset, sourceSize, c.E_TARGET_RANGE);
  check.range(aad, aadOffset, aadSize, c.E_AAD_RANGE);
  check.range(tag, tagOffset, tagSize, c.E_TAG_RANGE);
  check.sizes(algorithm, keySize, ivSize, aadSize, tagSize);
  if (isAsync) {
    check.callback(callback);
    return cipherAsync(
      algorithm, encrypt, key, keyOffset, iv, ivOffset, source, sourceOffset, sourceSize, target, targetOffset,
      aad, aadOffset, aadSize, tag, tagOffset, tagSize, callback, isInternal, signal,
    );
  }
  return cipherSync(
    algorithm, encrypt, key, keyOffset, iv, ivOffset, source, sourceOffset, sourceSize, target, targetOffset,
    aad, aadOffset, aadSize, tag, tagOffset, tagSize,
  );
}

/** Hash (without a key) or HMAC, into a buffer of its own. */
function digestAllocating(find, name, key, source, isAsync, callback, isInternal, signal) {
  check.buffer(key, c.E_KEY);
  check.buffer(source, c.E_SOURCE);
  if (isAsync) check.callback(callback);
  check.algorithm(name);
  const algorithm = find(name);
  if (isAsync) {
    return digestAsync(algorithm, key, 0, key.length, source, 0, source.length, undefined, 0, callback, isInternal, signal);
  }
  const target = allocate(algorithm.size);
  digestSync(algorithm, key, 0, key.length, source, 0, source.length, target, 0);
  return target;
}

/** Hash (without a key) or HMAC, into a target. */
function digestInto(
  find, name, key, keyOffset, keySize, source, sourceOffset, sourceSize, target, targetOffset, isAsync, callback, isInternal, signal,
) {
  check.algorithm(name);
  const algorithm = find(name);
  check.view(key, c.E_KEY);
  check.unsigned(keyOffset, c.E_KEY_OFFSET);
  check.unsigned(keySize, c.E_KEY_SIZE);
  check.view(source, c.E_SOURCE);
  check.unsigned(sourceOffset, c.E_SOURCE_OFFSET);
  check.unsigned(sourceSize, c.E_SOURCE_SIZE);
  check.view(target, c.E_TARGET);
  check.unsigned(targetOffset, c.E_TARGET_OFFSET);
  check.range(key, keyOffset, keySize, c.E_KEY_RANGE);
  check.range(source, sourceOffset, sourceSize, c.E_SOURCE_RANGE);
  check.range(target, targetOffset, algorithm.size, c.E_TARGET_RANGE);
  if (isAsync) {
    check.callback(callback);
    return digestAsync(
      algorithm, key, keyOffset, keySize, source, sourceOffset, sourceSize, target, targetOffset, callback, isInternal, signal,
    );
  }
  return digestSync(algorithm, key, keyOffset, keySize, source, sourceOffset, sourceSize, target, targetOffset);
}

/**
 * The three functions, as the original has them: without a name, and with a length of 0. `a` are the arguments of a call.
 */
const functions = {};

functions.cipher = function () {
  const a = arguments;
  switch (a.length) {
    case 5:
      return cipherAllocating(a[0], a[1], a[2], a[3], a[4], NOTHING, NOTHING, false);
    case 6:
      return cipherAllocating(a[0], a[1], a[2], a[3], a[4], NOTHING, NOTHING, true, a[5]);
    case 7:
      return cipherAllocating(a[0], a[1], a[2], a[3], a[4], a[5], a[6], false);
    case 8:
      return cipherAllocating(a[0], a[1], a[2], a[3], a[4], a[5], a[6], true, a[7]);
    case 13:
      return cipherInto(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], NOTHING, 0, 0, NOTHING, 0, 0, false,
      );
    case 14:
      check.callback(a[13]);
      return cipherInto(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], NOTHING, 0, 0, NOTHING, 0, 0, true, a[13],
      );
    case 19:
      return cipherInto(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], false,
      );
    case 20:
      return cipherInto(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], true,
        a[19],
      );
    default:
      return check.fail(c.E_ARGUMENTS);
  }
};

functions.hash = function () {
  const a = arguments;
  switch (a.length) {
    case 2:
      return digestAllocating(findHash, a[0], NOTHING, a[1], false);
    case 3:
      return digestAllocating(findHash, a[0], NOTHING, a[1], true, a[2]);
    case 6:
      return digestInto(findHash, a[0], NOTHING, 0, 0, a[1], a[2], a[3], a[4], a[5], false);
    case 7:
      return digestInto(findHash, a[0], NOTHING, 0, 0, a[1], a[2], a[3], a[4], a[5], true, a[6]);
    default:
      return check.fail(c.E_ARGUMENTS);
  }
};

functions.hmac = function () {
  const a = arguments;
  switch (a.length) {
    case 3:
      return digestAllocating(findHmac, a[0], a[1], a[2], false);
    case 4:
      return digestAllocating(findHmac, a[0], a[1], a[2], true, a[3]);
    case 9:
      return digestInto(findHmac, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], false);
    case 10:
      return digestInto(findHmac, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], true, a[9]);
    default:
      return check.fail(c.E_ARGUMENTS);
  }
};

module.exports = { ...functions, cipherAllocating, cipherInto, digestAllocating, digestInto };
