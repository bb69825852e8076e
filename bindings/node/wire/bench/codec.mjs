// The cost of encoding and decoding a field, compared with MessagePack libraries for JavaScript in the same run.
//
//   npm run bench            needs `npm run build` and `npm ci`; includes msgpackr if it is installed (npm install --no-save msgpackr)
//
// CPU time in nanoseconds per field: the median of the rounds, and half of their interquartile range.

import { createRequire } from 'node:module';
import { cpus } from 'node:os';

const require = createRequire(import.meta.url);
const wire = require('..');
const msgpack = require('@msgpack/msgpack');

const ROUNDS = 21;
/** CPU time of a case in a round, in microseconds. */
const ROUND_US = 25_000;
/** How long a case blocks the event loop at a time, in milliseconds. */
const TURN_MS = 1;
const FIELD_SIZE = 32;
/** Length of the envelope of a field of 32 bytes, as in crates/protocol/benches/frames.rs. */
const ENVELOPE_SIZE = 136;
const CHUNK_SIZE = 65_536;

function optional(name) {
  try { return require(name); } catch { return undefined; }
}

/**
 * Nanoseconds per call of each function; rounds are interleaved. CPU time of the process, which other processes do not affect and which
 * includes garbage collection. As in a server, the event loop runs between short runs.
 */
async function measure(cases) {
  const samples = new Map([...cases.keys()].map((name) => [name, []]));
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [name, run] of cases) {
      let calls = 0;
      let took = 0;
      const began = process.cpuUsage();
      while (took < ROUND_US) {
        const turn = performance.now();
        do {
          run();
          calls += 1;
        } while (performance.now() - turn < TURN_MS);
        await new Promise(setImmediate);
        const { user, system } = process.cpuUsage(began);
        took = user + system;
      }
      // The first round warms up the compiler.
      if (round > 0) samples.get(name).push((took * 1000) / calls);
    }
  }
  return samples;
}

async function report(title, fields, cases) {
  console.log(`\n${title}, ${fields} field${fields === 1 ? '' : 's'}`);
  const rows = [...(await measure(cases))].map(([name, samples]) => {
    const sorted = samples.map((sample) => sample / fields).sort((a, b) => a - b);
    const at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
    return { name, median: at(0.5), spread: (at(0.75) - at(0.25)) / 2 };
  });
  for (const { name, median, spread } of rows) {
    const ratio = median / rows[0].median;
    console.log(`  ${name.padEnd(58)} ${median.toFixed(1).padStart(9)} ns ± ${spread.toFixed(1).padEnd(6)} ${ratio.toFixed(2)}×`);
  }
}

/** Feeds a decoder in pieces, as a socket does. */
function decoding(stream, look) {
  const decoder = new wire.Decoder();
  return () => {
    for (let at = 0; at < stream.length; at += CHUNK_SIZE) decoder.push(stream.subarray(at, at + CHUNK_SIZE));
    return look(decoder.next());
  };
}

console.log(`${cpus()[0].model}, Node ${process.version}; msgpackr ${optional('msgpackr') ? 'too' : 'is not installed'}`);
const packr = optional('msgpackr') && new (require('msgpackr').Packr)({ useRecords: false });

for (const fields of [1, 30, 2000, 60_000]) {
  const values = Array.from({ length: fields }, (_, index) => String(index).padStart(FIELD_SIZE, 'x'));
  const content = Buffer.from(values.join(''));
  const options = { app: 'app_dev', curve: 'k1', keying: 'request' };
  const message = (list) => [0, 7, 'encrypt', [{ ...options, values: list }]];
  const encoders = new Map([
    ['wire, fields of a Buffer', () => wire.encodeEncryptFields(7, options, content, FIELD_SIZE)],
    ['wire, an array of strings', () => wire.encodeEncrypt(7, options, values)],
    ['@msgpack/msgpack, an array of strings', () => msgpack.encode(message(values))],
  ]);
  if (packr) encoders.set('msgpackr, an array of strings', () => packr.pack(message(values)));
  await report('encoding a request', fields, encoders);

  const envelopes = Array.from({ length: fields }, (_, index) => `ev:Tk9D:${String(index).padStart(ENVELOPE_SIZE - 10, 'A')}:$`);
  const stream = Buffer.from(msgpack.encode([1, 7, null, { values: envelopes }]));
  const answer = decoding(stream, (whole) => whole)();
  const decoders = new Map([
    ['wire, its end found and its values counted', decoding(stream, (whole) => whole.count)],
    ['wire, an array of strings', decoding(stream, (whole) => whole.values())],
    ['wire, into the request that opens them', decoding(stream, (whole) => wire.encodeDecryptAnswer(7, { app: 'app_dev' }, whole))],
    ['@msgpack/msgpack, an array of strings', () => msgpack.decode(stream)],
  ]);
  if (packr) decoders.set('msgpackr, an array of strings', () => packr.unpack(stream));
  await report(`decoding an answer of ${stream.length} bytes`, fields, decoders);
  if (answer.count !== fields) throw new Error('the answer was not whole');
}
