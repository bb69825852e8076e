// What is told to Artillery of each request. README.md lists the names.

import type { Kind } from './scenario';
import type { Told } from './user';

/** What Artillery's own engines use to tell of things. */
export interface Events {
  emit(event: string, ...values: unknown[]): unknown;
}

/** Tells of the requests of one scenario. */
export class Metrics implements Told {
  constructor(
    private readonly events: Events,
    private readonly scenario: string,
  ) {}

  started(): void {
    this.events.emit('started');
  }

  /** The connections stood, and all that is done on them before the first user was done, after so many milliseconds. */
  warmedUp(tookMs: number): void {
    this.events.emit('histogram', 'e3.warm_up', tookMs);
  }

  /** A user came before that, and its first request was due so much later than the user came. */
  held(waitedMs: number): void {
    this.events.emit('counter', 'e3.warm_up.users', 1);
    this.events.emit('histogram', 'e3.warm_up.held', waitedMs);
  }

  sent(kind: Kind): void {
    this.events.emit('rate', 'e3.request_rate');
    for (const name of this.names('e3.requests', kind)) this.events.emit('counter', name, 1);
  }

  answered(kind: Kind, latencyMs: number): void {
    const fieldsPerSecond = (kind.numEncrypts / latencyMs) * 1000;
    for (const name of this.names('e3.answers', kind)) this.events.emit('counter', name, 1);
    this.events.emit('counter', 'e3.fields', kind.numEncrypts);
    for (const name of this.names('e3.latency', kind)) this.events.emit('histogram', name, latencyMs);
    for (const name of this.names('e3.fields_per_second', kind)) this.events.emit('histogram', name, fieldsPerSecond);
  }

  failed(code: string): void {
    this.events.emit('error', code);
  }

  private names(name: string, kind: Kind): string[] {
    return [name, `${name}.scenario.${this.scenario}`, `${name}.size.${kind.numEncrypts}`];
  }
}
