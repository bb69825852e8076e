// Walks a value as JSON would represent it and copies its shape. The whole value is checked before anything is encrypted. A value that JSON
// cannot represent is refused with its path, never changed or left out silently.

import { LeafsealError } from './errors.js';
import type { ValueType } from './seal.js';

type Container = unknown[] | Record<string, unknown>;

/** A value to seal, and the place in the copy that its envelope takes. */
export interface Leaf {
  readonly type: ValueType;
  readonly text: string;
  readonly container: Container;
  readonly key: string | number;
}

/** Advice for objects that are easily passed by mistake. */
const ADVICE: readonly (readonly [string, string])[] = [
  ['Date', 'pass toISOString() or getTime()'],
  ['Blob', 'use encryptFile'],
  ['File', 'use encryptFile'],
  ['ArrayBuffer', 'use encryptFile, or pass its base64'],
  ['Uint8Array', 'use encryptFile, or pass its base64'],
  ['Map', 'pass Object.fromEntries(map)'],
  ['Set', 'pass an array'],
  ['Promise', 'await it'],
];

/** The copy and the leaves of one value. The copy is in `root[0]`, so that the value itself may be a leaf. */
export class Walk {
  readonly root: unknown[] = [];
  readonly leaves: Leaf[] = [];
  readonly #depthMax: number;
  readonly #open = new Set<object>();
  readonly #trail: (string | number)[] = [];

  /** @throws LeafsealError `invalid_value` or `too_large`. */
  constructor(value: unknown, depthMax: number) {
    this.#depthMax = depthMax;
    this.#visit(value, this.root, 0);
  }

  #visit(value: unknown, container: Container, key: string | number): void {
    switch (typeof value) {
      case 'string':
        if (/\p{Surrogate}/u.test(value)) throw this.#fault('is a string with half of a surrogate pair, which UTF-8 cannot represent');
        return this.#leaf('string', value, container, key);
      case 'number':
        if (!Number.isFinite(value)) throw this.#fault('is NaN or infinite, which JSON cannot represent');
        return this.#leaf('number', Object.is(value, -0) ? '-0' : String(value), container, key);
      case 'boolean':
        return this.#leaf('boolean', String(value), container, key);
      case 'object':
        return put(container, key, value === null ? null : this.#copy(value));
      case 'bigint':
        throw this.#fault('is a BigInt, which JSON cannot represent: pass it as a string');
      default:
        throw this.#fault(`is of type ${typeof value}, which JSON cannot represent`);
    }
  }

  #leaf(type: ValueType, text: string, container: Container, key: string | number): void {
    // Keeps the order of the properties; the envelope replaces it.
    put(container, key, undefined);
    this.leaves.push({ type, text, container, key });
  }

  #copy(value: object): Container {
    if (this.#open.has(value)) throw this.#fault('contains itself: remove the cycle');
    if (this.#open.size >= this.#depthMax) {
      const advice = 'flatten the document, or raise depthMax here and document.depth_max in the engine';
      throw this.#fault(`is nested deeper than depthMax (${this.#depthMax}): ${advice}`, 'too_large');
    }
    this.#open.add(value);
    const copy = Array.isArray(value) ? this.#array(value) : this.#object(value);
    this.#open.delete(value);
    return copy;
  }

  #array(value: readonly unknown[]): unknown[] {
    const copy: unknown[] = [];
    // By index, because iteration of a sparse array would also hide its holes.
    for (let index = 0; index < value.length; index += 1) this.#enter(index, value[index], copy);
    return copy;
  }

  #object(value: object): Record<string, unknown> {
    const prototype: unknown = Object.getPrototypeOf(value);
    // Plain objects of other realms, such as frames, have another Object.prototype.
    if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
      const kind = Object.prototype.toString.call(value).slice(8, -1);
      const advice = ADVICE.find(([name]) => name === kind)?.[1] ?? 'pass a plain object';
      throw this.#fault(`is not a plain object, an array, a string, a number, a boolean or null (${kind}): ${advice}`);
    }
    const copy = {};
    for (const [key, member] of Object.entries(value)) {
      // As JSON.stringify does.
      if (member !== undefined) this.#enter(key, member, copy);
    }
    return copy;
  }

  #enter(key: string | number, member: unknown, copy: Container): void {
    this.#trail.push(key);
    this.#visit(member, copy, key);
    this.#trail.pop();
  }

  #fault(problem: string, code: 'invalid_value' | 'too_large' = 'invalid_value'): LeafsealError {
    const path = `$${this.#trail.map(step).join('')}`;
    return new LeafsealError(code, `the value at ${path} ${problem}`, { path });
  }
}

/** A step of a JSONPath (RFC 9535). */
function step(key: string | number): string {
  return typeof key === 'string' && /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

/** Sets an own property whatever its name is; `__proto__` would otherwise be the prototype. */
export function put(container: Container, key: string | number, value: unknown): void {
  Object.defineProperty(container, key, { value, writable: true, enumerable: true, configurable: true });
}
