import assert from 'node:assert/strict';
import crypto, { CIPHER_BLOCK_MAX, E_ARGUMENTS, cipher, hash, hmac, promises } from '@leafseal/crypto';

const source = Buffer.from('a message');
assert.equal(crypto.hash, hash);
assert.equal(CIPHER_BLOCK_MAX, 32);
assert.throws(() => hash(), { message: E_ARGUMENTS });
assert.deepEqual(await promises.hash('sha256', source), hash('sha256', source));
assert.deepEqual(await promises.hmac('sha256', source, source), hmac('sha256', source, source));
const [key, iv] = [Buffer.alloc(32), Buffer.alloc(16)];
assert.deepEqual(await promises.cipher('aes-256-ctr', 1, key, iv, source), cipher('aes-256-ctr', 1, key, iv, source));
console.log('ok');
