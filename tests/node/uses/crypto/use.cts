import crypto = require("@leafseal/crypto");
const { CIPHER_BLOCK_MAX, E_CORRUPT, cipher, hash, hmac, promises } = crypto;

const [key, iv, source, tag] = [Buffer.alloc(32), Buffer.alloc(12), Buffer.from('a message'), Buffer.alloc(16)];
const sealed: Buffer = cipher('aes-256-gcm', 1, key, iv, source, Buffer.alloc(0), tag);
const written: number = cipher('aes-256-ctr', 0, key, 0, 32, Buffer.alloc(16), 0, 16, source, 0, 9, sealed, 0);
cipher('aes-256-gcm', 0, key, iv, sealed, Buffer.alloc(0), tag, (error: Error | undefined, opened?: Buffer) => {
  if (error?.message === E_CORRUPT) throw error;
  console.log(opened?.length, written + CIPHER_BLOCK_MAX);
});
hmac('sha256', key, 0, 32, source, 0, 9, new Uint8Array(32), 0, (error: Error | undefined, size?: number) => { console.log(error, size); });
const digest: Buffer = hash('sha256', source);
const later: Promise<Buffer> = promises.hash('sha256', source, { signal: new AbortController().signal });
// @ts-expect-error a key is a buffer
hmac('sha256', 'key', source);
// @ts-expect-error no such form
hash('sha256');
export = [crypto, digest, later];
