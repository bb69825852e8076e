// Every block of the READMEs of @leafseal/wire and @leafseal/crypto, as the packages contain them, in an empty project that has installed the
// package by the README's own command. The examples of wire talk to an engine that `leafseal dev` starts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Engine } from '../artillery/engine.mjs';

const bindings = fileURLToPath(new URL('../../bindings/node/', import.meta.url));
const packages = (process.env.PACKAGES ?? 'wire crypto').split(' ').filter(Boolean);
/** Lines that the examples print, among others. */
const PRINTED = { crypto: ['4111111111111111', '0 <Buffer'], wire: ["[ '4111111111111111', 12.5, null ]"] };
let folder;

before(() => { folder = mkdtempSync(join(tmpdir(), 'leafseal-readme.')); });
after(() => rmSync(folder, { recursive: true, force: true }));

function run(command, args, cwd) {
  const env = { ...process.env, npm_config_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' };
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 120_000, env });
  assert.equal(error, undefined);
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

/** The blocks of a README that are not marked as not run: language and text. */
function blocks(readme) {
  const found = [...readme.matchAll(/^(<!-- not run: .+ -->\n)?```(\w*)\n(.*?)^```$/gms)];
  assert.equal(found.length * 2, readme.match(/^```/gm).length, 'every block is found');
  return found.filter(([, marked]) => !marked).map(([, , language, text]) => ({ language, text }));
}

for (const name of packages) {
  test(`the README of @leafseal/${name}`, async (context) => {
    // Where the README has them: a checkout of Leafseal, and a project beside it.
    const [project, target] = [join(folder, name, 'project'), join(folder, name, 'leafseal', 'target')];
    for (const path of [project, target]) mkdirSync(path, { recursive: true });
    writeFileSync(join(project, 'package.json'), '{ "name": "empty", "private": true }\n');
    run('npm', ['pack', '--ignore-scripts', '--pack-destination', target], join(bindings, name));
    const [install, ...examples] = blocks(readFileSync(join(bindings, name, 'README.md'), 'utf8'));
    assert.equal(install.language, 'console');
    const commands = install.text.trim().split('\n').map((line) => line.replace(/^\$ /, ''));
    for (const command of commands) run('sh', ['-c', command], project);
    const shipped = readFileSync(join(project, 'node_modules', '@leafseal', name, 'README.md'), 'utf8');
    assert.deepEqual(blocks(shipped), [install, ...examples]);

    const engine = name === 'wire' ? await Engine.start([], 0, project) : undefined;
    try {
      if (engine) symlinkSync('store', join(project, '.leafseal'));
      let printed = '';
      for (const [index, { language, text }] of examples.entries()) {
        await context.test(`block ${index + 1} of ${examples.length}`, () => {
          assert.equal(language, 'js');
          const file = `block${index}.${text.includes('require(\'node:') ? 'cjs' : 'mjs'}`;
          // The port of the example may be in use on this machine.
          writeFileSync(join(project, file), engine ? text.replace('port: 3443', `port: ${engine.port}`) : text);
          printed += run(process.execPath, [file], project);
        });
      }
      for (const line of PRINTED[name]) assert.ok(printed.includes(line), printed);
    } finally {
      await engine?.stop();
    }
  });
}
