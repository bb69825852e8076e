'use strict';

// Operations on the threads of the pool: sends them, keeps their buffers alive, and calls back when they have ended.

const { AsyncResource } = require('node:async_hooks');

const o = require('./operation.js');
const { fail } = require('./check.js');

const { native, header } = o;
const { kept, submit, take } = native;
const { AAD_OFFSET, DIRECT, ID, IS_CANCELLABLE, SOURCE_OFFSET, STATUS, TARGET_OFFSET, WRITTEN } = o.slots;
const { AAD, SOURCE, TARGET } = o.bits;
const { RESULTS_AT, RESULT_HEAD, SOURCE_AT, bytes, words } = o.results;

const RESOURCE = { requireManualDestroy: true };

/** Operations in flight by their id, and ids that are free. A buffer of an operation is reachable as long as the operation is. */
const inFlight = [];
const free = [];

/** An operation in flight. */
class Pending {
  constructor(callback, resource) {
    /** The asynchronous context of the caller, for a callback. Promises keep it by themselves. */
    this.resource = resource;
    this.id = free.length === 0 ? inFlight.length : free.pop();
    this.callback = callback;
    /** Buffers that the job uses where they are. */
    this.held = undefined;
    this.heldAad = undefined;
    /** Where the result goes; undefined when it is a buffer of its own. */
    this.target = undefined;
    this.targetOffset = 0;
    /** A private buffer that the job writes to, to be copied to the target. */
    this.detour = undefined;
    this.tag = undefined;
    this.tagOffset = 0;
    this.tagSize = 0;
    /** Whether the result is a buffer, and not a number of bytes. */
    this.returnsBuffer = false;
    /** Bytes of the target that are wiped when a decryption fails. */
    this.wipedSize = 0;
    this.error = undefined;
    this.result = undefined;
    this.onEnd = undefined;
    inFlight[this.id] = this;
  }

  /** Takes over what the native side has written, at a place of the shared memory. */
  settle(status, written, size, at) {
    release(this.id);
    if (this.onEnd !== undefined) this.onEnd();
    try {
      let failure = status;
      if (status === 0) failure = this.receive(written, size, at);
      else this.wipe();
      if (failure !== 0) this.error = o.failed(failure);
      else this.result = this.returnsBuffer ? this.target : written;
    } catch (error) {
      // The target is not what it was: detached, or a view whose fields throw.
      this.error = error;
    }
    this.held = undefined;
    this.heldAad = undefined;
    this.target = undefined;
  }

  receive(written, size, at) {
    if (this.target === undefined) this.target = o.allocate(written);
    // The buffer may have shrunk or been detached meanwhile.
    if (this.targetOffset + written > this.target.byteLength) return o.statuses.TARGET_RANGE;
    if (size !== 0) o.get(this.target, this.targetOffset, size, at + RESULT_HEAD);
    else if (this.detour !== undefined) o.toBytes(this.target).set(this.detour, this.targetOffset);
    if (this.tagSize !== 0) {
      if (this.tagOffset + this.tagSize > this.tag.byteLength) return o.statuses.TARGET_RANGE;
      o.get(this.tag, this.tagOffset, this.tagSize, at + RESULT_HEAD - 16);
    }
    return 0;
  }

  /** Wipes the target of a failed decryption. A job that writes to the target itself has wiped it. */
  wipe() {
    const isWiped = this.held !== undefined && this.detour === undefined;
    if (isWiped || this.target === undefined || this.wipedSize === 0) return;
    o.toBytes(this.target).fill(0, this.targetOffset, this.targetOffset + this.wipedSize);
  }

  call() {
    const { callback, resource, error } = this;
    if (resource === undefined) {
      callback(error, this.result);
      return;
    }
    try {
      if (error !== undefined) resource.runInAsyncScope(callback, undefined, error);
      else resource.runInAsyncScope(callback, undefined, undefined, this.result);
    } catch (thrown) {
      native.raise(thrown);
    } finally {
      resource.emitDestroy();
    }
  }
}

/** Forgets an operation. Only those in flight keep this copy of the JavaScript: the native side keeps `kept`, and it no more than that. */
function release(id) {
  inFlight[id] = undefined;
  free.push(id);
  if (free.length === inFlight.length) kept.deliver = undefined;
}

/** Called by the event loop when operations have ended: takes a group of results, then calls back. */
function deliver() {
  take();
  const count = header[WRITTEN];
  const group = [];
  let at = RESULTS_AT;
  for (let i = 0; i < count; i++) {
    const word = at / 8;
    const pending = inFlight[words[word]];
    const size = words[word + 3];
    pending.settle(words[word + 1], words[word + 2], size, at);
    group.push(pending);
    at += RESULT_HEAD + Math.ceil(size / 8) * 8;
  }
  bytes.fill(0, RESULTS_AT, at);
  for (const pending of group) pending.call();
}

let isStarted = false;

/** Makes an operation ready to be described and sent. `isInternal` callbacks never throw and need no context. */
function begin(callback, isInternal) {
  if (!isStarted) {
    native.start(deliver);
    isStarted = true;
  }
  kept.deliver = deliver;
  return new Pending(callback, isInternal ? undefined : new AsyncResource('@leafseal/crypto', RESOURCE));
}

/** Sends an operation whose arguments have been described. */
function send(pending, direct, source, target, key, aad) {
  header[DIRECT] = direct;
  header[ID] = pending.id;
  header[IS_CANCELLABLE] = pending.onEnd === undefined ? 0 : 1;
  if (direct === 0) submit();
  else submit(source, target, key, undefined, aad);
  accept(pending);
}

/** Throws if the native side has refused an operation. */
function accept(pending) {
  const status = header[STATUS];
  if (status === 0) return;
  release(pending.id);
  if (pending.onEnd !== undefined) pending.onEnd();
  throw o.failed(status);
}

/** Sends an operation of another kind: a batch or a piece of a stream. `held` are the buffers that it uses. */
function sendOther(callback, signal, held, sendNow) {
  const pending = begin(callback, true);
  pending.held = held;
  watch(pending, signal);
  header[ID] = pending.id;
  header[IS_CANCELLABLE] = pending.onEnd === undefined ? 0 : 1;
  try {
    sendNow();
  } catch (error) {
    header[STATUS] = o.statuses.INTERNAL;
    accept(pending);
    throw error;
  }
  accept(pending);
}

/** Whether the memory of a view, of any realm, may be taken away while a job uses it. That of a SharedArrayBuffer only grows. */
function isResizable(view) {
  return view.buffer.resizable === true;
}

/** A private copy of a range. */
function copy(view, offset, size) {
  return Uint8Array.prototype.slice.call(o.toBytes(view), offset, offset + size);
}

/** Passes a long source where it is, a short one in the shared memory. Returns the source to hold. */
function passSource(source, sourceOffset, sourceSize) {
  if (sourceSize <= o.COPY_SIZE_MAX) {
    o.putWhole(source, sourceOffset, sourceSize, SOURCE_AT);
    return undefined;
  }
  if (!isResizable(source)) return source;
  header[SOURCE_OFFSET] = 0;
  return copy(source, sourceOffset, sourceSize);
}

/** Runs a cipher on the pool. `target` is undefined for a result of its own. */
function cipherAsync(
  algorithm,
  encrypt,
  key,
  keyOffset,
  iv,
  ivOffset,
  source,
  sourceOffset,
  sourceSize,
  target,
  targetOffset,
  aad,
  aadOffset,
  aadSize,
  tag,
  tagOffset,
  tagSize,
  callback,
  isInternal,
  signal,
) {
  const pending = begin(callback, isInternal);
  pending.returnsBuffer = target === undefined;
  pending.targetOffset = targetOffset;
  if (encrypt === 0 && algorithm.isAead) pending.wipedSize = sourceSize;
  if (encrypt === 1) {
    pending.tag = tag;
    pending.tagOffset = tagOffset;
    pending.tagSize = tagSize;
  }
  o.describe(algorithm, encrypt, sourceOffset, sourceSize, targetOffset);
  let direct = o.describeCipher(algorithm, encrypt, key, keyOffset, iv, ivOffset, tag, tagOffset, tagSize);
  let held;
  if (o.describeAad(aad, aadOffset, aadSize) !== 0) {
    held = aad;
    if (isResizable(aad)) {
      held = copy(aad, aadOffset, aadSize);
      header[AAD_OFFSET] = 0;
    }
    direct |= AAD;
  }
  pending.heldAad = held;
  const from = passSource(source, sourceOffset, sourceSize);
  pending.held = from;
  pending.target = target;
  let to;
  if (from !== undefined) {
    direct |= SOURCE | TARGET;
    to = pending.target ??= o.allocate(sourceSize);
    if (isResizable(to)) {
      to = pending.detour = o.allocate(sourceSize);
      header[TARGET_OFFSET] = 0;
    }
  }
  watch(pending, signal);
  send(pending, direct, from, to, key, held);
}

/** Hashes on the pool, under a key unless the algorithm has none. */
function digestAsync(
  algorithm,
  key,
  keyOffset,
  keySize,
  source,
  sourceOffset,
  sourceSize,
  target,
  targetOffset,
  callback,
  isInternal,
  signal,
) {
  const pending = begin(callback, isInternal);
  pending.returnsBuffer = target === undefined;
  pending.target = target;
  pending.targetOffset = targetOffset;
  o.describe(algorithm, 0, sourceOffset, sourceSize, targetOffset);
  // A long key is hashed at once, so that it need not be held.
  let direct = o.describeKey(key, keyOffset, keySize);
  const from = passSource(source, sourceOffset, sourceSize);
  pending.held = from;
  if (from !== undefined) direct |= SOURCE;
  watch(pending, signal);
  send(pending, direct, from, undefined, key, undefined);
}

/** Cancels an operation when a signal aborts. */
function watch(pending, signal) {
  if (signal === undefined) return;
  const cancel = () => native.cancel(pending.id);
  signal.addEventListener('abort', cancel, { once: true });
  pending.onEnd = () => {
    signal.removeEventListener('abort', cancel);
    native.forget(pending.id);
  };
}

module.exports = { cipherAsync, copy, digestAsync, isResizable, sendOther };
