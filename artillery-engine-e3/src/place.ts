// Positions in the scenario file.

import { readFileSync } from 'node:fs';

import { LineCounter, isMap, isNode, isScalar, parseDocument } from 'yaml';

import type { Path, Problem } from './fields';

/** The problems, one line each: `FILE:LINE:COLUMN: what`, in the order of the file; without a position if it is unknown. */
export function shownProblems(problems: readonly Problem[], file: string | undefined): string {
  const places = file === undefined ? undefined : new Places(file);
  const lines = problems.map(({ path, message, isOfKey }) => ({ message, place: places?.of(path, isOfKey === true) }));
  lines.sort((a, b) => (a.place?.line ?? 0) - (b.place?.line ?? 0) || (a.place?.col ?? 0) - (b.place?.col ?? 0));
  return lines
    .map(({ message, place }) => (place && file !== undefined ? `${file}:${place.line}:${place.col}: ${message}` : message))
    .join('\n');
}

/** A file parsed again with positions, which Artillery does not keep. */
class Places {
  private readonly counter = new LineCounter();
  private readonly document;

  constructor(file: string) {
    try {
      this.document = parseDocument(readFileSync(file, 'utf8'), { lineCounter: this.counter });
    } catch {
      // The problem is reported without its position: Artillery has just read the file, so this is unlikely.
      this.document = undefined;
    }
  }

  /** The position of a value, or of the nearest enclosing one. */
  of(path: Path, isOfKey: boolean): { line: number; col: number } | undefined {
    for (let size = path.length; size >= 0 && this.document; size -= 1) {
      const node = isOfKey && size === path.length ? this.key(path) : this.document.getIn(path.slice(0, size), true);
      if (isNode(node) && node.range) return this.counter.linePos(node.range[0]);
    }
    return undefined;
  }

  private key(path: Path): unknown {
    const map = this.document?.getIn(path.slice(0, -1), true);
    const name = path.at(-1);
    return isMap(map) ? map.items.find(({ key }) => isScalar(key) && key.value === name)?.key : undefined;
  }
}
