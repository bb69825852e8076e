// Compares latencies of one scenario file in Artillery and `leafseal load`, which run at the same time against one engine. A benchmark: it
// reports medians and their ratios without a verdict.
//
//   LEAFSEAL=target/release/leafseal tests/artillery/run.sh compare
//   FULL=1 …      the published scenario for its 90 seconds as well
//   INCIDENT=1 …  with the engine of the published incident: k1, an ephemeral key for each field

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { COMPARED, PUBLISHED, adapted, both } from './artillery.mjs';
import { Engine } from './engine.mjs';

const settings = process.env.INCIDENT === '1' ? ['engine.curve=k1', 'engine.keying=field'] : [];
const published = process.env.FULL === '1' ? [{ name: 'as published', phase: PUBLISHED }] : [];
const HEADS = ['scenario', 'values', 'requests', 'Artillery p50', 'leafseal load p50', 'ratio', 'waited/ran'];

/** A table in Markdown. */
function print(rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  console.log([line(HEADS), line(HEADS.map(() => '---')), ...rows.map(line)].join('\n'));
}

const folder = mkdtempSync(join(tmpdir(), 'leafseal-compare-'));
const engine = await Engine.start(settings);
try {
  const table = [];
  for (const { name, phase, weights } of [...published, ...COMPARED]) {
    console.error(`${name}: ${phase.arrivalRate} users a second for ${phase.duration} s`);
    const before = engine.schedule();
    const { code, text, rows } = await both(adapted(engine, folder, name.replaceAll(' ', '-'), phase, weights), phase);
    if (code !== 0) throw new Error(text);
    const after = engine.schedule();
    // Seconds that the engine waited for a core per second of running: above 1 the machine was too busy for a comparison.
    const waited = (after.waited - before.waited) / Math.max(after.ran - before.ran, 1);
    for (const { size, counts, medians: [artillery, native] } of rows) {
      const ratio = native > 0 && artillery > 0 ? (artillery / native).toFixed(2) : '–';
      table.push([name, size, counts.join(' / '), `${artillery} ms`, `${native.toFixed(2)} ms`, ratio, waited.toFixed(2)]);
    }
  }
  print(table);
} finally {
  await engine.stop();
  rmSync(folder, { recursive: true, force: true });
}
