// The versions of Node that the tests run besides the current one: the newest LTS, where its binary could be installed for this machine.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const binary = fileURLToPath(new URL(`./node_modules/node-${process.platform}-${process.arch}/bin/node`, import.meta.url));

/** Paths of Node binaries: the current one first. */
export const nodes = existsSync(binary) ? [process.execPath, binary] : [process.execPath];
