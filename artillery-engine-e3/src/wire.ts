// Loads the wire bindings that the scenario file names.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';

import type * as WireModule from '@leafseal/wire';

/** The module's functions. */
export type Wire = typeof WireModule;
export type { Answer } from '@leafseal/wire';

const FUNCTIONS = ['encodeEncryptFields', 'encodeDecryptAnswer', 'encodeCancel', 'encodeHealth', 'Decoder'] as const;

/**
 * Loads the bindings that `rpc` names: a path relative to `folder`, of the package or its module, or the name of a package that is
 * installed there or here.
 *
 * @throws {Error} With one line that explains why they cannot be loaded.
 */
export function loadWire(rpc: string, folder: string): Wire {
  const path = resolve(folder, rpc);
  const isPath = isAbsolute(rpc) || rpc.startsWith('.') || existsSync(path);
  let wire: Partial<Wire>;
  try {
    wire = isPath ? (createRequire(__filename)(path) as Partial<Wire>) : loadPackage(rpc, folder);
  } catch (error) {
    const [line] = String(error instanceof Error ? error.message : error).split('\n');
    throw new Error(`cannot load the wire bindings from ${isPath ? path : `the package ${rpc}`}: ${line ?? ''}`);
  }
  const missing = FUNCTIONS.find((name) => typeof wire[name] !== 'function');
  if (missing !== undefined) throw new Error(`${rpc} is not a build of @leafseal/wire: it lacks ${missing}`);
  return wire;
}

/** Resolves relative to the scenario file, then relative to this package. */
function loadPackage(name: string, folder: string): Partial<Wire> {
  const there = createRequire(join(folder, 'scenario.yml'));
  try {
    return there(there.resolve(name)) as Partial<Wire>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    return createRequire(__filename)(name) as Partial<Wire>;
  }
}
