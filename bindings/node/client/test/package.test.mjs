// Packs @leafseal/client and @leafseal/wire, installs them into an empty project, and uses them from CommonJS, ES modules and TypeScript.
// Every example of the README runs there.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { APP, Engine, optionsFor } from './support.mjs';

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
  const tsc = require.resolve('typescript/bin/tsc');
  execFileSync(process.execPath, [tsc, ...options, name], { encoding: 'utf8', stdio: ['ignore', 'inherit', 'inherit'] });
});

/** The text after an example, by a word that it contains. */
const CHECKS = {
  'decryptDocument(stored)': `
    assert.match(stored.card.number, /^ev:/);
    assert.deepEqual(await (await Client.connect(settings)).decryptDocument(stored), payment);
    process.exit();`,
  'contexts });': `
    assert.deepEqual(await client.decrypt(ibans, { contexts }), rows.map(({ iban }) => iban));
    await assert.rejects(client.decrypt(ibans, { contexts: contexts.toReversed() }), { code: 'decrypt_failed' });`,
  createClientToken: 'assert.ok(token && expiresAt);',
  protectBody: `
    const { port } = server.address();
    const body = JSON.stringify({ card: { number: '4111', expiry: '12/29' } });
    const headers = { 'content-type': 'application/json' };
    const posted = await fetch('http://127.0.0.1:' + port + '/cards', { method: 'POST', headers, body });
    const { id } = await posted.json();
    const { card } = await (await fetch('http://127.0.0.1:' + port + '/cards/' + id)).json();
    assert.deepEqual([card.expiry, card.number.slice(0, 3), cards[0].card.expiry.slice(0, 3)], ['12/29', 'ev:', 'ev:']);`,
  Fastify: `
    const { stored } = (await fastify.inject({ method: 'POST', url: '/cards', payload: { card: { number: '4111' } } })).json();
    assert.match(stored.card.number, /^ev:/);`,
  sealFields: `
    await prisma.$executeRawUnsafe('create table Customer(id integer primary key, name text not null unique, email text)');
    await prisma.$executeRawUnsafe(\`create table Card(id integer primary key, number text not null, note text,
      month integer not null default 1, customerId integer not null references Customer(id))\`);
    await prisma.card.create({ data: { number: '4111', note: 'n', customer: { create: { name: 'Ada' } } } });
    const [{ number, note }] = await prisma.$queryRawUnsafe('select number, note from Card');
    assert.ok(number.startsWith('ev:') && note.startsWith('ev:'));
    assert.equal((await prisma.card.findFirst()).number, '4111');`,
  randomUUID: `
    await records.$executeRawUnsafe('create table Account(id text primary key, iban text not null, note text, owner text unique)');
    const [a, b] = [await records.account.create({ data: { iban: 'a' } }), await records.account.create({ data: { iban: 'b' } })];
    await records.$executeRawUnsafe('update Account set iban = (select iban from Account where id = ?) where id = ?', b.id, a.id);
    await assert.rejects(async () => records.account.findMany(), { code: 'decrypt_failed' });
    assert.equal((await records.account.findUnique({ where: { id: b.id } })).iban, 'b');`,
  openTelemetry: "await observed.encrypt('x');",
  Encryptor: 'assert.match(card.number, /^ev:/);',
};

/** Puts this test's engine and free ports in the place of those of an example. */
function placed(example) {
  const certificates = Object.entries({ ca: engine.ca, dev: engine.cert });
  const replacements = [
    ['127.0.0.1:3443', `${engine.host}:${engine.port}`],
    [/https:\/\/engine\.[a-z.]+:8443/, `https://${engine.api}`], ["'ca.pem'", JSON.stringify(engine.ca)],
    ...certificates.map(([name, path]) => [`.leafseal/certs/${name}.pem`, path]), ['.leafseal/certs/dev.key', engine.key],
    ['app.listen(3000);', "const server = app.listen(0, '127.0.0.1');\nawait new Promise((resolve) => server.once('listening', resolve));"],
    ['port: 3000', 'port: 0'],
    ["import { Prisma, PrismaClient } from '@prisma/client';", "import generated from './generated/index.js';\nconst { Prisma, PrismaClient } = generated;"],
  ];
  return replacements.reduce((text, [from, to]) => text.replace(from, () => to), example);
}

test('every example of the README runs', () => {
  const readme = readFileSync(join(client, 'README.md'), 'utf8');
  const examples = [...readme.matchAll(/```js\n(.*?)```/gs)].map(([, text]) => text);
  assert.equal(examples.length, Object.keys(CHECKS).length, 'an example without a check');
  // The packages that the examples import beside this one.
  const modules = join(client, '..', 'node_modules');
  const prismas = ['@prisma/client', '@prisma/client-runtime-utils', '@prisma/adapter-libsql'];
  for (const name of ['express', 'fastify', ...prismas, '@opentelemetry/api', 'prom-client']) {
    mkdirSync(dirname(join(project, 'node_modules', name)), { recursive: true });
    symlinkSync(join(modules, name), join(project, 'node_modules', name));
  }
  const schema = readFileSync(join(client, 'test', 'prisma', 'schema.prisma'), 'utf8').replace(/output .*/, 'output = "./generated"');
  writeFileSync(join(project, 'schema.prisma'), schema);
  const prisma = { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };
  execFileSync(process.execPath, [require.resolve('prisma/build/index.js'), 'generate', '--schema', 'schema.prisma'], {
    cwd: project, env: { ...process.env, ...prisma }, stdio: ['ignore', 'ignore', 'inherit'],
  });
  const command = ['--dir', join(engine.folder, 'store'), 'api-keys', 'create', APP, '--allow', 'encrypt,decrypt,client-side-tokens'];
  const apiKey = spawnSync(process.env.LEAFSEAL, command, { encoding: 'utf8' }).stdout.trim();
  const env = { ...process.env, API_KEY: apiKey, NODE_EXTRA_CA_CERTS: engine.ca };

  // Later examples continue the first one.
  const connecting = 'const client = await Client.connect(settings);\n';
  const start = examples[0].slice(0, examples[0].indexOf(connecting) + connecting.length);
  for (const [word, check] of Object.entries(CHECKS)) {
    const example = examples.find((text) => text.includes(word));
    assert.ok(example, word);
    const isNew = (line) => !line.startsWith('import') || !example.includes(line);
    const before = example === examples[0] ? '' : start.split('\n').filter(isNew).join('\n');
    const program = `import assert from 'node:assert/strict';\n${placed(before + example)}${check}\nprocess.exit();\n`;
    writeFileSync(join(project, 'example.mjs'), program);
    const { status, stderr } = spawnSync(process.execPath, ['example.mjs'], { cwd: project, encoding: 'utf8', env, timeout: 60_000 });
    assert.equal(status, 0, `${word}: ${stderr}`);
  }
});
