// The real Node SDK as an application uses it through an outbound relay: what it is to do comes on standard input, what came of it
// goes out on standard output. Where API, relay and authority are, the environment says.

import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';

const require = createRequire(import.meta.url);
// The object whose `request` the SDK replaces in its global modes.
const https = require('node:https');
const Evervault = require('@evervault/sdk');

const { mode, url, data, role, plain } = JSON.parse(await text(process.stdin));

/** One POST of JSON. */
function post(target, body, agent) {
  return new Promise((resolve, reject) => {
    const { hostname, port, pathname } = new URL(target);
    const options = { hostname, port, path: pathname, method: 'POST', headers: { 'Content-Type': 'application/json' } };
    if (agent) options.agent = agent;
    const request = https.request(options, async (answer) => resolve({ status: answer.statusCode, body: await text(answer) }));
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });
}

let outcome;
try {
  const evervault = new Evervault(process.env.APP, process.env.KEY);
  const agent = mode === 'agent' ? evervault.createRelayHttpsAgent() : undefined;
  if (mode === 'global') await evervault.enableOutboundRelay();
  if (mode === 'domains') await evervault.enableOutboundRelay({ decryptionDomains: ['localhost'] });
  const sealed = plain ? data : await evervault.encrypt(data, role ?? null);
  outcome = { sealed, ...(await post(url, sealed, agent)) };
} catch (error) {
  outcome = { error: String(error.message ?? error) };
}
// Its timers would keep the process.
process.stdout.write(JSON.stringify(outcome), () => process.exit(0));
