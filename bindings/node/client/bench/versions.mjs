// Compares this client with another build of it: throughput of lists and single calls, and the latency of one call at a time.
//
//   LEAFSEAL=… OTHER=path/of/another/dist node bench/versions.mjs
//
// Both run in turn against one engine, in one process and with one native module. Prints a table; asserts nothing.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { Client, Engine, optionsFor } from '../test/support.mjs';

const ROUNDS = Number(process.env.ROUNDS ?? 9);
const ROUND_MS = Number(process.env.ROUND_MS ?? 500);

const middle = (numbers) => [...numbers].sort((one, other) => one - other)[numbers.length >> 1];

/** Calls per second with this many in flight. */
async function rate(call, inFlight) {
  const began = performance.now();
  let count = 0;
  await Promise.all(Array.from({ length: inFlight }, async () => {
    while (performance.now() - began < ROUND_MS) {
      await call();
      count += 1;
    }
  }));
  return (count / (performance.now() - began)) * 1000;
}

/** The median time of a call in microseconds. */
async function latency(call) {
  const times = [];
  for (const began = performance.now(); performance.now() - began < ROUND_MS;) {
    const start = performance.now();
    await call();
    times.push((performance.now() - start) * 1000);
  }
  return middle(times);
}

const { Client: Other } = await import(pathToFileURL(resolve(process.env.OTHER, 'index.mjs')));
const engine = await Engine.start();
const clients = [Other, Client].map((Class) => new Class(optionsFor(engine)));
const values = Array.from({ length: 2000 }, (_, index) => `value number ${index} `.padEnd(32, 'x'));
const sealed = await clients[0].encrypt(values);
const cases = {
  'encrypt, 2,000 values, four in flight, calls/s': (client) => rate(() => client.encrypt(values), 4),
  'decrypt, 2,000 values, four in flight, calls/s': (client) => rate(() => client.decrypt(sealed), 4),
  'encrypt, one value, 64 in flight, calls/s': (client) => rate(() => client.encrypt(values[0]), 64),
  'decrypt, one value, 64 in flight, calls/s': (client) => rate(() => client.decrypt(sealed[0]), 64),
  'encrypt, one value, one at a time, µs': (client) => latency(() => client.encrypt(values[0])),
  'decrypt, one value, one at a time, µs': (client) => latency(() => client.decrypt(sealed[0])),
};
console.log('| | other | this | ratio, median (lowest, highest) |\n|---|---|---|---|');
for (const [name, measure] of Object.entries(cases)) {
  const rounds = [];
  for (let round = -1; round < ROUNDS; round += 1) {
    const pair = [await measure(clients[0]), await measure(clients[1])];
    if (round >= 0) rounds.push(pair);
  }
  const ratios = rounds.map(([other, own]) => own / other).sort((one, other) => one - other);
  const medians = [0, 1].map((index) => Math.round(middle(rounds.map((pair) => pair[index]))));
  console.log(`| ${name} | ${medians.join(' | ')} | ${middle(ratios).toFixed(2)} (${ratios[0].toFixed(2)}, ${ratios.at(-1).toFixed(2)}) |`);
}
await Promise.all(clients.map((client) => client.close()));
await engine.stop();
