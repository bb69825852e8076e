// Builds the native module and copies it to the path that index.js loads.
//
//   node scripts/build.mjs [PROFILE]     cargo's profile; release by default

import { spawnSync } from 'node:child_process';
import { copyFileSync, renameSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const profile = process.argv[2] ?? 'release';
const library = { darwin: 'libfieldseal_wire.dylib', win32: 'fieldseal_wire.dll' }[process.platform] ?? 'libfieldseal_wire.so';

const built = spawnSync(
  'cargo',
  ['build', '--locked', '--profile', profile, '--package', 'fieldseal-wire', '--message-format', 'json-render-diagnostics'],
  { cwd: here, stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 << 20 },
);
if (built.error) throw built.error;
if (built.status !== 0) process.exit(built.status ?? 1);

// Cargo reports the path of the library, which depends on the target folder.
const messages = built.stdout.toString().split('\n').filter(Boolean).map((line) => JSON.parse(line));
const files = messages.flatMap((message) => message.filenames ?? []);
const file = files.find((name) => name.endsWith(library));
if (!file) throw new Error(`cargo built no ${library}`);

// Replaced by renaming, so that running processes keep the old module.
const target = join(here, 'wire.node');
copyFileSync(file, `${target}.new`);
renameSync(`${target}.new`, target);
console.log(`${target} (${profile})`);
