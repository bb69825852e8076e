// The Prisma extension over a real SQLite database: what lies in the tables is sealed, what the program reads is not.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
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

test('the fields are checked against the schema', () => {
  for (const fields of [{ Nothing: { a: true } }, { Card: { month: true } }, { Card: { missing: true } }]) {
    assert.throws(() => sealFields({ client, datamodel: Prisma.dmmf.datamodel, fields }), { code: 'invalid_settings' });
  }
});
