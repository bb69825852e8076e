// @leafseal/crypto beside node:crypto, WebCrypto, @ronomon/crypto-async, sodium-native and @noble, all in one run.
//
//   npm run bench                                                 every algorithm and size; needs `npm run build`
//   npm run bench -- --only gcm,sha256 --sizes 32,1024            some of them
//   npm run bench -- --json results.json --plot throughput.svg    also as JSON, and as a plot
//   npm run bench -- --rounds 21 --round-ms 30                    longer
//
// The peers are installed below target/npm, with the compiler that node-gyp finds. Prints nanoseconds of wall time and of CPU time a call,
// medians of interleaved rounds, and the best form of each package side by side.

import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { fetched } from '../test/lib/fetched.mjs';
import { OURS, SUBJECTS, load } from './contenders.mjs';
import { measure } from './measure.mjs';
import { plot } from './plot.mjs';
import { crypto } from '../test/lib/contract.mjs';

const SIZES = [32, 256, 1024, 16384, 262144, 1 << 20, 16 << 20];

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(SUBJECTS).join(',') },
    sizes: { type: 'string', default: SIZES.join(',') },
    rounds: { type: 'string', default: '9' },
    'round-ms': { type: 'string', default: '12' },
    json: { type: 'string' },
    plot: { type: 'string' },
  },
});

export function sizeName(size) {
  if (size < 1024) return `${size} B`;
  return size < 1 << 20 ? `${size / 1024} KiB` : `${size / (1 << 20)} MiB`;
}

const number = (value) => value.toLocaleString('en-US', { maximumSignificantDigits: value < 100 ? 3 : 4 });

async function measureSize(name, size, packages) {
  const contenders = await SUBJECTS[name].contenders(size, packages);
  const keyOf = ({ who, form }) => `${who}\t${form}`;
  const rounds = { rounds: Number(options.rounds), roundMs: Number(options['round-ms']) };
  const measured = await measure(new Map(contenders.map((contender) => [keyOf(contender), contender.run])), rounds);
  // A batch counts by the message.
  return contenders.map((contender) => {
    const { wall, cpu, spread } = measured.get(keyOf(contender));
    const count = contender.messages ?? 1;
    return { algorithm: name, size, who: contender.who, form: contender.form, wallNs: wall / count, cpuNs: cpu / count, spread };
  });
}

/** The fastest form of each package. */
export function bestOf(rows) {
  const best = new Map();
  for (const row of rows) if (!best.has(row.who) || row.wallNs < best.get(row.who).wallNs) best.set(row.who, row);
  return best;
}

function print(rows) {
  const ours = bestOf(rows).get(OURS);
  console.log(`\n${SUBJECTS[rows[0].algorithm].title}, ${sizeName(rows[0].size)}: wall and CPU time a call; best of ours = 1`);
  for (const { who, form, wallNs, cpuNs, spread } of rows) {
    const figures = [`${number(wallNs)} ns`, `± ${(spread * 100).toFixed(0)} %`, `${number(cpuNs)} ns`, (wallNs / ours.wallNs).toFixed(2)];
    const [wall, range, cpu, ratio] = figures;
    console.log(`  ${who.padEnd(18)} ${form.padEnd(24)} ${wall.padStart(16)} ${range.padEnd(7)} ${cpu.padStart(16)} CPU ${ratio.padStart(8)}`);
  }
}

/** The best form of each package at each size, as the times of ours. */
function summary(all) {
  console.log('\nBest form of each package by wall time: ours in nanoseconds, the others as multiples of it');
  for (const name of new Set(all.map(({ algorithm }) => algorithm))) {
    console.log(`\n${SUBJECTS[name].title}`);
    for (const size of new Set(all.map((row) => row.size))) {
      const best = bestOf(all.filter((row) => row.algorithm === name && row.size === size));
      const ours = best.get(OURS);
      const others = [...best.values()].filter(({ who }) => who !== OURS).map(({ who, wallNs }) => `${who} ${(wallNs / ours.wallNs).toFixed(2)}`);
      const least = Math.min(...[...best.values()].filter(({ who }) => who !== OURS).map(({ wallNs }) => wallNs / ours.wallNs));
      const cells = [sizeName(size).padStart(8), `${number(ours.wallNs)} ns`.padStart(16), ours.form.padEnd(24), others.join(', ')];
      console.log(`  ${cells.join('  ')}${least < 1 ? '  BEHIND' : ''}`);
    }
  }
}

const packages = { crypto, ...(await load(fetched(fileURLToPath(new URL('./peers', import.meta.url)), { scripts: true }))) };
const machine = { cpu: cpus()[0].model, cores: cpus().length, node: process.version, openssl: process.versions.openssl };
console.log(`${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, OpenSSL ${machine.openssl}`);
const all = [];
for (const name of options.only.split(',')) {
  for (const size of options.sizes.split(',').map(Number)) {
    const rows = await measureSize(name, size, packages);
    print(rows);
    all.push(...rows);
  }
}
summary(all);
if (options.json) writeFileSync(options.json, `${JSON.stringify({ machine, rows: all }, null, 2)}\n`);
if (options.plot) writeFileSync(options.plot, plot(all, (name) => SUBJECTS[name].title));
