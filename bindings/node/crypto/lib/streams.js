'use strict';

// Messages in pieces: hash, HMAC and ciphers as objects with `update`, as `stream.Transform`, and over async iterables.
//
// Short pieces are processed at once; long ones on the pool, one at a time.

const { Buffer } = require('node:buffer');
const { Readable, Transform } = require('node:stream');

const {
  E_AAD,
  E_IV,
  E_KEY,
  E_TAG,
  E_TAG_INVALID,
} = require('./constants.js');
const check = require('./check.js');
const { findCipher, findHash, findHmac } = require('./algorithms.js');
const o = require('./operation.js');
const { copy, isResizable, sendOther } = require('./pending.js');
const { values } = require('./settings.js');

const { header, native, NOTHING } = o;
const { DIRECT, SOURCE_OFFSET, SOURCE_SIZE, STATUS, TARGET_OFFSET, WRITTEN } = o.slots;
const { AAD, TARGET } = o.bits;

/** A piece as bytes. Strings are UTF-8 unless an encoding is given. */
function toChunk(chunk, encoding) {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding);
  if (!ArrayBuffer.isView(chunk)) throw new TypeError('a chunk must be a string or a buffer');
  return o.toBytes(chunk);
}

/** Describes a piece of a stream in the header. */
function describe(source, hasTarget) {
  header[DIRECT] = hasTarget ? TARGET : 0;
  header[SOURCE_OFFSET] = 0;
  header[SOURCE_SIZE] = source.byteLength;
  header[TARGET_OFFSET] = 0;
}

/** What all streams have in common. */
class Pieces extends Transform {
  #handle;
  #hasTarget;
  /** Whether a piece is being processed on the pool. */
  #isBusy = false;
  #isEnded = false;

  constructor(open, hasTarget, options) {
    super(options);
    this.#handle = open();
    const status = header[STATUS];
    if (status !== 0) throw o.failed(status);
    this.#hasTarget = hasTarget;
  }

  /** Processes a piece at once; returns what it gives. */
  _processNow(chunk) {
    this._mustBeReady();
    const target = this.#hasTarget ? Buffer.allocUnsafeSlow(chunk.byteLength) : NOTHING;
    describe(chunk, this.#hasTarget);
    native.update_stream(this.#handle, chunk, target);
    const status = header[STATUS];
    if (status !== 0) throw o.failed(status);
    return target;
  }

  _mustBeReady() {
    if (this.#isBusy) throw new Error('the stream is processing a chunk on another thread');
    if (this.#isEnded) throw new Error('the stream has ended');
  }

  /** Ends the message; `size` bytes go to or come from the shared memory. */
  _finishNow(size) {
    this._mustBeReady();
    this.#isEnded = true;
    header[WRITTEN] = size;
    native.finish_stream(this.#handle);
    const status = header[STATUS];
    if (status !== 0) throw o.failed(status);
  }

  _transform(chunk, encoding, callback) {
    let bytes;
    try {
      bytes = toChunk(chunk, encoding);
      if (bytes.byteLength <= values.autoSizeMax) {
        const result = this._processNow(bytes);
        callback(null, result.byteLength === 0 ? undefined : result);
        return;
      }
      this._mustBeReady();
      this.#processOnPool(bytes, callback);
    } catch (error) {
      callback(error);
    }
  }

  #processOnPool(chunk, callback) {
    const bytes = isResizable(chunk) ? copy(chunk, 0, chunk.byteLength) : chunk;
    const target = this.#hasTarget ? Buffer.allocUnsafeSlow(bytes.byteLength) : NOTHING;
    const done = (error) => {
      this.#isBusy = false;
      // Outside of the group of results, so that an exception of a listener is the listener's.
      process.nextTick(callback, error ?? null, error || !this.#hasTarget ? undefined : target);
    };
    sendOther(done, undefined, [bytes, target, this.#handle], () => {
      describe(bytes, this.#hasTarget);
      native.submit_stream(this.#handle, bytes, target);
    });
    this.#isBusy = true;
  }

  /** The chunks that the stream makes of those of an iterable. */
  async *through(iterable) {
    yield* Readable.from(iterable).compose(this);
  }
}

/** A hash or an HMAC in pieces. As a stream it emits the digest at the end. */
class DigestStream extends Pieces {
  #size;
  #digest;

  constructor(algorithm, key, options) {
    const open = () => {
      o.describe(algorithm, 0, 0, 0, 0);
      header[DIRECT] = o.describeKey(key, 0, key.byteLength);
      return native.open_stream(undefined, undefined, key);
    };
    super(open, false, options);
    this.#size = algorithm.size;
  }

  /** Takes the next piece, on this thread. */
  update(chunk, encoding) {
    this._processNow(toChunk(chunk, encoding));
    return this;
  }

  /** Ends the message: its digest, as a Buffer, or as a string in an encoding. */
  digest(encoding) {
    if (this.#digest === undefined) {
      this._finishNow(this.#size);
      this.#digest = Buffer.alloc(this.#size);
      o.getTarget(this.#digest, 0, this.#size);
    }
    return encoding === undefined ? Buffer.from(this.#digest) : this.#digest.toString(encoding);
  }

  _flush(callback) {
    let digest;
    try {
      digest = this.digest();
    } catch (error) {
      callback(error);
      return;
    }
    callback(null, digest);
  }
}

/** What the ciphers have in common. */
class CipherPieces extends Pieces {
  constructor(name, encrypt, key, iv, { aad = NOTHING, tag = NOTHING, tagSize = tag.byteLength, ...options } = {}) {
    check.algorithm(name);
    const algorithm = findCipher(name);
    check.view(key, E_KEY);
    check.view(iv, E_IV);
    check.view(aad, E_AAD);
    check.view(tag, E_TAG);
    check.sizes(algorithm, key.byteLength, iv.byteLength, aad.byteLength, tagSize);
    const open = () => {
      o.describe(algorithm, encrypt, 0, 0, 0);
      // The tag is not needed before the end.
      let direct = o.describeCipher(algorithm, encrypt, key, 0, iv, 0, NOTHING, 0, 0);
      if (o.describeAad(aad, 0, aad.byteLength) !== 0) direct |= AAD;
      header[DIRECT] = direct;
      return native.open_stream(undefined, undefined, key, undefined, aad);
    };
    super(open, true, options);
  }

  /** Processes the next piece, on this thread. */
  update(chunk, encoding) {
    return this._processNow(toChunk(chunk, encoding));
  }
}

/** A message being encrypted. With a cipher that authenticates, `tag` is available after the end. */
class EncryptStream extends CipherPieces {
  #tagSize;
  #tag;

  constructor(name, key, iv, options = {}) {
    const isAead = typeof name === 'string' && findCipher(name).isAead;
    const tagSize = options.tagSize ?? (isAead ? 16 : 0);
    super(name, 1, key, iv, { ...options, tag: NOTHING, tagSize });
    this.#tagSize = tagSize;
  }

  /** Ends the message. Returns its tag, which is empty for a cipher that does not authenticate. */
  final() {
    this._finishNow(this.#tagSize);
    this.#tag = Buffer.alloc(this.#tagSize);
    o.getTarget(this.#tag, 0, this.#tagSize);
    return this.#tag;
  }

  /** The tag, after the end; undefined before. */
  get tag() {
    return this.#tag;
  }

  _flush(callback) {
    try {
      this.final();
    } catch (error) {
      callback(error);
      return;
    }
    callback();
  }
}

/**
 * A message being decrypted by a cipher that authenticates. Its output is NOT authenticated before the end: until `final` has returned, or
 * the stream has emitted `end`, nobody may act on it. On a wrong tag the stream emits `error` instead, and what was received must be
 * discarded.
 */
class UnverifiedDecryptStream extends CipherPieces {
  #tag;

  constructor(name, key, iv, tag, options = {}) {
    check.view(tag, E_TAG);
    if (typeof name === 'string' && !findCipher(name).isAead) check.fail(E_TAG_INVALID);
    super(name, 0, key, iv, { ...options, tag, tagSize: tag.byteLength });
    this.#tag = Buffer.from(o.toBytes(tag));
  }

  /** Ends the message and checks the tag. Throws `corrupt` if it is wrong. */
  final() {
    o.putTarget(this.#tag);
    this._finishNow(this.#tag.length);
  }

  _flush(callback) {
    try {
      this.final();
    } catch (error) {
      callback(error);
      return;
    }
    callback();
  }
}

/** A message being decrypted by a cipher that does not authenticate: nothing shows whether the output is what was encrypted. */
class UnauthenticatedDecryptStream extends CipherPieces {
  constructor(name, key, iv, options = {}) {
    if (typeof name === 'string' && findCipher(name).isAead) check.fail(E_TAG_INVALID);
    super(name, 0, key, iv, { ...options, tag: NOTHING, tagSize: 0 });
  }

  /** Ends the message. */
  final() {
    this._finishNow(0);
  }

  _flush(callback) {
    this.final();
    callback();
  }
}

function digestStream(find, name, key, options) {
  check.algorithm(name);
  const algorithm = find(name);
  check.view(key, E_KEY);
  return new DigestStream(algorithm, key, options);
}

const streams = {
  hash: (name, options) => digestStream(findHash, name, NOTHING, options),
  hmac: (name, key, options) => digestStream(findHmac, name, key, options),
  encrypt: (name, key, iv, options) => new EncryptStream(name, key, iv, options),
  unverifiedDecrypt: (name, key, iv, tag, options) => new UnverifiedDecryptStream(name, key, iv, tag, options),
  unauthenticatedDecrypt: (name, key, iv, options) => new UnauthenticatedDecryptStream(name, key, iv, options),
};

module.exports = { streams };
