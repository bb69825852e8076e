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

/** How long to wait for answers after the last phase, in milliseconds. */
const LAST_ANSWERS = 60_000;
/** Maximum delay of a timer, in milliseconds. */
const TIMER_MAX = 2 ** 31 - 1;

type Callback = (error: Error | null, context?: unknown) => void;
type RunScenario = (context: unknown, callback: Callback) => void;

/** The state that users need; it exists only if the file is valid. */
interface Ready {
  readonly config: Config;
  readonly pool: Pool;
  readonly materials: (kind: Kind) => Material;
  /**
   * The end of the warm-up, when the connections are established and the envelopes are created. Users that arrive earlier wait, and
   * their first requests are due then. `undefined` during the warm-up.
   */
  since: number | undefined;
  readonly warmed: Promise<number>;
  /** Duration of the warm-up in milliseconds, until it is reported. */
  unreportedWarmUpMs: number | undefined;
}

/** Artillery creates one for each of its threads. */
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
    // If the constructor throws, Artillery continues without the engine and ends with an unspecific error.
    if (!this.ready && !isMainThread) {
      process.nextTick(() => {
        throw this.refusal();
      });
    }
  }

  /** Returns a function that runs the scenario for one user. */
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
        if (ready.unreportedWarmUpMs !== undefined) metrics.warmedUp(ready.unreportedWarmUpMs);
        ready.unreportedWarmUpMs = undefined;
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

  /** An error that Artillery prints unchanged: one line for each problem. */
  private refusal(): Error {
    const error = new Error(`\n${shownProblems(this.problems, this.script._scriptPath)}\n`);
    error.stack = error.message;
    return error;
  }
}

/** Connects and warms up, so that no user has to wait for it. */
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
    // Content that cannot be created now fails for the user that needs it.
    await Promise.allSettled(kinds.map(async (kind) => slot.current?.prepare(await materials(kind).ready(slot))));
  };
  const began = performance.now();
  const warmed = pool.open(warm).then(() => {
    ready.since = performance.now();
    ready.unreportedWarmUpMs = ready.since - began;
    return ready.since;
  });
  const ready: Ready = { config, pool, materials, since: undefined, warmed, unreportedWarmUpMs: undefined };
  // Timers are limited to 24 days: longer runs end then.
  const giveUp = setTimeout(() => {
    pool.end(new Failure('no_answer', 'no answer came'));
  }, Math.min(config.phasesMs + LAST_ANSWERS, TIMER_MAX));
  giveUp.unref();
  return ready;
}

/** Runs a user that sends `count` health requests and is not reported: the process is slow until its code is compiled. */
function warmUp(slot: Slot, health: Health, count: number): Promise<void> {
  const kind: Kind = { numEncrypts: 1, fieldSize: 1, decrypt: false, app: '' };
  const observer = { sent: () => undefined, answered: () => undefined, failed: () => undefined };
  return new Promise((resolve) => {
    const steps = count > 0 ? [{ count, loop: [{ send: kind }] }] : [];
    new User(slot, () => health, observer, performance.now(), steps, () => resolve()).run();
  });
}

export = E3Engine;
