// Starts examples/node with its one command, and uses it as a browser does: the page, the form, the list, the database file.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../../../../examples/node', import.meta.url));
const NUMBER = '4111 1111 1111 1111';

test('the example stores card numbers sealed and shows them masked', async () => {
  if (!existsSync(join(folder, 'node_modules'))) execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'inherit' });
  const data = mkdtempSync(join(tmpdir(), 'leafseal-example-'));
  const env = { ...process.env, DATA: data, PORT: '0' };
  const child = spawn('npm', ['start', '--silent'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  try {
    const [url] = await once(createInterface({ input: child.stdout }), 'line');
    const page = await (await fetch(url)).text();
    assert.match(page, /name="number"/);
    assert.match(await (await fetch(`${url}/page.js`)).text(), /application\/json/);

    const post = (body, type = 'application/json') => fetch(`${url}/cards`, { method: 'POST', headers: { 'content-type': type }, body });
    const stored = await post(JSON.stringify({ holder: 'Ada', number: NUMBER }));
    assert.equal(stored.status, 201);
    assert.match((await stored.json()).stored, /^ev:/);
    assert.equal((await post(JSON.stringify({ holder: 'Eve' }))).status, 422, 'without a number');
    assert.equal((await post(`holder=Eve&number=${NUMBER}`, 'application/x-www-form-urlencoded')).status, 415);

    const cards = await (await fetch(`${url}/cards`)).json();
    assert.deepEqual(cards.map(({ holder, number }) => [holder, number]), [['Ada', '•••• 1111']]);
    assert.match(cards[0].stored, /^ev:.*:\$$/);
    for (const name of readdirSync(data).filter((file) => file.startsWith('cards.db'))) {
      const bytes = readFileSync(join(data, name));
      assert.ok(!bytes.includes(NUMBER) && !bytes.includes('1111 1111'), name);
    }
  } finally {
    process.kill(-child.pid, 'SIGTERM');
    await once(child, 'exit');
    rmSync(data, { recursive: true, force: true });
  }
});
