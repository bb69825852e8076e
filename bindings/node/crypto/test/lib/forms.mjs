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

/** The result of a call with a target: target and tag, or a wiped target after a failed authentication. */
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

/** A form that returns a promise; `namespace` is `promises` or `auto`. */
function promiseForm(namespace, isZeroCopy) {
  return {
    ...contractForm(isZeroCopy, true),
    name: `${namespace}, ${isZeroCopy ? 'zero-copy' : 'allocating'}`,
    run(c) {
      const args = isZeroCopy ? zeroCopyArgs(c) : allocatingArgs(c);
      if (c.random.chance(0.2)) args.push({ signal: new AbortController().signal });
      return crypto[namespace][c.method](...args).then((value) => ({ value }), (error) => ({ error }));
    },
  };
}

/** The message of a case in random pieces, some of them empty. */
function piecesOf({ memory, random }) {
  const source = memory.bytes('source');
  const pieces = [];
  for (let at = 0; at < source.length || random.chance(0.2);) {
    const size = random.below(Math.min(source.length - at, random.pick([1, 20, 300, 70_000, 1 << 20])) + 1);
    pieces.push(source.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

function openStream(c) {
  const { method, algorithm, encrypt, isTagged, memory } = c;
  const of = (name) => memory.bytes(name);
  if (method === 'hash') return crypto.streams.hash(algorithm);
  if (method === 'hmac') return crypto.streams.hmac(algorithm, of('key'));
  const options = isTagged ? { aad: of('aad'), tagSize: memory.ranges.tag.size } : {};
  if (encrypt) return crypto.streams.encrypt(algorithm, of('key'), of('iv'), options);
  if (isTagged) return crypto.streams.unverifiedDecrypt(algorithm, of('key'), of('iv'), of('tag'), { aad: of('aad') });
  return crypto.streams.unauthenticatedDecrypt(algorithm, of('key'), of('iv'));
}

/** The output of a stream, followed by its tag. */
function streamed(c) {
  return c.result.bytes && Buffer.concat([c.result.bytes, c.result.tag ?? Buffer.alloc(0)]);
}

const updateForm = {
  name: 'stream, update',
  applies: (c) => c.placing === 'apart',
  changes: () => ({}),
  result: streamed,
  run: (c) => attempt(() => {
    const stream = openStream(c);
    const made = piecesOf(c).map((piece) => stream.update(piece));
    if (c.method !== 'cipher') return stream.digest();
    return Buffer.concat([...made, stream.final() ?? Buffer.alloc(0)]);
  }),
};

const iteratorForm = {
  ...updateForm,
  name: 'stream, async iterator',
  async run(c) {
    const made = [];
    try {
      const stream = openStream(c);
      for await (const piece of stream.through(piecesOf(c))) made.push(piece);
      return { value: Buffer.concat(stream.tag ? [...made, stream.tag] : made) };
    } catch (error) {
      return { error };
    }
  },
};

/** A batch of one operation; those of many are in batch.test.mjs. */
function batchForm(isAsync) {
  return {
    name: `batch, ${isAsync ? 'asynchronous' : 'synchronous'}`,
    applies: () => true,
    changes: written,
    result: () => 0,
    run(c) {
      const { method, algorithm, encrypt, isTagged, memory } = c;
      const numbers = Object.fromEntries(crypto.batch.FIELDS.map((field) => [field, 0]));
      const buffers = {};
      const place = (argument, buffer, offset, size) => {
        const [view, at, length] = memory.zeroCopy(argument);
        buffers[buffer] = view;
        numbers[offset] = at;
        if (size) numbers[size] = length;
      };
      place('source', 'source', 'sourceOffset', 'sourceSize');
      place('target', 'target', 'targetOffset');
      if (method !== 'hash') place('key', 'keys', 'keyOffset', method === 'hmac' ? crypto.batch.FIELDS[crypto.batch.KEY_SIZE_FIELD] : undefined);
      if (method === 'cipher') place('iv', 'ivs', 'ivOffset');
      if (isTagged) {
        place('aad', 'aad', 'aadOffset', 'aadSize');
        place('tag', 'tags', 'tagOffset');
        buffers.tagSize = memory.ranges.tag.size;
      }
      const Numbers = c.random.pick([Uint32Array, Float64Array]);
      const operations = Numbers.from(crypto.batch.FIELDS.map((field) => numbers[field]));
      const args = method === 'cipher' ? [algorithm, encrypt, buffers, operations] : [algorithm, buffers, operations];
      // A failed operation is counted, and has a status of its own.
      const outcome = (failed) => {
        const status = operations.at(-1);
        if (failed !== (status === 0 ? 0 : 1)) return { error: new Error(`${failed} failed, but the status is ${status}`) };
        return status === 0 ? { value: failed } : { error: new Error(status === 1 ? crypto.E_CORRUPT : `status ${status}`) };
      };
      if (!isAsync) return outcome(crypto.batch[method](...args));
      return crypto.batch.promises[method](...args).then(outcome, (error) => ({ error }));
    },
  };
}

const contractForms = [contractForm(true, false), contractForm(true, true), contractForm(false, false), contractForm(false, true)];

/** All forms; an implementation of nothing but the contract has four. */
export const forms = !crypto.promises ? contractForms : [
  ...contractForms,
  promiseForm('promises', true),
  promiseForm('promises', false),
  promiseForm('auto', true),
  promiseForm('auto', false),
  updateForm,
  iteratorForm,
  batchForm(false),
  batchForm(true),
];
