// Starts an engine for development and the application: `npm start`, then open the printed address.
//
//   PORT        port of the page; 3000 by default, 0 for any
//   LEAFSEAL   the program; `leafseal` on the PATH by default
//   DATA        folder of the keystore and the database; .data by default

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Client } from '@leafseal/client';

import { createApp } from './app.mjs';

const { PORT = '3000', LEAFSEAL = 'leafseal', DATA = '.data' } = process.env;
const APP = 'app_example';

mkdirSync(DATA, { recursive: true });
const settings = ['operator.address=127.0.0.1:0', 'api.address=127.0.0.1:0'].flatMap((setting) => ['--set', setting]);
const command = ['--dir', join(DATA, 'leafseal'), 'dev', '--app', APP, '--port', '0', '--no-relay', '--json', ...settings];
const engine = spawn(LEAFSEAL, command, { stdio: ['ignore', 'pipe', 'inherit'] });
engine.on('error', (error) => {
  console.error(`cannot start ${LEAFSEAL}: ${error.message}; put leafseal on the PATH, or its path into LEAFSEAL`);
  process.exit(1);
});
const [line] = await once(createInterface({ input: engine.stdout }), 'line');
const { address, ca, certificate, key } = JSON.parse(line);

const client = await Client.connect({ addresses: address, ca, certificate, key, app: APP });
const { app, close } = createApp(client, join(DATA, 'cards.db'));
const server = app.listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    server.close();
    server.closeIdleConnections();
    // Finishes calls in flight.
    await client.close();
    close();
    engine.kill('SIGTERM');
    await once(engine, 'exit');
    process.exit(0);
  });
}
