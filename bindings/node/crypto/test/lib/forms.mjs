// The forms in which a case can be called. Each returns what the call must leave behind, and then its outcome: bytes, a number or an error.

import { crypto } from './contract.mjs';

/** A form of the contract: `run` returns the outcome, `changes` what must have changed in memory. */
function contractForm(isZeroCopy, isAsync) {
  return {
    name: `${isZeroCopy ? 'zero-copy' : 'allocating'}, ${isAsync ? 'asynchronous' : 'synchronous'}`,
    applies: (c) => isZeroCopy || c.placing === 'apart',
    changes: (c) => (isZeroCopy ? written(c) : tagOf(c)),
    result: (c) => (isZeroCopy ? c.result.bytes?.length : c.result.bytes),
    run(c) {
      const args = isZeroCopy ? zeroCopyArgs(c) : allocatingArgs(c);
      if (!isAsync) return attempt(() => crypto[c.method](...args));
      return new Promise((resolve) => {
        crypto[c.method](...args, (error, value) => resolve(error ? { error } : { value }));
      });
    },
  };
}

export function attempt(run) {
  try {
    return { value: run() };
  } catch (error) {
    return { error };
  }
}

/** What a call with a target changes: target and tag, or a wiped target after a failed authentication. */
export function written({ result, memory }) {
  if (result.error) return { target: Buffer.alloc(memory.ranges.target.size) };
  return { target: result.bytes, ...(result.tag && { tag: result.tag }) };
}

export function tagOf({ result }) {
  return result.tag ? { tag: result.tag } : {};
}

export function zeroCopyArgs({ method, algorithm, encrypt, isTagged, memory, random }) {
  const of = (name) => memory.zeroCopy(name);
  const target = of('target').slice(0, 2);
  if (method === 'hash') return [algorithm, ...of('source'), ...target];
  if (method === 'hmac') return [algorithm, ...of('key'), ...of('source'), ...target];
  const args = [algorithm, encrypt, ...of('key'), ...of('iv'), ...of('source'), ...target];
  return isTagged || random.chance(0.2) ? [...args, ...of('aad'), ...of('tag')] : args;
}

export function allocatingArgs({ method, algorithm, encrypt, isTagged, memory, random }) {
  const of = (name) => memory.bytes(name);
  if (method === 'hash') return [algorithm, of('source')];
  if (method === 'hmac') return [algorithm, of('key'), of('source')];
  const args = [algorithm, encrypt, of('key'), of('iv'), of('source')];
  return isTagged || random.chance(0.2) ? [...args, of('aad'), of('tag')] : args;
}

/** All forms. */
export const forms = [contractForm(true, false), contractForm(true, true), contractForm(false, false), contractForm(false, true)];
