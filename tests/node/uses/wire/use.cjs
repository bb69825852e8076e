const assert = require('node:assert/strict');
const wire = require('@leafseal/wire');

assert.ok(Buffer.isBuffer(wire.encodeEncrypt(1, { app: 'acme' }, ['a', 1])));
assert.equal(new wire.Decoder().next(), null);
console.log('ok');
