// Scenario files: the accepted keys, and that each problem is reported in one line with its position.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { parse } from 'yaml';

const require = createRequire(import.meta.url);
const { readConfig, readFlow } = require('../dist/scenario.js');
const { shownProblems } = require('../dist/place.js');
const { loadWire } = require('../dist/wire.js');

const folder = mkdtempSync(join(tmpdir(), 'leafseal-e3-'));
after(() => rmSync(folder, { recursive: true }));

const FLOW = 'flow: [ { count: 1, loop: [ { send: { numEncrypts: 30 } } ] } ]';

/** The problems of a file with `config` and one scenario, without the file's name. */
function problems(text) {
  const file = join(folder, 'load.yml');
  writeFileSync(file, text);
  const script = { ...parse(text), _scriptPath: file };
  const found = [];
  const config = readConfig(script, found);
  (script.scenarios ?? []).forEach((spec, index) => readFlow(spec, ['scenarios', index], config?.app ?? '', new Map(), found));
  return shownProblems(found, file).replaceAll(`${file}:`, '').split('\n').filter(Boolean);
}

/** The problems of a step in the flow, line 1 of the file. */
const ofStep = (step) => problems(`scenarios: [ { flow: [ ${step} ] } ]\nconfig: {}\n`).filter((line) => line.startsWith('1:'));

test('steps follow docs/load.md', () => {
  const text = `
name: "All of it"
flow:
  - send: { numEncrypts: "2000", fieldSize: 64, curve: k1, keying: field, decrypt: true, cancelAfter: "250ms", app: shop }
  - think: 1.5
  - count: 3
    loop:
      - send: { numEncrypts: 30 }
      - { count: "2", loop: [ { think: "2m" }, { think: ".5 s" }, { think: "10" } ] }
      - send: { numEncrypts: 30, app: app_dev }
`;
  const found = [];
  const kinds = new Map();
  const [large, think, loop] = readFlow(parse(text), ['scenarios', 0], 'app_dev', kinds, found);
  assert.deepEqual(found, []);
  const words = { numEncrypts: 2000, fieldSize: 64, curve: 'k1', keying: 'field', decrypt: true, cancelAfter: 250, app: 'shop' };
  assert.deepEqual(large.send, words);
  assert.deepEqual(think, { think: 1500 });
  assert.equal(loop.count, 3);
  assert.deepEqual(loop.loop[0].send, { numEncrypts: 30, fieldSize: 32, decrypt: false, app: 'app_dev' });
  assert.deepEqual(loop.loop[1], { count: 2, loop: [120_000, 500, 10_000].map((milliseconds) => ({ think: milliseconds })) });
  assert.equal(loop.loop[2].send, loop.loop[0].send, 'the same kind is kept once');
  assert.equal(kinds.size, 2);
});

test('errors of a step are reported with their position', () => {
  const cases = {
    '{ send: { numEncrypt: 30 } }': [
      '1:32: STEP.send: the key `numEncrypts` is missing',
      '1:34: unknown key `STEP.send.numEncrypt`: must be one of numEncrypts, fieldSize, curve, keying, decrypt, cancelAfter, app',
    ],
    '{ send: { numEncrypts: many } }': ['1:47: STEP.send.numEncrypts: must be a whole number from 1 to 1000000, found `many`'],
    '{ send: { numEncrypts: 0 } }': ['1:47: STEP.send.numEncrypts: must be a whole number from 1 to 1000000, found `0`'],
    '{ send: { numEncrypts: 1.5 } }': ['1:47: STEP.send.numEncrypts: must be a whole number from 1 to 1000000, found `1.5`'],
    '{ send: 30 }': ['1:32: STEP.send: must be a map, found `30`'],
    '{ send: { numEncrypts: 1, curve: p256 } }': ['1:57: STEP.send.curve: must be r1 or k1, found `p256`'],
    '{ send: { numEncrypts: 1, keying: [] } }': ['1:58: STEP.send.keying: must be field or request or session, found a list'],
    '{ send: { numEncrypts: 1, decrypt: maybe } }': ['1:59: STEP.send.decrypt: must be true or false, found `maybe`'],
    '{ send: { numEncrypts: 1000000, fieldSize: 1000 } }':
      ['1:32: STEP.send: numEncrypts times fieldSize must be at most 268435456 bytes'],
    '{ loop: [ { think: 1 } ] }': ['1:24: STEP: the key `count` is missing'],
    '{ count: 1, loop: [] }': ['1:42: STEP.loop: must have at least 1 item, found 0'],
    '{ count: 1 }': ['1:24: STEP: a step must have exactly one of send, think, loop'],
    '{ think: 1, count: 1 }': ['1:24: STEP: `count` requires `loop`'],
    '{ think: 1, send: { numEncrypts: 1 } }': ['1:24: STEP: a step must have exactly one of send, think, loop'],
    '{ get: { url: / } }': [
      '1:24: STEP: a step must have exactly one of send, think, loop',
      '1:26: unknown key `STEP.get`: must be one of send, think, loop, count',
    ],
  };
  for (const [step, lines] of Object.entries(cases)) {
    assert.deepEqual(ofStep(step), lines.map((line) => line.replace('STEP', 'scenarios[0].flow[0]')), step);
  }
  for (const time of ['soon', '0', '-1', '5 days', '""', '{}']) {
    assert.match(ofStep(`{ think: ${time} }`)[0] ?? '', /think: must be a time above 0, up to 86400 seconds/, time);
  }
  assert.match(ofStep('{ send: { numEncrypts: 1, cancelAfter: 0 } }')[0], /cancelAfter: must be a time above 0/);
  const deep = (depth) => '{ count: 1, loop: [ '.repeat(depth) + '{ think: 1 }' + ' ] }'.repeat(depth);
  assert.deepEqual(ofStep(deep(16)), []);
  assert.match(ofStep(deep(17))[0], /loops must be nested at most 16 deep/);
});

test('errors of config are all reported at once with their position', () => {
  assert.deepEqual(problems(`config:\n  e3: { port: 70000, keys: x, cert: no.pem }\nscenarios:\n  - ${FLOW}\n`), [
    '2:3: config: the key `target` is missing',
    '2:7: config.e3: the key `key` is missing',
    '2:15: config.e3.port: must be a whole number from 1 to 65535, found `70000`',
    '2:22: unknown key `config.e3.keys`: must be one of port, key, cert, ca, rpc, app, connections, serverName, warmUp',
    `2:37: config.e3.cert: cannot read ${join(folder, 'no.pem')}: ENOENT`,
    `2:37: config.e3.cert: there is no ${join(folder, 'ca.pem')}: name the engine's authority in \`ca\``,
  ]);
  assert.match(problems('config: { target: a }\nscenarios: []\n')[0], /config: the key `e3` is missing/);
  const twice = problems('config:\n  target: "a:1"\n  e3: { port: 2, key: k, cert: c }\n');
  assert.match(twice.join('\n'), /2:11: .*is set here and in config.e3.port/);
  const closed = problems('config:\n  target: a\n  e3: {}\n  phases: [ { duration: 5, connections: 3 } ]\n');
  assert.ok(closed.includes('4:41: config.phases[0].connections: closed phases are supported by `leafseal load` only'), closed.join('\n'));
  const pem = '"-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n"';
  const unusable = problems(`config:\n  target: a\n  e3: { key: ${pem}, cert: ${pem}, ca: ${pem} }\n`);
  assert.match(unusable.join('\n'), /^3:\d+: config\.e3\.ca: ca cannot be used: /);
  assert.match(problems(`config:\n  target: a\n  e3: { key: ${pem}, cert: ${pem} }\n`).join('\n'), /`ca` is required/);
});

const VECTORS = new URL('../../vectors/scenarios/', import.meta.url);
const skip = existsSync(VECTORS) ? false : 'vectors/scenarios is not there: `leafseal load` brings it';

test('errors of e3 and of flows are those of `leafseal load`', { skip }, () => {
  let lines = 0;
  for (const name of readdirSync(VECTORS).filter((file) => file.endsWith('.yml'))) {
    const text = readFileSync(new URL(name, VECTORS), 'utf8');
    const written = text.matchAll(/^#! (\d+:\d+: .*(?:scenarios\[\d+\]\.flow|config\.e3[.:]).*)$/gm);
    const expected = [...written].map(([, line]) => line);
    if (expected.length === 0) continue;
    const found = problems(text);
    for (const line of expected) assert.ok(found.includes(line), `${name}: ${line}\n\nis not among\n\n${found.join('\n')}`);
    lines += expected.length;
  }
  assert.ok(lines >= 10, `only ${lines} lines`);
});

test('users by the clock, and closed phases, are not for Artillery', () => {
  assert.deepEqual(problems(`scenarios: [ { every: "15m", ${FLOW} } ]\nconfig: {}\n`).slice(0, 1), [
    '1:23: scenarios[0].every: `every` is supported by `leafseal load` only',
  ]);
});

test('templates, hooks and functions are refused, not ignored', () => {
  const advice = 'templates are replaced in `config` only (README.md, "Not supported")';
  const cases = {
    '{ send: { numEncrypts: "{{ size }}" } }': ['1:47: STEP.send.numEncrypts: must be a whole number from 1 to 1000000: '],
    '{ send: { numEncrypts: 1, app: "{{ app }}" } }': ['1:55: STEP.send.app: must be text: '],
    '{ send: { numEncrypts: 1, curve: "{{ curve }}" } }': ['1:57: STEP.send.curve: must be r1 or k1: '],
    '{ send: { numEncrypts: 1, decrypt: "{{ yes }}" } }': ['1:59: STEP.send.decrypt: must be true or false: '],
    '{ count: "{{ rounds }}", loop: [ { think: 1 } ] }': ['1:33: STEP.count: must be a whole number from 1 to 1000000: '],
  };
  for (const [step, lines] of Object.entries(cases)) {
    assert.deepEqual(ofStep(step), lines.map((line) => line.replace('STEP', 'scenarios[0].flow[0]') + advice), step);
  }
  assert.match(ofStep('{ think: "{{ pause }}" }')[0], /think: must be a time above 0, .*: templates are replaced/);
  assert.match(ofStep('{ function: prepare }').join('\n'), /unknown key `scenarios\[0\]\.flow\[0\]\.function`/);
  assert.deepEqual(problems(`scenarios: [ { beforeScenario: prepare, afterScenario: [ tidy ], ${FLOW} } ]\nconfig: {}\n`).slice(0, 2), [
    '1:32: scenarios[0].beforeScenario: functions are not called by this engine (README.md, "Not supported")',
    '1:56: scenarios[0].afterScenario: functions are not called by this engine (README.md, "Not supported")',
  ]);
});

test('missing bindings are reported in one line', () => {
  const refused = (rpc, message) => assert.throws(() => loadWire(rpc, folder), { message });
  refused('./nothing.node', /^cannot load the wire bindings from .*nothing\.node: Cannot find module[^\n]*$/);
  refused('no-such-package', /^cannot load the wire bindings from the package no-such-package: [^\n]*$/);
  writeFileSync(join(folder, 'other.js'), 'module.exports = { encodeCancel() {} };');
  assert.throws(() => loadWire('other.js', folder), { message: 'other.js is not a build of @leafseal/wire: it lacks encodeEncryptFields' });
  assert.equal(typeof loadWire('@leafseal/wire', folder).Decoder, 'function');
  assert.equal(typeof loadWire(require.resolve('@leafseal/wire/wire.node'), folder).Decoder, 'function');
});
