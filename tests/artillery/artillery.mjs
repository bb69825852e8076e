// Runs Artillery on a scenario file.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { program } from './engine.mjs';

/** Values in the published scenario's requests. */
export const SIZES = [30, 150, 2000];
/** Its phase. */
export const PUBLISHED = { arrivalRate: 2, duration: 90 };
/**
 * The scenarios that both Artillery and `leafseal load` run: the published one at a higher rate, in which few requests have 2,000 values,
 * and one with equal shares of its sizes.
 */
export const COMPARED = [
  { name: 'the published shares', phase: { arrivalRate: 25, duration: 4 }, shares: [0.8, 0.18, 0.02], isOfEverySize: false },
  { name: 'equal shares', phase: { arrivalRate: 9, duration: 10 }, weights: [1, 1, 1], shares: [1 / 3, 1 / 3, 1 / 3], isOfEverySize: true },
];

const here = dirname(fileURLToPath(import.meta.url));
const ARTILLERY = join(here, 'node_modules', 'artillery', 'bin', 'run');
const WIRE = join(here, '..', '..', 'bindings', 'node', 'wire', 'wire.node');

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
 * The same with another duration and the engine's port, for runs in which Artillery and `leafseal load` read everything from the file.
 * `weights`, one for each scenario, replace the published ones.
 */
export function adapted(engine, folder, name, { arrivalRate, duration }, weights) {
  const phase = `arrivalRate: ${arrivalRate}, duration: ${duration}`;
  let text = readFileSync(printed(engine, folder), 'utf8');
  text = text.replace('port: 3443', `port: ${engine.port}`).replace('arrivalRate: 2, duration: 90', phase);
  if (weights) {
    const left = [...weights];
    text = text.replace(/weight: \d+/g, () => `weight: ${left.shift()}`);
  }
  const file = join(folder, `${name}.yml`);
  writeFileSync(file, text);
  return file;
}

/** Runs `leafseal load` on `file` and returns its result. */
export async function leafsealLoad(file, ...more) {
  const result = `${file}.load.json`;
  const child = spawn(program(), ['load', file, '--output', result, ...more], { stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (text) => { stderr += text; });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`leafseal load ended with ${code}: ${stderr}`);
  return JSON.parse(readFileSync(result, 'utf8'));
}

/**
 * Runs Artillery on `file`, with `overrides` as its `--overrides` and `more` options. Calls `began` when the first phase begins. Returns the exit code, the
 * output, and the report of the whole run.
 */
export async function artillery(file, overrides = {}, began = () => undefined, ...more) {
  const report = `${file}.json`;
  const command = [ARTILLERY, 'run', file, '--output', report, '--overrides', JSON.stringify(overrides), ...more];
  const preload = `--require ${JSON.stringify(join(here, 'loopback.cjs'))}`;
  const settings = { ARTILLERY_DISABLE_TELEMETRY: 'true', NO_COLOR: '1', NODE_OPTIONS: preload };
  const child = spawn(process.execPath, command, { env: { ...process.env, ...settings }, stdio: ['ignore', 'pipe', 'pipe'] });
  let printedText = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      const hadBegun = printedText.includes('Phase started');
      printedText += text;
      if (!hadBegun && printedText.includes('Phase started')) began();
    });
  }
  const [code] = await once(child, 'close');
  const read = () => JSON.parse(readFileSync(report, 'utf8')).aggregate;
  return { code, text: printedText, report: code === 0 ? read() : undefined };
}

/**
 * Runs a scenario file in Artillery and `leafseal load` at the same time. Returns the number of requests of each size and the median
 * latencies in milliseconds.
 */
export async function both(file, phase) {
  let beside;
  const { code, text, report } = await artillery(file, {}, () => { beside = leafsealLoad(file); });
  const native = await beside;
  const rows = SIZES.map((size) => {
    const { ok, latency_us: latency } = native?.series.find(({ fields }) => fields === size) ?? { ok: 0, latency_us: { p50: 0 } };
    const summary = report?.summaries[`e3.latency.size.${size}`] ?? { count: 0, median: 0 };
    return { size, counts: [summary.count, ok], medians: [summary.median, latency.p50 / 1000] };
  });
  return { code, text, users: phase.arrivalRate * phase.duration, rows, artillery: report, native };
}
