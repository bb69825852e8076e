// The Prisma extension over a real SQLite database: what lies in the tables is sealed, what the program reads is not.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { PrismaLibSql } from '@prisma/adapter-libsql';

import { sealFields } from '../dist/prisma.mjs';
import { APP, Engine, clientOf } from './support.mjs';
import { NUMBER, isEnvelope } from './web.mjs';

const require = createRequire(import.meta.url);
const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'leafseal-prisma-'));
let engine;
let client;
let plain;
let db;
let Prisma;

before(async () => {
  // Generating needs no schema engine; the variable keeps Prisma from downloading one.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };
  const cli = require.resolve('prisma/build/index.js');
  execFileSync(process.execPath, [cli, 'generate', '--schema', join(here, 'prisma', 'schema.prisma')], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const generated = require('../node_modules/.cache/prisma');
  ({ Prisma } = generated);
  plain = new generated.PrismaClient({ adapter: new PrismaLibSql({ url: `file:${join(folder, 'test.db')}` }) });
  await plain.$executeRawUnsafe('create table Customer(id integer primary key autoincrement, name text not null unique, email text)');
  await plain.$executeRawUnsafe(`create table Card(id integer primary key autoincrement, number text not null, note text,
    month integer not null default 1, customerId integer not null references Customer(id))`);
  await plain.$executeRawUnsafe('create table Account(id text primary key, iban text not null, note text, owner text unique)');
  await plain.$executeRawUnsafe(`create table Transfer(id integer primary key autoincrement, purpose text not null, amount integer not null default 1,
    accountId text not null references Account(id))`);
  engine = await Engine.start();
  client = clientOf(engine);
  const fields = { Card: { number: true, note: { role: 'support' } }, Customer: { email: true } };
  db = plain.$extends(sealFields({ client, datamodel: Prisma.dmmf.datamodel, fields }));
});
after(async () => {
  await plain?.$disconnect();
  await client?.close();
  await engine?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Every text in the tables. */
const stored = async () => {
  const cards = await plain.$queryRawUnsafe('select number, note from Card');
  const customers = await plain.$queryRawUnsafe('select email from Customer');
  return [...cards, ...customers].flatMap(Object.values).filter((text) => text !== null);
};

test('every way to write seals, and every way to read opens', async () => {
  const data = { name: 'Ada', email: 'ada@example.com', cards: { create: [{ number: NUMBER, note: 'a' }, { number: '2', month: 7 }] } };
  const copy = structuredClone(data);
  const ada = await db.customer.create({ data, include: { cards: true } });
  assert.deepEqual(data, copy, "the caller's objects stay as they are");
  assert.equal(ada.email, 'ada@example.com');
  assert.deepEqual(ada.cards.map(({ number, note, month }) => [number, note, month]), [[NUMBER, 'a', 1], ['2', null, 7]]);
  const customerId = ada.id;

  const card = await db.card.create({ data: { number: '3', customer: { connectOrCreate: { where: { name: 'Bob' }, create: { name: 'Bob', email: 'bob@example.com' } } } } });
  await db.card.createMany({ data: [{ number: '4', customerId }, { number: '5', note: null, customerId }] });
  assert.deepEqual((await db.card.createManyAndReturn({ data: [{ number: '6', customerId }] })).map(({ number }) => number), ['6']);
  assert.equal((await db.card.update({ where: { id: card.id }, data: { number: { set: '33' } } })).number, '33');
  await db.card.updateMany({ where: { note: null, customerId }, data: { note: 'many' } });
  const upsert = { where: { id: 1000 }, create: { number: '7', customerId }, update: { number: '8' } };
  assert.equal((await db.card.upsert(upsert)).number, '7');
  await db.customer.update({
    where: { id: customerId },
    data: {
      email: null,
      cards: {
        update: { where: { id: ada.cards[0].id }, data: { number: '11' } },
        updateMany: { where: { month: 7 }, data: { number: '22' } },
        upsert: { where: { id: 2000 }, create: { number: '9' }, update: { number: '10' } },
        createMany: { data: [{ number: '12' }] },
      },
    },
  });
  await db.$transaction([db.card.create({ data: { number: '13', customerId } })]);
  await db.$transaction(async (inside) => inside.card.create({ data: { number: '14', customer: { connect: { id: customerId } } } }));

  const texts = await stored();
  assert.ok(texts.length > 15 && texts.every(isEnvelope), texts.find((text) => !isEnvelope(text)));
  const cards = await db.card.findMany({ orderBy: { id: 'asc' } });
  assert.deepEqual(cards.map(({ number }) => number), ['11', '22', '33', '4', '5', '6', '7', '9', '12', '13', '14']);
  const selected = await db.customer.findFirst({ where: { name: 'Bob' }, select: { email: true, cards: { select: { number: true } } } });
  assert.deepEqual(selected, { email: 'bob@example.com', cards: [{ number: '33' }] });
  assert.deepEqual((await db.customer.findUnique({ where: { name: 'Bob' } }).cards()).map(({ number }) => number), ['33']);
  const { note } = await plain.card.findFirst({ where: { note: { not: null } } });
  assert.equal((await client.inspect(note, { app: APP })).role, 'support');
  assert.equal(await db.card.findFirst({ where: { id: -1 } }), null);
  assert.ok((await db.card.count({ where: { note: { not: null } } })) > 0);
});

test('Prisma.skip leaves a member out, wherever it stands', async () => {
  const { skip } = Prisma;
  const data = { name: 'Skip', email: skip, cards: { create: [{ number: NUMBER, note: skip }, { number: '2', note: 'n' }] } };
  const { id, email, cards } = await db.customer.create({ data, include: { cards: true, _count: skip } });
  assert.deepEqual([email, ...cards.map(({ number, note }) => `${number} ${note}`)], [null, `${NUMBER} null`, '2 n']);
  const [first, second] = cards;
  const where = { id: first.id };
  assert.equal((await db.card.update({ where, data: { number: skip, note: 'new' } })).number, NUMBER);
  assert.equal((await db.card.update({ where, data: { number: { set: '3' }, note: skip } })).note, 'new');
  const many = [{ number: '4', note: skip, customerId: id }, { number: '5', note: 'five', customerId: skip.ifUndefined(id) }];
  await db.card.createMany({ data: many });
  await db.card.updateMany({ where: { number: skip, note: skip, id: second.id }, data: { note: skip, number: '22' } });
  await db.card.upsert({ where: { id: -5 }, create: { number: '6', note: skip, customerId: id }, update: { number: skip } });
  const nested = { update: { where: { id: second.id }, data: { note: skip, month: 2 } }, create: skip };
  await db.customer.update({ where: { id }, data: { email: skip, cards: nested } });
  const found = await db.card.findMany({
    where: { customerId: id, number: skip, OR: [{ note: skip, id: { gt: 0 } }], customer: { is: { email: skip, name: 'Skip' } } },
    orderBy: [{ id: 'asc' }], cursor: skip, distinct: skip,
    select: { number: true, note: skip, customer: { select: { email: skip, name: true } } },
  });
  assert.deepEqual(found.map(({ number }) => number), ['3', '22', '4', '5', '6']);
  const customer = await db.customer.findFirst({ where: { name: 'Skip', email: skip }, select: { email: true, cards: skip } });
  assert.deepEqual(customer, { email: null });
  assert.ok((await stored()).every(isEnvelope));
});

test('a string with half of a surrogate pair is not written', async () => {
  const before = await plain.card.count();
  const data = [{ number: '1', customerId: 1 }, { number: 'a\ud800', customerId: 1 }];
  await assert.rejects(async () => db.card.createMany({ data }), { code: 'invalid_params' });
  assert.equal(await plain.card.count(), before);
});

test('a sealed field cannot be compared or sorted, wherever it stands', async () => {
  for (const call of [
    () => db.card.findMany({ where: { number: NUMBER } }),
    () => db.card.findMany({ where: { OR: [{ AND: [{ NOT: { number: { contains: '4' } } }] }] } }),
    () => db.customer.findMany({ where: { cards: { some: { number: NUMBER } } } }),
    () => db.customer.findMany({ include: { cards: { where: { number: NUMBER } } } }),
    () => db.customer.findMany({ select: { _count: { select: { cards: { where: { number: NUMBER } } } } } }),
    () => db.card.findMany({ orderBy: [{ customer: { email: 'asc' } }] }),
    () => db.card.findMany({ distinct: ['number'] }),
    () => db.card.groupBy({ by: ['number'] }),
    () => db.card.aggregate({ _max: { number: true } }),
    () => db.card.deleteMany({ where: { number: NUMBER } }),
    () => db.card.updateMany({ where: { number: NUMBER }, data: { month: 2 } }),
    () => db.customer.update({ where: { id: 1 }, data: { cards: { updateMany: { where: { number: NUMBER }, data: { month: 2 } } } } }),
    () => db.customer.update({ where: { id: 1 }, data: { cards: { deleteMany: [{ number: NUMBER }] } } }),
  ]) {
    await assert.rejects(async () => call(), (error) => error.code === 'invalid_params' && !error.message.includes(NUMBER), String(call));
  }
});

test('without an engine nothing is written, and envelopes of others are not shown', async () => {
  const lost = clientOf(engine, { addresses: '127.0.0.1:1', retriesMax: 0 });
  const broken = plain.$extends(sealFields({ client: lost, datamodel: Prisma.dmmf.datamodel, fields: { Card: { number: true } } }));
  const before = await plain.card.count();
  await assert.rejects(async () => broken.card.create({ data: { number: NUMBER, customerId: 1 } }), { code: 'connect_failed' });
  assert.equal(await plain.card.count(), before);
  await assert.rejects(async () => broken.card.findMany(), { code: 'connect_failed' });
  await lost.close();
  const { id, number } = await plain.card.findFirst();
  await plain.card.update({ where: { id }, data: { number: number.replace(/.:\$$/, (end) => (end[0] === 'A' ? 'B' : 'A') + end.slice(1)) } });
  await assert.rejects(async () => db.card.findMany(), (error) => error.code === 'decrypt_failed' || error.code === 'invalid_envelope');
});

/** A client whose accounts and transfers are bound. */
const boundDb = (options = {}) => {
  const fields = { Account: { iban: true, note: { role: 'support' } }, Transfer: { purpose: true }, Customer: { email: true } };
  const bind = { Account: { field: 'id', make: randomUUID }, Transfer: 'id' };
  return plain.$extends(sealFields({ client, datamodel: Prisma.dmmf.datamodel, fields, bind, ...options }));
};
const IBAN = 'DE02120300000000202051';

/** Checks that the values in the tables open in the context of their record, and in no other. */
const checkStored = async () => {
  let count = 0;
  for (const [model, names] of [['Account', ['iban', 'note']], ['Transfer', ['purpose']]]) {
    for (const row of await plain.$queryRawUnsafe(`select * from ${model}`)) {
      for (const name of names.filter((field) => row[field] !== null)) {
        assert.match(row[name], /^ev:WEF/);
        await client.decrypt(row[name], { context: `${model}/${row.id}/${name}` });
        await assert.rejects(client.decrypt(row[name], { context: `${model}/${row.id}/other` }), { code: 'decrypt_failed' });
        count += 1;
      }
    }
  }
  return count;
};

test('bound values are written and read by every way that shows the id', async () => {
  const bound = boundDb();
  const data = { iban: IBAN, note: 'a', transfers: { create: [{ id: 1, purpose: 'rent' }, { id: 2, purpose: 'food', amount: 3 }] } };
  const copy = structuredClone(data);
  const first = await bound.account.create({ data, include: { transfers: true } });
  assert.deepEqual(data, copy);
  assert.match(first.id, /^[0-9a-f-]{36}$/);
  assert.deepEqual([first.iban, first.note, ...first.transfers.map(({ purpose }) => purpose)], [IBAN, 'a', 'rent', 'food']);
  const { id } = first;
  await bound.account.createMany({ data: [{ iban: '2' }, { id: 'own id/with a slash', iban: '3', note: null }, { id: Prisma.skip, iban: '4' }] });
  assert.deepEqual((await bound.account.createManyAndReturn({ data: [{ iban: '5' }], select: { iban: true } })), [{ iban: '5' }]);
  assert.equal((await bound.account.update({ where: { id }, data: { iban: { set: '11' }, note: Prisma.skip } })).iban, '11');
  await bound.account.updateMany({ where: { id: { equals: id }, owner: null }, data: { note: 'b' } });
  // What writes no sealed value needs no id.
  await bound.account.updateMany({ where: { note: { not: null } }, data: { owner: null, note: Prisma.skip } });
  const upsert = { where: { id: 'new' }, create: { id: 'new', iban: '6' }, update: { iban: '66' } };
  assert.deepEqual([(await bound.account.upsert(upsert)).iban, (await bound.account.upsert(upsert)).iban], ['6', '66']);
  await bound.account.update({
    where: { id },
    data: {
      note: null,
      transfers: {
        update: [{ where: { id: 1 }, data: { purpose: 'rent 2' } }],
        updateMany: { where: { id: 2, amount: 3 }, data: { purpose: 'food 2' } },
        upsert: { where: { id: 3 }, create: { id: 3, purpose: 'three' }, update: { purpose: 'no' } },
        createMany: { data: [{ id: 4, purpose: 'four' }] },
        connectOrCreate: { where: { id: 5 }, create: { id: 5, purpose: 'five' } },
      },
    },
  });
  await bound.transfer.update({ where: { id: 1 }, data: { account: { update: { where: { id }, data: { note: 'c' } } } } });
  const other = { create: { id: 'other', iban: '8' }, where: { id: 'other' } };
  await bound.transfer.update({ where: { id: 5 }, data: { account: { connectOrCreate: other } } });
  await bound.transfer.create({ data: { id: 6, purpose: 'six', accountId: id } });
  await bound.$transaction([bound.account.create({ data: { iban: '7', transfers: { create: { id: 7, purpose: 'seven' } } } })]);
  assert.equal(await checkStored(), 16);

  const purposes = (rows) => rows.map(({ purpose }) => purpose);
  const inOrder = { orderBy: { id: 'asc' } };
  assert.deepEqual(purposes(await bound.transfer.findMany(inOrder)), ['rent 2', 'food 2', 'three', 'four', 'five', 'six', 'seven']);
  // The id is read where it is not selected, and does not show.
  const selected = await bound.account.findFirst({ where: { id }, select: { iban: true, transfers: { take: 1, ...inOrder, select: { purpose: true } } } });
  assert.deepEqual(selected, { iban: '11', transfers: [{ purpose: 'rent 2' }] });
  assert.deepEqual(await bound.account.findFirst({ where: { id }, omit: { id: true } }), { iban: '11', note: 'c', owner: null });
  const nested = await bound.transfer.findFirst({ where: { id: 6 }, include: { account: { omit: { id: true } } } });
  assert.deepEqual(nested.account, { iban: '11', note: 'c', owner: null });
  assert.deepEqual(await bound.account.findFirst({ where: { id }, select: { owner: true } }), { owner: null });
  assert.deepEqual(await bound.account.findFirst({ where: { id }, select: { id: true, iban: true } }), { id, iban: '11' });
  const fluent = bound.account.findUnique({ where: { id } }).transfers({ ...inOrder, take: 2, select: { purpose: true } });
  assert.deepEqual(await fluent, [{ purpose: 'rent 2' }, { purpose: 'food 2' }]);
  assert.deepEqual(await bound.transfer.findUnique({ where: { id: 6 } }).account({ select: { iban: true } }), { iban: '11' });
  const { iban } = await bound.account.count({ select: { iban: true } });
  assert.equal(iban, await plain.account.count());
  assert.equal((await bound.account.delete({ where: { id: 'new' }, select: { iban: true } })).iban, '66');
});

test('a bound value does not open in another record or field', async () => {
  const bound = boundDb();
  const [a, b] = [await bound.account.create({ data: { iban: 'a', note: 'n' } }), await bound.account.create({ data: { iban: 'b', note: 'm' } })];
  const rows = { a: await plain.account.findUnique({ where: { id: a.id } }), b: await plain.account.findUnique({ where: { id: b.id } }) };
  const plaintext = { ...rows.a, iban: IBAN };
  const publicKey = { ...rows.a, iban: await client.encrypt(IBAN, { scheme: 'public-key' }) };
  for (const [changed, code] of [
    [{ ...rows.a, iban: rows.b.iban }, 'decrypt_failed'], [{ ...rows.a, note: rows.a.iban }, 'decrypt_failed'],
    [{ ...rows.a, iban: rows.a.note }, 'decrypt_failed'], [publicKey, 'decrypt_failed'], [plaintext, 'invalid_envelope'],
  ]) {
    await plain.account.update({ where: { id: a.id }, data: changed });
    const where = { id: { in: [a.id, b.id] } };
    await assert.rejects(async () => bound.account.findMany({ where }), { code });
    const shown = await boundDb({ decrypt: { onFailure: 'null' } }).account.findMany({ where, orderBy: { id: 'asc' } });
    const opened = Object.fromEntries(shown.map(({ id, iban, note }) => [id, [iban, note]]));
    assert.deepEqual(opened[b.id], ['b', 'm']);
    assert.ok(opened[a.id].includes(null) && !opened[a.id].includes(IBAN));
    // What is left is an envelope, which no program takes for a value.
    const leaving = async () => boundDb({ decrypt: { onFailure: 'leave' } }).account.findMany({ where });
    if (code === 'invalid_envelope') await assert.rejects(leaving, { code });
    else {
      const left = (await leaving()).find(({ id }) => id === a.id);
      const expected = Object.entries({ iban: 'a', note: 'n' }).map(([name, opened]) => (changed[name] === rows.a[name] ? opened : changed[name]));
      assert.deepEqual([left.iban, left.note], expected);
      assert.ok(expected.some(isEnvelope));
    }
  }
  await plain.account.update({ where: { id: a.id }, data: rows.a });
  assert.equal((await bound.account.findUnique({ where: { id: a.id } })).iban, 'a');
  // A whole record under another id, too.
  await plain.account.create({ data: { ...rows.a, id: 'copy' } });
  await assert.rejects(async () => bound.account.findUnique({ where: { id: 'copy' } }), { code: 'decrypt_failed' });
  await plain.account.delete({ where: { id: 'copy' } });
});

test('no text of a bound field that is not an envelope is read, whatever happens to failures', async () => {
  const id = 'plain text';
  await boundDb().account.create({ data: { id, iban: IBAN, note: 'n', transfers: { create: [{ id: 900, purpose: 'p' }, { id: 901, purpose: 'q' }] } } });
  const reads = (db) => [
    () => db.account.findUnique({ where: { id } }),
    () => db.account.findMany({ where: { id }, select: { iban: true } }),
    () => db.account.update({ where: { id }, data: { owner: null } }),
    () => db.transfer.findFirst({ where: { id: 900 }, include: { account: true } }),
    () => db.account.findUnique({ where: { id } }).transfers({ take: 1, include: { account: true } }),
  ];
  const envelope = (await plain.account.findUnique({ where: { id } })).iban;
  for (const text of [IBAN, '', 'ev:', 'ev: not one', `${envelope} `, ` ${envelope}`, 'true', '5', 'null']) {
    await plain.account.update({ where: { id }, data: { iban: text } });
    for (const onFailure of [undefined, 'fail', 'leave']) {
      for (const read of reads(boundDb({ decrypt: { onFailure } }))) {
        // The engine itself refuses what it takes for a malformed envelope, unless it leaves such.
        const message = onFailure === 'leave' ? /^Account\/plain text\/iban: / : /./;
        await assert.rejects(async () => read(), { code: 'invalid_envelope', message }, `${onFailure}: ${text}: ${read}`);
      }
    }
    const [found] = await boundDb({ decrypt: { onFailure: 'null' } }).account.findMany({ where: { id } });
    assert.deepEqual([found.iban, found.note], [null, 'n']);
  }
  // Fields of models that are not bound keep what the option says.
  const customer = await plain.customer.create({ data: { name: 'plain', email: 'plain@example.com' } });
  const shown = await boundDb({ decrypt: { onFailure: 'leave' } }).customer.findUnique({ where: { id: customer.id } });
  assert.equal(shown.email, 'plain@example.com');
  await plain.transfer.deleteMany({ where: { accountId: id } });
  await plain.account.delete({ where: { id } });
  await plain.customer.delete({ where: { id: customer.id } });
});

test('an operation that does not show the id of a bound record is refused', async () => {
  const bound = boundDb();
  const { id } = await bound.account.create({ data: { iban: 'x', owner: 'owner', transfers: { create: { id: 100, purpose: 'p' } } } });
  const before = await plain.transfer.count() + await plain.account.count();
  for (const [call, words] of [
    // The database makes the id.
    [() => bound.transfer.create({ data: { purpose: 'p', accountId: id } }), /set when the record is created.*randomUUID/],
    [() => bound.transfer.createMany({ data: [{ id: 101, purpose: 'p', accountId: id }, { purpose: 'p', accountId: id }] }), /when the record is created/],
    [() => bound.account.create({ data: { iban: 'y', transfers: { create: [{ purpose: 'p' }] } } }), /Transfer.purpose.*when the record is created/],
    [() => bound.account.create({ data: { id: '', iban: 'y' } }), /when the record is created/],
    [() => bound.account.create({ data: { id: id.toUpperCase(), iban: 'y' } }), /lower case/],
    [() => boundDb({ bind: { Account: 'id' } }).account.create({ data: { iban: 'y' } }), /when the record is created/],
    [() => bound.account.upsert({ where: { id: 'z' }, create: { iban: 'y' }, update: { iban: 'y', id: 'q' } }), /cannot be changed/],
    // Another condition finds the record, or several.
    [() => bound.account.update({ where: { owner: 'owner' }, data: { iban: 'y' } }), /`where` must name the one record/],
    [() => bound.account.updateMany({ where: { id: { in: [id] } }, data: { iban: 'y' } }), /`where` must name/],
    [() => bound.account.updateMany({ where: { OR: [{ id }] }, data: { iban: 'y' } }), /`where` must name/],
    [() => bound.account.updateMany({ data: { iban: 'y' } }), /`where` must name/],
    [() => bound.account.upsert({ where: { owner: 'owner' }, create: { iban: 'y' }, update: { iban: 'y' } }), /`where` must name/],
    [() => bound.transfer.update({ where: { id: 100 }, data: { account: { update: { iban: 'y' } } } }), /Account.iban.*`where` must name/],
    [() => bound.account.update({ where: { id }, data: { transfers: { updateMany: { where: {}, data: { purpose: 'y' } } } } }), /`where` must name/],
    // The id of a record with sealed values does not change.
    [() => bound.account.update({ where: { id }, data: { id: 'other' } }), /cannot be changed/],
    [() => bound.transfer.updateMany({ data: { id: { increment: 1 } } }), /cannot be changed/],
  ]) {
    await assert.rejects(async () => call(), (error) => error.code === 'invalid_params' && words.test(error.message), String(call));
  }
  assert.equal(await plain.transfer.count() + await plain.account.count(), before);
  assert.equal((await bound.account.findUnique({ where: { id } })).iban, 'x');
  // Another extension, or the client's own options, may leave the id out.
  const generated = require('../node_modules/.cache/prisma');
  const hiding = new generated.PrismaClient({ adapter: new PrismaLibSql({ url: `file:${join(folder, 'test.db')}` }), omit: { account: { id: true } } });
  const fields = { Account: { iban: true, note: true } };
  const hidden = hiding.$extends(sealFields({ client, datamodel: Prisma.dmmf.datamodel, fields, bind: { Account: 'id' } }));
  await assert.rejects(async () => hidden.account.findFirst(), { code: 'invalid_params', message: /must be read with/ });
  await hiding.$disconnect();
});

test('what models are bound to is checked', () => {
  const { datamodel } = Prisma.dmmf;
  const fields = { Account: { iban: true, owner: true }, Card: { number: { curve: 'k1' } } };
  for (const [bind, options] of [
    [{ Nothing: 'id' }], [{ Customer: 'id' }], [{ Account: 'missing' }], [{ Account: 'iban' }], [{ Account: { field: 'owner' } }],
    [{ Card: 'id' }], [{ Account: 'transfers' }],
    [{ Account: 'id' }, { encrypt: { context: 'all' } }], [{ Account: 'id' }, { encrypt: { scheme: 'public-key' } }], [{ Account: 'id' }, { encrypt: { curve: 'r1' } }],
  ]) {
    assert.throws(() => sealFields({ client, datamodel, fields, bind, ...options }), { code: 'invalid_settings', message: /^bind: / }, JSON.stringify(bind));
  }
});

test('the fields are checked against the schema', () => {
  for (const fields of [{ Nothing: { a: true } }, { Card: { month: true } }, { Card: { missing: true } }]) {
    assert.throws(() => sealFields({ client, datamodel: Prisma.dmmf.datamodel, fields }), { code: 'invalid_settings' });
  }
});
