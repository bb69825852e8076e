// Packs @leafseal/client and @leafseal/wire, installs them into an empty project, and uses them from CommonJS, ES modules and TypeScript.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Engine, optionsFor } from './support.mjs';

const require = createRequire(import.meta.url);
const client = dirname(dirname(fileURLToPath(import.meta.url)));
const types = dirname(require.resolve('@types/node/package.json'));
const project = mkdtempSync(join(tmpdir(), 'leafseal-pack-'));
let engine;

before(async () => {
  engine = await Engine.start();
  for (const folder of [client, join(client, '..', 'wire')]) {
    // The packages are built already; building again would race with other tests.
    execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', project], { cwd: folder });
  }
  writeFileSync(join(project, 'package.json'), '{ "name": "project", "version": "1.0.0", "private": true }');
  const files = readdirSync(project).filter((name) => name.endsWith('.tgz')).map((name) => `./${name}`);
  execFileSync('npm', ['install', '--offline', '--omit=peer', '--no-audit', '--no-fund', ...files], { cwd: project, stdio: ['ignore', 'ignore', 'inherit'] });
});
after(async () => {
  await engine?.stop();
  rmSync(project, { recursive: true, force: true });
});

const run = (name, text, command = [name]) => {
  writeFileSync(join(project, name), text);
  return execFileSync(process.execPath, command, { cwd: project, encoding: 'utf8', env: { ...process.env, OPTIONS: JSON.stringify(optionsFor(engine)) } });
};

const use = `(async () => {
  const client = new Client(JSON.parse(process.env.OPTIONS));
  console.log(await client.decrypt(await client.encrypt('value')), typeof protectBody, typeof leafseal, typeof sealFields);
  await client.close();
})();`;
const expected = 'value function function function\n';

test('from CommonJS', () => {
  const imports = [['Client', ''], ['protectBody', '/express'], ['leafseal', '/fastify'], ['sealFields', '/prisma']];
  const lines = imports.map(([name, path]) => `const { ${name} } = require('@leafseal/client${path}');`);
  assert.equal(run('common.cjs', `${lines.join('\n')}\n${use}`), expected);
});

test('from ES modules', () => {
  const imports = [['Client', ''], ['protectBody', '/express'], ['leafseal', '/fastify'], ['sealFields', '/prisma']];
  const lines = imports.map(([name, path]) => `import { ${name} } from '@leafseal/client${path}';`);
  assert.equal(run('module.mjs', `${lines.join('\n')}\n${use}`), expected);
});

test('from TypeScript, strictly checked, as either kind of module', () => {
  const text = `
import { Client, LeafsealError, type ClientOptions, type Value } from '@leafseal/client';
import { protectBody, type Middleware } from '@leafseal/client/express';
import { sealFields } from '@leafseal/client/prisma';
import { prometheus, type MetricsRegistry } from '@leafseal/client/prometheus'; // Without prom-client, whose types it does not need.

export const observer = (registry: MetricsRegistry) => prometheus({ registry });
export async function main(options: ClientOptions): Promise<void> {
  const client = new Client(options);
  const one: string = await client.encrypt('x');
  const list: (string | null)[] = await client.encrypt(['x', null]);
  const values: Value[] = await client.decrypt(list);
  const document: { a: number } = await client.decryptDocument({ a: 1 }, { select: ['$.a'] });
  const middleware: Middleware = protectBody(client, { request: { encrypt: ['$.a'] } });
  // @ts-expect-error an option that does not exist
  await client.encrypt('x', { rol: 'a' });
  try {
    await client.encryptFile(Buffer.from(one));
  } catch (error) {
    if (error instanceof LeafsealError && error.retry === 'later') console.log(error.retryAfterMs, values, document, middleware, sealFields);
  }
}
`;
  const tsc = require.resolve('typescript/bin/tsc');
  for (const name of ['strict.mts', 'strict.cts']) {
    writeFileSync(join(project, name), text);
    const options = ['--noEmit', '--strict', '--module', 'node16', '--target', 'es2022', '--typeRoots', dirname(types), '--types', 'node'];
    execFileSync(process.execPath, [tsc, ...options, name], { cwd: project, encoding: 'utf8', stdio: ['ignore', 'inherit', 'inherit'] });
  }
});

test('registries of prom-client, of every content type, are accepted', () => {
  // In this package's folder, where prom-client is installed.
  const name = join(client, 'node_modules', '.cache', 'registry.mts');
  mkdirSync(dirname(name), { recursive: true });
  writeFileSync(name, `
import { Registry, type OpenMetricsContentType } from 'prom-client';
import { prometheus } from '@leafseal/client/prometheus';

const open = new Registry<OpenMetricsContentType>();
open.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
export const observers = [prometheus({ registry: new Registry() }), prometheus({ registry: open })];
// @ts-expect-error it is no registry
prometheus({ registry: {} });
`);
  const options = ['--noEmit', '--strict', '--module', 'node16', '--target', 'es2022', '--typeRoots', dirname(types), '--types', 'node'];
  execFileSync(process.execPath, [require.resolve('typescript/bin/tsc'), ...options, name], { encoding: 'utf8', stdio: ['ignore', 'inherit', 'inherit'] });
});
