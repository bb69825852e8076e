const assert = require('node:assert/strict');
const nodeCrypto = require('node:crypto');
const crypto = require('@leafseal/crypto');

const { cipher, hash, hmac, E_CORRUPT } = crypto;
const [key, iv, source] = [Buffer.alloc(32, 1), Buffer.alloc(12, 2), Buffer.from('a message')];
assert.deepEqual(hash('sha256', source), nodeCrypto.createHash('sha256').update(source).digest());
assert.deepEqual(hmac('sha512', key, source), nodeCrypto.createHmac('sha512', key).update(source).digest());
const tag = Buffer.alloc(16);
const sealed = cipher('aes-256-gcm', 1, key, iv, source, Buffer.alloc(0), tag);
tag[3] ^= 1;
assert.throws(() => cipher('aes-256-gcm', 0, key, iv, sealed, Buffer.alloc(0), tag), { message: E_CORRUPT });
tag[3] ^= 1;
cipher('aes-256-gcm', 0, key, iv, sealed, Buffer.alloc(0), tag, (error, opened) => {
  assert.equal(error, undefined);
  assert.deepEqual(opened, source);
  crypto.promises.hash('sha256', source).then((digest) => {
    assert.deepEqual(digest, hash('sha256', source));
    console.log('ok');
  });
});
