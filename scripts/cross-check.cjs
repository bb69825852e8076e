// Compares the package in the folder that the argument names with Node's own crypto: `node scripts/cross-check.cjs FOLDER`. For modules that
// were built on another machine; the tests of the package itself need one of their own.

'use strict';

const assert = require('node:assert/strict');
const theirs = require('node:crypto');

const ours = require(process.argv[2]);

const key = theirs.randomBytes(32);
const iv = theirs.randomBytes(12);
const aad = theirs.randomBytes(20);

for (const size of [0, 1, 15, 16, 17, 255, 4096, 100_003]) {
  const source = theirs.randomBytes(size);
  for (const name of ['sha1', 'sha256', 'sha512']) {
    assert.deepEqual(ours.hash(name, source), theirs.createHash(name).update(source).digest());
    assert.deepEqual(ours.hmac(name, key, source), theirs.createHmac(name, key).update(source).digest());
  }
  for (const name of ['aes-256-gcm', 'chacha20-poly1305']) {
    const target = Buffer.alloc(size);
    const tag = Buffer.alloc(16);
    ours.cipher(name, 1, key, 0, 32, iv, 0, 12, source, 0, size, target, 0, aad, 0, aad.length, tag, 0, 16);
    const cipher = theirs.createCipheriv(name, key, iv, { authTagLength: 16 });
    cipher.setAAD(aad, { plaintextLength: size });
    assert.deepEqual(target, Buffer.concat([cipher.update(source), cipher.final()]));
    assert.deepEqual(tag, cipher.getAuthTag());
  }
}
console.log(`${process.platform}-${process.arch}: equal to node:crypto`);
