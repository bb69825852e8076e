'use strict';

// Checks of arguments, in the contract's order. Each throws a plain Error whose message is one of the constants.

const c = require('./constants.js');
const { takesTagSize } = require('./algorithms.js');

const { isView } = ArrayBuffer;
const { getPrototypeOf } = Object;
const { prototype } = Buffer;

function fail(message) {
  throw new Error(message);
}

/** Requires a Buffer, as the allocating forms do. */
function buffer(value, message) {
  // `instanceof` alone takes seven times as long.
  const isBuffer = isView(value) && getPrototypeOf(value) === prototype;
  if (!isBuffer && !(value instanceof Buffer)) fail(message);
}

/** Requires a Buffer, another typed array or a DataView, as the zero-copy forms do. */
function view(value, message) {
  if (!isView(value)) fail(message);
}

/** Requires an integer from 0 to 2^53 - 1. The original stops at 2^31 - 1. */
function unsigned(value, message) {
  if (typeof value !== 'number' || (value >>> 0 !== value && !(Number.isSafeInteger(value) && value >= 0))) fail(message);
}

/** Requires a range within a view. */
function range(value, offset, size, message) {
  if (offset > value.byteLength - size) fail(message);
}

function callback(value) {
  if (typeof value !== 'function') fail(c.E_CALLBACK);
}

function algorithm(name) {
  if (typeof name !== 'string') fail(c.E_ALGORITHM);
}

function encrypt(value) {
  if (value !== 0 && value !== 1) fail(c.E_ENCRYPT);
}

/** Requires the sizes that a cipher takes. */
function sizes(cipher, keySize, ivSize, aadSize, tagSize) {
  if (keySize !== cipher.keySize) fail(c.E_KEY_INVALID);
  if (ivSize !== cipher.ivSize) fail(c.E_IV_INVALID);
  if (aadSize !== 0 && !cipher.isAead) fail(c.E_AAD_INVALID);
  if (!takesTagSize(cipher, tagSize)) fail(c.E_TAG_INVALID);
}

module.exports = { algorithm, buffer, callback, encrypt, fail, range, sizes, unsigned, view };
