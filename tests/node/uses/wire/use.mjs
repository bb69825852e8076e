import assert from 'node:assert/strict';
import wire from '@leafseal/wire';

assert.ok(Buffer.isBuffer(wire.encodeEncrypt(1, { app: 'acme' }, ['a', 1])));
assert.equal(new wire.Decoder().next(), null);
console.log('ok');
