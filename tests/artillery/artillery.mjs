// Runs Artillery on a scenario file.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const ARTILLERY = join(here, 'node_modules', 'artillery', 'bin', 'run');
const WIRE = join(here, '..', '..', 'bindings', 'node', 'wire.node');

/** The scenario as it was published, in `folder`, with its placeholders filled in and nothing else changed. */
export function printed(engine, folder) {
  const fillings = {
    '<address>': engine.host,
    '<client key>': engine.key,
    '<client certificate>': engine.cert,
    '<path of the wire bindings>': relative(folder, WIRE),
  };
  let text = readFileSync(join(here, 'printed.yml'), 'utf8');
  for (const [placeholder, filling] of Object.entries(fillings)) text = text.replace(placeholder, filling);
  const file = join(folder, 'printed.yml');
  writeFileSync(file, text);
  return file;
}

/**
 * Artillery on `file`. `overrides` stand in the place of what the file says, as `--overrides` has it.
 * Gives the exit code, what was printed, and the report of the whole run.
 */
export async function artillery(file, overrides = {}) {
  const report = `${file}.json`;
  const command = [ARTILLERY, 'run', file, '--output', report, '--overrides', JSON.stringify(overrides)];
  const settings = { ARTILLERY_DISABLE_TELEMETRY: 'true', NO_COLOR: '1', NODE_OPTIONS: `--require ${JSON.stringify(join(here, 'loopback.cjs'))}` };
  const child = spawn(process.execPath, command, { env: { ...process.env, ...settings }, stdio: ['ignore', 'pipe', 'pipe'] });
  let printedText = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { printedText += text; });
  const [code] = await once(child, 'close');
  const read = () => JSON.parse(readFileSync(report, 'utf8')).aggregate;
  return { code, text: printedText, report: code === 0 ? read() : undefined };
}
