'use strict';

// Loads the native module, and describes the memory that it shares with JavaScript (src/layout.rs).

const { arch, platform } = process;

/** The suffix of the platform package: `linux-x64-gnu`, `linux-arm64-musl`, `darwin-arm64`, `win32-x64-msvc`. */
function target() {
  if (platform === 'win32') return `${platform}-${arch}-msvc`;
  if (platform !== 'linux') return `${platform}-${arch}`;
  // Node reports the version of glibc only where it runs on glibc.
  const { glibcVersionRuntime } = process.report.getReport().header;
  return `${platform}-${arch}-${glibcVersionRuntime ? 'gnu' : 'musl'}`;
}

/** The module built in this folder, else that of the platform package. */
function load() {
  try {
    return require('../crypto.node');
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
  }
  const name = `@leafseal/crypto-${target()}`;
  try {
    return require(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    const advice = `install the optional dependency ${name}, or build the module with \`npm run build\``;
    throw new Error(`@leafseal/crypto has no native module for this platform: ${advice}`, { cause: error });
  }
}

const native = load();
const numbers = native.layout.split(' ').map(Number);
const [KEY_AT, IV_AT, TAG_AT, AAD_AT, SOURCE_AT, TARGET_AT, RESULTS_AT, TEXT_SIZE_MAX, KEY_SIZE_MAX, RESULT_HEAD, SHORT_AT] = numbers;

module.exports = {
  native,
  /** The header of a call. */
  header: new Float64Array(native.shared, 0, 32),
  /** The header of a short call. */
  short: new Uint32Array(native.shared, SHORT_AT, 2),
  /** All shared bytes. */
  bytes: Buffer.from(native.shared),
  /** The shared bytes as numbers, in which results are read. */
  words: new Float64Array(native.shared),
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
  target,
};
