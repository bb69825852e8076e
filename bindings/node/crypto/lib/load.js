'use strict';

// Loads the native module of a package. Every package that has one contains this file, which the tests compare.

const { arch, platform } = process;

/** The suffix of the platform package: `linux-x64-gnu`, `linux-arm64-musl`, `darwin-arm64`, `win32-x64-msvc`. */
function target() {
  if (platform === 'win32') return `${platform}-${arch}-msvc`;
  if (platform !== 'linux') return `${platform}-${arch}`;
  // Node reports the version of glibc only where it runs on glibc.
  const { glibcVersionRuntime } = process.report.getReport().header;
  return `${platform}-${arch}-${glibcVersionRuntime ? 'gnu' : 'musl'}`;
}

/** Calls `requireIt`; undefined if there is no such module. */
function optional(requireIt) {
  try {
    return requireIt();
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    return undefined;
  }
}

/** Refuses a native module of another version: its functions may differ. */
function checkVersion({ name, version }, native, path) {
  if (native.VERSION === version) return;
  const advice = `both must have the same version: install ${name} again, or build the module with \`npm run build\``;
  throw new Error(`${name} ${version} has loaded a native module of version ${native.VERSION ?? 'unknown'} (${path}): ${advice}`);
}

/**
 * The module built in the folder of a package, else that of the platform package.
 *
 * @param {{ name: string, version: string }} manifest the package's
 * @param {string} file the name of the module built in the folder
 * @param {() => object} requireBuilt requires it by a literal path, which bundlers see
 */
function load(manifest, file, requireBuilt) {
  let [native, path] = [optional(requireBuilt), file];
  if (native === undefined) {
    path = `${manifest.name}-${target()}`;
    native = optional(() => require(path));
  }
  if (native === undefined) {
    const advice = `install the optional dependency ${path}, or build the module with \`npm run build\``;
    throw new Error(`${manifest.name} has no native module for this platform: ${advice}`);
  }
  checkVersion(manifest, native, path);
  return native;
}

module.exports = { load, target };
