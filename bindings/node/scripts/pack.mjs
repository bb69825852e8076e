// Makes the npm package that is published: without a native module, with the platform packages as optional dependencies. They are not in
// package.json, as an install of the workspace would look for versions that are not published yet. `scripts/pack.mjs` of each package calls it.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const bindings = resolve(fileURLToPath(import.meta.url), '../..');

/**
 * Packs a package into `platforms` in its folder.
 *
 * @param {string} packageName the name of the package's folder and module
 * @param {string[]} targets the platforms of the release, for example linux-x64-gnu, linux-arm64-musl, darwin-arm64, win32-x64-msvc
 */
export function pack(packageName, targets) {
  const here = join(bindings, packageName);
  const manifest = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  const { name, version } = manifest;
  manifest.files = manifest.files.filter((file) => file !== `${packageName}.node`);
  manifest.optionalDependencies = Object.fromEntries(targets.map((target) => [`${name}-${target}`, version]));
  delete manifest.scripts;
  delete manifest.devDependencies;

  const folder = mkdtempSync(join(tmpdir(), 'leafseal-pack-'));
  try {
    const out = join(here, 'platforms');
    mkdirSync(out, { recursive: true });
    for (const file of manifest.files) cpSync(join(here, file), join(folder, file), { recursive: true });
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    const packed = spawnSync('npm', ['pack', '--pack-destination', out, folder], { stdio: 'inherit' });
    process.exitCode = packed.status ?? 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
