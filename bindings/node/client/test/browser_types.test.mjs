// The types of the browser build, as a program in TypeScript sees them under each way of finding modules.

import { test } from 'node:test';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');

for (const [module, resolution] of [['esnext', 'bundler'], ['node16', 'node16'], ['nodenext', 'nodenext']]) {
  test(`a program compiles by its types: module ${module}`, () => {
    const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--lib', 'es2022,dom'];
    const modules = ['--module', module, '--moduleResolution', resolution];
    execFileSync(process.execPath, [compiler, ...flags, ...modules, 'browser_types.mts'], { cwd: here, stdio: 'inherit' });
  });
}
