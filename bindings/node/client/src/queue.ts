// A first-in-first-out queue whose elements may die while they wait. Dead elements are skipped, and removed once they are the majority.

const COMPACT_MIN = 1024;

export class Queue<T> {
  private elements: (T | undefined)[] = [];
  private head = 0;
  private dead = 0;

  constructor(private readonly isAlive: (element: T) => boolean) {}

  push(element: T): void {
    this.elements.push(element);
  }

  /** The first element that is alive. It stays. */
  first(): T | undefined {
    while (this.head < this.elements.length) {
      const element = this.elements[this.head];
      if (element !== undefined && this.isAlive(element)) return element;
      this.elements[this.head] = undefined;
      this.head += 1;
      if (this.head >= COMPACT_MIN && this.head * 2 >= this.elements.length) this.compact();
    }
    this.compact();
    return undefined;
  }

  /** An element that waits has died. */
  noteDead(): void {
    this.dead += 1;
    if (this.dead >= COMPACT_MIN && this.dead * 2 >= this.elements.length - this.head) this.compact();
  }

  private compact(): void {
    this.elements = this.elements.filter((element) => element !== undefined && this.isAlive(element));
    this.head = 0;
    this.dead = 0;
  }
}
