'use strict';

// Checks of arguments, in the contract's order. Each throws a plain Error whose message is one of the constants.

const { Buffer } = require('node:buffer');

const {
  E_AAD_INVALID,
  E_ALGORITHM,
  E_CALLBACK,
  E_ENCRYPT,
  E_IV_INVALID,
  E_KEY_INVALID,
  E_TAG_INVALID,
} = require('./constants.js');
const { takesTagSize } = require('./algorithms.js');

const { isView } = ArrayBuffer;

function fail(message) {
  throw new Error(message);
}

/** Requires a Buffer, as the allocating forms do. */
function buffer(value, message) {
  if (!(value instanceof Buffer)) fail(message);
}

/** Requires a Buffer, another typed array or a DataView, as the zero-copy forms do. */
function view(value, message) {
  if (!isView(value)) fail(message);
}

/** Requires an integer from 0 to 2^53 - 1. The original stops at 2^31 - 1. */
function unsigned(value, message) {
  if (typeof value !== 'number' || (value >>> 0 !== value && !(Number.isSafeInteger(value) && value >= 0))) fail(message);
}

/** Bytes of a view. `byteLength` takes eight times as long as `length`. */
function sizeOf(value) {
  return value instanceof Uint8Array ? value.length : value.byteLength;
}

/** Requires a range within a view. */
function range(value, offset, size, message) {
  if (offset > sizeOf(value) - size) fail(message);
}

function callback(value) {
  if (typeof value !== 'function') fail(E_CALLBACK);
}

function algorithm(name) {
  if (typeof name !== 'string') fail(E_ALGORITHM);
}

function encrypt(value) {
  if (value !== 0 && value !== 1) fail(E_ENCRYPT);
}

/** Requires the sizes that a cipher takes. */
function sizes(cipher, keySize, ivSize, aadSize, tagSize) {
  if (keySize !== cipher.keySize) fail(E_KEY_INVALID);
  if (ivSize !== cipher.ivSize) fail(E_IV_INVALID);
  if (aadSize !== 0 && !cipher.isAead) fail(E_AAD_INVALID);
  if (!takesTagSize(cipher, tagSize)) fail(E_TAG_INVALID);
}

module.exports = { algorithm, buffer, callback, encrypt, fail, range, sizeOf, sizes, unsigned, view };
