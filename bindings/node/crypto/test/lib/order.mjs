// A model of the contract's validation: which check of a call fails first. Independent of the implementation: it reads the arguments by name
// and runs the checks in the documented order.

import { CIPHERS, CIPHER_ALIASES, DIGESTS, DIGEST_ALIASES, DISABLED, formOf } from './contract.mjs';

const INT_MAX = 2147483647;

/** The first fault of a call, such as `E_KEY`; undefined if the call is valid. */
export function firstFault(method, args) {
  const form = formOf(method, args.length);
  if (!form) return 'E_ARGUMENTS';
  const call = Object.fromEntries(form.names.map((name, index) => [name, args[index]]));
  return firstOf(checks(method, form, call));
}

/** Runs checks until one fails. Later ones may rely on what earlier ones have checked. */
function firstOf(list) {
  for (const check of list) {
    const fault = check();
    if (fault) return fault;
  }
  return undefined;
}

function checks(method, form, call) {
  const callback = form.isAsync ? [() => typeof call.callback !== 'function' && 'E_CALLBACK'] : [];
  if (form.isAllocating) {
    const buffers = ['key', 'iv', 'source', 'aad', 'tag'].filter((name) => form.names.includes(name));
    return [
      ...buffers.map((name) => () => !Buffer.isBuffer(call[name]) && `E_${upper(name)}`),
      ...callback,
      () => firstOf(ranges(method, expand(method, call))),
    ];
  }
  const isCallbackFirst = method === 'cipher' && !form.names.includes('tag');
  const rest = ranges(method, method === 'cipher' && isCallbackFirst ? { ...call, ...NO_TAG } : call);
  return isCallbackFirst ? [...callback, ...rest] : [...rest, ...callback];
}

const NO_TAG = { aad: Buffer.alloc(0), aadOffset: 0, aadSize: 0, tag: Buffer.alloc(0), tagOffset: 0, tagSize: 0 };

/** The zero-copy call that an allocating call stands for. */
function expand(method, call) {
  const full = { ...NO_TAG, ...call };
  for (const name of ['key', 'iv', 'source', 'aad', 'tag']) {
    full[`${name}Offset`] = 0;
    full[`${name}Size`] = full[name]?.length;
  }
  const size = method === 'cipher' ? full.source.length : 64;
  return { ...full, target: Buffer.alloc(size), targetOffset: 0 };
}

/** The checks of a zero-copy call. */
function ranges(method, call) {
  const typed = {
    cipher: ['encrypt', 'key', 'iv', 'source', 'target', 'aad', 'tag'],
    hash: ['source', 'target'],
    hmac: ['key', 'source', 'target'],
  }[method];
  return [
    () => algorithm(method, call.algorithm),
    ...typed.flatMap((name) => types(name, call)),
    ...typed.filter((name) => name !== 'encrypt').map((name) => () => range(method, name, call)),
    ...(method === 'cipher' ? sizes(call) : []),
  ];
}

function algorithm(method, name) {
  if (typeof name !== 'string') return 'E_ALGORITHM';
  if (method === 'cipher') {
    if (DISABLED.includes(name)) return 'E_ALGORITHM_DISABLED';
    return !CIPHERS[CIPHER_ALIASES[name] ?? name] && 'E_ALGORITHM_UNKNOWN';
  }
  return !DIGESTS[DIGEST_ALIASES[name] ?? name] && 'E_ALGORITHM_UNKNOWN';
}

/** The checks of an argument's own type and of its offset and size. */
function types(name, call) {
  if (name === 'encrypt') return [() => call.encrypt !== 0 && call.encrypt !== 1 && 'E_ENCRYPT'];
  const numbers = name === 'target' ? ['targetOffset'] : [`${name}Offset`, `${name}Size`];
  return [
    () => !ArrayBuffer.isView(call[name]) && `E_${upper(name)}`,
    ...numbers.map((number) => () => !isUnsigned(call[number]) && `E_${upper(number)}`),
  ];
}

/** Between 2^31 and 2^53 the original refuses an offset, and this package accepts it where the buffer is so long: left out of the probes. */
function isUnsigned(value) {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= INT_MAX;
}

function range(method, name, call) {
  const size = name === 'target' ? resultSize(method, call) : call[`${name}Size`];
  return call[`${name}Offset`] + size > call[name].byteLength && `E_${upper(name)}_RANGE`;
}

function resultSize(method, call) {
  return method === 'cipher' ? call.sourceSize : DIGESTS[DIGEST_ALIASES[call.algorithm] ?? call.algorithm].size;
}

function sizes(call) {
  const cipher = () => CIPHERS[CIPHER_ALIASES[call.algorithm] ?? call.algorithm];
  const isTag = (size) => (cipher().tags.length === 0 ? size === 0 : cipher().tags.includes(size));
  return [
    () => call.keySize !== cipher().keySize && 'E_KEY_INVALID',
    () => call.ivSize !== cipher().ivSize && 'E_IV_INVALID',
    () => cipher().tags.length === 0 && call.aadSize !== 0 && 'E_AAD_INVALID',
    () => !isTag(call.tagSize) && 'E_TAG_INVALID',
  ];
}

/** `keyOffset` as the constants write it: `KEY_OFFSET`. */
function upper(name) {
  return name.replace(/[A-Z]/, (letter) => `_${letter}`).toUpperCase();
}
