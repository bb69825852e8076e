'use strict';

// The contract of @ronomon/crypto-async as enumerable properties. What this package adds is not enumerable, so that whoever lists or
// copies the exports finds exactly those of the contract.

const constants = require('./lib/constants.js');
const { cipher, hash, hmac } = require('./lib/contract.js');
const { auto, promises } = require('./lib/promises.js');
const { batch } = require('./lib/batch.js');
const { configure, settings } = require('./lib/settings.js');
const { streams } = require('./lib/streams.js');

Object.assign(exports, { cipher, hash, hmac }, constants);

for (const [name, value] of Object.entries({ auto, batch, configure, promises, settings, streams })) {
  Object.defineProperty(exports, name, { value, writable: true, configurable: true, enumerable: false });
}
