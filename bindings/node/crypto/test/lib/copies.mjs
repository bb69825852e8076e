// Further copies of a package's JavaScript over one native module, as they arise in practice.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';

import byCache from './by-cache.cjs';

/** The package's entry, of which `CRYPTO` may name another place. */
export const entry = process.env.CRYPTO ?? fileURLToPath(new URL('../../index.js', import.meta.url));

/** A copy by a registry of modules of its own, as test runners and bundlers have one; with a context, in a realm of its own. */
function byRegistry(parsingContext) {
  const modules = new Map();
  const load = (file) => {
    if (modules.has(file)) return modules.get(file).exports;
    if (file.endsWith('.json')) return JSON.parse(readFileSync(file, 'utf8'));
    const module = { exports: {} };
    modules.set(file, module);
    const outer = createRequire(file);
    const inner = (name) => (name.startsWith('.') && !name.endsWith('.node') ? load(outer.resolve(name)) : outer(name));
    const parameters = ['exports', 'require', 'module', '__filename', '__dirname'];
    const compiled = vm.compileFunction(readFileSync(file, 'utf8'), parameters, { filename: file, ...(parsingContext && { parsingContext }) });
    compiled(module.exports, inner, module, file, dirname(file));
    return module.exports;
  };
  return load(entry);
}

/** Ways to load another copy. */
export const WAYS = {
  registry: () => byRegistry(),
  realm: () => byRegistry(vm.createContext({ AbortSignal, Buffer, process })),
  cache: () => byCache(entry, false),
  'cache and native module': () => byCache(entry, true),
};
