// The engine as Artillery loads it: `config.engines.e3` and `engine: e3` of a scenario.

import { isMainThread } from 'node:worker_threads';

import { Failure } from './connection';
import type { Problem } from './fields';
import { Envelopes, Health, type Material, Values } from './material';
import { type Events, Metrics } from './metrics';
import { shownProblems } from './place';
import { Pool, type Slot } from './pool';
import { type Config, type Kind, type Script, type Step, readConfig, readFlow } from './scenario';
import { User } from './user';
import { type Wire, loadWire } from './wire';

/** How long answers are waited for when the phases are over, in milliseconds. */
const LAST_ANSWERS = 60_000;
/** The longest time that a timer takes, in milliseconds. */
const TIMER_MAX = 2 ** 31 - 1;

type Callback = (error: Error | null, context?: unknown) => void;
type RunScenario = (context: unknown, callback: Callback) => void;

/** All that users need, where the file has nothing wrong in it. */
interface Ready {
  readonly config: Config;
  readonly pool: Pool;
  readonly materials: (kind: Kind) => Material;
  /**
   * When the connections stood and the envelopes were made: who comes before is held until then, and what was due is due then. Nothing
   * until then.
   */
  since: number | undefined;
  readonly warmed: Promise<number>;
  /** How long that took, in milliseconds, until a user has told it. */
  untold: number | undefined;
}

/** Artillery makes one for each of its threads. */
class E3Engine {
  private readonly problems: Problem[] = [];
  private readonly kinds = new Map<string, Kind>();
  private readonly flows = new Map<unknown, Step[]>();
  private readonly config: Config | undefined;
  private readonly ready: Ready | undefined;

  constructor(private readonly script: Script) {
    this.config = readConfig(script, this.problems);
    for (const [index, spec] of (script.scenarios ?? []).entries()) {
      if (this.isOurs(spec)) this.readFlow(spec, ['scenarios', index]);
    }
    const wire = this.config && this.loadWire(this.config);
    if (this.problems.length === 0 && this.config && wire) this.ready = prepare(this.config, wire, [...this.kinds.values()]);
    // Artillery would go on without an engine that throws here, and end with an error that says nothing.
    if (!this.ready && !isMainThread) {
      process.nextTick(() => {
        throw this.refusal();
      });
    }
  }

  /** A function that runs the scenario for one user. */
  createScenario(spec: { name?: string }, events: Events): RunScenario {
    if (this.ready && !this.flows.has(spec)) this.readFlow(spec, []);
    const [ready, steps] = [this.ready, this.flows.get(spec)];
    if (!ready || !steps || this.problems.length > 0) throw this.refusal();
    const position = this.script.scenarios?.indexOf(spec) ?? -1;
    const metrics = new Metrics(events, spec.name ?? `scenario ${position + 1}`);
    return (context, callback) => {
      const arrived = performance.now();
      const ended = (failure?: Failure): void => void setImmediate(callback, failure ?? null, context);
      const begin = (due: number): void => {
        if (ready.untold !== undefined) metrics.warmedUp(ready.untold);
        ready.untold = undefined;
        new User(ready.pool.next(), ready.materials, metrics, due, steps, ended).run();
      };
      const hold = (waited: number, since: number): void => {
        metrics.held(waited);
        begin(since);
      };
      if (ready.since === undefined) void ready.warmed.then((since) => hold(since - arrived, since));
      else begin(arrived);
      metrics.started();
    };
  }

  private isOurs(spec: unknown): boolean {
    const engine = (spec as { engine?: unknown } | null)?.engine ?? this.script.config.engine;
    return engine === 'e3';
  }

  private readFlow(spec: unknown, path: (string | number)[]): void {
    this.flows.set(spec, readFlow(spec, path, this.config?.app ?? '', this.kinds, this.problems));
  }

  private loadWire(config: Config): Wire | undefined {
    try {
      return loadWire(config.rpc, config.folder);
    } catch (error) {
      const path = ['config', 'e3', 'rpc'];
      this.problems.push({ path, message: `config.e3.rpc: ${error instanceof Error ? error.message : String(error)}` });
      return undefined;
    }
  }

  /** An error that Artillery prints as it is: one line for each thing that is wrong. */
  private refusal(): Error {
    const error = new Error(`\n${shownProblems(this.problems, this.script._scriptPath)}\n`);
    error.stack = error.message;
    return error;
  }
}

/** Connects, and does before the first user what no user shall wait for. */
function prepare(config: Config, wire: Wire, kinds: readonly Kind[]): Ready {
  const pool = new Pool(config.target, wire);
  const made = new Map<Kind, Material>();
  const materials = (kind: Kind): Material => {
    const material = made.get(kind) ?? (kind.decrypt ? new Envelopes(kind, wire) : new Values(kind, wire));
    made.set(kind, material);
    return material;
  };
  const warm = async (slot: Slot): Promise<void> => {
    await warmUp(slot, new Health(wire), config.warmUp);
    // What cannot be made now fails for the user who needs it.
    await Promise.allSettled(kinds.map(async (kind) => slot.current?.prepare(await materials(kind).ready(slot))));
  };
  const began = performance.now();
  const warmed = pool.open(warm).then(() => {
    ready.since = performance.now();
    ready.untold = ready.since - began;
    return ready.since;
  });
  const ready: Ready = { config, pool, materials, since: undefined, warmed, untold: undefined };
  // Where the phases take more than 24 days, answers are given up then.
  const giveUp = setTimeout(() => {
    pool.end(new Failure('no_answer', 'no answer came'));
  }, Math.min(config.phasesMs + LAST_ANSWERS, TIMER_MAX));
  giveUp.unref();
  return ready;
}

/** A user that asks for health so many times, of whom nobody is told: until its code is compiled, a process is slow. */
function warmUp(slot: Slot, health: Health, count: number): Promise<void> {
  const kind: Kind = { numEncrypts: 1, fieldSize: 1, decrypt: false, app: '' };
  const told = { sent: () => undefined, answered: () => undefined, failed: () => undefined };
  return new Promise((resolve) => {
    const steps = count > 0 ? [{ count, loop: [{ send: kind }] }] : [];
    new User(slot, () => health, told, performance.now(), steps, () => resolve()).run();
  });
}

export = E3Engine;
