// Several copies of the package's JavaScript in a process, as test runners with isolated modules, bundlers, edits of `require.cache` and
// several versions in one tree load them.

import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const folder = dirname(fileURLToPath(new URL('../index.js', import.meta.url)));
const seed = (name) => readFileSync(new URL(`../../../../fuzz/corpus/frames/${name}`, import.meta.url));

/** Another copy; the native module is loaded again as well, or its entry in the cache stays. */
function loadAgain(isNativeToo) {
  for (const file of Object.keys(require.cache)) {
    if (file.startsWith(join(folder, '/')) && (isNativeToo || !file.endsWith('.node'))) delete require.cache[file];
  }
  return require(folder);
}

function answerOf(wire) {
  const decoder = new wire.Decoder();
  decoder.push(seed('answer_values'));
  const answer = decoder.next();
  assert.ok(answer instanceof wire.Answer, 'an answer of the class that the copy exports');
  return answer;
}

for (const isNativeToo of [false, true]) {
  test(`copies by an edit of require.cache, ${isNativeToo ? 'with' : 'without'} the entry of the native module`, () => {
    const first = loadAgain(isNativeToo);
    const older = answerOf(first);
    const second = loadAgain(isNativeToo);
    const options = { app: 'acme', role: 'card', deadlineMs: 70_000 };
    for (const wire of [first, second, first]) {
      for (const answer of [older, answerOf(wire)]) {
        assert.deepEqual(wire.encodeDecryptAnswer(200, options, answer), seed('decrypt'));
      }
    }
  });
}

test('JavaScript and a native module of different versions', (context) => {
  const tree = mkdtempSync(join(tmpdir(), 'leafseal-versions.'));
  context.after(() => rmSync(tree, { recursive: true, force: true }));
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const copy = (name, version) => {
    const path = join(tree, name);
    mkdirSync(path);
    for (const file of ['index.js', 'load.js', 'wire.node']) copyFileSync(join(folder, file), join(path, file));
    writeFileSync(join(path, 'package.json'), JSON.stringify({ ...manifest, version }));
    return path;
  };
  assert.equal(require(copy('same', manifest.version)).VERSION, manifest.version);
  assert.throws(() => require(copy('newer', '99.0.0')), {
    message: `@leafseal/wire 99.0.0 has loaded a native module of version ${manifest.version} (wire.node): both must have the same version: `
      + 'install @leafseal/wire again, or build the module with `npm run build`',
  });
});
