'use strict';

// Loads the native module, opens it for this copy of the JavaScript, and describes the memory that they share (src/layout.rs).
//
// Several copies may be loaded in a process: by test runners that isolate modules, by bundlers, or when `require.cache` is edited. Each
// has its own functions, shared memory and operations; only the threads of the pool are common to all.

const manifest = require('../package.json');
const { load } = require('./load.js');

const addon = load(manifest, 'crypto.node', () => require('../crypto.node'));
const native = addon.open();
const { shared: memory } = native.kept;
const numbers = addon.layout.split(' ').map(Number);
const [KEY_AT, IV_AT, TAG_AT, AAD_AT, SOURCE_AT, TARGET_AT, RESULTS_AT, TEXT_SIZE_MAX, KEY_SIZE_MAX, RESULT_HEAD, SHORT_AT] = numbers;

module.exports = {
  native,
  /** The table of algorithms (src/algorithms.rs). */
  algorithms: addon.algorithms,
  /** All shared memory. */
  memory,
  /** The header of a call. */
  header: new Float64Array(memory, 0, 32),
  /** The header of a short call. */
  short: new Uint32Array(memory, SHORT_AT, 2),
  /** All shared bytes. */
  bytes: Buffer.from(memory),
  /** The shared bytes as numbers, in which results are read. */
  words: new Float64Array(memory),
  KEY_AT,
  IV_AT,
  TAG_AT,
  AAD_AT,
  SOURCE_AT,
  TARGET_AT,
  RESULTS_AT,
  TEXT_SIZE_MAX,
  KEY_SIZE_MAX,
  RESULT_HEAD,
};
