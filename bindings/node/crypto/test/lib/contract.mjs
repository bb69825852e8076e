// The contract of @ronomon/crypto-async 5.0.1, as far as tests need it: constants, algorithms and the shapes of the calls. Written from its
// documentation and its observed behaviour.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** The package under test. `CRYPTO` names another implementation of the contract, such as the original. */
export const crypto = require(process.env.CRYPTO ?? '../..');

export const MESSAGES = {
  E_AAD: 'aad must be a buffer',
  E_AAD_INVALID: 'aadSize invalid',
  E_AAD_OFFSET: 'aadOffset must be an unsigned integer',
  E_AAD_RANGE: 'aadOffset + aadSize > aad.length',
  E_AAD_SIZE: 'aadSize must be an unsigned integer',
  E_ALGORITHM: 'algorithm must be a string',
  E_ALGORITHM_DISABLED: 'algorithm disabled',
  E_ALGORITHM_UNKNOWN: 'algorithm unknown',
  E_ARGUMENTS: 'wrong number of arguments',
  E_BUFFER_LENGTH: 'buffer.length > INT_MAX',
  E_CALLBACK: 'callback must be a function',
  E_CANCELLED: 'asynchronous task was cancelled',
  E_CORRUPT: 'corrupt',
  E_ENCRYPT: 'encrypt must be 0 or 1',
  E_IV: 'iv must be a buffer',
  E_IV_INVALID: 'ivSize invalid',
  E_IV_OFFSET: 'ivOffset must be an unsigned integer',
  E_IV_RANGE: 'ivOffset + ivSize > iv.length',
  E_IV_SIZE: 'ivSize must be an unsigned integer',
  E_KEY: 'key must be a buffer',
  E_KEY_INVALID: 'keySize invalid',
  E_KEY_OFFSET: 'keyOffset must be an unsigned integer',
  E_KEY_RANGE: 'keyOffset + keySize > key.length',
  E_KEY_SIZE: 'keySize must be an unsigned integer',
  E_OOM: 'out of memory',
  E_SOURCE: 'source must be a buffer',
  E_SOURCE_OFFSET: 'sourceOffset must be an unsigned integer',
  E_SOURCE_RANGE: 'sourceOffset + sourceSize > source.length',
  E_SOURCE_SIZE: 'sourceSize must be an unsigned integer',
  E_TAG: 'tag must be a buffer',
  E_TAG_INVALID: 'tagSize invalid',
  E_TAG_OFFSET: 'tagOffset must be an unsigned integer',
  E_TAG_RANGE: 'tagOffset + tagSize > tag.length',
  E_TAG_SIZE: 'tagSize must be an unsigned integer',
  E_TARGET: 'target must be a buffer',
  E_TARGET_OFFSET: 'targetOffset must be an unsigned integer',
  E_TARGET_RANGE: 'targetOffset + targetSize > target.length',
};

/** Bytes that the original recommends to leave free behind a target. */
export const CIPHER_BLOCK_MAX = 32;

const GCM_TAGS = [4, 8, 12, 13, 14, 15, 16];
const POLY1305_TAGS = Array.from({ length: 16 }, (_, index) => index + 1);

/** Every cipher of the contract with the sizes that it accepts; no tags: without authentication. */
export const CIPHERS = {
  'aes-128-ctr': { keySize: 16, ivSize: 16, tags: [] },
  'aes-192-ctr': { keySize: 24, ivSize: 16, tags: [] },
  'aes-256-ctr': { keySize: 32, ivSize: 16, tags: [] },
  chacha20: { keySize: 32, ivSize: 16, tags: [] },
  'aes-128-gcm': { keySize: 16, ivSize: 12, tags: GCM_TAGS },
  'aes-192-gcm': { keySize: 24, ivSize: 12, tags: GCM_TAGS },
  'aes-256-gcm': { keySize: 32, ivSize: 12, tags: GCM_TAGS },
  'chacha20-poly1305': { keySize: 32, ivSize: 12, tags: POLY1305_TAGS },
};

/** Other spellings of these names. */
export const CIPHER_ALIASES = {
  'AES-256-CTR': 'aes-256-ctr',
  'Aes-128-Gcm': 'aes-128-gcm',
  'id-aes128-GCM': 'aes-128-gcm',
  'id-aes192-GCM': 'aes-192-gcm',
  'id-aes256-GCM': 'aes-256-gcm',
  ChaCha20: 'chacha20',
  'ChaCha20-Poly1305': 'chacha20-poly1305',
};

/** Known ciphers of modes that the contract refuses. */
export const DISABLED = [
  'aes-128-cbc', 'aes-192-cbc', 'aes-256-cbc', 'aes-128-ccm', 'aes-192-ccm', 'aes-256-ccm', 'aes-128-ecb', 'aes-192-ecb', 'aes-256-ecb',
  'aes-128-xts', 'aes-256-xts', 'rc4', 'aes-128-ocb', 'aes-256-cfb', 'aes-256-cfb8', 'aes-256-ofb', 'des-ede3', 'aes256', 'AES-256-CBC',
  'aes-128-cbc-hmac-sha1',
];

export const UNKNOWN_CIPHERS = ['', 'aes-256', 'aes-256-siv', 'sha256', 'aes-256-gcm ', 'aes-512-gcm', 'x'.repeat(40)];

/** Every digest of the contract with its size in bytes, and whether HMAC accepts it. */
export const DIGESTS = {
  md5: { size: 16, hmac: true },
  sha1: { size: 20, hmac: true },
  sha224: { size: 28, hmac: true },
  sha256: { size: 32, hmac: true },
  sha384: { size: 48, hmac: true },
  sha512: { size: 64, hmac: true },
  'sha512-224': { size: 28, hmac: true },
  'sha512-256': { size: 32, hmac: true },
  'sha3-224': { size: 28, hmac: true },
  'sha3-256': { size: 32, hmac: true },
  'sha3-384': { size: 48, hmac: true },
  'sha3-512': { size: 64, hmac: true },
  shake128: { size: 16, hmac: false },
  shake256: { size: 32, hmac: false },
  blake2s256: { size: 32, hmac: true },
  blake2b512: { size: 64, hmac: true },
  ripemd160: { size: 20, hmac: true },
  sm3: { size: 32, hmac: true },
  'md5-sha1': { size: 36, hmac: true },
};

/** Other spellings of these names. */
export const DIGEST_ALIASES = {
  SHA256: 'sha256',
  'sha-256': 'sha256',
  'SHA2-256': 'sha256',
  'RSA-SHA1': 'sha1',
  'RSA-SHA256': 'sha256',
  'ssl3-md5': 'md5',
  'ssl3-sha1': 'sha1',
  'BLAKE2b512': 'blake2b512',
};

export const UNKNOWN_DIGESTS = ['', 'sha', 'sha255', 'aes-256-gcm', 'sha256 ', 'x'.repeat(40)];

const KEY = ['key', 'keyOffset', 'keySize'];
const IV = ['iv', 'ivOffset', 'ivSize'];
const SOURCE = ['source', 'sourceOffset', 'sourceSize'];
const TARGET = ['target', 'targetOffset'];
const TAG = ['aad', 'aadOffset', 'aadSize', 'tag', 'tagOffset', 'tagSize'];

/** The forms of each method by name: their arguments without the callback. */
export const FORMS = {
  cipher: {
    allocating: ['algorithm', 'encrypt', 'key', 'iv', 'source'],
    'allocating with tag': ['algorithm', 'encrypt', 'key', 'iv', 'source', 'aad', 'tag'],
    'zero-copy': ['algorithm', 'encrypt', ...KEY, ...IV, ...SOURCE, ...TARGET],
    'zero-copy with tag': ['algorithm', 'encrypt', ...KEY, ...IV, ...SOURCE, ...TARGET, ...TAG],
  },
  hash: {
    allocating: ['algorithm', 'source'],
    'zero-copy': ['algorithm', ...SOURCE, ...TARGET],
  },
  hmac: {
    allocating: ['algorithm', 'key', 'source'],
    'zero-copy': ['algorithm', ...KEY, ...SOURCE, ...TARGET],
  },
};

/** The form of a call with `count` arguments, whether it has a callback, and the names of all arguments; undefined: no such form. */
export function formOf(method, count) {
  for (const names of Object.values(FORMS[method])) {
    if (count === names.length) return { names, isAsync: false, isAllocating: !names.includes('target') };
    if (count === names.length + 1) return { names: [...names, 'callback'], isAsync: true, isAllocating: !names.includes('target') };
  }
  return undefined;
}
