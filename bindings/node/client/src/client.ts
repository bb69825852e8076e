// The client: its calls, their options and results.

import {
  type Answer, type DecryptionOptions, type EncryptionOptions, type Inspection, type InspectionOptions, type Queries,
  type RewrappingOptions, type SelectionOptions, type Value, encodeDecryptDocument, encodeDecryptFile, encodeEncryptDocument,
  encodeEncryptFile, encodeInspect, encodeQuery, encodeRewrap,
} from '@leafseal/wire';

import { Calls } from './calls.js';
import { LeafsealError } from './errors.js';
import { type Method, QueryCalls } from './methods_generated.js';
import { protocolOptions } from './options.js';
import { type ClientOptions, type Settings, checked } from './settings.js';
import { LONE_SURROGATE, encodeValues, isWellFormed, readValues } from './values.js';

/** Options of every call. */
export interface CallOptions {
  /** Overrides the client's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Aborts the call: the promise rejects at once with `cancelled`, and the engine is asked to stop. */
  readonly signal?: AbortSignal;
}

/** Options of calls for an app. */
export interface AppOptions extends CallOptions {
  /** The app whose keys serve the call. Default: the client's `app`. */
  readonly app?: string;
}

/** The engine's report about values or a document. */
export interface Report {
  /** Documents and `rewrap`: how many values were encrypted, decrypted or rewrapped. */
  readonly count?: number;
  /** Documents: how many values each selector matched. */
  readonly matched: readonly number[];
  /** How many values were envelopes already and are now encrypted twice. */
  readonly resealed: number;
  /** How many envelopes were left alone because of `skipSealed`. */
  readonly skipped: number;
  /** How many envelopes to a public key `reseal` made symmetric ones of. */
  readonly rewrapped: number;
  /** How many of the values were sealed, or opened, with a symmetric key; the others have envelopes to a public key. */
  readonly symmetric: number;
  /** How many envelopes did not open, with `onFailure` of `leave` or `null`. */
  readonly failed: number;
  /** The indexes of the first of those in a list. */
  readonly failedIndexes: readonly number[];
  /** The paths of the first of those in a document. */
  readonly failedPaths: readonly string[];
}

/** Options of calls with a report. */
export interface ReportOptions {
  /** Receives the engine's report before the promise resolves. */
  readonly onReport?: (report: Report) => void;
}

/** Options of `encrypt`. */
export interface EncryptOptions extends AppOptions, ReportOptions, Readonly<EncryptionOptions> {}

/** Options of `decrypt`. */
export interface DecryptOptions extends AppOptions, ReportOptions, Readonly<DecryptionOptions> {}

/** Options of `rewrap`. */
export interface RewrapOptions extends AppOptions, ReportOptions, Readonly<RewrappingOptions> {}

/** Options of `inspect`. */
export interface InspectOptions extends AppOptions, Readonly<InspectionOptions> {}

/** Options of lists. */
export interface ListOptions {
  /**
   * The context of each value, in place of `context`: as many as there are values, those of `null` too. The engine refuses another number.
   */
  readonly contexts?: readonly string[];
}

/** Options of documents. */
export interface DocumentOptions extends Readonly<SelectionOptions> {
  /** JSONPath selectors (RFC 9535); their union. Default: every value, or every envelope. */
  readonly select?: readonly string[];
}

/** A JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json | undefined };

type WireOptions = Parameters<typeof encodeValues>[2] & Parameters<typeof encodeEncryptDocument>[1]
  & Parameters<typeof encodeDecryptDocument>[1];

/** Envelopes of values, as many; `null` stays. */
export type Encrypted<T extends readonly Value[]> = {
  [K in keyof T]: T[K] extends null ? null : null extends T[K] ? string | null : string;
};

/**
 * A client of one engine, or of several that serve the same apps. Create one for each process and share it.
 *
 * Lists and bytes must stay unchanged until the promise of their call has settled. They are not read again afterwards, however it settles.
 */
export class Client extends QueryCalls {
  private readonly settings: Settings;
  private readonly calls: Calls;

  /** Connects on the first call. @throws {LeafsealError} `invalid_settings`. */
  constructor(options: ClientOptions) {
    super();
    this.settings = checked(options);
    this.calls = new Calls(this.settings);
  }

  /** As the constructor, and connects: a wrong address or certificate is reported here. */
  static async connect(options: ClientOptions): Promise<Client> {
    const client = new Client(options);
    try {
      await client.health();
    } catch (error) {
      await client.close({ force: true });
      throw error;
    }
    return client;
  }

  /** Encrypts values. `null` stays `null`. All or none of a list are encrypted. */
  encrypt(value: null, options?: EncryptOptions): Promise<null>;
  encrypt(value: Exclude<Value, null>, options?: EncryptOptions): Promise<string>;
  encrypt<T extends readonly Value[]>(values: T, options?: EncryptOptions & ListOptions): Promise<Encrypted<T>>;
  async encrypt(values: Value | readonly Value[], options: EncryptOptions & ListOptions = {}): Promise<unknown> {
    return this.list('encrypt', values, options);
  }

  /** Decrypts envelopes. Other values are returned unchanged. */
  decrypt(value: Value, options?: DecryptOptions): Promise<Value>;
  decrypt(values: readonly Value[], options?: DecryptOptions & ListOptions): Promise<Value[]>;
  async decrypt(values: Value | readonly Value[], options: DecryptOptions & ListOptions = {}): Promise<Value | Value[]> {
    return this.list('decrypt', values, options);
  }

  /**
   * Encrypts the selected values of a JSON document. Text (a string or UTF-8 bytes) remains text, every other byte unchanged; any other
   * value is converted with `JSON.stringify`, and the result with `JSON.parse`.
   */
  encryptDocument(document: string, options?: EncryptOptions & DocumentOptions): Promise<string>;
  encryptDocument(document: Uint8Array, options?: EncryptOptions & DocumentOptions): Promise<Buffer>;
  encryptDocument<T>(document: T, options?: EncryptOptions & DocumentOptions): Promise<T>;
  async encryptDocument(document: unknown, options: EncryptOptions & DocumentOptions = {}): Promise<unknown> {
    return this.document('encrypt_document', document, options);
  }

  /** Decrypts the selected envelopes of a JSON document, as {@link encryptDocument}. In text, numbers keep their exact digits. */
  decryptDocument(document: string, options?: DecryptOptions & DocumentOptions): Promise<string>;
  decryptDocument(document: Uint8Array, options?: DecryptOptions & DocumentOptions): Promise<Buffer>;
  decryptDocument<T>(document: T, options?: DecryptOptions & DocumentOptions): Promise<T>;
  async decryptDocument(document: unknown, options: DecryptOptions & DocumentOptions = {}): Promise<unknown> {
    return this.document('decrypt_document', document, options);
  }

  /** Encrypts a file. */
  async encryptFile(data: Uint8Array, options: AppOptions & Readonly<Pick<EncryptionOptions, 'curve'>> = {}): Promise<Buffer> {
    const bytes = bytesOf(data, 'data');
    const encode = (id: number, wire: WireOptions): Buffer => encodeEncryptFile(id, wire, bytes);
    return this.call('encrypt_file', options, undefined, encode, (answer) => answer.data());
  }

  /** Decrypts a file that `encryptFile` or `leafseal encrypt` created. */
  async decryptFile(data: Uint8Array, options: AppOptions & Readonly<Pick<DecryptionOptions, 'keyId'>> = {}): Promise<Buffer> {
    const bytes = bytesOf(data, 'data');
    const encode = (id: number, wire: WireOptions): Buffer => encodeDecryptFile(id, wire, bytes);
    return this.call('decrypt_file', options, undefined, encode, (answer) => answer.data());
  }

  /** Encrypts envelopes again under the app's newest key version. `count` of them are new. */
  async rewrap(
    envelopes: readonly string[], options: RewrapOptions & ListOptions = {},
  ): Promise<{ envelopes: string[]; count: number }> {
    const { contexts } = options;
    // The type of all options has a word that those of `rewrap` do not have; the encoder refuses it.
    const encode = (id: number, wire: WireOptions): Buffer => {
      return encodeRewrap(id, wire as Parameters<typeof encodeRewrap>[1], envelopes, contexts);
    };
    return this.call('rewrap', options, envelopes.length, encode, (answer) => {
      const report = answer.report();
      options.onReport?.(report);
      return { count: report.count ?? 0, envelopes: readValues(answer) as string[] };
    });
  }

  /**
   * Returns the metadata of envelopes, never their values. With an app in `options`, also the fields inside, which requires the permission
   * to decrypt; the client's `app` is not used here.
   */
  inspect(envelope: string, options?: InspectOptions): Promise<Inspection>;
  inspect(envelopes: readonly string[], options?: InspectOptions): Promise<Inspection[]>;
  async inspect(envelopes: string | readonly string[], options: InspectOptions = {}): Promise<Inspection | Inspection[]> {
    const list = typeof envelopes === 'string' ? [envelopes] : envelopes;
    protocolOptions('inspect', options);
    const { app, context, accept, timeoutMs, signal } = options;
    const inspections = await this.calls.start({
      method: 'inspect', app, values: list.length, timeoutMs, signal,
      encode: (id) => encodeInspect(id, app, list, context, accept), read: (answer) => answer.inspections(),
    });
    return typeof envelopes === 'string' ? one(inspections) : inspections;
  }

  /** Calls that have not ended. */
  get callsInFlight(): number {
    return this.calls.count;
  }

  /** Accepts no more calls, finishes those in flight, and closes the connections. With `force` calls in flight fail with `closed`. */
  async close(options: { readonly force?: boolean } = {}): Promise<void> {
    await this.calls.close(options.force === true);
  }

  private async list(
    method: 'encrypt' | 'decrypt', values: unknown, options: EncryptOptions & DecryptOptions & ListOptions,
  ): Promise<Value | Value[]> {
    const isList = Array.isArray(values);
    const list = (isList ? values : [values]) as Value[];
    const { onReport, contexts } = options;
    const encode = (id: number, wire: WireOptions): Buffer => encodeValues(id, method, wire, list, contexts);
    const result = await this.call(method, options, list.length, encode, (answer) => {
      onReport?.(answer.report());
      return readValues(answer);
    });
    if (result.length !== list.length) throw new LeafsealError('protocol_error', 'the engine returned another number of values');
    return isList ? result : one(result);
  }

  private async document(
    method: 'encrypt_document' | 'decrypt_document',
    document: unknown,
    options: EncryptOptions & DecryptOptions & DocumentOptions,
  ): Promise<unknown> {
    const isText = typeof document === 'string' || document instanceof Uint8Array;
    const bytes = isText ? bytesOf(document, 'document') : jsonOf(document);
    const { select, onReport } = options;
    const encoder = method === 'encrypt_document' ? encodeEncryptDocument : encodeDecryptDocument;
    const text = await this.call(method, options, undefined, (id, wire) => encoder(id, wire, bytes, select), (answer) => {
      onReport?.(answer.report());
      return answer.document();
    });
    if (document instanceof Uint8Array) return text;
    return isText ? text.toString() : (JSON.parse(text.toString()) as unknown);
  }

  /** Makes a call for an app. */
  private async call<T>(
    method: Method,
    options: EncryptOptions & DecryptOptions & DocumentOptions,
    values: number | undefined,
    encode: (id: number, wire: WireOptions) => Buffer,
    read: (answer: Answer) => T,
  ): Promise<T> {
    const app = this.appOf(options);
    const { timeoutMs, signal } = options;
    const wire: WireOptions = { ...protocolOptions(method, options), app, frameSizeMax: this.settings.requestSizeMax, deadlineMs: 0 };
    return this.calls.start({
      method, app, values, timeoutMs: checkedTimeout(timeoutMs), signal, read,
      encode: (id, deadlineMs) => {
        wire.deadlineMs = deadlineMs;
        return encode(id, wire);
      },
    });
  }

  protected appOf(options: AppOptions): string {
    const app = options.app ?? this.settings.app;
    if (typeof app !== 'string') throw new LeafsealError('invalid_params', 'app: set it in the options of the call or of the client');
    return app;
  }

  protected async query<M extends keyof Queries>(
    method: M, params: Queries[M]['params'], options: AppOptions,
  ): Promise<Queries[M]['result']> {
    protocolOptions(method, options);
    const { timeoutMs, signal } = options;
    return this.calls.start({
      method, app: 'app' in params ? params.app : undefined, values: undefined, timeoutMs: checkedTimeout(timeoutMs), signal,
      encode: (id) => encodeQuery(id, method, params), read: (answer) => answer.resultOf(method),
    });
  }
}

function one<T>(list: readonly T[]): T {
  if (list.length !== 1) throw new LeafsealError('protocol_error', 'the engine returned another number of values');
  return list[0] as T;
}

function checkedTimeout(timeoutMs: number | undefined): number | undefined {
  if (timeoutMs === undefined || (Number.isSafeInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= 2_147_483_647)) return timeoutMs;
  throw new LeafsealError('invalid_params', 'timeoutMs must be an integer from 1 to 2147483647');
}

function bytesOf(data: unknown, name: string): Uint8Array {
  if (data instanceof Uint8Array) return data;
  if (typeof data === 'string') {
    if (!isWellFormed(data)) throw new LeafsealError('invalid_params', `${name}: ${LONE_SURROGATE}`);
    return Buffer.from(data);
  }
  throw new LeafsealError('invalid_params', `${name}: expected a Buffer or Uint8Array`);
}

function jsonOf(document: unknown): Buffer {
  let text;
  try {
    // Undefined for functions, symbols and undefined, which its type does not say.
    text = JSON.stringify(document) as string | undefined;
  } catch (error) {
    // Such as a cycle or a BigInt. The cause may name properties, never values.
    throw new LeafsealError('invalid_params', 'document: JSON cannot represent it', { cause: error });
  }
  if (text === undefined) throw new LeafsealError('invalid_params', 'document: JSON cannot represent it');
  return Buffer.from(text);
}
