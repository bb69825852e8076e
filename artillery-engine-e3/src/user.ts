// What a virtual user does: its steps one after the other, each request due when the one before it is done.

import { setTimeout as sleep } from 'node:timers/promises';

import { Failure } from './connection';
import type { Material } from './material';
import type { Metrics } from './metrics';
import type { Slot } from './pool';
import type { Kind, Step } from './scenario';

/** Gives the content of requests of a kind. */
export type Materials = (kind: Kind) => Material;

/** One run of a scenario. Times are those of `performance.now()`. */
export class User {
  constructor(
    private readonly slot: Slot,
    private readonly materials: Materials,
    private readonly metrics: Metrics,
    /** When the next request is due. */
    private due: number,
  ) {}

  /** @throws {Failure} Where a request failed; the rest is left out. */
  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      if ('send' in step) await this.send(step.send);
      else if ('think' in step) await this.think(step.think);
      else for (let round = 0; round < step.count; round += 1) await this.run(step.loop);
    }
  }

  private async think(milliseconds: number): Promise<void> {
    this.due += milliseconds;
    const left = this.due - performance.now();
    if (left > 0) await sleep(left);
  }

  private async send(kind: Kind): Promise<void> {
    this.metrics.sent(kind);
    try {
      const answeredAt = await this.request(kind);
      this.metrics.answered(kind, answeredAt - this.due);
      this.due = answeredAt;
    } catch (error) {
      const failure = error instanceof Failure ? error : new Failure('wrong_answer', String(error));
      this.metrics.failed(failure.code);
      if (failure.code !== 'cancelled' || kind.cancelAfter === undefined) throw failure;
      this.due = performance.now();
    }
  }

  /** When the answer was there. */
  private async request(kind: Kind): Promise<number> {
    const encode = await this.materials(kind).encoder(this.slot);
    const connection = await this.slot.get();
    const sent = connection.send(encode);
    const timer = kind.cancelAfter === undefined ? undefined : setTimeout(sent.cancel, kind.cancelAfter);
    try {
      const { answer, at } = await sent.arrived;
      if (answer.count !== kind.numEncrypts) {
        throw new Failure('wrong_answer', `${answer.count} values came for ${kind.numEncrypts}`);
      }
      return at;
    } finally {
      clearTimeout(timer);
    }
  }
}
