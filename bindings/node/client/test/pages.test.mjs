// Runs the programs of docs/start/node.md and of the package's README against an engine.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Engine } from './support.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..', '..');
// Inside the package, so that its name resolves; ignored by git.
const folder = join(root, 'bindings', 'node', 'client', 'node_modules', '.cache', 'pages');
let engine;

before(async () => {
  engine = await Engine.start();
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  symlinkSync(join(engine.folder, 'store'), join(folder, '.leafseal'));
});
after(() => engine?.stop());

/** Runs the first program of a page that matches, and returns its output. */
function run(page, pattern) {
  const [, text] = pattern.exec(readFileSync(join(root, page), 'utf8')) ?? assert.fail(`${page}: the program is missing`);
  writeFileSync(join(folder, 'program.mjs'), text.replaceAll('127.0.0.1:3443', `127.0.0.1:${engine.port}`));
  return execFileSync(process.execPath, ['program.mjs'], { cwd: folder, encoding: 'utf8' });
}

test('docs/start/node.md', () => {
  const output = run('docs/start/node.md', /^```js client\.mjs\n(.*?)^```$/ms);
  assert.match(output, /\n4111111111111111\n$/, 'the bound value');
  const unbound = output.slice(0, output.lastIndexOf('\n4111'));
  const [sealed, opened, document, payment] = unbound.replaceAll(/\n\s*/g, ' ').match(/[[{].*?[\]}](?= [[{]|\s*$)/g);
  assert.match(sealed, /^\[ 'ev:.*:\$', 'ev:.*:number:.*:\$' \]$/);
  assert.equal(opened, "[ '4111111111111111', 12.5 ]");
  assert.match(document, /^\{ card: \{ number: 'ev:.*:\$' \}, amount: 12\.5 \}$/);
  assert.equal(payment, "{ card: { number: '4111111111111111' }, amount: 12.5 }");
});

test("the README's quick start", () => {
  const output = run('bindings/node/client/README.md', /^```js\n(import \{ Client \}.*?)^```$/ms);
  assert.match(output, /^4111111111111111\n\{\n? *card: \{ number: '4111111111111111', expiry: '12\/29' \},/);
});
