// The ends of processes and worker threads with work in flight: never a crash, and no result is lost where the process may wait for it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const own = process.env.CRYPTO ?? fileURLToPath(new URL('../index.js', import.meta.url));

/** `start(n, callback)` starts n calls of up to a megabyte each. */
const PRELUDE = `
  const crypto = require(${JSON.stringify(own)});
  const { Worker, isMainThread, parentPort } = require('node:worker_threads');
  const sources = [1, 4096, 262144, 1 << 20].map((size) => Buffer.alloc(size, 1));
  function start(calls, callback) {
    for (let i = 0; i < calls; i += 1) {
      const source = sources[i % sources.length];
      if (i % 3 === 0) crypto.hash('sha256', source, callback);
      else if (i % 3 === 1) crypto.cipher('aes-256-ctr', 1, Buffer.alloc(32), Buffer.alloc(16), source, callback);
      else crypto.cipher('aes-256-gcm', 1, Buffer.alloc(32), Buffer.alloc(12), source, Buffer.alloc(9), Buffer.alloc(16), callback);
    }
  }
`;

function run(code, ...options) {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [...options, '-e', PRELUDE + code], { encoding: 'utf8', timeout: 120_000 });
  return { status, signal, stdout, stderr };
}

function endsWith(expected, code, ...options) {
  const { status, signal, stdout, stderr } = run(code, ...options);
  assert.deepEqual({ status, signal, stdout: stdout.trim() }, { signal: null, stdout: '', ...expected }, stderr);
  return stderr;
}

test('a process waits for the calls in flight', () => {
  endsWith({ status: 0, stdout: '200' }, `
    let done = 0;
    start(200, (error) => { if (error) throw error; done += 1; });
    process.on('exit', () => console.log(done));`);
});

test('process.exit with calls in flight', () => {
  endsWith({ status: 0 }, 'start(200, () => {}); process.exit(0);');
  endsWith({ status: 7 }, 'start(200, () => {}); setTimeout(() => process.exit(7), 5);');
  endsWith({ status: 3 }, 'start(200, () => process.exit(3));');
});

test('a callback that throws is an uncaught exception', () => {
  assert.match(endsWith({ status: 1 }, "start(20, () => { throw new Error('of the callback'); });"), /of the callback/);
  endsWith({ status: 0, stdout: '60 60' }, `
    let [thrown, called] = [0, 0];
    process.on('uncaughtException', (error) => { if (error.message === 'of the callback') thrown += 1; });
    start(60, () => { called += 1; throw new Error('of the callback'); });
    process.on('exit', () => console.log(thrown, called));`);
});

test('an exception with calls in flight', () => {
  assert.match(endsWith({ status: 1 }, "start(200, () => {}); throw new Error('of the program');"), /of the program/);
});

test('a signal with calls in flight', () => {
  const { signal } = run("start(200, () => {}); process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 60_000);");
  assert.equal(signal, 'SIGTERM');
});

/** Code of a worker, in the process of the main thread. */
const inWorker = (code) => `new Worker(${JSON.stringify(PRELUDE + code)}, { eval: true })`;

test('a worker thread waits for its calls, and ends', () => {
  endsWith({ status: 0, stdout: '100 0' }, `
    ${inWorker('let done = 0; start(100, (error) => { if (error) throw error; done += 1; if (done === 100) parentPort.postMessage(done); });')}
      .on('message', (done) => { process.on('exit', (code) => console.log(done, code)); });`);
});

test('a worker thread that exits or throws with calls in flight', () => {
  endsWith({ status: 0, stdout: '5' }, `${inWorker('start(200, () => {}); process.exit(5);')}.on('exit', (code) => console.log(code));`);
  endsWith({ status: 0, stdout: 'of the worker' }, `
    ${inWorker("start(200, () => {}); throw new Error('of the worker');")}.on('error', (error) => console.log(error.message));`);
});

test('worker threads are terminated with calls in flight, while the main thread works on', () => {
  endsWith({ status: 0, stdout: '12' }, `
    (async () => {
      let ended = 0;
      for (let round = 0; round < 12; round += 1) {
        const worker = ${inWorker("start(100, () => {}); parentPort.postMessage('started');")};
        await new Promise((resolve) => worker.once('message', resolve));
        await new Promise((resolve) => setTimeout(resolve, round));
        await worker.terminate();
        await new Promise((resolve, reject) => start(1, (error) => (error ? reject(error) : resolve())));
        ended += 1;
      }
      console.log(ended);
    })();`);
});

test('the main thread ends while a worker has calls in flight', () => {
  endsWith({ status: 0 }, `
    const worker = ${inWorker("start(200, () => {}); parentPort.postMessage('started');")};
    worker.once('message', () => process.exit(0));`);
});

test('a process that only loads the package ends', () => {
  endsWith({ status: 0 }, '');
  endsWith({ status: 0 }, `${inWorker('')};`);
});
