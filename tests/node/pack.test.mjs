// `npm pack` of each package, installed into an empty project outside the repository, and used there from CommonJS, from ES modules and from
// TypeScript, under the current Node and the newest LTS.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { nodes } from './newest.mjs';

const bindings = fileURLToPath(new URL('../../bindings/node/', import.meta.url));
const tools = fileURLToPath(new URL('./node_modules/', import.meta.url));
const uses = fileURLToPath(new URL('./uses/', import.meta.url));
const packages = (process.env.PACKAGES ?? 'wire crypto').split(' ').filter(Boolean);
const TSC = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--module', 'node16', '--moduleResolution', 'node16'];
let folder;

before(() => { folder = mkdtempSync(join(tmpdir(), 'leafseal-pack.')); });
after(() => rmSync(folder, { recursive: true, force: true }));

function run(command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  assert.equal(error, undefined);
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

/** Packs a package and installs it into an empty project. */
function installed(name) {
  const project = join(folder, name);
  mkdirSync(project);
  const [{ filename }] = JSON.parse(run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], join(bindings, name)));
  writeFileSync(join(project, 'package.json'), '{ "name": "empty", "private": true }\n');
  // From the packed files alone; the platform packages of a release are not part of it.
  run('npm', ['install', '--offline', '--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund', join(folder, filename)], project);
  cpSync(join(uses, name), project, { recursive: true });
  return project;
}

for (const name of packages) {
  test(`@leafseal/${name} from an empty project`, async (context) => {
    const project = installed(name);
    const shipped = join(project, 'node_modules', '@leafseal', name);
    const manifest = JSON.parse(readFileSync(join(shipped, 'package.json'), 'utf8'));
    assert.equal(manifest.license, 'Apache-2.0');
    for (const file of readdirSync(shipped)) assert.doesNotMatch(file, /^(src|test|bench|target|Cargo\.toml)$/, 'only what users need');
    for (const node of nodes) {
      const version = run(node, ['--version']).trim();
      for (const file of ['use.cjs', 'use.mjs']) {
        await context.test(`${file} under Node ${version}`, () => assert.equal(run(node, [file], project), 'ok\n'));
      }
    }
    await context.test('use.cts and use.mts compile in strict mode', () => {
      const types = ['--typeRoots', join(tools, '@types'), '--types', 'node'];
      run(process.execPath, [join(tools, 'typescript', 'bin', 'tsc'), ...TSC, ...types, 'use.cts', 'use.mts'], project);
    });
  });
}

const NATIVE = { wire: ['load.js', 'wire.node'], crypto: ['lib/load.js', 'crypto.node'] };

for (const name of packages.filter((known) => known in NATIVE)) {
  test(`@leafseal/${name} as it is published: without a native module, which comes in the package of the platform`, () => {
    const own = join(bindings, name);
    const [loader, module] = NATIVE[name];
    const target = run(process.execPath, ['-p', `require('./${loader}').target()`], own).trim();
    run(process.execPath, ['scripts/pack-platform.mjs', target, join(own, module), folder], own);
    run(process.execPath, ['scripts/pack.mjs', target, 'linux-s390x-gnu'], own);
    const { version } = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8'));
    const archives = [join(own, 'platforms', `leafseal-${name}-${version}.tgz`), join(folder, `leafseal-${name}-${target}-${version}.tgz`)];
    const project = join(folder, `published-${name}`);
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), '{ "name": "empty", "private": true }\n');
    run('npm', ['install', '--offline', '--ignore-scripts', '--no-audit', '--no-fund', ...archives], project);
    assert.ok(!readdirSync(join(project, 'node_modules', '@leafseal', name)).includes(module));
    cpSync(join(uses, name), project, { recursive: true });
    for (const file of ['use.cjs', 'use.mjs']) assert.equal(run(process.execPath, [file], project), 'ok\n');
  });
}

test('the packages with a native module load it by the same file', () => {
  const [first, ...others] = Object.entries(NATIVE).map(([name, [loader]]) => readFileSync(join(bindings, name, loader), 'utf8'));
  for (const other of others) assert.equal(other, first);
});
