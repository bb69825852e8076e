'use strict';

// The contract of @ronomon/crypto-async as enumerable properties; what this package adds is not enumerable, so that whoever lists or
// copies the exports finds exactly those of the contract.

const constants = require('./lib/constants.js');
const { cipher, hash, hmac } = require('./lib/contract.js');

Object.assign(exports, { cipher, hash, hmac }, constants);
