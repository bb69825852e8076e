// A virtual user: executes its steps in order. Each request is due when the previous one is done.

import { type Connection, type Encode, Failure } from './connection';
import type { Material } from './material';
import type { Slot } from './pool';
import type { Kind, Step } from './scenario';
import type { Answer } from './wire';

/** Returns the content of requests of a kind. */
export type Materials = (kind: Kind) => Material;

/** Receives the events of requests. */
export interface RequestObserver {
  sent: (kind: Kind) => void;
  answered: (kind: Kind, latencyMs: number) => void;
  failed: (code: string) => void;
}

/** A position in a list of steps. */
interface Place {
  readonly steps: readonly Step[];
  next: number;
  /** Remaining iterations of the list. */
  rounds: number;
}

/**
 * One run of a scenario. Times are those of `performance.now()`. Callbacks instead of promises: if connection and content are ready, a
 * request is sent without a delay after it is due.
 */
export class User {
  private readonly places: Place[];

  constructor(
    private readonly slot: Slot,
    private readonly materials: Materials,
    private readonly observer: RequestObserver,
    /** When the next request is due. */
    private due: number,
    steps: readonly Step[],
    /** Called once, when all steps are done or with the failure that ended the user. */
    private readonly ended: (failure?: Failure) => void,
  ) {
    this.places = [{ steps, next: 0, rounds: 0 }];
  }

  /** Executes steps until one has to wait. */
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

  /** Returns the next step that is not a loop. */
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
    this.observer.sent(kind);
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
    if (failure) this.observer.failed(failure.code);
    else this.observer.answered(kind, at - this.due);
    this.due = at;
    if (failure && (failure.code !== 'cancelled' || kind.cancelAfter === undefined)) this.ended(failure);
    else this.run();
  }

  private checked(kind: Kind, answer: Answer): Failure | undefined {
    try {
      this.materials(kind).check(answer);
      // Makes the memory available to the next answer without waiting for garbage collection.
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
