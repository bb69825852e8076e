// Compiles src to dist: CommonJS, and for each entry of the package an ES module that exports the same objects.
//
// One copy of the code serves both kinds of module, so that an error of the one is an instance of the other's class.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
const require = createRequire(import.meta.url);

mkdirSync(dist, { recursive: true });
// dist/browser belongs to scripts/browser.mjs.
for (const name of readdirSync(dist, { recursive: false }).filter((name) => statSync(join(dist, name)).isFile())) rmSync(join(dist, name));
execFileSync(process.execPath, [require.resolve('typescript/bin/tsc'), '--project', root], { stdio: 'inherit' });

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
for (const entry of Object.values(exports)) {
  if (!entry.import) continue;
  const target = join(root, entry.import.default);
  const common = entry.require.default.replace('./dist/', './');
  const names = Object.keys(require(join(root, entry.require.default))).filter((name) => name !== '__esModule');
  const lines = [`import common from '${common}';`, ...names.map((name) => `export const ${name} = common.${name};`)];
  writeFileSync(target, `${lines.join('\n')}\n`);
  writeFileSync(join(root, entry.import.types), `export * from '${common}';\n`);
}
