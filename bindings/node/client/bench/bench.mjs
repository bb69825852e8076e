// Compares this client with the native one, and measures what the middleware adds to a request. Prints tables; asserts nothing.
//
//   LEAFSEAL=… npm run bench
//
// Both clients use the same engine on the same machine, alternately, with the same requests: 2,000 values of 32 bytes, four calls in
// flight, every answer decoded. The native one is crates/client/examples/fields.rs, built by cargo.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import express from 'express';

import { protectBody } from '../dist/express.mjs';
import { APP, Engine, clientOf } from '../test/support.mjs';

const FIELDS = 2000;
const IN_FLIGHT = 4;
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const ROUND_MS = Number(process.env.ROUND_MS ?? 1500);
const REQUESTS = Number(process.env.REQUESTS ?? 2000);

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..', '..');
const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
const thousands = (number) => Math.round(number).toLocaleString('en');

/** Keeps calls in flight for the time of a round; returns values per second and the CPU time of this process for each value. */
async function measure(call) {
  const began = performance.now();
  const cpu = process.cpuUsage();
  let fields = 0;
  await Promise.all(Array.from({ length: IN_FLIGHT }, async () => {
    while (performance.now() - began < ROUND_MS) {
      const { length } = await call();
      fields += length;
    }
  }));
  const { user, system } = process.cpuUsage(cpu);
  return { rate: (fields / (performance.now() - began)) * 1000, cpu: ((user + system) * 1000) / fields };
}

function nativeProgram() {
  // Built with the program, so that both share their libraries.
  const arguments_ = ['build', '--locked', '--release', '-p', 'leafseal-cli', '-p', 'leafseal-client', '--example', 'fields', '--message-format', 'json'];
  const out = execFileSync('cargo', arguments_, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 << 20 }).toString();
  return out.split('\n').filter(Boolean).map((line) => JSON.parse(line)).findLast(({ executable }) => executable).executable;
}

async function native(program, engine) {
  const address = `${engine.host}:${engine.port}`;
  const child = spawn(program, [address, engine.ca, engine.cert, engine.key, APP, FIELDS, IN_FLIGHT, ROUND_MS].map(String), { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (text) => { out += text; });
  await once(child, 'exit');
  return JSON.parse(out);
}

async function compare(engine) {
  const program = nativeProgram();
  const client = clientOf(engine);
  const values = Array.from({ length: FIELDS }, (_, index) => `value number ${index} `.padEnd(32, 'x'));
  const sealed = await client.encrypt(values);
  const calls = { encrypt: () => client.encrypt(values), decrypt: () => client.decrypt(sealed) };
  for (const call of Object.values(calls)) await measure(call);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const here = { encrypt: await measure(calls.encrypt), decrypt: await measure(calls.decrypt) };
    rounds.push({ here, there: await native(program, engine) });
  }
  await client.close();
  console.log(`${FIELDS} values a request, ${IN_FLIGHT} requests in flight, medians of ${ROUNDS} rounds\n`);
  console.log('| | @leafseal/client, values/s | native client, values/s | ratio, median (lowest, highest) | CPU of Node, ns a value |');
  console.log('|---|---|---|---|---|');
  for (const name of ['encrypt', 'decrypt']) {
    const ratios = rounds.map(({ here, there }) => here[name].rate / there[name]).sort((a, b) => a - b);
    const row = [
      name, thousands(median(rounds.map(({ here }) => here[name].rate))), thousands(median(rounds.map(({ there }) => there[name]))),
      `${median(ratios).toFixed(2)} (${ratios[0].toFixed(2)}, ${ratios.at(-1).toFixed(2)})`, Math.round(median(rounds.map(({ here }) => here[name].cpu))),
    ];
    console.log(`| ${row.join(' | ')} |`);
  }
}

/** The time of one request over a kept connection, in milliseconds. */
async function timed(agent, port, path, body) {
  const began = performance.now();
  const outgoing = request({ agent, port, host: '127.0.0.1', path, method: 'POST', headers: { 'content-type': 'application/json', 'content-length': body.length } });
  outgoing.end(body);
  const [response] = await once(outgoing, 'response');
  response.resume();
  await once(response, 'end');
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
  return performance.now() - began;
}

async function middleware(engine) {
  const calls = [];
  const client = clientOf(engine, { observers: [{ call: () => ({ durationMs }) => calls.push(durationMs) }] });
  const body = Buffer.from(JSON.stringify(Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`field_${index}`, 'x'.repeat(32)]))));
  const app = express();
  const answer = (request_, response) => response.json(request_.body);
  app.post('/plain', express.json(), answer);
  app.post('/in', protectBody(client, { request: { encrypt: ['$'] } }), answer);
  app.post('/out', express.json(), protectBody(client, { response: { encrypt: ['$'] } }), answer);
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const added = { in: [], out: [] };
  const plain = [];
  const engineTime = [];
  for (let index = -200; index < REQUESTS; index += 1) {
    const base = await timed(agent, port, '/plain', body);
    for (const direction of ['in', 'out']) {
      calls.length = 0;
      const total = await timed(agent, port, `/${direction}`, body);
      if (index < 0) continue;
      added[direction].push(total - base - calls[0]);
      engineTime.push(calls[0]);
    }
    if (index >= 0) plain.push(base);
  }
  agent.destroy();
  server.close();
  await client.close();
  console.log(`\nExpress 5, a body of 50 fields, medians of ${REQUESTS} requests in turn\n`);
  console.log('| | ms |\n|---|---|');
  console.log(`| a request without middleware | ${median(plain).toFixed(3)} |`);
  console.log(`| added to a request's body, without the call of the engine | ${median(added.in).toFixed(3)} |`);
  console.log(`| added to a response's body, without the call of the engine | ${median(added.out).toFixed(3)} |`);
  console.log(`| the call of the engine | ${median(engineTime).toFixed(3)} |`);
}

const engine = await Engine.start();
try {
  await middleware(engine);
  await compare(engine);
} finally {
  await engine.stop();
}
