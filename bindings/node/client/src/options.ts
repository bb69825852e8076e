// The options of a call, by name. One that the method does not have is refused: it may be a misspelt role, without which more callers could
// read the values.

import { LeafsealError } from './errors.js';
import type { Method } from './methods_generated.js';
import { OPTIONS } from './options_generated.js';

/** Options of all calls, which are not data of the protocol. */
const OF_CLIENTS = ['app', 'timeoutMs', 'signal'];
const OF_REPORTS = 'onReport';
const OF_DOCUMENTS = 'select';
const OF_LISTS = 'contexts';

const OF_VALUES = [...new Set([...Object.values(OPTIONS).flat(), OF_REPORTS, OF_DOCUMENTS, OF_LISTS])];
const ALL = [...OF_VALUES, ...OF_CLIENTS];

/** The options that each method does not have; of those that are not listed, all of the protocol. */
const FOREIGN = new Map((Object.keys(OPTIONS) as Method[]).map((method) => {
  const isOfDocuments = method.endsWith('_document');
  const own = new Set([...OPTIONS[method] ?? [], ...OF_CLIENTS]);
  if (isOfDocuments) own.add(OF_DOCUMENTS);
  const isOfLists = ['encrypt', 'decrypt', 'rewrap'].includes(method);
  if (isOfLists) own.add(OF_LISTS);
  if (isOfDocuments || isOfLists) own.add(OF_REPORTS);
  return [method, ALL.filter((name) => !own.has(name))];
}));

type Bag = Readonly<Record<string, unknown>>;

/**
 * The options that are data of the protocol: own ones, inherited ones and those of getters.
 *
 * @throws {LeafsealError} `invalid_params` for an option that the method does not have.
 */
export function protocolOptions(method: Method, options: object): Record<string, unknown> {
  const bag = options as Bag;
  for (const name in bag) {
    if (!ALL.includes(name) && isSet(bag[name])) {
      throw new LeafsealError('invalid_params', `${JSON.stringify(name)}: there is no such option`);
    }
  }
  for (const name of FOREIGN.get(method) ?? OF_VALUES) {
    if (isSet(bag[name])) throw new LeafsealError('invalid_params', `${name}: not an option of ${method}`);
  }
  const own: Record<string, unknown> = {};
  for (const name of OPTIONS[method] ?? []) own[name] = bag[name];
  return own;
}

/** A copy, into which inherited options and those of getters come, too. */
export function copied<T extends object>(options: T): T {
  const copy: Record<string, unknown> = {};
  for (const name in options) copy[name] = options[name];
  for (const name of ALL) {
    if (name in options) copy[name] = (options as Bag)[name];
  }
  return copy as T;
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false;
}
