// The fixtures of the Node tests: the program under test in a folder of its own, the local key endpoint, and the real SDK, which
// reads the endpoint's address from the environment once, when it is loaded.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const APP = 'interop';
export const APP_ID = 'app_interop';
export const API_KEY = 'interop-api-key';

const COMMAND_MS_MAX = 60_000;
const OUTPUT_SIZE_MAX = 64 << 20;

/** The value of an environment variable that run.sh sets. */
function setting(name) {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}, or run tests/interop/run.sh`);
  return value;
}

/** One folder of keystore and keys. */
export class Leafseal {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'leafseal-interop-'));
    this.run(['keys', 'create', APP]);
  }

  /** Standard output as a Buffer; an Error with `code` when the exit code is not 0. */
  run(command, input = '') {
    const store = join(this.folder, 'store');
    const options = { input, timeout: COMMAND_MS_MAX, maxBuffer: OUTPUT_SIZE_MAX };
    const done = spawnSync(setting('LEAFSEAL'), ['--dir', store, ...command], options);
    if (done.error) throw done.error;
    if (done.status === 0) return done.stdout;
    throw Object.assign(new Error(`leafseal ${command.join(' ')}: ${done.stderr}`), { code: done.status });
  }

  publicKeys() {
    return JSON.parse(this.run(['keys', 'public', APP, '--json']));
  }

  /** Opens the envelopes in any JSON value. */
  decrypt(value, flags = []) {
    return JSON.parse(this.run(['decrypt', '--app', APP, ...flags], JSON.stringify(value)));
  }

  decryptFile(content) {
    return this.run(['decrypt', '--app', APP, '--file'], content);
  }

  inspect(text) {
    return JSON.parse(this.run(['inspect', '--app', APP, '--json', text]));
  }

  remove() {
    rmSync(this.folder, { recursive: true });
  }
}

/** The endpoint of key_endpoint.py, in a process of its own that ends with its standard input. */
export class KeyEndpoint {
  static async start(publicKeys) {
    const script = join(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '..', 'key_endpoint.py');
    const endpoint = new KeyEndpoint();
    endpoint.process = spawn(setting('PYTHON'), [script], { stdio: ['pipe', 'pipe', 'inherit'] });
    endpoint.ended = new Promise((resolve) => endpoint.process.once('exit', resolve));
    endpoint.process.stdin.write(`${JSON.stringify(publicKeys)}\n`);
    for await (const line of createInterface({ input: endpoint.process.stdout })) {
      endpoint.url = JSON.parse(line).url;
      return endpoint;
    }
    throw new Error('the key endpoint did not start');
  }

  /** Paths that were asked for, in order. */
  async requests() {
    return (await fetch(`${this.url}/requests`)).json();
  }

  async stop() {
    this.process.stdin.end();
    await this.ended;
  }
}

/** The SDK, pointed at `endpoint` for everything that it might ask. */
export function loadSdk(endpoint) {
  process.env.EV_API_URL = endpoint.url;
  process.env.EV_TUNNEL_HOSTNAME = endpoint.url;
  process.env.EV_CERT_HOSTNAME = endpoint.url;
  return createRequire(import.meta.url)('@evervault/sdk');
}
