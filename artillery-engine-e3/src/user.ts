// What a virtual user does: its steps one after the other, each request due when the one before it is done.

import { type Connection, type Encode, Failure } from './connection';
import type { Material } from './material';
import type { Slot } from './pool';
import type { Kind, Step } from './scenario';
import type { Answer } from './wire';

/** Gives the content of requests of a kind. */
export type Materials = (kind: Kind) => Material;

/** Who is told of requests. */
export interface Told {
  sent: (kind: Kind) => void;
  answered: (kind: Kind, latencyMs: number) => void;
  failed: (code: string) => void;
}

/** A place in a list of steps. */
interface Place {
  readonly steps: readonly Step[];
  next: number;
  /** How often the list begins anew. */
  rounds: number;
}

/**
 * One run of a scenario. Times are those of `performance.now()`. Calls take the place of promises: where all is ready, nothing stands
 * between a due moment and the bytes of its request.
 */
export class User {
  private readonly places: Place[];

  constructor(
    private readonly slot: Slot,
    private readonly materials: Materials,
    private readonly told: Told,
    /** When the next request is due. */
    private due: number,
    steps: readonly Step[],
    /** Called once: with what failed, after which the rest was left out, or when all is done. */
    private readonly ended: (failure?: Failure) => void,
  ) {
    this.places = [{ steps, next: 0, rounds: 0 }];
  }

  /** Goes on until something is waited for. */
  readonly run = (): void => {
    for (let step = this.step(); step; step = this.step()) {
      if ('send' in step) {
        this.send(step.send);
        return;
      }
      this.due += step.think;
      const left = this.due - performance.now();
      if (left > 0) {
        setTimeout(this.run, left);
        return;
      }
    }
    this.ended();
  };

  /** The next step that is no loop. */
  private step(): Exclude<Step, { loop: unknown }> | undefined {
    for (let place = this.places.at(-1); place; place = this.places.at(-1)) {
      const step = place.steps[place.next];
      place.next += 1;
      if (!step && place.rounds > 0) {
        place.rounds -= 1;
        place.next = 0;
      } else if (!step) this.places.pop();
      else if ('loop' in step) this.places.push({ steps: step.loop, next: 0, rounds: step.count - 1 });
      else return step;
    }
    return undefined;
  }

  private send(kind: Kind): void {
    const connection = this.slot.current;
    const encode = this.materials(kind).encode;
    if (connection && encode) this.transmit(kind, connection, encode);
    else void this.sendWhenReady(kind);
    this.told.sent(kind);
  }

  private async sendWhenReady(kind: Kind): Promise<void> {
    try {
      const encode = await this.materials(kind).ready(this.slot);
      this.transmit(kind, this.slot.current ?? (await this.slot.get()), encode);
    } catch (error) {
      this.settle(kind, failureOf(error), performance.now());
    }
  }

  private transmit(kind: Kind, connection: Connection, encode: Encode): void {
    let timer: NodeJS.Timeout | undefined;
    const id = connection.send(encode, (outcome, at) => {
      clearTimeout(timer);
      this.settle(kind, outcome, at);
    });
    if (kind.cancelAfter !== undefined) timer = setTimeout(() => connection.cancel(id), kind.cancelAfter);
  }

  private settle(kind: Kind, outcome: Answer | Failure, at: number): void {
    const failure = outcome instanceof Failure ? outcome : this.checked(kind, outcome);
    if (failure) this.told.failed(failure.code);
    else this.told.answered(kind, at - this.due);
    this.due = at;
    if (failure && (failure.code !== 'cancelled' || kind.cancelAfter === undefined)) this.ended(failure);
    else this.run();
  }

  private checked(kind: Kind, answer: Answer): Failure | undefined {
    try {
      this.materials(kind).check(answer);
      // The next answer gets memory that is at hand, whenever the collector comes.
      answer.release();
      return undefined;
    } catch (error) {
      return failureOf(error);
    }
  }
}

function failureOf(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure('wrong_answer', error instanceof Error ? error.message : String(error));
}
