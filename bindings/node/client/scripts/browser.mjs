// Builds the browser build: one file without dependencies in dist/browser/index.js, and its types. Prints the file's size.

import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { createRequire } from 'node:module';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, 'src', 'browser');
const target = join(root, 'dist', 'browser');

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
execFileSync(process.execPath, [createRequire(import.meta.url).resolve('typescript/bin/tsc'), '--project', source], { stdio: 'inherit' });
const { outputFiles: [bundle] } = await build({
  entryPoints: [join(source, 'index.ts')],
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  platform: 'browser',
  legalComments: 'none',
  banner: { js: '// @leafseal/client/browser, Apache-2.0' },
  write: false,
});
writeFileSync(join(target, 'index.js'), bundle.contents);
// The file is a module whatever the package is.
writeFileSync(join(target, 'package.json'), '{ "type": "module" }\n');
console.log(`dist/browser/index.js: ${bundle.contents.length} bytes, ${gzipSync(bundle.contents, { level: 9 }).length} with gzip`);
