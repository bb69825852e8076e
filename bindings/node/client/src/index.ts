// @leafseal/client: encrypts and decrypts with a Leafseal engine.

export {
  Client, type AppOptions, type CallOptions, type DecryptOptions, type DocumentOptions, type Encrypted, type EncryptOptions,
  type InspectOptions, type Json, type ListOptions, type Report,
} from './client.js';
export type { KnownErrorCode } from './codes_generated.js';
export { LeafsealError, type ErrorCode, type ErrorDetails, type Retry } from './errors.js';
export type * from './methods_generated.js';
export type { CallEnd, CallStart, ConnectionEvent, Observer } from './observer.js';
export type { ClientOptions, PemSource } from './settings.js';
export { createClientToken, type ClientToken, type TokenOptions } from './tokens.js';
export type { Value } from '@leafseal/wire';
