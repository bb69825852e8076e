// The errors of the browser build: a stable code, and a message that says what is wrong, where, and what to do. No message holds a value.

/** What went wrong. Codes are stable. */
export type ErrorCode =
  /** An option, or the kind of an argument. */
  | 'invalid_option'
  /** A public key that is malformed or not a point of P-256. */
  | 'invalid_key'
  /** A value that JSON cannot hold; `path` is where. */
  | 'invalid_value'
  /** A document nested deeper than `depthMax`, or a file larger than `fileSizeMax`. */
  | 'too_large'
  /** The engine did not return a public key: it is unreachable, its answer is an error, or the page's origin is not allowed. */
  | 'key_unavailable'
  /** The browser has no WebCrypto, or the page is not a secure context. */
  | 'unsupported';

/** Every error that this build throws. */
export class LeafsealError extends Error {
  override readonly name = 'LeafsealError';
  readonly code: ErrorCode;
  /** The path of the value, such as `$.cards[0].number`, if the error is one of a value. */
  readonly path: string | undefined;

  constructor(code: ErrorCode, message: string, options: { path?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.path = options.path;
  }
}
