'use strict';

// Names of algorithms: those of the native module, their aliases, and those that are refused.

const { algorithms } = require('./native.js');
const { E_ALGORITHM_DISABLED, E_ALGORITHM_UNKNOWN } = require('./constants.js');

/** Bytes of a name that count, as in the original. */
const NAME_SIZE_MAX = 31;

/** Tag sizes of GCM (SP 800-38D, 5.2.1.2) as bits: 4, 8, and 12 to 16. */
const GCM_TAG_SIZES = 0b1_1111_0001_0001_0000;

const CIPHER_ALIASES = {
  'id-aes128-gcm': 'aes-128-gcm',
  'id-aes192-gcm': 'aes-192-gcm',
  'id-aes256-gcm': 'aes-256-gcm',
};

const DIGEST_ALIASES = {
  'sha-1': 'sha1',
  'sha2-224': 'sha224',
  'sha-224': 'sha224',
  'sha2-256': 'sha256',
  'sha-256': 'sha256',
  'sha2-384': 'sha384',
  'sha-384': 'sha384',
  'sha2-512': 'sha512',
  'sha-512': 'sha512',
  'sha2-512/224': 'sha512-224',
  'sha-512/224': 'sha512-224',
  'sha2-512/256': 'sha512-256',
  'sha-512/256': 'sha512-256',
  'blake2s-256': 'blake2s256',
  'blake2b-512': 'blake2b512',
  'shake-128': 'shake128',
  'shake-256': 'shake256',
  'ripemd-160': 'ripemd160',
  ripemd: 'ripemd160',
  rmd160: 'ripemd160',
  'rsa-md5': 'md5',
  'rsa-sha1': 'sha1',
  'rsa-sha1-2': 'sha1',
  'rsa-sha224': 'sha224',
  'rsa-sha256': 'sha256',
  'rsa-sha384': 'sha384',
  'rsa-sha512': 'sha512',
  'rsa-sha512/224': 'sha512-224',
  'rsa-sha512/256': 'sha512-256',
  'rsa-sha3-224': 'sha3-224',
  'rsa-sha3-256': 'sha3-256',
  'rsa-sha3-384': 'sha3-384',
  'rsa-sha3-512': 'sha3-512',
  'rsa-ripemd160': 'ripemd160',
  'rsa-sm3': 'sm3',
  'id-rsassa-pkcs1-v1_5-with-sha3-224': 'sha3-224',
  'id-rsassa-pkcs1-v1_5-with-sha3-256': 'sha3-256',
  'id-rsassa-pkcs1-v1_5-with-sha3-384': 'sha3-384',
  'id-rsassa-pkcs1-v1_5-with-sha3-512': 'sha3-512',
  'ssl3-md5': 'md5',
  'ssl3-sha1': 'sha1',
};

/** Ciphers that OpenSSL knows in modes that this package refuses, and block ciphers that it does not contain. */
const DISABLED = new RegExp(
  '^(?:' +
    [
      'aes(?:128|192|256)',
      'aes-(?:128|192|256)-(?:cbc|ccm|ecb|ocb|ofb|cfb|cfb1|cfb8|wrap|wrap-pad)',
      'aes-(?:128|256)-(?:xts|cbc-hmac-sha1|cbc-hmac-sha256)',
      'id-aes(?:128|192|256)-(?:ccm|wrap|wrap-pad)',
      'aes(?:128|192|256)-wrap',
      '(?:aria|camellia)-?(?:128|192|256)(?:-(?:cbc|ccm|ctr|ecb|gcm|ofb|cfb|cfb1|cfb8))?',
      'sm4(?:-(?:cbc|ctr|ecb|ofb|ofb128|cfb|cfb128))?',
      'des3?(?:-(?:cbc|ecb|ofb|cfb|cfb1|cfb8))?',
      'des-ede3?(?:-(?:cbc|ecb|ofb|cfb|cfb1|cfb8))?',
      '(?:des3-wrap|id-smime-alg-cms3deswrap|desx|desx-cbc)',
      '(?:rc4|rc4-40|rc4-hmac-md5|rc2|rc2-128|rc2-(?:40|64)-cbc|rc2-(?:cbc|ecb|ofb|cfb))',
      '(?:bf|cast5|seed|idea)(?:-(?:cbc|ecb|ofb|cfb))?',
      '(?:blowfish|cast|cast-cbc)',
      'null',
    ].join('|') +
    ')$',
);

const ciphers = new Map();
const digests = new Map();
const codes = new Map();

for (const line of algorithms.trim().split('\n')) {
  const [kind, name, number, keySize, ivSize, size] = line.split(' ');
  const algorithm = Object.freeze({
    name,
    isAead: kind === 'aead',
    isGcm: name.endsWith('-gcm'),
    number: Number(number),
    keySize: Number(keySize),
    ivSize: Number(ivSize),
    /** Bytes of a digest. */
    size: Number(size),
  });
  ({ cipher: ciphers, aead: ciphers, hash: digests, hmac: codes })[kind].set(name, algorithm);
}

function alias(found, aliases) {
  for (const [name, of] of Object.entries(aliases)) found.set(name, found.get(of));
}

alias(ciphers, CIPHER_ALIASES);
alias(digests, DIGEST_ALIASES);
alias(codes, DIGEST_ALIASES);

/** A name as it is looked up: in lower case, up to a NUL, cut where the original cuts it. */
function normalize(name) {
  const end = name.indexOf('\0');
  const text = Buffer.from(end < 0 ? name : name.slice(0, end));
  return text.subarray(0, NAME_SIZE_MAX).latin1Slice().toLowerCase();
}

/** Adds the spellings of a name that callers use, as many as there are names, so that lookups stay short. */
function remember(algorithms, name, algorithm) {
  if (algorithms.size < 256) algorithms.set(name, algorithm);
  return algorithm;
}

/** The names that were looked up last: comparing takes a tenth of a lookup. */
let lastCipherName;
let lastCipher;
let lastHashName;
let lastHash;
let lastHmacName;
let lastHmac;

function searchCipher(name) {
  const known = ciphers.get(name);
  if (known !== undefined) return known;
  const text = normalize(name);
  const found = ciphers.get(text);
  if (found !== undefined) return remember(ciphers, name, found);
  throw new Error(DISABLED.test(text) ? E_ALGORITHM_DISABLED : E_ALGORITHM_UNKNOWN);
}

function searchDigest(algorithms, name) {
  const known = algorithms.get(name);
  if (known !== undefined) return known;
  const found = algorithms.get(normalize(name));
  if (found !== undefined) return remember(algorithms, name, found);
  throw new Error(E_ALGORITHM_UNKNOWN);
}

/** The cipher of a name. */
function findCipher(name) {
  if (name === lastCipherName) return lastCipher;
  lastCipher = searchCipher(name);
  lastCipherName = name;
  return lastCipher;
}

/** The hash function of a name. */
function findHash(name) {
  if (name === lastHashName) return lastHash;
  lastHash = searchDigest(digests, name);
  lastHashName = name;
  return lastHash;
}

/** The HMAC over the hash function of a name. */
function findHmac(name) {
  if (name === lastHmacName) return lastHmac;
  lastHmac = searchDigest(codes, name);
  lastHmacName = name;
  return lastHmac;
}

/** Whether a cipher takes tags of a size; 0 for those without tags. */
function takesTagSize(cipher, size) {
  if (!cipher.isAead) return size === 0;
  if (size < 1 || size > 16) return false;
  return !cipher.isGcm || ((GCM_TAG_SIZES >>> size) & 1) === 1;
}

module.exports = {
  findCipher,
  findHash,
  findHmac,
  takesTagSize,
  names: {
    ciphers: [...ciphers.keys()].filter((name) => !(name in CIPHER_ALIASES)),
    hashes: [...digests.keys()].filter((name) => !(name in DIGEST_ALIASES)),
  },
};
