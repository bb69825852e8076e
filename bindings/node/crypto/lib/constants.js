'use strict';

// The constants of the contract: every message is the whole text of an error.

const RANGES = ['aad', 'iv', 'key', 'source', 'tag', 'target'];

const constants = {
  CIPHER_BLOCK_MAX: 32,
  E_ALGORITHM: 'algorithm must be a string',
  E_ALGORITHM_DISABLED: 'algorithm disabled',
  E_ALGORITHM_UNKNOWN: 'algorithm unknown',
  E_ARGUMENTS: 'wrong number of arguments',
  E_BUFFER_LENGTH: 'buffer.length > INT_MAX',
  E_CALLBACK: 'callback must be a function',
  E_CANCELLED: 'asynchronous task was cancelled',
  E_CORRUPT: 'corrupt',
  E_ENCRYPT: 'encrypt must be 0 or 1',
  E_OOM: 'out of memory',
};

for (const name of RANGES) {
  const prefix = `E_${name.toUpperCase()}`;
  constants[prefix] = `${name} must be a buffer`;
  constants[`${prefix}_OFFSET`] = `${name}Offset must be an unsigned integer`;
  constants[`${prefix}_RANGE`] = `${name}Offset + ${name}Size > ${name}.length`;
  // The size of a target is that of its source or of the digest.
  if (name !== 'target') constants[`${prefix}_SIZE`] = `${name}Size must be an unsigned integer`;
  if (name !== 'target' && name !== 'source') constants[`${prefix}_INVALID`] = `${name}Size invalid`;
}

module.exports = Object.freeze(constants);
