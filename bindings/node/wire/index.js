'use strict';

// Loads the native module, once for a thread: it keeps its classes for the thread, so that a second load, after an edit of `require.cache`,
// would give answers of its own class to the decoders of the first.

const manifest = require('./package.json');
const { load } = require('./load.js');

const LOADED = Symbol.for(`${manifest.name} in ${__dirname}`);

if (process[LOADED] === undefined) {
  const native = load(manifest, 'wire.node', () => require('./wire.node'));
  Object.defineProperty(process, LOADED, { value: native });
}
module.exports = process[LOADED];
