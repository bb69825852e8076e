// Every block of the README of artillery-engine-e3: its commands name what exists, its scenarios run, and its fault is reported as printed.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { artillery } from './artillery.mjs';
import { APP, Engine } from './engine.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const page = readFileSync(join(root, 'artillery-engine-e3', 'README.md'), 'utf8');
const blocks = [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({ language, text }));
const WIRE = join(root, 'bindings', 'node', 'wire', 'wire.node');
/** One phase of a second. */
const BRIEF = { phases: [{ arrivalCount: 6, duration: 1 }] };

let engine;
let folder;
before(async () => {
  engine = await Engine.start();
  folder = mkdtempSync(join(tmpdir(), 'leafseal-artillery-'));
});
after(async () => {
  await engine?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** Writes a scenario of the README for the engine of the test. */
function write(name, text) {
  const file = join(folder, name);
  const fillings = [['port: 3443', `port: ${engine.port}`], ['.leafseal/certs/dev.key', engine.key], ['.leafseal/certs/dev.pem', engine.cert]];
  for (const [placeholder, filling] of [...fillings, ['bindings/node/wire/wire.node', WIRE], ['app: shop', `app: ${APP}`]]) {
    text = text.replace(placeholder, filling);
  }
  writeFileSync(file, text);
  return file;
}

const [scenario, flow] = blocks.filter(({ language }) => language === 'yaml').map(({ text }) => text);

test('the README has the blocks that are tested here', () => {
  assert.deepEqual(blocks.map(({ language }) => language), ['console', 'yaml', 'yaml', 'text']);
});

test('the commands name what the repository has', () => {
  const [{ text }] = blocks;
  for (const [, path] of text.matchAll(/\(cd (\S+) &&/g)) assert.ok(existsSync(join(root, path, 'package.json')), path);
  const scripts = (path) => JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8')).scripts;
  for (const [, path, script] of text.matchAll(/\(cd (\S+) &&.* npm run (\S+)\)/g)) assert.ok(scripts(path)[script], `${path} ${script}`);
  assert.match(readFileSync(join(root, 'Makefile'), 'utf8'), /^run:/m);
  assert.ok(existsSync(join(root, 'tests/artillery/node_modules/.bin/artillery')));
});

test('the scenario runs', { timeout: 100_000 }, async () => {
  const { code, text, report } = await artillery(write('load.yml', scenario), { config: BRIEF });
  assert.equal(code, 0, text);
  assert.deepEqual([report.counters['vusers.completed'], report.counters['e3.answers']], [6, 6]);
});

test('the longer flow runs', { timeout: 100_000 }, async () => {
  const head = scenario.slice(0, scenario.indexOf('scenarios:'));
  const file = write('flow.yml', `${head}scenarios:\n  - engine: e3\n${flow}`);
  const { code, text, report } = await artillery(file, { config: { phases: [{ arrivalCount: 2, duration: 1 }] } });
  assert.equal(code, 0, text);
  assert.equal(report.counters['vusers.completed'], 2, text);
});

test('a fault is reported as printed', { timeout: 100_000 }, async () => {
  const [{ text: expected }] = blocks.filter(({ language }) => language === 'text');
  const [, line, column] = /^load\.yml:(\d+):(\d+)/.exec(expected);
  const head = scenario.slice(0, scenario.indexOf('scenarios:')).trimEnd().split('\n');
  const flow = '    flow: [ { send: { numEncrypts: 30, curve: p256 } } ]';
  assert.equal(flow.indexOf('p256') + 1, Number(column), 'the column that is printed');
  const padding = Array(Number(line) - 3 - head.length).fill('#');
  const file = write('load.yml', [...head, ...padding, 'scenarios:', '  - engine: e3', flow].join('\n'));
  const { code, text } = await artillery(file);
  assert.notEqual(code, 0);
  assert.ok(text.includes(expected.trim()), text);
});
