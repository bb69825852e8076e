// Makes the npm package of one platform from a built native module, for `npm publish`. `scripts/pack-platform.mjs` of each package calls it.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const bindings = resolve(fileURLToPath(import.meta.url), '../..');

function thisTarget() {
  return createRequire(import.meta.url)('../crypto/lib/load.js').target();
}

/**
 * Packs the native module of a package.
 *
 * @param {string} packageName the name of the package's folder and module
 * @param {string} target the suffix of the package, by default that of this machine (linux-x64-gnu)
 * @param {string} module the native module, by default the one in the package's folder; or one that was built for another platform
 * @param {string} out the folder of the archive, by default `platforms` in the package's folder
 */
export function packPlatform(packageName, target = thisTarget(), module = undefined, out = undefined) {
  const file = `${packageName}.node`;
  const here = join(bindings, packageName);
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
    main: file,
    files: [file],
  };

  const folder = mkdtempSync(join(tmpdir(), 'leafseal-pack-'));
  try {
    const archives = resolve(out ?? join(here, 'platforms'));
    mkdirSync(archives, { recursive: true });
    copyFileSync(module ?? join(here, file), join(folder, file));
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    writeFileSync(join(folder, 'README.md'), `# ${manifest.name}\n\n${manifest.description}. Install \`${name}\`, which selects it.\n`);
    const packed = spawnSync('npm', ['pack', '--pack-destination', archives, folder], { stdio: 'inherit' });
    process.exitCode = packed.status ?? 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
