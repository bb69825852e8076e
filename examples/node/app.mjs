// The application: a page with a form, card numbers in SQLite.
//
// The middleware encrypts the number before this code sees the request, so the database and its backups hold envelopes only. Numbers are
// decrypted where they are needed: here to show their last four digits.

import { fileURLToPath } from 'node:url';

import { protectBody } from '@leafseal/client/express';
import Database from 'libsql';
import express from 'express';

/** Creates the application over a client of the engine and a database file. */
export function createApp(client, file) {
  const database = new Database(file);
  database.exec('create table if not exists cards (id integer primary key, holder text not null, number text not null)');
  const insert = database.prepare('insert into cards (holder, number) values (?, ?)');
  const select = database.prepare('select id, holder, number from cards order by id desc limit 100');

  const app = express();
  app.disable('x-powered-by');
  app.get('/', (_, response) => response.sendFile(fileURLToPath(new URL('page.html', import.meta.url))));
  app.get('/page.js', (_, response) => response.sendFile(fileURLToPath(new URL('page.js', import.meta.url))));

  const rules = { request: { encrypt: { select: ['$.number'], strict: true } }, requestSizeMax: 4096 };
  app.post('/cards', protectBody(client, rules), (request, response) => {
    const { holder, number } = request.body;
    if (typeof holder !== 'string' || typeof number !== 'string') {
      response.status(400).json({ message: 'holder and number must be text' });
      return;
    }
    insert.run(holder, number);
    response.status(201).json({ stored: number });
  });

  app.get('/cards', async (_, response) => {
    const rows = select.all();
    // One request to the engine for all rows.
    const numbers = await client.decrypt(rows.map(({ number }) => number), { timeoutMs: 2000 });
    response.json(rows.map(({ id, holder, number }, index) => ({ id, holder, number: masked(numbers[index]), stored: number })));
  });

  app.use((error, _request, response, _next) => {
    console.error(`${error.code ?? 'error'}: ${error.message}`);
    response.status(error.status ?? 500).json({ message: error.expose ? error.message : 'the request could not be processed' });
  });
  return { app, close: () => database.close() };
}

function masked(number) {
  return `•••• ${String(number).replace(/\D/g, '').slice(-4)}`;
}
