// Builds the native module of a package and copies it to the path that the package loads. `scripts/build.mjs` of each package calls it.

import { spawnSync } from 'node:child_process';
import { copyFileSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const LIBRARIES = { darwin: (stem) => `lib${stem}.dylib`, win32: (stem) => `${stem}.dll` };

/** Builds `crate` from `folder` with cargo, and returns the path of its library. */
function compile(crate, folder, profile, library) {
  const built = spawnSync(
    'cargo',
    ['build', '--locked', '--profile', profile, '--package', crate, '--message-format', 'json-render-diagnostics'],
    { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 << 20 },
  );
  if (built.error) throw built.error;
  if (built.status !== 0) process.exit(built.status ?? 1);

  // Cargo reports the path of the library, which depends on the target folder.
  const messages = built.stdout.toString().split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const files = messages.flatMap((message) => message.filenames ?? []);
  const file = files.find((path) => path.endsWith(library));
  if (!file) throw new Error(`cargo built no ${library}`);
  return file;
}

/**
 * Builds `crate`, or takes its library from the folder WORKSPACE_BUILD where cargo has built it before, and copies it to `NAME.node` in the
 * folder of the package.
 *
 * @param {{ crate: string, name: string }} module the crate, and the name of the package's folder and module
 * @param {string} profile cargo's profile
 */
export function build({ crate, name }, profile = 'release') {
  const folder = resolve(fileURLToPath(import.meta.url), '../..', name);
  const stem = crate.replaceAll('-', '_');
  const library = (LIBRARIES[process.platform] ?? ((text) => `lib${text}.so`))(stem);
  const file = process.env.WORKSPACE_BUILD
    ? join(process.env.WORKSPACE_BUILD, library)
    : compile(crate, folder, profile, library);

  // Replaced by renaming, so that running processes keep the old module.
  const target = join(folder, `${name}.node`);
  copyFileSync(file, `${target}.new`);
  renameSync(`${target}.new`, target);
  console.log(`${target} (${profile})`);
}
