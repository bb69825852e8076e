// The real Node SDK, unmodified, against the API of a running engine of each scheme: by environment variables alone.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';

import { Leafseal } from './harness.mjs';

const APP = 'app_node';
const CURVES = ['secp256k1', 'prime256v1'];
const ROLES = [undefined, 'pci-data'];
/** The versions without and with metadata that an engine of each scheme writes. */
const LABELS = { 'public-key': ['Tk9D', 'QkTC'], symmetric: ['WEFF', 'WEFN'] };
/** An envelope to callers that know the published format: the version, perhaps a type, three parts of base64, and the end. */
const PUBLISHED = /^ev:(?:debug:)?[\w+/]{4}:(?:(?:number|boolean|string):)?(?:[\w+/]+=*:){3}\$$/;
const DATA = {
  string: 'héllo ✓ 😀',
  empty: '',
  escapes: '"\\\u0000"',
  long: 'x'.repeat(10_000),
  integer: 42,
  float: -3.25,
  exponent: 1e21,
  yes: true,
  nothing: null,
  nested: { list: [1, 'x', { no: false }, null], object: {}, array: [] },
};
const SHAPES = [DATA, [1, 'a', true, null, [2.5, { b: 'c' }]], 'alone', -12.5, true];
const OUTPUT_SIZE_MAX = 64 << 20;
const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname;

let leafseal, ready, url, key;

/** An engine of `scheme` for the tests of a suite. */
function startEngine(scheme) {
  let engine, ended;
  before(async () => {
    leafseal = new Leafseal();
    const settings = ['--set', `engine.scheme=${scheme}`, '--set', 'operator.address=127.0.0.1:0'];
    const flags = ['dev', '--app', APP, '--port', '0', '--api-port', '0', '--no-relay', '--json'];
    const command = ['--dir', join(leafseal.folder, 'store'), ...settings, ...flags];
    engine = spawn(process.env.LEAFSEAL, command, { stdio: ['ignore', 'pipe', 'inherit'] });
    ended = once(engine, 'exit');
    ready = JSON.parse((await once(createInterface({ input: engine.stdout }), 'line'))[0]);
    url = `https://${ready.api}`;
    key = apiKey('encrypt,decrypt,client-side-tokens');
  });
  after(async () => {
    engine.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
    leafseal.remove();
  });
}

/** A new API key, as people make one. */
function apiKey(allow, app = APP) {
  return leafseal.run(['api-keys', 'create', app, '--allow', allow]).toString().trim();
}

/** The SDK's results for `cases`. */
function sdk(cases, { curve = 'prime256v1', shown = key } = {}) {
  const env = { ...process.env, EV_API_URL: url, NODE_EXTRA_CA_CERTS: ready.ca, APP, KEY: shown, CURVE: curve };
  const done = spawnSync(process.execPath, [join(here, 'api_calls.mjs')], { env, input: JSON.stringify(cases), timeout: 60_000, maxBuffer: OUTPUT_SIZE_MAX });
  assert.equal(done.status, 0, done.stderr.toString());
  return JSON.parse(done.stdout);
}

/** The answer of the API to a call without the SDK. */
function fetched(path, authorization, value) {
  const script =
    "const [url, authorization, body] = process.argv.slice(1);" +
    "const headers = { authorization, 'content-type': 'application/json' };" +
    "const answer = await fetch(url, { method: 'POST', headers, body });" +
    'console.log(JSON.stringify({ status: answer.status, body: await answer.json() }));';
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: ready.ca };
  const flags = ['--input-type=module', '--eval', script, url + path, authorization, JSON.stringify(value)];
  const done = spawnSync(process.execPath, flags, { env, timeout: 60_000 });
  assert.equal(done.status, 0, done.stderr.toString());
  return JSON.parse(done.stdout);
}

/** Decrypts with a token, as a page does. */
const decryptWith = (token, value) => fetched('/decrypt', `Token ${token}`, value);

/** What the engine makes of a value, under its own scheme. */
function sealed(value, role) {
  const { status, body } = fetched(`/encrypt${role ? `?role=${role}` : ''}`, `Basic ${btoa(`${APP}:${key}`)}`, value);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

/** All values of a document but `null`. */
function leaves(value) {
  return value === null ? [] : typeof value === 'object' ? Object.values(value).flatMap(leaves) : [value];
}

for (const scheme of Object.keys(LABELS)) {
  describe(`an engine of ${scheme}`, () => {
    startEngine(scheme);

    for (const curve of CURVES) {
      for (const role of ROLES) {
        test(`every shape comes back through the API: ${curve}, ${role ?? 'no role'}`, () => {
          const cases = SHAPES.map((data) => ({ do: 'round_trip', data, role }));
          assert.deepEqual(sdk(cases, { curve }), SHAPES.map((ok) => ({ ok })));
        });
      }

      test(`files come back through the API: ${curve}`, () => {
        const contents = [Buffer.from('file \x00\x01'), Buffer.alloc(300_000, 7)];
        const cases = contents.map((content) => ({ do: 'round_trip', data: { base64: content.toString('base64') } }));
        assert.deepEqual(sdk(cases, { curve }), cases.map(({ data: ok }) => ({ ok })));
      });
    }

    test('tokens open their payload, no other, and not for long', async () => {
      const [{ ok: payload }, { ok: other }] = sdk([
        { do: 'encrypt', data: { card: '4111', pin: 1 } },
        { do: 'encrypt', data: { card: '5500' } },
      ]);
      const [{ ok: token }, { ok: short }, dated] = sdk([
        { do: 'token', data: payload },
        { do: 'token', data: payload, expiry: 1500 },
        { do: 'token_by_date', data: payload },
      ]);
      assert.equal(Date.parse(token.expiry) - Date.parse(token.createdAt), 300_000);
      assert.deepEqual(decryptWith(token.token, payload), { status: 200, body: { card: '4111', pin: 1 } });
      const refused = decryptWith(token.token, other);
      assert.deepEqual([refused.status, refused.body.code], [403, 'forbidden']);
      // This version of the SDK sends of a date only the milliseconds beside its seconds: the API says so, rather than guess.
      assert.deepEqual([dated.error, /give them a number/.test(dated.message)], ['EvervaultError', true], dated.message);
      await new Promise((resolve) => setTimeout(resolve, 1600));
      const late = decryptWith(short.token, payload);
      assert.deepEqual([late.status, late.body.detail], [401, 'the token has expired']);
    });

    for (const role of ROLES) {
      test(`the SDK opens what the engine sealed, ${role ?? 'no role'}`, () => {
        const envelopes = SHAPES.map((shape) => sealed(shape, role));
        for (const text of leaves(envelopes)) {
          assert.match(text, PUBLISHED);
          assert.equal(text.split(':')[1], LABELS[scheme][role ? 1 : 0], text);
        }
        assert.deepEqual(sdk(envelopes.map((data) => ({ do: 'decrypt', data }))), SHAPES.map((ok) => ({ ok })));
        const [{ ok: token }] = sdk([{ do: 'token', data: envelopes[0] }]);
        assert.deepEqual(decryptWith(token.token, envelopes[0]), { status: 200, body: DATA });
      });
    }

    test('the SDK throws the error of the API', () => {
      const value = sealed('value');
      const forged = `${value.slice(0, -10)}AAAA${value.slice(-6)}`;
      const of = (shown, data) => sdk([{ do: 'decrypt', data }], { shown })[0];
      assert.deepEqual(of(key, forged), { error: 'EvervaultError', message: 'decrypt failed (at byte 8)' });
      assert.match(of(apiKey('encrypt'), value).message, /may not decrypt for app /);
      assert.match(of(`lsk_0123456789abcdef_${'0'.repeat(64)}`, value).message, /not known to this engine, or was revoked$/);
      leafseal.run(['keys', 'create', 'app_other']);
      assert.match(of(apiKey('decrypt', 'app_other'), value).message, /for another app/);
    });

    test('without the authority nothing is reached', () => {
      const env = { ...process.env, EV_API_URL: url, APP, KEY: key, CURVE: 'prime256v1' };
      delete env.NODE_EXTRA_CA_CERTS;
      const done = spawnSync(process.execPath, [join(here, 'api_calls.mjs')], {
        env,
        input: JSON.stringify([{ do: 'decrypt', data: 'x' }]),
        timeout: 60_000,
      });
      const [answer] = JSON.parse(done.stdout);
      assert.match(answer.message, /certificate/);
    });
  });
}
