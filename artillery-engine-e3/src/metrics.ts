// Reports requests to Artillery. README.md lists the metrics.

import type { Kind } from './scenario';
import type { RequestObserver } from './user';

/** The event emitter through which engines report to Artillery. */
export interface Events {
  emit(event: string, ...values: unknown[]): unknown;
}

/** Reports the requests of one scenario. */
export class Metrics implements RequestObserver {
  constructor(
    private readonly events: Events,
    private readonly scenario: string,
  ) {}

  started(): void {
    this.events.emit('started');
  }

  /** Reports the duration of the warm-up in milliseconds. */
  warmedUp(tookMs: number): void {
    this.events.emit('histogram', 'e3.warm_up', tookMs);
  }

  /** Reports how long a user that arrived during the warm-up waited for its end. */
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
