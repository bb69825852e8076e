// Typed access to the values of a scenario file. Collects all problems instead of stopping at the first.

/** The path of a value: keys and list indexes from the root of the file. */
export type Path = readonly (string | number)[];

/** A problem in the file. */
export interface Problem {
  readonly path: Path;
  readonly message: string;
  /** Set if the key is wrong, not its value. */
  readonly isOfKey?: true;
}

/** Units of time in milliseconds. */
const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** Maximum characters of a value in an error message. */
const SHOWN_MAX = 40;

/** `scenarios[0].flow[1].send`. */
export function shownPath(path: Path): string {
  return path.map((part, index) => (typeof part === 'number' ? `[${part}]` : index > 0 ? `.${part}` : part)).join('');
}

function shown(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

/** A value and its path. */
export class Value {
  constructor(
    readonly raw: unknown,
    readonly path: Path,
    readonly problems: Problem[],
  ) {}

  /** Adds a problem of this value. */
  note(message: string): undefined {
    this.problems.push({ path: this.path, message: `${shownPath(this.path)}: ${message}` });
    return undefined;
  }

  private refuse(takes: string): undefined {
    const raw = this.raw;
    if (this.isTemplate()) return this.note(`must be ${takes}: templates are replaced in \`config\` only (README.md, "Not supported")`);
    const scalar = this.scalar();
    let found = scalar === undefined ? 'nothing' : `\`${shown(scalar)}\``;
    if (Array.isArray(raw)) found = 'a list';
    else if (typeof raw === 'object' && raw !== null) found = 'a map';
    return this.note(`must be ${takes}, found ${found}`);
  }

  /** The text of a scalar. */
  private scalar(): string | undefined {
    const raw = this.raw;
    if (typeof raw === 'string') return raw.trim();
    return typeof raw === 'number' || typeof raw === 'boolean' ? String(raw) : undefined;
  }

  /** Whether Artillery's HTTP engine would insert a variable here. In `config` Artillery has done so before it loads an engine. */
  private isTemplate(): boolean {
    return typeof this.raw === 'string' && this.raw.includes('{{');
  }

  /** A map that may contain only `keys`, or any key if `keys` is missing. Keys in `passed` are ignored. */
  map(keys?: readonly string[], passed: readonly string[] = []): Fields | undefined {
    if (typeof this.raw !== 'object' || this.raw === null || Array.isArray(this.raw)) return this.refuse('a map');
    const raw = this.raw as Record<string, unknown>;
    for (const name of Object.keys(raw)) {
      if (keys && !keys.includes(name) && !passed.includes(name)) {
        const path = [...this.path, name];
        const message = `unknown key \`${shown(shownPath(path))}\`: must be one of ${keys.join(', ')}`;
        this.problems.push({ path, message, isOfKey: true });
      }
    }
    return new Fields(raw, this);
  }

  /** A list with at least one item. */
  list(): Value[] | undefined {
    if (!Array.isArray(this.raw)) return this.refuse('a list');
    if (this.raw.length === 0) return this.note('must have at least 1 item, found 0');
    return this.raw.map((item, index) => new Value(item, [...this.path, index], this.problems));
  }

  /** Non-empty text. */
  text(): string | undefined {
    const text = this.scalar();
    return text === undefined || text === '' || this.isTemplate() ? this.refuse('text') : text;
  }

  /** A whole number. */
  whole(least: number, most: number): number | undefined {
    const text = this.scalar();
    const number = text !== undefined && /^\d+$/.test(text) ? Number(text) : NaN;
    return number >= least && number <= most ? number : this.refuse(`a whole number from ${least} to ${most}`);
  }

  /** A duration in milliseconds. Bounds are in seconds; the lower one is exclusive for `above 0`. */
  time(least: 'from 0' | 'above 0', mostSeconds: number): number | undefined {
    const match = /^(\d+\.?\d*|\.\d+)\s*(ms|s|m|h)?$/.exec(this.scalar() ?? '');
    const milliseconds = match ? Number(match[1]) * (UNITS[match[2] ?? 's'] ?? NaN) : NaN;
    const isRight = milliseconds >= 0 && milliseconds <= mostSeconds * 1000 && (least === 'from 0' || milliseconds > 0);
    const takes = least === 'from 0' ? 'a time' : 'a time above 0';
    return isRight
      ? milliseconds
      : this.refuse(`${takes}, up to ${mostSeconds} seconds: seconds, or text such as "250ms", "1.5s" or "15m"`);
  }

  /** A boolean. */
  boolean(): boolean | undefined {
    const text = this.scalar()?.toLowerCase();
    return text === 'true' || text === 'false' ? text === 'true' : this.refuse('true or false');
  }

  /** One of the given words. */
  word<T extends string>(words: readonly T[]): T | undefined {
    const text = this.scalar();
    return words.find((word) => word === text) ?? this.refuse(words.join(' or '));
  }
}

/** The values of a map. A key with an empty value counts as missing. */
export class Fields {
  constructor(
    private readonly raw: Record<string, unknown>,
    private readonly around: Value,
  ) {}

  has(key: string): boolean {
    return Object.hasOwn(this.raw, key) && this.raw[key] !== null && this.raw[key] !== undefined;
  }

  get(key: string): Value | undefined {
    return this.has(key) ? new Value(this.raw[key], [...this.around.path, key], this.around.problems) : undefined;
  }

  /** The value of a required key. */
  required(key: string): Value | undefined {
    return this.get(key) ?? this.around.note(`the key \`${key}\` is missing`);
  }

  /** The value converted by `read`, or `otherwise` if the key is missing or wrong. */
  or<T>(key: string, otherwise: T, read: (value: Value) => T | undefined): T {
    const value = this.get(key);
    return (value && read(value)) ?? otherwise;
  }
}
