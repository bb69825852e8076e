// A running engine with the apps of the test keys, and its HTTPS API for tests.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { X509Certificate, createHash, createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect } from 'node:tls';

/** Has the keys of vectors/ev-sdk, so that the independent decryptor has them too. */
export const APP = 'app_page';
export const OTHER_APP = 'app_other';
const COMMAND_MS_MAX = 60_000;
const keys = JSON.parse(readFileSync(new URL('../../vectors/ev-sdk/keys.json', import.meta.url), 'utf8'));
const CURVES = { r1: 'P-256', k1: 'secp256k1' };

/** The private key of a vector as PEM. */
function pem(name) {
  const point = Buffer.from(keys[name].pubU, 'base64');
  const d = Buffer.from(keys[name].d.slice(2), 'hex').toString('base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map(part => part.toString('base64url'));
  return createPrivateKey({ key: { kty: 'EC', crv: CURVES[name], d, x, y }, format: 'jwk' }).export({ type: 'pkcs8', format: 'pem' });
}

export class Engine {
  /** `origins` are those of `api.cors_origins`. */
  static async start(origins) {
    const engine = new Engine();
    engine.folder = mkdtempSync(join(tmpdir(), 'leafseal-browser-'));
    const files = Object.keys(CURVES).flatMap(name => {
      const file = join(engine.folder, `${name}.pem`);
      writeFileSync(file, pem(name), { mode: 0o600 });
      return [`--${name}`, file];
    });
    engine.run('keys', 'import', APP, ...files);
    engine.run('keys', 'create', OTHER_APP);
    const settings = ['--set', `api.cors_origins=${origins.join(',')}`, '--set', 'operator.address=127.0.0.1:0'];
    const flags = ['--app', APP, '--port', '0', '--api-port', '0', '--no-relay', '--json'];
    engine.process = spawn(process.env.LEAFSEAL, [...engine.in, ...settings, 'dev', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
    engine.ended = once(engine.process, 'exit');
    const line = once(createInterface({ input: engine.process.stdout }), 'line');
    const [text] = await Promise.race([line, engine.ended.then(() => assert.fail('the engine did not start'))]);
    const ready = JSON.parse(text);
    engine.url = `https://${ready.api}`;
    engine.authority = readFileSync(ready.ca);
    return engine;
  }

  get in() {
    return ['--dir', join(this.folder, 'store')];
  }

  /** Standard output of a command. */
  run(...command) {
    const done = spawnSync(process.env.LEAFSEAL, [...this.in, ...command], { timeout: COMMAND_MS_MAX });
    assert.equal(done.status, 0, `leafseal ${command.join(' ')}: ${done.stderr}`);
    return done.stdout.toString().trim();
  }

  apiKey(allow, app = APP) {
    return this.run('api-keys', 'create', app, '--allow', allow);
  }

  /** A call of the API: JSON, or bytes where `body` is a Buffer. `key` is an API key. */
  async call(path, key, body, app = APP) {
    const isBytes = Buffer.isBuffer(body);
    const headers = { 'content-type': isBytes ? 'application/octet-stream' : 'application/json' };
    const options = { method: 'POST', ca: this.authority, auth: `${app}:${key}`, headers };
    const answer = await new Promise((resolve, reject) => {
      request(`${this.url}${path}`, options, resolve).on('error', reject).end(isBytes ? body : JSON.stringify(body));
    });
    const whole = Buffer.concat(await answer.toArray());
    assert.equal(answer.statusCode, 200, `${path}: ${whole}`);
    return isBytes ? whole : JSON.parse(whole);
  }

  trust() {
    return trust(this.url, this.authority);
  }

  async stop() {
    this.process.kill('SIGTERM');
    assert.deepEqual(await this.ended, [0, null]);
    rmSync(this.folder, { recursive: true });
  }
}

/** The flag with which Chromium trusts the certificate of an engine, and no other, beside the system's authorities. */
export async function trust(url, ca) {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port, ca });
  await once(socket, 'secureConnect');
  const { publicKey } = new X509Certificate(socket.getPeerCertificate().raw);
  socket.destroy();
  const digest = createHash('sha256').update(publicKey.export({ type: 'spki', format: 'der' })).digest('base64');
  return `--ignore-certificate-errors-spki-list=${digest}`;
}
