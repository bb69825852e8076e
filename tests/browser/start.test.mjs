// Runs docs/start/browser.md as a reader follows it: the commands in bash, the pages in Chromium.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { chromium } from 'playwright-core';

import { findChromium } from './chromium.mjs';
import { trust } from './engine.mjs';
import { flags } from './site.mjs';

const page = readFileSync(new URL('../../docs/start/browser.md', import.meta.url), 'utf8');
const client = fileURLToPath(new URL('../../bindings/node/client', import.meta.url));
const executablePath = findChromium(process.env);

/** Blocks in their order, without those that the page marks as not run. */
const blocks = [...page.matchAll(/^(<!-- not run: [^\n]+ -->\n)?```(\w+) ?(\S*)\n(.*?)^```$/gms)]
  .filter(([, notRun]) => !notRun).map(([, , kind, name, text]) => ({ kind, name, text }));
const text = (kind, name) =>
  blocks.find(block => block.kind === kind && block.name === name)?.text ?? assert.fail(`no block ${kind} ${name}`);

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Runs a program of the page in a folder, with the program under test in its path. */
function run(program, folder) {
  const path = [dirname(process.env.LEAFSEAL), process.env.PATH].join(delimiter);
  const options = { cwd: folder, env: { ...process.env, PATH: path }, stdio: ['ignore', 'pipe', 'inherit'] };
  return spawn('bash', ['-euo', 'pipefail', '-c', program], options);
}

async function succeeds(program, folder) {
  const [code] = await once(run(program, folder), 'exit');
  assert.equal(code, 0, program);
}

/** Starts a command of the page that ends in `&`. The caller must end it. */
function background(command, folder) {
  const [, program] = /^(.*) &\n$/.exec(command) ?? assert.fail(`not in the background: ${command}`);
  return run(`exec ${program}`, folder);
}

async function answers(port) {
  for (;;) {
    const isThere = await fetch(`http://127.0.0.1:${port}/`).then(() => true, () => false);
    if (isThere) return;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

test('the commands and pages of docs/start/browser.md work', { skip: executablePath ? false : 'no Chromium here' }, async context => {
  const folder = mkdtempSync(join(tmpdir(), 'leafseal-start-'));
  const running = [];
  context.after(async () => {
    for (const one of running) {
      one.kill('SIGTERM');
      if (one.exitCode === null && one.signalCode === null) await once(one, 'exit');
    }
    rmSync(folder, { recursive: true });
  });
  mkdirSync(join(folder, 'node_modules', '@leafseal'), { recursive: true });
  symlinkSync(client, join(folder, 'node_modules', '@leafseal', 'client'));
  const [api, site] = [await freePort(), await freePort()];
  const ported = script => script.replaceAll('127.0.0.1:8443', `127.0.0.1:${api}`).replaceAll('127.0.0.1:8080', `127.0.0.1:${site}`);

  const free = `leafseal --set operator.address=127.0.0.1:0 dev --no-relay --port 0 --api-port ${api} --json`;
  const engine = background(ported(text('sh', 'start')).replace('leafseal dev', free), folder);
  running.push(engine);
  await Promise.race([once(engine.stdout, 'data'), once(engine, 'exit').then(() => assert.fail('the engine did not start'))]);
  for (const name of ['index.html', 'show.html']) writeFileSync(join(folder, name), ported(text('html', name)));
  const commands = blocks.filter(({ kind, name }) => kind === 'sh' && name === '').map(block => ported(block.text));
  const [keys, copy, serve, token] = commands;
  assert.equal(commands.length, 4, 'every command of the page is known here');
  await succeeds(keys, folder);
  await succeeds(copy, folder);
  running.push(background(serve.replace('8080', site), folder));
  await answers(site);

  const authority = readFileSync(join(folder, '.leafseal', 'certs', 'ca.pem'));
  const browser = await chromium.launch({ executablePath, args: [...flags, await trust(`https://127.0.0.1:${api}`, authority)] });
  context.after(() => browser.close());
  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${site}/`);
  await tab.click('#pay button:enabled');
  await tab.waitForSelector('#sealed:not(:empty)');
  writeFileSync(join(folder, 'sealed.json'), await tab.textContent('#sealed'));
  await succeeds(text('sh', 'sealed'), folder);
  await succeeds(token, folder);
  await tab.goto(`http://127.0.0.1:${site}/show.html`);
  await tab.waitForSelector('#card:not(:empty)');
  assert.equal(await tab.textContent('#card'), '4111111111111111');
});
