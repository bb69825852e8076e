// The published test suite of @ronomon/crypto-async, unchanged, against this package: 6,403 refused calls and 8,000 random cases a run, each
// compared with the suite's own model on node:crypto.
//
//   RUNS=10 node --test published.test.mjs     ten runs, each with a fresh seed; one by default
//
// The suite requires `.`, `./common.js` and `@ronomon/queue`; here `.` is this package. The original fails its own suite on Node 20: its
// assertion about empty buffers aborts the process.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { fetched } from './lib/fetched.mjs';

const RUNS = Number(process.env.RUNS ?? 1);
const own = process.env.CRYPTO ?? fileURLToPath(new URL('../index.js', import.meta.url));
let suite;

before(() => {
  const folder = fetched(fileURLToPath(new URL('./published', import.meta.url)));
  // Beside node_modules, where the suite finds the queue.
  suite = join(folder, 'suite');
  mkdirSync(suite, { recursive: true });
  for (const name of ['test.js', 'common.js']) copyFileSync(join(folder, 'node_modules', '@ronomon', 'crypto-async', name), join(suite, name));
  writeFileSync(join(suite, 'index.js'), `module.exports = require(${JSON.stringify(own)});\n`);
});

for (let run = 1; run <= RUNS; run += 1) {
  test(`the published suite passes, run ${run} of ${RUNS}`, (context) => {
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['test.js'], { cwd: suite, encoding: 'utf8', maxBuffer: 1 << 28 });
    const end = `${stdout.slice(-2000)}${stderr.slice(-2000)}`;
    assert.deepEqual({ status, signal }, { status: 0, signal: null }, end);
    assert.match(stdout, /PASSED ALL TESTS/, end);
    context.diagnostic(`${stdout.split('\n').length} lines of output`);
  });
}
