// The settings of a client, their defaults and checks.

import { readFile } from 'node:fs/promises';

import { TIMER_MAX_MS } from './clock.js';
import { LeafsealError } from './errors.js';
import type { Observer } from './observer.js';
import { RULES } from './rules_generated.js';

/** A certificate or key: a path, which is read again for each connection, or PEM text. */
export type PemSource = string | Uint8Array;

/** The options of a client. Only the first four are required. */
export interface ClientOptions {
  /** `HOST:PORT` of one or more engines that serve the same apps. The port defaults to 3443. */
  readonly addresses: string | readonly string[];
  /** The authority that signs the engines' certificates. */
  readonly ca: PemSource;
  /** The client's certificate, with intermediate certificates if there are any. */
  readonly certificate: PemSource;
  /** The key of the certificate. */
  readonly key: PemSource;
  /** The app of calls that name none. */
  readonly app?: string;
  /** The name in the engines' certificates. Default: the host of each address. */
  readonly serverName?: string;
  /** Time limit of a call in milliseconds, retries included; also sent to the engine. Default 30,000. */
  readonly timeoutMs?: number;
  /** Time limit of a connection attempt in milliseconds, TLS included. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Maximum open connections. Another one, to the next address, is opened while all are busy. Default 2. */
  readonly connectionsMax?: number;
  /** Maximum requests in flight on each connection. Default 128; the engine stops reading at 256. */
  readonly requestsInFlightMax?: number;
  /** Bytes of requests in flight at which further calls wait. Default 128 MiB. */
  readonly bytesInFlightMax?: number;
  /** Maximum calls that wait for a connection or a free slot on one; further ones fail with `busy`. Default 16,384. */
  readonly requestsWaitingMax?: number;
  /** Maximum bytes of a request. Default 1 GiB, the engine's limit. */
  readonly requestSizeMax?: number;
  /** Maximum bytes of an answer. Default 1 GiB. */
  readonly answerSizeMax?: number;
  /** Maximum retries of a call that no engine executes. Default 4; 0 disables retries. */
  readonly retriesMax?: number;
  /** First pause after a failed connection and before a retry, in milliseconds; it doubles each time. Default 50. */
  readonly backoffMinMs?: number;
  /** Longest such pause in milliseconds. Default 5,000. */
  readonly backoffMaxMs?: number;
  /** How long a cancelled request may stay unanswered before its connection counts as dead, in milliseconds. Default 30,000. */
  readonly abandonedTimeoutMs?: number;
  /** Observers of calls and connections: metrics, traces. */
  readonly observers?: readonly Observer[];
}

const LIMIT_MAX = 4_294_967_295;

/** Name, default, minimum and maximum of each numeric option. */
const NUMBERS = {
  timeoutMs: [RULES.request_timeout_ms, 1, TIMER_MAX_MS],
  connectTimeoutMs: [RULES.connect_timeout_ms, 1, TIMER_MAX_MS],
  connectionsMax: [RULES.connections_max, 1, 1024],
  requestsInFlightMax: [RULES.requests_in_flight_max, 1, 65_536],
  bytesInFlightMax: [128 * 1024 * 1024, 1, Number.MAX_SAFE_INTEGER],
  requestsWaitingMax: [16_384, 0, LIMIT_MAX],
  requestSizeMax: [1 << 30, 1, LIMIT_MAX],
  answerSizeMax: [1 << 30, 1, LIMIT_MAX],
  retriesMax: [RULES.retries_max, 0, 1000],
  backoffMinMs: [RULES.backoff.min_ms, 1, TIMER_MAX_MS],
  backoffMaxMs: [RULES.backoff.max_ms, 1, TIMER_MAX_MS],
  abandonedTimeoutMs: [RULES.abandoned_timeout_ms, 1, TIMER_MAX_MS],
} as const;

type Numbers = { readonly [Name in keyof typeof NUMBERS]: number };

/** Checked settings. */
export interface Settings extends Numbers {
  readonly addresses: readonly Address[];
  readonly ca: PemSource;
  readonly certificate: PemSource;
  readonly key: PemSource;
  readonly app: string | undefined;
  readonly serverName: string | undefined;
  readonly observers: readonly Observer[];
}

/** Where an engine listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

const PORT = 3443;

/** @throws {LeafsealError} `invalid_settings`. */
export function checked(options: ClientOptions): Settings {
  const list = typeof options.addresses === 'string' ? [options.addresses] : options.addresses;
  if (!Array.isArray(list) || list.length === 0) throw invalid('addresses: expected HOST:PORT or a list of at least one');
  const numbers = Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, number(options, name as keyof Numbers)]));
  const settings = {
    ...(numbers as unknown as Numbers),
    addresses: list.map(address),
    ca: pem(options, 'ca'),
    certificate: pem(options, 'certificate'),
    key: pem(options, 'key'),
    app: options.app,
    serverName: options.serverName,
    observers: options.observers ?? [],
  };
  if (settings.backoffMaxMs < settings.backoffMinMs) throw invalid('backoffMaxMs must be at least backoffMinMs');
  return settings;
}

function invalid(message: string): LeafsealError {
  return new LeafsealError('invalid_settings', message);
}

function number(options: ClientOptions, name: keyof Numbers): number {
  const [standard, least, most] = NUMBERS[name];
  const value = options[name] ?? standard;
  if (!Number.isSafeInteger(value) || value < least || value > most) throw invalid(`${name} must be an integer from ${least} to ${most}`);
  return value;
}

function pem(options: ClientOptions, name: 'ca' | 'certificate' | 'key'): PemSource {
  const value: unknown = options[name];
  if ((typeof value === 'string' && value !== '') || value instanceof Uint8Array) return value;
  throw invalid(`${name}: expected the path of a PEM file, or PEM text`);
}

/** Parses `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`. */
function address(text: unknown): Address {
  const match = typeof text === 'string' ? /^(?:\[([0-9A-Fa-f:.%]+)\]|([^:[\]\s/]+))(?::(\d{1,5}))?$/.exec(text) : null;
  const host = match?.[1] ?? match?.[2];
  const port = match?.[3] === undefined ? PORT : Number(match[3]);
  if (host === undefined || port < 1 || port > 65_535) throw invalid('addresses: expected HOST:PORT, such as engine.internal:3443');
  return { host, port };
}

/** Reads a certificate or key, a file each time. */
export async function readPem(source: PemSource, name: string): Promise<string | Buffer> {
  if (typeof source !== 'string') return Buffer.from(source.buffer, source.byteOffset, source.byteLength);
  if (source.includes('-----BEGIN')) return source;
  try {
    return await readFile(source);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new LeafsealError('tls_failed', `${name}: cannot read the file ${source} (${code ?? 'unknown error'})`, { cause: error });
  }
}
