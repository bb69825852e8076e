'use strict';

// `cipher`, `hash` and `hmac`: the form is chosen by the number of arguments alone, and checks follow the contract's order.

const {
  E_AAD,
  E_AAD_OFFSET,
  E_AAD_RANGE,
  E_AAD_SIZE,
  E_ARGUMENTS,
  E_IV,
  E_IV_OFFSET,
  E_IV_RANGE,
  E_IV_SIZE,
  E_KEY,
  E_KEY_OFFSET,
  E_KEY_RANGE,
  E_KEY_SIZE,
  E_SOURCE,
  E_SOURCE_OFFSET,
  E_SOURCE_RANGE,
  E_SOURCE_SIZE,
  E_TAG,
  E_TAG_OFFSET,
  E_TAG_RANGE,
  E_TAG_SIZE,
  E_TARGET,
  E_TARGET_OFFSET,
  E_TARGET_RANGE,
} = require('./constants.js');
const { algorithm: checkName, buffer: checkBuffer, callback: checkCallback, encrypt: checkEncrypt } = require('./check.js');
const { fail, range: checkRange, sizes: checkSizes, unsigned: checkUnsigned, view: checkView } = require('./check.js');
const { findCipher, findHash, findHmac } = require('./algorithms.js');
const { NOTHING, allocate, cipherSync, digestSync } = require('./operation.js');
const { cipherAsync, digestAsync } = require('./pending.js');

/** The forms that return a buffer of their own: 5 to 8 arguments. */
function cipherAllocating(name, encrypt, key, iv, source, aad, tag, isAsync, callback, isInternal, signal) {
  checkBuffer(key, E_KEY);
  checkBuffer(iv, E_IV);
  checkBuffer(source, E_SOURCE);
  checkBuffer(aad, E_AAD);
  checkBuffer(tag, E_TAG);
  if (isAsync) checkCallback(callback);
  checkName(name);
  const algorithm = findCipher(name);
  checkEncrypt(encrypt);
  const { length } = source;
  checkSizes(algorithm, key.length, iv.length, aad.length, tag.length);
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
  checkName(name);
  const algorithm = findCipher(name);
  checkEncrypt(encrypt);
  checkView(key, E_KEY);
  checkUnsigned(keyOffset, E_KEY_OFFSET);
  checkUnsigned(keySize, E_KEY_SIZE);
  checkView(iv, E_IV);
  checkUnsigned(ivOffset, E_IV_OFFSET);
  checkUnsigned(ivSize, E_IV_SIZE);
  checkView(source, E_SOURCE);
  checkUnsigned(sourceOffset, E_SOURCE_OFFSET);
  checkUnsigned(sourceSize, E_SOURCE_SIZE);
  checkView(target, E_TARGET);
  checkUnsigned(targetOffset, E_TARGET_OFFSET);
  checkView(aad, E_AAD);
  checkUnsigned(aadOffset, E_AAD_OFFSET);
  checkUnsigned(aadSize, E_AAD_SIZE);
  checkView(tag, E_TAG);
  checkUnsigned(tagOffset, E_TAG_OFFSET);
  checkUnsigned(tagSize, E_TAG_SIZE);
  checkRange(key, keyOffset, keySize, E_KEY_RANGE);
  checkRange(iv, ivOffset, ivSize, E_IV_RANGE);
  checkRange(source, sourceOffset, sourceSize, E_SOURCE_RANGE);
  checkRange(target, targetOffset, sourceSize, E_TARGET_RANGE);
  checkRange(aad, aadOffset, aadSize, E_AAD_RANGE);
  checkRange(tag, tagOffset, tagSize, E_TAG_RANGE);
  checkSizes(algorithm, keySize, ivSize, aadSize, tagSize);
  if (isAsync) {
    checkCallback(callback);
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
  checkBuffer(key, E_KEY);
  checkBuffer(source, E_SOURCE);
  if (isAsync) checkCallback(callback);
  checkName(name);
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
  checkName(name);
  const algorithm = find(name);
  checkView(key, E_KEY);
  checkUnsigned(keyOffset, E_KEY_OFFSET);
  checkUnsigned(keySize, E_KEY_SIZE);
  checkView(source, E_SOURCE);
  checkUnsigned(sourceOffset, E_SOURCE_OFFSET);
  checkUnsigned(sourceSize, E_SOURCE_SIZE);
  checkView(target, E_TARGET);
  checkUnsigned(targetOffset, E_TARGET_OFFSET);
  checkRange(key, keyOffset, keySize, E_KEY_RANGE);
  checkRange(source, sourceOffset, sourceSize, E_SOURCE_RANGE);
  checkRange(target, targetOffset, algorithm.size, E_TARGET_RANGE);
  if (isAsync) {
    checkCallback(callback);
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
      checkCallback(a[13]);
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
      return fail(E_ARGUMENTS);
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
      return fail(E_ARGUMENTS);
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
      return fail(E_ARGUMENTS);
  }
};

module.exports = { ...functions, cipherAllocating, cipherInto, digestAllocating, digestInto };
