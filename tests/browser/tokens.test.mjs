// Client-side tokens in Chromium: a page of an allowed origin decrypts one payload, and no page of another origin reads anything. The
// calls are those that the hosted service's SDK makes.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

import { findChromium } from './chromium.mjs';
import { APP, Engine, OTHER_APP } from './engine.mjs';
import { Site, flags } from './site.mjs';

const executablePath = findChromium(process.env);
const skip = executablePath ? false : 'no Chromium here';
const DOCUMENT = { card: '4111111111111111', cvc: 123, saved: true, name: null };
let engine, shop, neighbour, browser;
const keys = {};

before(async () => {
  if (skip) return;
  [shop, neighbour] = [await Site.start({}), await Site.start({})];
  engine = await Engine.start([shop.origin()]);
  for (const site of [shop, neighbour]) site.connections = engine.url;
  for (const app of [APP, OTHER_APP]) keys[app] = engine.apiKey('encrypt,decrypt,client-side-tokens', app);
  browser = await chromium.launch({ executablePath, args: [...flags, await engine.trust()] });
});

after(async () => {
  await browser?.close();
  shop?.stop();
  neighbour?.stop();
  await engine?.stop();
});

const sealed = (value, app = APP, query = '') => engine.call(`/encrypt${query}`, keys[app], value, app);
const tokenFor = (payload, more = {}, app = APP) =>
  engine.call('/client-side-tokens', keys[app], { action: 'api:decrypt', payload, ...more }, app);

const pages = new Map();

async function pageOf(origin) {
  if (!pages.has(origin)) {
    const page = await browser.newPage();
    await page.goto(origin);
    pages.set(origin, page);
  }
  return pages.get(origin);
}

/** The result of a page of `origin` that decrypts `payload`: status and body, or the name of the error if the browser hides them. */
async function decryptIn(origin, authorization, payload, path = '/decrypt') {
  const page = await pageOf(origin);
  return page.evaluate(async ([url, authorization, body]) => {
    const headers = { authorization, 'content-type': 'application/json' };
    const answer = await fetch(url, { method: 'POST', headers, body }).catch(error => error);
    return answer instanceof Error ? answer.name : { status: answer.status, body: await answer.json() };
  }, [`${engine.url}${path}`, authorization, JSON.stringify(payload)]);
}

/** Status and code of a refusal that the page can read. */
async function refusal(...call) {
  const { status, body } = await decryptIn(shop.origin(), ...call);
  return [status, body.code];
}

test('a page of the allowed origin decrypts the payload of its token', { skip }, async () => {
  const payload = await sealed(DOCUMENT);
  const { token } = await tokenFor(payload);
  // A token may be used again until it expires.
  for (let round = 0; round < 2; round += 1) {
    assert.deepEqual(await decryptIn(shop.origin(), `Token ${token}`, payload), { status: 200, body: DOCUMENT });
  }
});

for (const [label, query] of [['WEFF', ''], ['WEFN', '&role=pci-data']]) {
  test(`a page decrypts symmetric envelopes of the version ${label}`, { skip }, async () => {
    const payload = await sealed(DOCUMENT, APP, `?scheme=symmetric${query}`);
    for (const text of [payload.card, payload.cvc, payload.saved]) assert.equal(text.split(':')[1], label);
    const { token } = await tokenFor(payload);
    assert.deepEqual(await decryptIn(shop.origin(), `Token ${token}`, payload), { status: 200, body: DOCUMENT });
    assert.equal(await decryptIn(neighbour.origin(), `Token ${token}`, payload), 'TypeError');
    assert.deepEqual(await refusal(`Token ${token}`, await sealed(DOCUMENT, APP, `?scheme=symmetric${query}`)), [403, 'forbidden']);
  });
}

test('pages of other origins read nothing: another port, another host, no origin at all', { skip }, async () => {
  const payload = await sealed(DOCUMENT);
  const { token } = await tokenFor(payload);
  const blank = `data:text/html,<title>opaque</title>`;
  for (const origin of [neighbour.origin(), shop.origin('localhost'), blank]) {
    assert.equal(await decryptIn(origin, `Token ${token}`, payload), 'TypeError', origin);
  }
  assert.equal((await decryptIn(shop.origin(), `Token ${token}`, payload)).status, 200, 'the token itself is good');
});

test('a token opens no other payload', { skip }, async () => {
  const [payload, other] = [await sealed(DOCUMENT), await sealed({ card: '5500' })];
  const { token } = await tokenFor(payload);
  assert.deepEqual(await refusal(`Token ${token}`, other), [403, 'forbidden']);
  assert.deepEqual(await refusal(`Token ${token}`, [payload, other]), [403, 'forbidden']);
  assert.deepEqual(await refusal(`Token ${token}`, { card: payload.card }), [403, 'forbidden']);
});

test('a token opens nothing of another app', { skip }, async () => {
  const foreign = await sealed(DOCUMENT, OTHER_APP);
  const { token } = await tokenFor(await sealed(DOCUMENT));
  assert.deepEqual(await refusal(`Token ${token}`, foreign), [403, 'forbidden']);
  // A token of this app for the other app's payload passes the check of the payload, and decryption fails.
  const { token: own } = await tokenFor(foreign);
  assert.deepEqual(await refusal(`Token ${own}`, foreign), [422, 'decrypt_failed']);
});

test('a token ends with its time', { skip }, async () => {
  const payload = await sealed(DOCUMENT);
  const { token, expiry } = await tokenFor(payload, { expiry: 1000 });
  while (Date.now() <= expiry) await new Promise(resolve => setTimeout(resolve, expiry - Date.now() + 1));
  assert.deepEqual(await refusal(`Token ${token}`, payload), [401, 'unauthorized']);
});

test('what is no token opens nothing', { skip }, async () => {
  const payload = await sealed(DOCUMENT);
  const { token } = await tokenFor(payload);
  const forged = token.slice(0, -1) + (token.endsWith('0') ? '1' : '0');
  for (const shown of [forged, token.slice(0, -2), 'x']) assert.deepEqual(await refusal(`Token ${shown}`, payload), [401, 'unauthorized']);
});

test('a page reads nothing with an API key, and no other call, even from the allowed origin', { skip }, async () => {
  const payload = await sealed(DOCUMENT);
  const { token } = await tokenFor(payload);
  const basic = `Basic ${btoa(`${APP}:${keys[APP]}`)}`;
  assert.equal(await decryptIn(shop.origin(), basic, payload), 'TypeError');
  for (const path of ['/encrypt', '/inspect', '/client-side-tokens']) {
    assert.equal(await decryptIn(shop.origin(), `Token ${token}`, payload, path), 'TypeError', path);
  }
});
