// The errors of the browser build: a stable code, and a message that says what is wrong, where, and what to do. No message holds a value.

import type { ErrorCode } from './codes_generated.js';

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
