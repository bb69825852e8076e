// Reads the keys of a scenario file that belong to this engine; docs/load.md describes them. Artillery itself reads the others.

import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createSecureContext } from 'node:tls';

import type { Path, Problem } from './fields';
import { type Fields, Value } from './fields';

/** The parts of Artillery's script that are read here. Values are untrusted until they are checked. */
export interface Script {
  config: Record<string, unknown>;
  scenarios?: unknown[];
  /** Path of the scenario file, if Artillery provides it. */
  _scriptPath?: string;
}

/** The engine's address and the client's credentials. */
export interface Target {
  readonly host: string;
  readonly port: number;
  /** The name in the engine's certificate. */
  readonly serverName: string;
  readonly key: string;
  readonly cert: string;
  readonly ca: string;
  /** Connections that the users share. */
  readonly connections: number;
}

/** A kind of request. */
export interface Kind {
  readonly numEncrypts: number;
  readonly fieldSize: number;
  readonly curve?: 'r1' | 'k1';
  readonly keying?: 'field' | 'request' | 'session';
  readonly decrypt: boolean;
  /** Milliseconds after the request was sent. */
  readonly cancelAfter?: number;
  readonly app: string;
}

/** One step of a user. Times in milliseconds. */
export type Step =
  | { readonly send: Kind }
  | { readonly think: number }
  | { readonly count: number; readonly loop: readonly Step[] };

/** The relevant parts of `config`. */
export interface Config {
  readonly target: Target;
  readonly app: string;
  readonly rpc: string;
  /** Health requests on each connection before the first user. */
  readonly warmUp: number;
  /** The folder that relative paths refer to. */
  readonly folder: string;
  /** Total duration of the phases, in milliseconds. */
  readonly phasesMs: number;
}

const E3_KEYS = ['port', 'key', 'cert', 'ca', 'rpc', 'app', 'connections', 'serverName', 'warmUp'] as const;
const SEND_KEYS = ['numEncrypts', 'fieldSize', 'curve', 'keying', 'decrypt', 'cancelAfter', 'app'] as const;
const STEP_KEYS = ['send', 'think', 'loop', 'count'] as const;
const SCENARIO_KEYS = ['name', 'engine', 'weight', 'every', 'flow'] as const;
/** Keys that Artillery's HTTP plugins add to every scenario. */
const PLUGIN_KEYS = ['beforeRequest', 'afterResponse', 'onError'] as const;
/** Keys of Artillery's HTTP engine that call functions of the user. */
const HOOK_KEYS = ['beforeScenario', 'afterScenario'] as const;
const PORT = 3443;
const APP = 'app_dev';
const RPC = '@leafseal/wire';
const CONNECTIONS = 2;
const CONNECTIONS_MAX = 1000;
const WARM_UP = 100;
const WARM_UP_MAX = 100_000;
const NUM_ENCRYPTS_MAX = 1_000_000;
const FIELD_SIZE = 32;
const FIELD_SIZE_MAX = 1 << 20;
/** Maximum bytes of all values of a request. */
const CONTENT_SIZE_MAX = 256 << 20;
const COUNT_MAX = 1_000_000;
const DEPTH_MAX = 16;
const DAY_SECONDS = 86_400;
const PEM_BEGINS = '-----BEGIN';

/** Reads `config`. Returns `undefined` if it is invalid, and adds to `problems`. */
export function readConfig(script: Script, problems: Problem[]): Config | undefined {
  const before = problems.length;
  const config = new Value(script.config, ['config'], problems).map();
  const folder = script._scriptPath === undefined ? process.cwd() : dirname(resolve(script._scriptPath));
  const target = config?.required('target')?.text();
  const e3 = config?.required('e3')?.map(E3_KEYS);
  const phasesMs = config ? readPhases(config) : 0;
  if (!config || !e3) return undefined;

  const [host, portOfTarget] = hostAndPort(target ?? '');
  const port = e3.or('port', portOfTarget ?? PORT, (value) => value.whole(1, 65_535));
  if (portOfTarget !== undefined && e3.has('port')) {
    config.get('target')?.note('the port is set here and in config.e3.port: remove one of them');
  }
  const cert = e3.required('cert')?.text();
  const read = {
    key: readPem(e3.required('key'), folder),
    cert: readPem(e3.get('cert'), folder),
    ca: readAuthority(e3, cert, folder),
  };
  const serverName = e3.or('serverName', host, (value) => value.text());
  const connections = e3.or('connections', CONNECTIONS, (value) => value.whole(1, CONNECTIONS_MAX));
  const warmUp = e3.or('warmUp', WARM_UP, (value) => value.whole(0, WARM_UP_MAX));
  const app = e3.or('app', APP, (value) => value.text());
  const rpc = e3.or('rpc', RPC, (value) => value.text());
  const { key, cert: chain, ca } = read;
  if (problems.length > before || key === undefined || chain === undefined || ca === undefined) return undefined;
  const whole: Target = { host, port, serverName, key, cert: chain, ca, connections };
  checkCertificates(whole, e3);
  return problems.length > before ? undefined : { target: whole, app, rpc, warmUp, folder, phasesMs };
}

/** Splits `HOST:PORT`, `HOST`, or an IPv6 address with or without brackets. */
function hostAndPort(target: string): [string, number | undefined] {
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(target);
  if (match) return [match[1] ?? match[2] ?? '', Number(match[3])];
  return [target.replace(/^\[(.*)\]$/, '$1'), undefined];
}

/** Checks the phases before the run, where Artillery would fail during it. Returns their total duration in milliseconds. */
function readPhases(config: Fields): number {
  let sum = 0;
  for (const phase of config.get('phases')?.list() ?? []) {
    const fields = phase.map();
    if (fields?.has('connections')) fields.get('connections')?.note('closed phases are supported by `leafseal load` only');
    const time = fields?.get('pause') ?? fields?.get('duration');
    sum += time?.time('from 0', 7 * DAY_SECONDS) ?? 0;
  }
  return sum;
}

function readPem(value: Value | undefined, folder: string): string | undefined {
  const text = value?.text();
  if (value === undefined || text === undefined || text.startsWith(PEM_BEGINS)) return text;
  return readText(value, join(resolve(folder, text)));
}

function readText(value: Value, path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    return value.note(`cannot read ${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
  }
}

/** The path of `ca`, or of `ca.pem` next to the client's certificate. */
function readAuthority(e3: Fields, cert: string | undefined, folder: string): string | undefined {
  const given = e3.get('ca');
  if (given || cert === undefined) return readPem(given, folder);
  if (cert.startsWith(PEM_BEGINS)) return e3.get('cert')?.note('the key `ca` is required because `cert` is PEM text');
  const beside = join(dirname(resolve(folder, cert)), 'ca.pem');
  if (existsSync(beside)) return readFileSync(beside, 'utf8');
  return e3.get('cert')?.note(`there is no ${beside}: name the engine's authority in \`ca\``);
}

/** Checks that key and certificates are usable. The library's message does not contain them. */
function checkCertificates(target: Target, e3: Fields): void {
  const checks: [string, () => unknown][] = [
    ['ca', () => new X509Certificate(target.ca)],
    ['cert', () => createSecureContext({ cert: target.cert })],
    ['key', () => createSecureContext({ cert: target.cert, key: target.key })],
  ];
  for (const [name, check] of checks) {
    try {
      check();
    } catch (error) {
      const value = e3.get(name) ?? e3.get('cert');
      value?.note(`${name} cannot be used: ${error instanceof Error ? error.message : String(error)}`);
      return;
    }
  }
}

/** Reads the steps of a scenario. `kinds` holds each distinct kind of request once. */
export function readFlow(spec: unknown, path: Path, app: string, kinds: Map<string, Kind>, problems: Problem[]): Step[] {
  const scenario = new Value(spec, path, problems).map(SCENARIO_KEYS, [...PLUGIN_KEYS, ...HOOK_KEYS]);
  for (const key of HOOK_KEYS) scenario?.get(key)?.note('functions are not called by this engine (README.md, "Not supported")');
  scenario?.get('every')?.note('`every` is supported by `leafseal load` only');
  const steps = scenario?.required('flow')?.list() ?? [];
  return steps.flatMap((step) => readStep(step, app, kinds, 1) ?? []);
}

function readStep(value: Value, app: string, kinds: Map<string, Kind>, depth: number): Step | undefined {
  const step = value.map(STEP_KEYS);
  if (!step) return undefined;
  const forms = ['send', 'think', 'loop'].filter((form) => step.has(form));
  if (forms.length !== 1) return value.note('a step must have exactly one of send, think, loop');
  if (step.has('count') && !step.has('loop')) return value.note('`count` requires `loop`');
  if (step.has('send')) {
    const send = readSend(step.get('send'), app, kinds);
    return send && { send };
  }
  if (step.has('think')) {
    const think = step.get('think')?.time('above 0', DAY_SECONDS);
    return think === undefined ? undefined : { think };
  }
  if (depth > DEPTH_MAX) return step.get('loop')?.note(`loops must be nested at most ${DEPTH_MAX} deep`);
  const count = step.required('count')?.whole(1, COUNT_MAX);
  const loop = (step.get('loop')?.list() ?? []).flatMap((inner) => readStep(inner, app, kinds, depth + 1) ?? []);
  return count === undefined ? undefined : { count, loop };
}

function readSend(value: Value | undefined, app: string, kinds: Map<string, Kind>): Kind | undefined {
  const send = value?.map(SEND_KEYS);
  if (!value || !send) return undefined;
  const numEncrypts = send.required('numEncrypts')?.whole(1, NUM_ENCRYPTS_MAX);
  const fieldSize = send.or('fieldSize', FIELD_SIZE, (size) => size.whole(1, FIELD_SIZE_MAX));
  const curve = send.get('curve')?.word(['r1', 'k1'] as const);
  const keying = send.get('keying')?.word(['field', 'request', 'session'] as const);
  const decrypt = send.or('decrypt', false, (yes) => yes.boolean());
  const cancelAfter = send.get('cancelAfter')?.time('above 0', DAY_SECONDS);
  const name = send.or('app', app, (text) => text.text());
  if (numEncrypts === undefined) return undefined;
  if (numEncrypts * fieldSize > CONTENT_SIZE_MAX) {
    return value.note(`numEncrypts times fieldSize must be at most ${CONTENT_SIZE_MAX} bytes`);
  }
  const kind: Kind = {
    numEncrypts,
    fieldSize,
    ...(curve && { curve }),
    ...(keying && { keying }),
    decrypt,
    ...(cancelAfter !== undefined && { cancelAfter }),
    app: name,
  };
  const words = JSON.stringify(kind);
  const known = kinds.get(words) ?? kind;
  kinds.set(words, known);
  return known;
}
