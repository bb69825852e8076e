// Engines with chains in which a certificate expires while a connection is open.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { chain, link, shown } from './chains.mjs';
import { Engine, KEYS, clientOf, keysPeer, rejects, until } from './support.mjs';

let engine;
before(async () => { engine = await Engine.start(); });
after(() => engine?.stop());

/** How long the certificate is valid that expires first. */
const SOON_MS = 3_000;
const soon = () => new Date(Date.now() + SOON_MS);
const late = () => new Date(Date.now() + 86_400_000);

/** A client of the peer, and how many connections it has opened. */
function observed(peer, roots, options = {}) {
  const seen = { opened: 0, closed: [] };
  const connection = ({ kind, error }) => {
    if (kind === 'opened') seen.opened += 1;
    if (kind === 'closed') seen.closed.push(error.message);
  };
  const ca = roots.map(({ pem }) => pem).join('');
  return { seen, client: clientOf(engine, { addresses: peer.address, ca, observers: [{ connection }], ...options }) };
}

for (const [part, ends] of Object.entries({ root: [soon, late, late], between: [late, soon, late], leaf: [late, late, soon] })) {
  test(`no request begins on a connection whose chain has expired: ${part}`, async () => {
    const old = chain(ends.map((end) => end()));
    const peer = await keysPeer(engine, () => KEYS, { shown: shown(old, old.between) });
    const { seen, client } = observed(peer, [old.root], { retriesMax: 0 });
    await client.health();
    assert.equal(seen.opened, 1);
    let error;
    await until(() => client.health().then(() => false, (failure) => { error = failure; return true; }), 'the connection is left');
    assert.equal(error.code, 'tls_failed', error.message);
    assert.match(error.message, /expired/);
    assert.equal(seen.opened, 1);
    assert.match(seen.closed.join(), /a certificate of the engine's chain has expired/);
    await client.close();
    peer.close();
  });
}

test('an idle connection is closed, and an engine with a renewed chain is connected to again', async () => {
  const [old, renewed] = [chain([late(), soon(), late()]), chain([late(), late(), late()])];
  const peer = await keysPeer(engine, () => KEYS, { shown: shown(old, old.between) });
  const { seen, client } = observed(peer, [old.root, renewed.root]);
  await client.health();
  peer.show(shown(renewed, renewed.between));
  await until(() => seen.closed.length > 0, 'the idle connection is closed');
  await client.health();
  assert.equal(seen.opened, 2);
  await client.close();
  peer.close();
});

test('requests in flight are finished after the chain has expired', async () => {
  const [old, renewed] = [chain([late(), soon(), late()]), chain([late(), late(), late()])];
  let answer;
  const answered = new Promise((resolve) => { answer = resolve; });
  const peer = await keysPeer(engine, () => answered, { shown: shown(old, old.between) });
  const { seen, client } = observed(peer, [old.root, renewed.root], { connectionsMax: 1 });
  const keys = client.publicKeys();
  await until(() => peer.asked === 1);
  peer.show(shown(renewed, renewed.between));
  await until(async () => (await client.health()) && seen.opened === 2, 'another connection is used');
  assert.deepEqual(seen.closed, []);
  answer(KEYS);
  assert.equal((await keys).version, 1);
  await until(() => seen.closed.length === 1, 'the connection is closed');
  await client.close();
  peer.close();
});

test('the longest-lived of several chains counts, and other certificates do not', async () => {
  const ends = soon();
  const old = chain([late(), ends, late()]);
  const again = link('between', old.root, late(), { key: old.between.key });
  const before = new Date(Date.now() - 3_600_000);
  const unrelated = link('between', chain([late(), late(), late()]).root, before);
  const peer = await keysPeer(engine, () => KEYS, { shown: shown(old, unrelated, old.between, again) });
  const { seen, client } = observed(peer, [old.root]);
  await client.health();
  await sleep(ends.getTime() - Date.now() + 2_000);
  await client.health();
  assert.deepEqual(seen, { opened: 1, closed: [] });
  await client.close();
  peer.close();
});

test('a certificate of the same name that verifies nothing does not count', async () => {
  const old = chain([late(), soon(), late()]);
  const forged = link('between', { subject: old.root.subject, key: old.leaf.key }, late());
  const peer = await keysPeer(engine, () => KEYS, { shown: shown(old, old.between, forged) });
  const { seen, client } = observed(peer, [old.root]);
  await client.health();
  await until(() => seen.closed.length > 0, 'the connection is left');
  await client.close();
  peer.close();
});

test('the end of a chain that lives for longer than a timer can wait is waited for in parts', async () => {
  const far = () => new Date(Date.now() + 100 * 86_400_000);
  const old = chain([far(), far(), far()]);
  const peer = await keysPeer(engine, () => KEYS, { shown: shown(old, old.between) });
  const { seen, client } = observed(peer, [old.root]);
  const warnings = [];
  const warned = ({ name }) => warnings.push(name);
  process.on('warning', warned);
  await client.health();
  await sleep(100);
  await client.health();
  process.off('warning', warned);
  assert.deepEqual(warnings, []);
  assert.deepEqual(seen, { opened: 1, closed: [] });
  await client.close();
  peer.close();
});
