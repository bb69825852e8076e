// A Prisma Client extension that encrypts chosen fields when they are written and decrypts them when they are read.
//
// Every operation of every model passes one hook, nested writes and relations included. An operation that would compare a sealed field with
// a value is refused: envelopes of equal values differ, so it would find nothing and send the value to the database.
//
// Models in `bind` have their values bound to `MODEL/ID/FIELD`. The id must then be known when a value is written, and when it is read: an
// operation that does not show it is refused, and a selection without it gets it, until the values are opened.

import type { Value } from '@leafseal/wire';

import type { Client, DecryptOptions, EncryptOptions } from './client.js';
import { LeafsealError } from './errors.js';
import { copied } from './options.js';

/** Options of one field. */
export type FieldOptions = true | Pick<EncryptOptions, 'role' | 'curve'>;

/** The id of a model. */
export interface IdOptions {
  /** The field: a `String`, `Int` or `BigInt` that is required and unique, such as `@id`. */
  readonly field: string;
  /** Makes the id of a new record that is written without one: `randomUUID` of `node:crypto`. Default: such a record is refused. */
  readonly make?: () => string | number | bigint;
}

/** Options of the extension. */
export interface PrismaOptions {
  readonly client: Client;
  /** `Prisma.dmmf.datamodel` of the generated client: the models and their relations. */
  readonly datamodel: { readonly models: readonly Model[] };
  /** The sealed fields by model: `{ Card: { number: true, holder: { role: 'support' } } }`. Each must be a `String`, optional or not. */
  readonly fields: Readonly<Record<string, Readonly<Record<string, FieldOptions>>>>;
  /**
   * The models whose values are bound to their record, each with its id: `{ Card: 'id' }`. Their envelopes are symmetric, and open in the
   * same field of the record with the same id alone. Default: none.
   */
  readonly bind?: Readonly<Record<string, string | IdOptions>>;
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
  /** What the value is bound to. */
  readonly context: string | undefined;
}

/** Creates the extension for `prisma.$extends(…)`. @throws {LeafsealError} `invalid_settings`. */
export function sealFields(options: PrismaOptions): Extension {
  const schema = new Schema(options);
  const { client, encrypt, decrypt } = options;
  const $allOperations = async ({ model, operation, args, query, __internalParams }: Operation): Promise<unknown> => {
    if (model === undefined) return query(args);
    const writes: Spot[] = [];
    const shape = new Shape();
    const copy = schema.copyArguments(model, args, { spots: writes, shape, place: { isNew: operation.startsWith('create') } });
    await sealAll(client, writes, encrypt);
    const result = await query(copy);
    const reads: Spot[] = [];
    const path = __internalParams?.dataPath ?? [];
    schema.findResults(schema.follow(model, path), result, reads, shape.follow(path));
    await openAll(client, reads, decrypt);
    return result;
  };
  return { name: '@leafseal/client', query: { $allModels: { $allOperations } } };
}

async function sealAll(client: Client, spots: readonly Spot[], base: EncryptOptions = {}): Promise<void> {
  // One call for each set of options; nearly always one.
  const groups = new Map<string, Spot[]>();
  for (const spot of spots) {
    const key = JSON.stringify([spot.context === undefined, spot.options === true || copied(spot.options)]);
    const group = groups.get(key);
    if (group) group.push(spot);
    else groups.set(key, [spot]);
  }
  await Promise.all([...groups.values()].map(async (group) => {
    const [{ options } = { options: true as const }] = group;
    const values = group.map(({ holder, name }) => holder[name] as Value);
    const contexts = contextsOf(group);
    const bound = contexts && { scheme: 'symmetric' as const, contexts };
    const sealed = await client.encrypt(values, { ...copied(base), ...(options === true ? {} : copied(options)), ...bound });
    group.forEach(({ holder, name }, index) => (holder[name] = sealed[index]));
  }));
}

/** The contexts of spots that are all bound; undefined if they are not. */
function contextsOf(spots: readonly Spot[]): string[] | undefined {
  return spots.some(({ context }) => context === undefined) ? undefined : spots.map(({ context }) => context ?? '');
}

async function openAll(client: Client, spots: readonly Spot[], options: DecryptOptions = {}): Promise<void> {
  const groups = [spots.filter(({ context }) => context === undefined), spots.filter(({ context }) => context !== undefined)];
  await Promise.all(groups.filter((group) => group.length > 0).map(async (group) => {
    const stored = group.map(({ holder, name }) => holder[name] as Value);
    const contexts = contextsOf(group);
    const values = await client.decrypt(stored, contexts ? { ...copied(options), contexts } : options);
    group.forEach(({ holder, name, context }, index) => {
      const value = values[index] as Value;
      holder[name] = context !== undefined && value === stored[index] ? unsealed(context, value, options.onFailure) : value;
    });
  }));
}

/**
 * A bound value that was stored without encryption, or an envelope that was left. Anyone who can write the table can put a text of their
 * own there, which must not pass for a value.
 */
function unsealed(context: string, value: Value, onFailure: DecryptOptions['onFailure']): Value {
  if (onFailure === 'leave' && isEnvelope(value)) return value;
  if (onFailure === 'null') return null;
  throw new LeafsealError('invalid_envelope', `${context}: the value of a bound field is no envelope`);
}

/** The members of arguments that hold data to be written. */
const DATA = new Set(['data', 'create', 'update', 'createMany', 'updateMany', 'upsert', 'connectOrCreate', 'set']);
/** The members of arguments that compare or sort. */
const CONDITIONS = new Set([
  'where', 'orderBy', 'cursor', 'distinct', 'by', 'having', '_min', '_max', '_sum', '_avg', 'connect', 'disconnect', 'delete', 'deleteMany',
]);
/** The keys that relation filters and logical operators put between a model and its fields. */
const LOGIC = new Set(['AND', 'OR', 'NOT', 'is', 'isNot', 'some', 'every', 'none']);

/** Where data goes: into a new record, or into those that `where` finds. */
interface Place {
  readonly isNew: boolean;
  readonly where?: unknown;
}

/** What is known while arguments are copied. */
interface Walk {
  readonly spots: Spot[];
  readonly shape: Shape;
  readonly place: Place;
}

/** The members that begin a place of their own. */
const NEW = new Set(['create', 'createMany', 'connectOrCreate']);
const OLD = new Set(['update', 'updateMany', 'upsert']);

/** The place of a member of arguments or data. */
function placeOf(name: string, holder: Bag, place: Place): Place {
  if (NEW.has(name)) return { isNew: true };
  if (OLD.has(name)) return { isNew: false, where: holder.where };
  return name === 'data' && 'where' in holder && !place.isNew ? { isNew: false, where: holder.where } : place;
}

/** What a result has beside what the caller selected. */
class Shape {
  /** The id was added for the values that are bound to it. */
  hasAddedId = false;
  private readonly relations = new Map<string, Shape>();

  of(relation: string): Shape {
    const known = this.relations.get(relation) ?? new Shape();
    this.relations.set(relation, known);
    return known;
  }

  /** The shape at the end of a path, of which some steps are no relations. */
  follow(path: readonly string[]): Shape {
    return path.reduce<Shape>((current, name) => current.relations.get(name) ?? current, this);
  }
}

class Schema {
  private readonly ids: Ids;
  private readonly sealed = new Map<string, Map<string, FieldOptions>>();
  private readonly relations = new Map<string, Map<string, string>>();

  constructor(options: PrismaOptions) {
    const { datamodel, fields } = options;
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
    this.ids = new Ids(options);
  }

  /** Copies the arguments of an operation, and adds the values to be sealed to the walk's spots. The caller's objects are not changed. */
  copyArguments(model: string, value: unknown, walk: Walk): unknown {
    if (Array.isArray(value)) return value.map((element) => this.copyArguments(model, element, walk));
    if (!isBag(value)) return value;
    const copy: Bag = {};
    for (const [name, member] of Object.entries(value)) {
      if (CONDITIONS.has(name)) this.checkConditions(model, member, name);
      if (DATA.has(name)) copy[name] = this.copyData(model, member, { ...walk, place: placeOf(name, value, walk.place) });
      else if (name === 'include' || name === 'select') copy[name] = this.copySelection(model, member, walk);
      else copy[name] = member;
    }
    this.ids.addToSelection(model, copy, this.sealed.get(model), walk.shape);
    return copy;
  }

  /** `include` and `select` hold arguments of relations, with conditions of their own. */
  private copySelection(model: string, value: unknown, walk: Walk): unknown {
    if (!isBag(value)) return value;
    const relations = this.relations.get(model);
    const entries = Object.entries(value).map(([name, member]) => {
      // `_count` selects relations of the same model, with conditions of their own.
      const related = name === '_count' ? model : relations?.get(name);
      return [name, related === undefined ? member : this.copyArguments(related, member, { ...walk, shape: walk.shape.of(name) })];
    });
    return Object.fromEntries(entries) as Bag;
  }

  private copyData(model: string, value: unknown, walk: Walk): unknown {
    if (Array.isArray(value)) return value.map((element) => this.copyData(model, element, walk));
    if (!isBag(value)) return value;
    const copy: Bag = {};
    const id = this.ids.ofData(model, value, walk.place);
    for (const [name, member] of Object.entries(value)) {
      const options = this.sealed.get(model)?.get(name);
      const related = this.relations.get(model)?.get(name);
      if (options !== undefined) copy[name] = this.takeValue({ model, field: name, id, options }, copy, name, member, walk.spots);
      // Results have the shape that is selected beside the data.
      else if (related !== undefined) {
        copy[name] = this.copyArguments(related, member, { ...walk, shape: new Shape(), place: { isNew: false } });
      }
      // `upsert`, `createMany` and the like have data one level down.
      else if (DATA.has(name)) copy[name] = this.copyData(model, member, { ...walk, place: placeOf(name, value, walk.place) });
      else {
        if (CONDITIONS.has(name) && isBag(member)) this.checkConditions(model, member, name);
        copy[name] = member;
      }
    }
    id?.complete(copy);
    return copy;
  }

  private takeValue(field: TakenField, holder: Bag, name: string, value: unknown, spots: Spot[]): unknown {
    if (value === null || value === undefined || isSkip(value)) return value;
    const path = `${field.model}.${field.field}`;
    if (typeof value === 'string') {
      const context = field.id && contextOf(field.model, field.id.text(path), field.field);
      spots.push({ holder, name, options: field.options, context });
      return value;
    }
    if (isBag(value) && Object.keys(value).join() === 'set') {
      const inner: Bag = {};
      inner.set = this.takeValue(field, inner, 'set', value.set, spots);
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

  /** Adds the sealed values of a result to `spots`, and removes what it has beside what was selected. */
  findResults(model: string, value: unknown, spots: Spot[], shape: Shape): void {
    if (Array.isArray(value)) {
      for (const element of value) this.findResults(model, element, spots, shape);
      return;
    }
    if (!isBag(value)) return;
    const relations = this.relations.get(model);
    const sealed = this.sealed.get(model);
    for (const [name, member] of Object.entries(value)) {
      const options = sealed?.get(name);
      if (options !== undefined && typeof member === 'string') {
        const id = this.ids.ofResult(model, value);
        spots.push({ holder: value, name, options, context: id === undefined ? undefined : contextOf(model, id, name) });
      }
      const related = relations?.get(name);
      if (related !== undefined) this.findResults(related, member, spots, shape.of(name));
    }
    if (shape.hasAddedId) this.ids.removeFrom(model, value);
  }
}

/** A sealed field of data, and the id of its record if it is bound. */
interface TakenField {
  readonly model: string;
  readonly field: string;
  readonly id: DataId | undefined;
  readonly options: FieldOptions;
}

/** What a value is bound to. Names of models and fields have no slash, so that no two places have the same. */
function contextOf(model: string, id: string, field: string): string {
  return `${model}/${id}/${field}`;
}

/** The ids of models that are bound. */
class Ids {
  private readonly ids = new Map<string, IdOptions>();

  constructor({ datamodel, fields, bind = {}, encrypt = {} }: PrismaOptions) {
    const invalid = (message: string): LeafsealError => new LeafsealError('invalid_settings', `bind: ${message}`);
    for (const [model, given] of Object.entries(bind)) {
      const id = typeof given === 'string' ? { field: given } : given;
      const name = id.field;
      const chosen = fields[model];
      if (chosen === undefined) throw invalid(`model ${model} has no sealed fields`);
      const field = datamodel.models.find((candidate) => candidate.name === model)?.fields.find((candidate) => candidate.name === name);
      // The data model of a generated client does not say what is unique, nor what has a default.
      if (field?.kind !== 'scalar' || !['String', 'Int', 'BigInt'].includes(field.type) || field.isList || Object.hasOwn(chosen, name)) {
        throw invalid(`${model}.${name} must be the record's id: a String, Int or BigInt that is not sealed`);
      }
      if (Object.values(chosen).some((options) => options !== true && options.curve !== undefined)) {
        throw invalid(`${model}: a curve is for envelopes to a public key, which are bound to nothing`);
      }
      this.ids.set(model, id);
    }
    if (this.ids.size === 0) return;
    if (encrypt.context !== undefined) throw invalid('the values have contexts of their own, so there must be no `encrypt.context`');
    if (encrypt.curve !== undefined || encrypt.scheme === 'public-key') {
      throw invalid('bound envelopes are symmetric: remove `encrypt.scheme` and `encrypt.curve`');
    }
  }

  /** The id of a record that data are written to, if its model is bound. */
  ofData(model: string, data: Bag, place: Place): DataId | undefined {
    const id = this.ids.get(model);
    if (!id) return undefined;
    const given = data[id.field];
    if (!place.isNew && given !== undefined && !isSkip(given)) {
      const reason = 'the sealed fields of the record are bound to it; create another record';
      throw new LeafsealError('invalid_params', `${model}.${id.field} cannot be changed: ${reason}`);
    }
    return new DataId(model, id, data, place);
  }

  /** The id of a record that was read, if its model is bound. */
  ofResult(model: string, record: Bag): string | undefined {
    const id = this.ids.get(model);
    if (!id) return undefined;
    const text = idText(record[id.field]);
    if (text !== undefined) return text;
    throw new LeafsealError('invalid_params', `${model}.${id.field} must be read with the sealed fields that are bound to it`);
  }

  /** Adds the id to arguments that select sealed fields without it. */
  addToSelection(model: string, copy: Bag, sealed: ReadonlyMap<string, unknown> | undefined, shape: Shape): void {
    const name = this.ids.get(model)?.field;
    if (name === undefined || !sealed) return;
    const { select, omit } = copy;
    if (isBag(select) && select[name] !== true && [...sealed.keys()].some((field) => select[field] === true)) {
      copy.select = { ...select, [name]: true };
      shape.hasAddedId = true;
    }
    if (isBag(omit) && omit[name] === true) {
      copy.omit = { ...omit, [name]: false };
      shape.hasAddedId = true;
    }
  }

  removeFrom(model: string, record: Bag): void {
    const name = this.ids.get(model)?.field;
    if (name !== undefined) Reflect.deleteProperty(record, name);
  }
}

/** The id of a record that data are written to. */
class DataId {
  private made: string | number | bigint | undefined;

  constructor(
    private readonly model: string,
    private readonly id: IdOptions,
    private readonly data: Bag,
    private readonly place: Place,
  ) {}

  /** The text of the id, which the value of `path` needs. */
  text(path: string): string {
    const { isNew, where } = this.place;
    const { field, make } = this.id;
    const id = `${this.model}.${field}`;
    let given = isNew ? this.data[field] : pinned(where, field);
    if (isNew && (given === undefined || isSkip(given)) && make) given = this.made ??= make();
    const text = idText(given);
    if (text === undefined) {
      const reason = isNew
        ? 'which must be set when the record is created: use ids that the client makes, such as randomUUID(), not the database'
        : `so \`where\` must name the one record by its id, as { ${field}: … }`;
      throw new LeafsealError('invalid_params', `${path} is bound to ${id}, ${reason}`);
    }
    if (UUID.test(text) && text !== text.toLowerCase()) {
      throw new LeafsealError('invalid_params', `${id} must be a UUID in lower case, as databases return it: values are bound to its text`);
    }
    return text;
  }

  /** Gives a new record the id that was made for it. */
  complete(copy: Bag): void {
    if (this.made !== undefined) copy[this.id.field] = this.made;
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The id that a condition requires. */
function pinned(where: unknown, name: string): unknown {
  const condition = isBag(where) ? where[name] : undefined;
  return isBag(condition) && Object.keys(condition).join() === 'equals' ? condition.equals : condition;
}

/** The text of an id: a string, or the digits of an integer. */
function idText(id: unknown): string | undefined {
  const isId = (typeof id === 'string' && id !== '') || typeof id === 'bigint' || Number.isSafeInteger(id);
  return isId ? String(id) : undefined;
}

/** Parts of base64 after labels: no text that means anything else. */
const ENVELOPE = /^ev:(?:debug:)?[A-Za-z0-9+/=]{4}:(?:(?:number|boolean):)?(?:[A-Za-z0-9+/]+=*:){3}\$$/;

function isEnvelope(value: Value): boolean {
  return typeof value === 'string' && ENVELOPE.test(value);
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
