// The published scenario in Artillery, against a real engine.
//
// FULL=1 runs it unchanged for 90 seconds on its own port; otherwise it runs for a few seconds at a higher rate.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { COMPARED, PUBLISHED, SIZES, adapted, artillery, both, leafsealLoad, printed } from './artillery.mjs';
import { Engine } from './engine.mjs';

const FULL = process.env.FULL === '1';
const PHASES = FULL ? [PUBLISHED] : [COMPARED[0].phase];
const USERS = PHASES[0].arrivalRate * PHASES[0].duration;
const TIMEOUT = (FULL ? 200_000 : 0) + 200_000;
/** Minimum requests of a size for its share to be significant. */
const SHARE_OF_MIN = 10;

let engine;
let folder;
before(async () => {
  engine = await Engine.start([], FULL ? 3443 : 0);
  folder = mkdtempSync(join(tmpdir(), 'leafseal-artillery-'));
});
after(async () => {
  await engine?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** The value of a metric of the engine. */
async function counted(metric) {
  const text = await (await fetch(`http://${engine.operator}/metrics`)).text();
  return Number(new RegExp(`^${metric}\\{method="encrypt",outcome="ok"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}

test('the published scenario runs unchanged, and every count is correct', { timeout: TIMEOUT }, async () => {
  const file = printed(engine, folder);
  const before = [await counted('leafseal_requests_total'), await counted('leafseal_fields_total')];
  const { code, text, report } = await artillery(file, FULL ? {} : { config: { phases: PHASES, e3: { port: engine.port } } });
  assert.equal(code, 0, text);
  const { counters, summaries, rates } = report;
  assert.deepEqual([counters['vusers.created'], counters['vusers.completed'], counters['vusers.failed']], [USERS, USERS, 0]);
  assert.deepEqual(Object.keys(counters).filter((name) => name.startsWith('errors.')), []);
  let fields = 0;
  for (const size of SIZES) {
    const name = `Send ${size} encryptions`;
    const users = counters[`vusers.created_by_name.${name}`] ?? 0;
    fields += users * size;
    for (const metric of ['requests', 'answers']) {
      assert.equal(counters[`e3.${metric}.scenario.${name}`] ?? 0, users);
      assert.equal(counters[`e3.${metric}.size.${size}`] ?? 0, users);
    }
    for (const metric of ['latency', 'fields_per_second']) {
      assert.equal(summaries[`e3.${metric}.scenario.${name}`]?.count ?? 0, users);
      assert.equal(summaries[`e3.${metric}.size.${size}`]?.count ?? 0, users);
    }
  }
  assert.ok((counters['vusers.created_by_name.Send 30 encryptions'] ?? 0) > USERS / 2, 'weights are kept');
  assert.deepEqual([counters['e3.requests'], counters['e3.answers'], counters['e3.fields']], [USERS, USERS, fields]);
  assert.equal(summaries['e3.latency'].count, USERS);
  assert.ok(summaries['e3.latency'].min > 0, JSON.stringify(summaries['e3.latency']));
  assert.ok(rates['e3.request_rate'] > 0);
  // Users that arrived during the warm-up are reported with their waiting time.
  assert.ok(summaries['e3.warm_up'].count >= 1 && summaries['e3.warm_up'].min > 0, JSON.stringify(summaries['e3.warm_up']));
  assert.equal(summaries['e3.warm_up.held']?.count ?? 0, counters['e3.warm_up.users'] ?? 0);
  const since = [await counted('leafseal_requests_total') - before[0], await counted('leafseal_fields_total') - before[1]];
  assert.deepEqual(since, [USERS, fields], 'the engine has counted as many');
});

/** Weights are drawn differently on each run: shares are within five deviations, and two requests, of the weights. */
function assertShares(rows, { phase, shares, isOfEverySize }) {
  const users = phase.arrivalRate * phase.duration;
  for (const [index, { size, counts }] of rows.entries()) {
    const within = 5 * Math.sqrt(users * shares[index] * (1 - shares[index])) + 2;
    for (const count of counts) {
      assert.ok(Math.abs(count - users * shares[index]) <= within, `${count} of ${users} with ${size}`);
      assert.ok(!isOfEverySize || count >= SHARE_OF_MIN, `${count} of ${users} with ${size} are too few to compare`);
    }
  }
}

// How their latencies compare is a benchmark: compare.mjs.
for (const compared of COMPARED) {
  test(`\`leafseal load\` sends the same requests for the same file, ${compared.name}`, { timeout: TIMEOUT }, async (t) => {
    const { phase, weights } = compared;
    const file = adapted(engine, folder, compared.name.replaceAll(' ', '-'), phase, weights);
    const { code, text, users, rows, artillery: seen, native } = await both(file, phase);
    assert.equal(code, 0, text);
    assert.deepEqual(native.totals.users, { created: users, completed: users, failed: 0, skipped: 0 });
    assert.deepEqual([native.totals.sent, native.totals.ok], [users, users]);
    assert.deepEqual([seen.counters['e3.requests'], seen.counters['e3.answers']], [users, users]);
    assertShares(rows, compared);
    for (const { size, counts } of rows) t.diagnostic(`${size} values: ${counts[0]} and ${counts[1]} requests`);
  });
}

// Each has the numbers of users by name that both programs must create, by the environment that is chosen.
const MERGED = [
  {
    name: 'merge keys',
    file: (engine) => `
x-step: &step { send: { numEncrypts: 3 } }
x-phase: &phase { duration: 1, arrivalCount: 2 }
config:
  target: "${engine.host}:${engine.port}"
  e3: &e3 { key: ${engine.key}, cert: ${engine.cert}, rpc: "@leafseal/wire", warmUp: 0 }
  phases: [ { arrivalCount: 3, <<: *phase }, { <<: [ { arrivalCount: 4 }, *phase ] }, { '<<': *phase, <<: *phase } ]
  engines: { e3: {} }
scenarios: [ { name: all, engine: e3, flow: [ *step ] } ]
`,
    expected: [[undefined, { all: 3 + 4 + 2 }]],
    // A quoted key is no merge key, and an unknown one, which only Artillery ignores.
    adapt: (text) => text.replace("'<<': *phase, ", ''),
  },
  {
    name: 'environments',
    file: (engine) => `
config:
  target: "127.0.0.1:1"
  e3: { key: ${engine.key}, cert: ${engine.cert}, rpc: "@leafseal/wire", app: nobody, warmUp: 0 }
  phases: [ { name: first, duration: 1, arrivalCount: 2 }, { duration: 1, arrivalCount: 3 } ]
  engines: { e3: {} }
  environments:
    one: { target: "${engine.host}:${engine.port}", e3: { app: app_dev } }
    two: { target: "${engine.host}:${engine.port}", e3: { app: app_dev }, phases: [ { arrivalCount: 5 } ] }
scenarios: [ { name: all, engine: e3, flow: [ { send: { numEncrypts: 3 } } ] } ]
`,
    expected: [['one', { all: 5 }], ['two', { all: 8 }]],
    adapt: (text) => text,
  },
];

for (const { name, file: text, expected, adapt } of MERGED) {
  for (const [environment, users] of expected) {
    test(`${name} mean the same to \`leafseal load\`${environment ? `: ${environment}` : ''}`, { timeout: TIMEOUT }, async () => {
      const options = environment ? ['-e', environment] : [];
      const file = join(folder, `${name.replaceAll(' ', '-')}-${environment}.yml`);
      writeFileSync(file, text(engine));
      const { code, text: printedText, report } = await artillery(file, {}, undefined, ...options);
      assert.equal(code, 0, printedText);
      const native = `${file}.native.yml`;
      writeFileSync(native, adapt(text(engine)));
      const result = await leafsealLoad(native, ...options);
      for (const [scenario, count] of Object.entries(users)) {
        assert.equal(report.counters[`vusers.created_by_name.${scenario}`], count, printedText);
        assert.equal(result.scenarios.find((row) => row.name === scenario).users.completed, count);
      }
      assert.equal(result.totals.ok, report.counters['e3.answers']);
      assert.equal(result.settings.environment, environment ?? null);
    });
  }
}

test('phases without users last as long for both', { timeout: TIMEOUT }, async () => {
  const file = join(folder, 'phases.yml');
  writeFileSync(file, `
config:
  target: "${engine.host}:${engine.port}"
  e3: { key: ${engine.key}, cert: ${engine.cert}, rpc: "@leafseal/wire", warmUp: 0 }
  phases: [ { duration: 2, arrivalCount: 1 }, { pause: 1 } ]
  engines: { e3: {} }
scenarios: [ { engine: e3, flow: [ { send: { numEncrypts: 1 } } ] } ]
`);
  const began = Date.now();
  const { code, text } = await artillery(file);
  assert.equal(code, 0, text);
  assert.ok(Date.now() - began >= 3000);
  const { elapsed_s: elapsed, totals, phases } = await leafsealLoad(file);
  assert.ok(elapsed >= phases.at(-1).end_s && phases.at(-1).end_s === 3, `${elapsed}`);
  assert.equal(totals.ok, 1);
});

test('options, loops, thinking, cancelling and errors, under Artillery', { timeout: TIMEOUT }, async () => {
  const file = join(folder, 'options.yml');
  writeFileSync(file, `
config:
  target: "${engine.host}:${engine.port}"
  e3: { key: ${engine.key}, cert: ${engine.cert}, ca: ${engine.ca}, rpc: "@leafseal/wire", app: app_dev, connections: 3 }
  phases: [ { arrivalCount: 40, duration: 2 } ]
  engines: { e3: {} }
before:
  engine: e3
  flow: [ { send: { numEncrypts: 1 } } ]
scenarios:
  - name: options
    engine: e3
    flow:
      - send: { numEncrypts: 10, curve: k1, keying: field, fieldSize: 100 }
      - think: "10ms"
      - { count: 2, loop: [ { count: 3, loop: [ { send: { numEncrypts: 20, decrypt: true } } ] } ] }
      - send: { numEncrypts: 300000, keying: field, cancelAfter: "20ms" }
      - send: { numEncrypts: 1 }
  - name: nobody
    engine: e3
    flow: [ { send: { numEncrypts: 5, app: nobody } }, { send: { numEncrypts: 1 } } ]
`);
  const { code, text, report } = await artillery(file);
  assert.equal(code, 0, text);
  const { counters } = report;
  const [good, bad] = ['options', 'nobody'].map((name) => counters[`vusers.created_by_name.${name}`] ?? 0);
  assert.equal(good + bad, 40);
  assert.deepEqual([counters['vusers.completed'], counters['vusers.failed']], [good, bad]);
  assert.deepEqual([counters['errors.cancelled'] ?? 0, counters['errors.forbidden'] ?? 0], [good, bad]);
  assert.equal(counters['e3.answers.size.20'], good * 6);
  assert.deepEqual([counters['e3.requests'], counters['e3.answers']], [good * 9 + bad, good * 8]);
  assert.equal(counters['e3.fields'], good * (10 + 6 * 20 + 1));
});

test('templates in config, functions before the run and scenarios of other engines are those of Artillery', { timeout: TIMEOUT }, async () => {
  const file = join(folder, 'templates.yml');
  writeFileSync(join(folder, 'functions.cjs'), 'exports.prepare = async () => { console.log("prepared"); };\n');
  writeFileSync(file, `
config:
  target: "{{ host }}:{{ port }}"
  e3: { key: "{{ $env.CLIENT_KEY }}", cert: ${engine.cert}, rpc: "@leafseal/wire", app: "{{ app }}", warmUp: 0 }
  phases: [ { duration: 1, arrivalCount: "{{ users }}" } ]
  processor: functions.cjs
  engines: { e3: {} }
before:
  flow: [ { function: prepare } ]
scenarios:
  - { engine: e3, flow: [ { send: { numEncrypts: 3 } } ] }
  - { beforeScenario: prepare, flow: [ { get: { url: "http://${engine.operator}/livez" } } ] }
`);
  process.env.CLIENT_KEY = engine.key;
  const variables = JSON.stringify({ host: engine.host, port: engine.port, app: 'app_dev', users: 30 });
  const { code, text, report } = await artillery(file, {}, undefined, '-v', variables);
  assert.equal(code, 0, text);
  const { 'e3.answers': answers, 'http.codes.200': live } = report.counters;
  assert.ok(answers > 0 && live > 0, text);
  assert.equal(answers + live, 30, text);
  assert.equal(text.split('prepared').length - 1, 1 + live, 'before the run, and before each scenario of the HTTP engine');
});

test('a file that is wrong ends Artillery at once, with one line each and the place', { timeout: TIMEOUT }, async () => {
  const file = join(folder, 'wrong.yml');
  writeFileSync(file, `
config:
  target: "${engine.host}"
  e3: { port: many, key: missing.key, cert: ${engine.cert}, rpc: "./nothing" }
  phases: [ { arrivalRate: 2, duration: 90 } ]
  engines: { e3: {} }
scenarios:
  - engine: e3
    flow: [ { send: { numEncrypts: 30, curve: p256 } } ]
`);
  const { code, text } = await artillery(file);
  assert.notEqual(code, 0);
  assert.doesNotMatch(text, /Phase started/);
  const lines = text.split('\n');
  const begins = [
    `${file}:4:15: config.e3.port: must be a whole number from 1 to 65535, found \`many\``,
    `${file}:4:26: config.e3.key: cannot read ${join(folder, 'missing.key')}: ENOENT`,
    `${file}:9:47: scenarios[0].flow[0].send.curve: must be r1 or k1, found \`p256\``,
  ];
  for (const line of begins) assert.equal(lines.filter((found) => found.startsWith(line)).length, 1, `${line}\n\nin\n\n${text}`);
});
