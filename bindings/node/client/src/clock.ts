// Time and chance, which tests replace by their own.

/** The argument of {@link Clock.cancel}. */
export type Timer = NodeJS.Timeout | undefined;

export interface Clock {
  /** Milliseconds since any moment. */
  now: () => number;
  /** Calls `act` after this time. Only a timer `inCall` keeps the process alive. */
  after: (ms: number, act: () => void, use: 'inCall' | 'idle') => Timer;
  cancel: (timer: Timer) => void;
  /** From 0 to 1. */
  random: () => number;
}

/** The longest time that a timer of Node can wait. */
export const TIMER_MAX_MS = 2_147_483_647;

/** The clock of the system. */
export const CLOCK: Clock = {
  now: () => performance.now(),
  after: (ms, act, use) => {
    if (ms === 0) {
      setImmediate(act);
      return undefined;
    }
    // Node's timers are up to a millisecond early. A timer that fires must find its time reached.
    const timer = setTimeout(act, Math.min(Math.ceil(ms) + 1, TIMER_MAX_MS));
    return use === 'idle' ? timer.unref() : timer;
  },
  cancel: (timer) => clearTimeout(timer),
  random: Math.random,
};
