// The Node client's part of test_contexts.py.

import { createInterface } from 'node:readline';

import { Client, LeafsealError } from '../../bindings/node/client/dist/index.mjs';

const [addresses, ca, certificate, key, app] = process.argv.slice(2);
const client = await Client.connect({ addresses, ca, certificate, key, app });
for await (const line of createInterface({ input: process.stdin })) {
  const [method, ...parts] = line.split('\t');
  const contexts = parts.filter((_, index) => index % 2 === 0);
  const values = parts.filter((_, index) => index % 2 === 1);
  try {
    const results = method === 'encrypt'
      ? await client.encrypt(values, { contexts, scheme: 'symmetric' })
      : await client.decrypt(values, { contexts });
    console.log(['ok', ...results].join('\t'));
  } catch (error) {
    if (!(error instanceof LeafsealError)) throw error;
    console.log(`error\t${error.code}\t${error.index}`);
  }
}
await client.close();
