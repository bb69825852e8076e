// @leafseal/client/browser in Chromium, with the key that an engine serves: the engine and an independent decryptor open what pages
// encrypt. Its own test, bindings/node/client/test/browser.test.mjs, has the rules of the format.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

import { documents } from '../../bindings/node/client/test/browser_cases.mjs';
import { findChromium } from './chromium.mjs';
import { APP, Engine } from './engine.mjs';
import { INSECURE_HOST, Site, flags } from './site.mjs';

const file = path => fileURLToPath(new URL(`../../bindings/node/client/${path}`, import.meta.url));
const executablePath = findChromium(process.env);
const skip = executablePath ? false : 'no Chromium here';
const ROLE = 'pci-data';
/** Both times come from this machine's clock; the test may take long in between. */
const CLOCK_SECONDS_OFF = 3600;
const OUTPUT_SIZE_MAX = 256 << 20;
let engine, site, browser, key;

before(async () => {
  if (skip) return;
  site = await Site.start({ '/leafseal.js': file('dist/browser/index.js'), '/cases.mjs': file('test/browser_cases.mjs') });
  engine = await Engine.start([site.origin()]);
  site.connections = engine.url;
  key = engine.apiKey('encrypt,decrypt');
  const args = [...flags, await engine.trust(), `--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`];
  browser = await chromium.launch({ executablePath, args });
});

after(async () => {
  await browser?.close();
  site?.stop();
  await engine?.stop();
});

/** Runs `script` with `argument` in a new page of an origin. No error and no violation of the policy may be reported there. */
async function inPage(script, argument, { host } = {}) {
  const page = await browser.newPage();
  const faults = [];
  page.on('pageerror', error => faults.push(String(error)));
  page.on('console', message => /Content Security Policy/.test(message.text()) && faults.push(message.text()));
  try {
    await page.goto(site.origin(host));
    const result = await page.evaluate(script, argument);
    assert.deepEqual(faults, []);
    return result;
  } finally {
    await page.close();
  }
}

/** The findings of the independent decryptor in envelopes and files. */
function independently(texts, files = []) {
  const asked = JSON.stringify({ texts, files: files.map(content => content.toString('base64')) });
  const script = fileURLToPath(new URL('independent.py', import.meta.url));
  const done = spawnSync(process.env.PYTHON, [script], { input: asked, maxBuffer: OUTPUT_SIZE_MAX });
  assert.equal(done.status, 0, String(done.stderr));
  return JSON.parse(done.stdout);
}

/** All envelopes of a document in its order. */
function leaves(value) {
  return value === null ? [] : typeof value === 'string' ? [value] : Object.values(value).flatMap(leaves);
}

/** Encrypts the documents of the cases in a page. */
const encrypted = options => inPage(async ([endpoint, options]) => {
  const [{ Encryptor }, { documents }] = await Promise.all([import('/leafseal.js'), import('/cases.mjs')]);
  const encryptor = await Encryptor.fetch(endpoint);
  const sealed = [];
  for (const document of documents()) sealed.push(await encryptor.encrypt(document, options));
  // As text: it crosses to the test as it would cross to a server.
  return sealed.map(one => JSON.stringify(one));
}, [{ url: engine.url, app: APP }, options]);

const OPTIONS = { 'by default': {}, 'with a role': { role: ROLE }, 'with a key per value': { keying: 'field' } };
for (const [name, options] of Object.entries(OPTIONS)) {
  test(`the engine decrypts what a page encrypts ${name}`, { skip }, async () => {
    const { role, keying } = options;
    const sealed = (await encrypted(options)).map(text => JSON.parse(text));
    const { texts } = independently(leaves(sealed));
    assert.ok(texts.every(one => one.way === 0 && one.role === (role ?? null) && one.origin === (role ? 70 : null)), 'by the rule');
    assert.ok(texts.every(({ version }) => version === (role ? 'QkTC' : 'Tk9D')));
    if (role) assert.ok(texts.every(one => Math.abs(one.encrypted_at - Date.now() / 1000) < CLOCK_SECONDS_OFF), 'the time of the page');
    for (const [index, document] of documents().entries()) {
      assert.deepEqual(await engine.call('/decrypt', key, sealed[index]), document);
      const opened = texts.splice(0, leaves(sealed[index]).length);
      assert.equal(new Set(opened.map(({ ephemeral }) => ephemeral)).size, keying ? opened.length : Math.min(opened.length, 1));
      assert.equal(new Set(opened.map(({ iv }) => iv)).size, opened.length);
    }
    assert.equal(texts.length, 0);
  });
}

test('the role of a page is enforced', { skip }, async () => {
  const text = await inPage(async endpoint => {
    const { Encryptor } = await import('/leafseal.js');
    return (await Encryptor.fetch(endpoint)).encrypt('4111', { role: 'pci-data' });
  }, { url: engine.url, app: APP });
  assert.equal(await engine.call(`/decrypt?role=${ROLE}`, key, text), '4111');
  await assert.rejects(engine.call('/decrypt?role=other', key, text), /forbidden/);
});

test('the engine decrypts files, blobs and bytes of a page', { skip }, async () => {
  const files = await inPage(async endpoint => {
    const { Encryptor } = await import('/leafseal.js');
    const encryptor = await Encryptor.fetch(endpoint);
    const content = Uint8Array.from({ length: 300_001 }, (_, index) => index % 251);
    const sealed = [
      await encryptor.encryptFile(new File([content], 'scan.png', { type: 'image/png' })), await encryptor.encryptFile(new Blob([content])),
      await encryptor.encryptFile(content), await encryptor.encryptFile(new Uint8Array()),
    ];
    const described = one => one instanceof File ? `File ${one.name}` : one.constructor.name;
    const base64 = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
    return Promise.all(sealed.map(async one => [described(one), base64(new Uint8Array(await new Blob([one]).arrayBuffer()))]));
  }, { url: engine.url, app: APP });
  assert.deepEqual(files.map(([kind]) => kind), ['File scan.png', 'Blob', 'Uint8Array', 'Uint8Array']);
  const whole = Buffer.from(Uint8Array.from({ length: 300_001 }, (_, index) => index % 251));
  const contents = files.map(([, text]) => Buffer.from(text, 'base64'));
  const opened = independently([], contents).files;
  for (const [index, wanted] of [whole, whole, whole, Buffer.alloc(0)].entries()) {
    assert.deepEqual(await engine.call('/decrypt', key, contents[index]), wanted);
    assert.deepEqual(opened[index], { content: wanted.toString('base64'), way: 0 });
  }
});

test('a page refuses the values and keys that Node refuses', { skip }, async () => {
  const wrong = await inPage(async endpoint => {
    const [{ Encryptor }, { wrongRefusals, wrongKeys }] = await Promise.all([import('/leafseal.js'), import('/cases.mjs')]);
    const answer = await fetch(`${endpoint.url}/leafseal/apps/${endpoint.app}`);
    const { ecdhP256KeyUncompressed: key } = await answer.json();
    return [await wrongRefusals(await Encryptor.of(key)), await wrongKeys(Encryptor, key)];
  }, { url: engine.url, app: APP });
  assert.deepEqual(wrong, [[], []]);
});

test('objects of another frame are plain objects', { skip }, async () => {
  const sealed = await inPage(async endpoint => {
    const { Encryptor } = await import('/leafseal.js');
    const frame = document.body.appendChild(document.createElement('iframe'));
    const foreign = frame.contentWindow.JSON.parse('{"card": ["4111", 1]}');
    if (foreign instanceof Object) throw new Error('it is not foreign');
    return (await Encryptor.fetch(endpoint)).encrypt(foreign);
  }, { url: engine.url, app: APP });
  assert.deepEqual(await engine.call('/decrypt', key, sealed), { card: ['4111', 1] });
});

/** The code and the message of the error with which fetching a key fails. */
const fetchFails = (endpoint, page) => inPage(async endpoint => {
  const { Encryptor } = await import('/leafseal.js');
  return Encryptor.fetch(endpoint).then(() => 'it does not fail', ({ code, message }) => [code, message]);
}, endpoint, page);

test('a page of another origin does not get the key', { skip }, async () => {
  const [code, message] = await fetchFails({ url: engine.url, app: APP }, { host: 'localhost' });
  assert.equal(code, 'key_unavailable');
  assert.match(message, new RegExp(`api.cors_origins does not list ${site.origin('localhost')}$`));
});

test('an app that does not exist is reported as the engine reports it', { skip }, async () => {
  const [code, message] = await fetchFails({ url: engine.url, app: 'app_missing' });
  assert.equal(code, 'key_unavailable');
  assert.match(message, /status 404: .*app_missing/);
});

test('outside a secure context the error names the remedy', { skip }, async () => {
  const [code, message] = await inPage(async () => {
    const { Encryptor } = await import('/leafseal.js');
    const key = 'A+QGDcNiNkrK6IGraYFo8ZzDTp14XmpyjkPkEI24XyaP';
    return Encryptor.of(key).then(() => ['it does not fail', ''], ({ code, message }) => [code, message]);
  }, undefined, { host: INSECURE_HOST });
  assert.equal(code, 'unsupported');
  assert.match(message, /HTTPS/);
});
