// A running engine for the Node tests, started as `leafseal dev` starts one, and a plain TLS connection to it.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect } from 'node:tls';

export const APP = 'app_dev';
const STOP_MS_MAX = 30_000;

/** The program under test, set by run.sh. */
export function program() {
  const path = process.env.LEAFSEAL;
  if (!path) throw new Error('set LEAFSEAL, or run tests/artillery/run.sh');
  return path;
}

/** An engine with an app, an authority and certificates of its own. */
export class Engine {
  /** `settings` as on the command line: `engine.curve=k1`. */
  static async start(settings = [], port = 0, folder = mkdtempSync(join(tmpdir(), 'leafseal-artillery-'))) {
    const engine = new Engine();
    engine.folder = folder;
    const flags = ['operator.address=127.0.0.1:0', 'api.address=127.0.0.1:0', ...settings].flatMap((setting) => ['--set', setting]);
    const command = ['--dir', join(folder, 'store'), 'dev', '--app', APP, '--port', String(port), '--no-relay', '--json', ...flags];
    engine.process = spawn(program(), command, { stdio: ['ignore', 'pipe', 'pipe'] });
    engine.log = '';
    engine.process.stderr.on('data', (text) => { engine.log += text; });
    engine.exited = once(engine.process, 'exit');
    for await (const line of createInterface({ input: engine.process.stdout })) {
      const { address, operator, api, ca, certificate: cert, key } = JSON.parse(line);
      const [host, port] = address.split(':');
      return Object.assign(engine, { host, port: Number(port), operator, api, ca, cert, key });
    }
    throw new Error(`the engine did not start: ${engine.log}`);
  }

  /** Certificate and key of a client whose only permission is for another app. */
  stranger() {
    for (const command of [['keys', 'create', 'other'], ['certs', 'issue', 'stranger', '--app', 'other', '--allow', 'encrypt']]) {
      const done = spawnSync(program(), ['--dir', join(this.folder, 'store'), ...command], { encoding: 'utf8' });
      if (done.status !== 0) throw new Error(done.stderr);
    }
    return { cert: this.file('stranger.pem'), key: this.file('stranger.key') };
  }

  /** The path of a file in the folder of the certificates. */
  file(name) {
    return join(this.folder, 'store', 'certs', name);
  }

  /** A connection as docs/protocol.md describes it. */
  async connect() {
    const read = (path) => readFileSync(path);
    const socket = connect({
      host: this.host, port: this.port, ca: read(this.ca), cert: read(this.cert), key: read(this.key),
      ALPNProtocols: ['leafseal/1'], minVersion: 'TLSv1.3', servername: '',
    });
    socket.setNoDelay(true);
    await once(socket, 'secureConnect');
    return socket;
  }

  /**
   * CPU time of its threads, and how long they waited for a core, in nanoseconds; zeros if the system does not provide them.
   */
  schedule() {
    const tasks = `/proc/${this.process.pid}/task`;
    const rows = existsSync(tasks) ? readdirSync(tasks).map((task) => readFileSync(join(tasks, task, 'schedstat'), 'utf8').split(' ')) : [];
    const sum = (index) => rows.reduce((total, row) => total + Number(row[index]), 0);
    return { ran: sum(0), waited: sum(1) };
  }

  /** Shuts it down gracefully, as an operator does. */
  async stop({ keep = false } = {}) {
    const timer = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS_MAX);
    this.process.kill('SIGTERM');
    await this.exited;
    clearTimeout(timer);
    if (!keep) rmSync(this.folder, { recursive: true, force: true });
  }
}
