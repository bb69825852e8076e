// A Prisma Client extension that encrypts chosen fields when they are written and decrypts them when they are read.
//
// Every operation of every model passes one hook, nested writes and relations included. An operation that would compare a sealed field with
// a value is refused: envelopes of equal values differ, so it would find nothing and send the value to the database.

import type { Value } from '@leafseal/wire';

import type { Client, DecryptOptions, EncryptOptions } from './client.js';
import { LeafsealError } from './errors.js';
import { copied } from './options.js';

/** Options of one field. */
export type FieldOptions = true | Pick<EncryptOptions, 'role' | 'curve'>;

/** Options of the extension. */
export interface PrismaOptions {
  readonly client: Client;
  /** `Prisma.dmmf.datamodel` of the generated client: the models and their relations. */
  readonly datamodel: { readonly models: readonly Model[] };
  /** The sealed fields by model: `{ Card: { number: true, holder: { role: 'support' } } }`. Each must be a `String`, optional or not. */
  readonly fields: Readonly<Record<string, Readonly<Record<string, FieldOptions>>>>;
  /** Options of calls. */
  readonly encrypt?: EncryptOptions;
  readonly decrypt?: DecryptOptions;
}

/** A model in `Prisma.dmmf.datamodel`. */
export interface Model {
  readonly name: string;
  readonly fields: readonly { readonly name: string; readonly kind: string; readonly type: string; readonly isList: boolean }[];
}

/** The arguments that Prisma passes to the hook. */
export interface Operation {
  readonly model?: string;
  readonly operation: string;
  readonly args: unknown;
  readonly query: (args: unknown) => Promise<unknown>;
  /** Of a fluent call such as `findUnique(…).cards()`: the way to the part of the result that is returned. */
  readonly __internalParams?: { readonly dataPath?: readonly string[] };
}

/** The argument of `prisma.$extends`. */
export interface Extension {
  readonly name: string;
  readonly query: { readonly $allModels: { readonly $allOperations: (operation: Operation) => Promise<unknown> } };
}

type Bag = Record<string, unknown>;
/** A value to be replaced. */
interface Spot {
  readonly holder: Bag;
  readonly name: string;
  readonly options: FieldOptions;
}

/** Creates the extension for `prisma.$extends(…)`. @throws {LeafsealError} `invalid_settings`. */
export function sealFields(options: PrismaOptions): Extension {
  const schema = new Schema(options);
  const { client, encrypt, decrypt } = options;
  const $allOperations = async ({ model, args, query, __internalParams }: Operation): Promise<unknown> => {
    if (model === undefined) return query(args);
    const writes: Spot[] = [];
    const copy = schema.copyArguments(model, args, writes);
    await sealAll(client, writes, encrypt);
    const result = await query(copy);
    const reads: Spot[] = [];
    schema.findResults(schema.follow(model, __internalParams?.dataPath ?? []), result, reads);
    await openAll(client, reads, decrypt);
    return result;
  };
  return { name: '@leafseal/client', query: { $allModels: { $allOperations } } };
}

async function sealAll(client: Client, spots: readonly Spot[], base: EncryptOptions = {}): Promise<void> {
  // One call for each set of options; nearly always one.
  const groups = new Map<string, Spot[]>();
  for (const spot of spots) {
    const key = JSON.stringify(spot.options === true || copied(spot.options));
    const group = groups.get(key);
    if (group) group.push(spot);
    else groups.set(key, [spot]);
  }
  await Promise.all([...groups.values()].map(async (group) => {
    const [{ options } = { options: true as const }] = group;
    const values = group.map(({ holder, name }) => holder[name] as Value);
    const sealed = await client.encrypt(values, { ...copied(base), ...(options === true ? {} : copied(options)) });
    group.forEach(({ holder, name }, index) => (holder[name] = sealed[index]));
  }));
}

async function openAll(client: Client, spots: readonly Spot[], options?: DecryptOptions): Promise<void> {
  if (spots.length === 0) return;
  const values = await client.decrypt(spots.map(({ holder, name }) => holder[name] as Value), options);
  spots.forEach(({ holder, name }, index) => (holder[name] = values[index]));
}

/** The members of arguments that hold data to be written. */
const DATA = new Set(['data', 'create', 'update', 'createMany', 'updateMany', 'upsert', 'connectOrCreate', 'set']);
/** The members of arguments that compare or sort. */
const CONDITIONS = new Set([
  'where', 'orderBy', 'cursor', 'distinct', 'by', 'having', '_min', '_max', '_sum', '_avg', 'connect', 'disconnect', 'delete', 'deleteMany',
]);
/** The keys that relation filters and logical operators put between a model and its fields. */
const LOGIC = new Set(['AND', 'OR', 'NOT', 'is', 'isNot', 'some', 'every', 'none']);

class Schema {
  private readonly sealed = new Map<string, Map<string, FieldOptions>>();
  private readonly relations = new Map<string, Map<string, string>>();

  constructor({ datamodel, fields }: PrismaOptions) {
    for (const { name, fields: all } of datamodel.models) {
      this.relations.set(name, new Map(all.filter(({ kind }) => kind === 'object').map((field) => [field.name, field.type])));
    }
    const reserved = [...DATA, ...CONDITIONS, ...LOGIC, 'include', 'select', '_count'];
    for (const { name, fields: all } of datamodel.models) {
      // Arguments would be ambiguous, and a value could be taken for a part of the query.
      const field = all.find((candidate) => reserved.includes(candidate.name));
      if (!field) continue;
      throw new LeafsealError('invalid_settings', `${name}.${field.name} has the name of an argument of Prisma; rename it and use @map`);
    }
    for (const [name, chosen] of Object.entries(fields)) {
      const model = datamodel.models.find((candidate) => candidate.name === name);
      if (!model) throw new LeafsealError('invalid_settings', `fields: the schema has no model ${name}`);
      for (const field of Object.keys(chosen)) {
        const { type, isList } = model.fields.find((candidate) => candidate.name === field) ?? {};
        if (type !== 'String' || isList) throw new LeafsealError('invalid_settings', `fields: ${name}.${field} must be a String field`);
      }
      this.sealed.set(name, new Map(Object.entries(chosen)));
    }
  }

  /** Copies the arguments of an operation, and adds the values to be sealed to `spots`. The caller's objects are not changed. */
  copyArguments(model: string, value: unknown, spots: Spot[]): unknown {
    if (Array.isArray(value)) return value.map((element) => this.copyArguments(model, element, spots));
    if (!isBag(value)) return value;
    const copy: Bag = {};
    for (const [name, member] of Object.entries(value)) {
      if (CONDITIONS.has(name)) this.checkConditions(model, member, name);
      if (DATA.has(name)) copy[name] = this.copyData(model, member, spots);
      else if (name === 'include' || name === 'select') copy[name] = this.copySelection(model, member, spots);
      else copy[name] = member;
    }
    return copy;
  }

  /** `include` and `select` hold arguments of relations, with conditions of their own. */
  private copySelection(model: string, value: unknown, spots: Spot[]): unknown {
    if (!isBag(value)) return value;
    const relations = this.relations.get(model);
    const entries = Object.entries(value).map(([name, member]) => {
      // `_count` selects relations of the same model, with conditions of their own.
      const related = name === '_count' ? model : relations?.get(name);
      return [name, related === undefined ? member : this.copyArguments(related, member, spots)];
    });
    return Object.fromEntries(entries) as Bag;
  }

  private copyData(model: string, value: unknown, spots: Spot[]): unknown {
    if (Array.isArray(value)) return value.map((element) => this.copyData(model, element, spots));
    if (!isBag(value)) return value;
    const copy: Bag = {};
    for (const [name, member] of Object.entries(value)) {
      const options = this.sealed.get(model)?.get(name);
      const related = this.relations.get(model)?.get(name);
      if (options !== undefined) copy[name] = this.takeValue(`${model}.${name}`, copy, name, member, options, spots);
      else if (related !== undefined) copy[name] = this.copyArguments(related, member, spots);
      // `upsert`, `createMany` and the like have data one level down.
      else if (DATA.has(name)) copy[name] = this.copyData(model, member, spots);
      else {
        if (CONDITIONS.has(name) && isBag(member)) this.checkConditions(model, member, name);
        copy[name] = member;
      }
    }
    return copy;
  }

  private takeValue(path: string, holder: Bag, name: string, value: unknown, options: FieldOptions, spots: Spot[]): unknown {
    if (value === null || value === undefined || isSkip(value)) return value;
    if (typeof value === 'string') {
      spots.push({ holder, name, options });
      return value;
    }
    if (isBag(value) && Object.keys(value).join() === 'set') {
      const inner: Bag = {};
      inner.set = this.takeValue(path, inner, 'set', value.set, options, spots);
      return inner;
    }
    throw new LeafsealError('invalid_params', `${path}: expected a string, null or { set: … }`);
  }

  private checkConditions(model: string, value: unknown, where: string): void {
    if (Array.isArray(value)) {
      for (const element of value) this.checkConditions(model, element, where);
      return;
    }
    if (typeof value === 'string' && this.sealed.get(model)?.has(value)) throw compared(model, value, where);
    if (!isBag(value)) return;
    for (const [name, member] of Object.entries(value)) {
      const related = this.relations.get(model)?.get(name);
      if (this.sealed.get(model)?.has(name)) {
        if (!isNullTest(member)) throw compared(model, name, where);
      } else if (related !== undefined) this.checkConditions(related, member, where);
      // Composite keys and logic stay in the same model.
      else if (LOGIC.has(name) || isBag(member)) this.checkConditions(model, member, where);
    }
  }

  /** The model at the end of a path of relations. */
  follow(model: string, path: readonly string[]): string {
    return path.reduce((current, name) => this.relations.get(current)?.get(name) ?? current, model);
  }

  /** Adds the sealed values of a result to `spots`. */
  findResults(model: string, value: unknown, spots: Spot[]): void {
    if (Array.isArray(value)) {
      for (const element of value) this.findResults(model, element, spots);
      return;
    }
    if (!isBag(value)) return;
    const relations = this.relations.get(model);
    const sealed = this.sealed.get(model);
    for (const [name, member] of Object.entries(value)) {
      const options = sealed?.get(name);
      if (options !== undefined && typeof member === 'string') spots.push({ holder: value, name, options });
      const related = relations?.get(name);
      if (related !== undefined) this.findResults(related, member, spots);
    }
  }
}

function isBag(value: unknown): value is Bag {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Whether a value is `Prisma.skip`: Prisma behaves as without that member. Only its object has this method. */
function isSkip(value: unknown): boolean {
  return typeof value === 'object' && value !== null && typeof (value as { ifUndefined?: unknown }).ifUndefined === 'function';
}

/** Whether a condition only asks whether the field has a value, or is left out. */
function isNullTest(condition: unknown): boolean {
  if (condition === null || condition === undefined || isSkip(condition)) return true;
  return isBag(condition) && Object.entries(condition).every(([name, value]) => (name === 'equals' || name === 'not') && isNullTest(value));
}

function compared(model: string, field: string, where: string): LeafsealError {
  const reason = 'envelopes of equal values differ; store a keyed hash beside it to search by';
  return new LeafsealError('invalid_params', `${where}: ${model}.${field} is sealed and cannot be compared or sorted: ${reason}`);
}
