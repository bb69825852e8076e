// Packages of others that tests and benchmarks run: installed below the repository's target/, never as dependencies of this package.

import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the repository. */
export const root = fileURLToPath(new URL('../../../../..', import.meta.url));

/**
 * Installs what the lock file of `folder` names, with its checksums, and returns the folder that has `node_modules`. An installation that came
 * to its end is kept until the lock file or Node changes. `scripts`: run the packages' install scripts, which compile native parts.
 */
export function fetched(folder, { scripts = false } = {}) {
  const target = join(root, 'target', 'npm', basename(folder));
  const stamp = join(target, 'stamp');
  const wanted = `${process.version}\n${readFileSync(join(folder, 'package-lock.json'))}`;
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return target;
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(folder, name), join(target, name));
  const options = ['--no-audit', '--no-fund', '--loglevel=error', ...(scripts ? [] : ['--ignore-scripts'])];
  const npm = spawnSync('npm', ['ci', ...options], { cwd: target, encoding: 'utf8', shell: process.platform === 'win32' });
  if (npm.error) throw npm.error;
  if (npm.status !== 0) throw new Error(`npm ci of ${folder} failed:\n${npm.stdout}${npm.stderr}`);
  writeFileSync(stamp, wanted);
  return target;
}
