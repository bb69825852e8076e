// The real Node SDK against the API, in a process of its own: Node reads NODE_EXTRA_CA_CERTS once, when it starts, and the SDK its
// EV_API_URL. Cases come as JSON on standard input, one answer for each goes out: { ok } or { error, message }.

import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';

const Evervault = createRequire(import.meta.url)('@evervault/sdk');
const { APP, KEY, CURVE } = process.env;
const sdk = new Evervault(APP, KEY, { curve: CURVE });

const isBytes = (value) => value !== null && typeof value === 'object' && Object.keys(value).join() === 'base64';
const native = (value) => (isBytes(value) ? Buffer.from(value.base64, 'base64') : value);
const plain = (value) => (Buffer.isBuffer(value) ? { base64: value.toString('base64') } : value);

const calls = {
  round_trip: async ({ data, role }) => sdk.decrypt(await sdk.encrypt(native(data), role)),
  encrypt: ({ data, role }) => sdk.encrypt(native(data), role),
  decrypt: ({ data }) => sdk.decrypt(native(data)),
  token: ({ data, expiry }) => sdk.createClientSideDecryptToken(data, expiry),
  token_by_date: ({ data }) => sdk.createClientSideDecryptToken(data, new Date(Math.floor(Date.now() / 1000) * 1000 + 60_999)),
};

const answers = [];
for (const call of JSON.parse(await text(process.stdin))) {
  try {
    answers.push({ ok: plain(await calls[call.do](call)) });
  } catch (error) {
    answers.push({ error: error.type ?? error.name, message: error.message });
  }
}
// The SDK's timers would keep the process.
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
