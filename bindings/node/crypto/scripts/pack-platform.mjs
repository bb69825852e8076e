// Makes the npm package of one platform from a built module, for `npm publish`: `npm run pack-platform -- [TARGET] [MODULE] [FOLDER]`.
//
// TARGET is the suffix of the package, that of this machine by default (linux-x64-gnu); MODULE is crypto.node in this folder, or one that
// was built for another platform; FOLDER, where the archive goes, is `platforms`.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = resolve(fileURLToPath(import.meta.url), '../..');
const [target = thisTarget(), module = join(here, 'crypto.node'), out = join(here, 'platforms')] = process.argv.slice(2);

function thisTarget() {
  return createRequire(import.meta.url)('../lib/load.js').target();
}

const [os, cpu, abi] = target.split('-');
const { name, version, license, repository, engines } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
const libc = { gnu: ['glibc'], musl: ['musl'] }[abi];
const manifest = {
  name: `${name}-${target}`,
  version,
  description: `The native module of ${name} for ${target}`,
  license,
  repository,
  engines,
  os: [os],
  cpu: [cpu],
  ...(libc && { libc }),
  main: 'crypto.node',
  files: ['crypto.node'],
};

const folder = mkdtempSync(join(tmpdir(), 'leafseal-crypto-'));
try {
  mkdirSync(out, { recursive: true });
  copyFileSync(module, join(folder, 'crypto.node'));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  writeFileSync(join(folder, 'README.md'), `# ${manifest.name}\n\n${manifest.description}. Install \`${name}\`, which selects it.\n`);
  const packed = spawnSync('npm', ['pack', '--pack-destination', resolve(out), folder], { stdio: 'inherit' });
  process.exitCode = packed.status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
