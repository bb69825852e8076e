// The browser SDK of the hosted service, unmodified, against a running engine: the published loader (npm, @evervault/js) and the script
// that it loads from https://js.evervault.com/v2. Chromium resolves that name to this machine.
//
// The script is in no npm package: @evervault/browser is published without its files. EVERVAULT_SDK names a copy of it,
//   curl --output evervault.js https://js.evervault.com/v2
// and without one these tests are skipped. tokens.test.mjs and encrypt.test.mjs make the SDK's calls without it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

import { findChromium } from './chromium.mjs';
import { APP, Engine } from './engine.mjs';
import { Site, flags } from './site.mjs';

const SCRIPT_HOST = 'js.evervault.com';
const script = process.env.EVERVAULT_SDK;
const executablePath = findChromium(process.env);
const skip = !executablePath ? 'no Chromium here' : !script && 'EVERVAULT_SDK does not name the script that the loader loads';
const loader = fileURLToPath(new URL('node_modules/@evervault/js/dist/evervault-js.js', import.meta.url));
const ROLE = 'pci-data';
/** No empty string at the top and no minus zero: the SDK returns the one as it is, and encrypts the other as zero. */
const VALUES = [
  'héllo ✓ 😀', '"\\\u0000', 'x'.repeat(10_000), 42, -3.25, 1e21, true, false,
  { integer: 42, no: false, nothing: null, nested: { list: [1, 'x', { yes: true }, null], object: {}, array: [] } },
  [1, 'a', true, null, [2.5, { b: 'c' }]],
];
let engine, shop, neighbour, scripts, browser, key;

before(async () => {
  if (skip) return;
  const files = { '/loader.js': loader };
  [shop, neighbour] = [await Site.start(files), await Site.start(files)];
  engine = await Engine.start([shop.origin()]);
  key = engine.apiKey('encrypt,decrypt,client-side-tokens');
  for (const site of [shop, neighbour]) {
    site.connections = engine.url;
    site.scripts = `https://${SCRIPT_HOST}`;
  }
  const certificate = name => readFileSync(join(engine.folder, 'store', 'certs', name));
  scripts = createServer({ cert: certificate('server.pem'), key: certificate('server.key') }, (request, response) => {
    response.writeHead(request.url === '/v2' ? 200 : 404, { 'content-type': 'text/javascript' }).end(readFileSync(script));
  }).listen(0, '127.0.0.1');
  await once(scripts, 'listening');
  const rules = `MAP ${SCRIPT_HOST}:443 127.0.0.1:${scripts.address().port}`;
  browser = await chromium.launch({ executablePath, args: [...flags, await engine.trust(), `--host-resolver-rules=${rules}`] });
});

after(async () => {
  await browser?.close();
  scripts?.closeAllConnections();
  scripts?.close();
  shop?.stop();
  neighbour?.stop();
  await engine?.stop();
});

/** The result of a function body, `use`, for the SDK in a page of a site; an error as text. It gets `sdk` and `argument`. */
async function withSdk(use, argument = null, site = shop) {
  const page = await browser.newPage();
  try {
    await page.goto(site.origin());
    return await page.evaluate(`(async (url, argument) => {
      const { loadEvervault } = await import('/loader.js');
      const sdk = await loadEvervault('team_1', '${APP}', { urls: { keysUrl: url, apiUrl: url } });
      ${use}
    })('${engine.url}', ${JSON.stringify(argument)}).catch(error => String(error))`);
  } finally {
    await page.close();
  }
}

/** All values of a document but `null`. */
function leaves(value) {
  return value === null ? [] : typeof value === 'object' ? Object.values(value).flatMap(leaves) : [value];
}

for (const role of [undefined, ROLE]) {
  test(`the engine decrypts every type that the SDK encrypts: ${role ?? 'no role'}`, { skip }, async () => {
    const use = 'const all = []; for (const one of argument[0]) all.push(await sdk.encrypt(one, argument[1])); return JSON.stringify(all)';
    const sealed = JSON.parse(await withSdk(use, [VALUES, role]));
    assert.ok(leaves(sealed).every(leaf => String(leaf).startsWith('ev:')), 'nothing stays in the clear');
    assert.deepEqual(await engine.call(`/decrypt${role ? `?role=${role}` : ''}`, key, sealed), VALUES);
  });
}

test('the engine decrypts files and blobs of the SDK', { skip }, async () => {
  const use = `
    const content = Uint8Array.from({ length: 100_001 }, (_, index) => index % 251);
    const sealed = [await sdk.encrypt(new File([content], 'scan.png')), await sdk.encrypt(new Blob([content]))];
    const base64 = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
    return Promise.all(sealed.map(async blob => base64(new Uint8Array(await blob.arrayBuffer()))));`;
  const content = Buffer.from(Uint8Array.from({ length: 100_001 }, (_, index) => index % 251));
  for (const file of await withSdk(use)) {
    assert.deepEqual(await engine.call('/decrypt', key, Buffer.from(file, 'base64')), content);
  }
});

for (const scheme of ['public-key', 'symmetric']) {
  test(`the SDK decrypts with a client-side token on the allowed origin, and on no other: ${scheme}`, { skip }, async () => {
    const value = { card: '4111', cvc: 123 };
    const payload = await engine.call(`/encrypt?scheme=${scheme}`, key, value);
    const { token } = await engine.call('/client-side-tokens', key, { action: 'api:decrypt', payload });
    const use = 'return sdk.decrypt(argument[0], argument[1])';
    assert.deepEqual(await withSdk(use, [token, payload]), value);
    assert.match(await withSdk(use, [token, { card: payload.card }]), /Error/, 'another payload');
    // Here the SDK gets no key either; the test uses its decryption only.
    assert.match(await withSdk(use, [token, payload], neighbour), /Error/);
  });
}

test('on another origin the SDK gets no key', { skip }, async () => {
  assert.match(await withSdk("return sdk.encrypt('x')", undefined, neighbour), /Error/);
});
