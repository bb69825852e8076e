// Interleaved rounds: every case gets its turn in each round, so that what else the machine does affects all alike.

import { performance } from 'node:perf_hooks';

/** How long a loop runs between two looks at the clock, in milliseconds. */
const TURN_MS = 0.2;

/** A case that calls `op` in a loop. */
export function loop(op) {
  let turn = 1;
  return (ms) => {
    const end = performance.now() + ms;
    let calls = 0;
    for (let now = performance.now(); now < end;) {
      for (let i = 0; i < turn; i += 1) op();
      calls += turn;
      const after = performance.now();
      // Looking at the clock must cost nothing beside the calls.
      if (after - now < TURN_MS / 2) turn *= 2;
      else if (after - now > TURN_MS * 2) turn = Math.max(1, turn >> 1);
      now = after;
    }
    return calls;
  };
}

/** A case that keeps `width` calls of `start(callback, place)` in flight; calls with one place, from 0 on, follow one another. */
export function flights(start, width) {
  return (ms) => new Promise((resolve, reject) => {
    const end = performance.now() + ms;
    let [started, ended] = [0, 0];
    let isOver = false;
    const next = (place) => {
      started += 1;
      start(callbacks[place], place);
    };
    const settled = (error, place) => {
      if (error) {
        reject(error);
        return;
      }
      ended += 1;
      // The clock is read for every eighth of the calls in flight.
      if (!isOver && (width < 8 || ended % (width >> 3) === 0)) isOver = performance.now() >= end;
      if (!isOver) next(place);
      else if (ended === started) resolve(ended);
    };
    const callbacks = Array.from({ length: width }, (_, place) => (error) => settled(error, place));
    for (let place = 0; place < width; place += 1) next(place);
  });
}

/** A case that keeps `width` promises of `start()` in flight. */
export function promised(start, width) {
  return flights((settled) => { start().then(() => settled(), settled); }, width);
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

/**
 * Runs cases, functions from milliseconds to a number of calls, in `rounds` rounds of `roundMs` each. Returns the medians of wall time and CPU
 * time a call in nanoseconds, and half the distance of the quartiles of the wall time as a share of it. CPU time is that of the whole
 * process: all threads, with the garbage collector. A case whose calls take longer than a round has fewer rounds.
 */
export async function measure(cases, { rounds, roundMs }) {
  const samples = new Map([...cases.keys()].map((name) => [name, []]));
  const slow = new Set();
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, run] of cases) {
      if (slow.has(name) && round > 2) continue;
      const cpuBefore = process.cpuUsage();
      const before = performance.now();
      const calls = await run(roundMs);
      const wall = performance.now() - before;
      const { user, system } = process.cpuUsage(cpuBefore);
      if (calls <= 3 && wall > 4 * roundMs) slow.add(name);
      // The first round warms up the compiler.
      if (round > 0) samples.get(name).push({ wall: (wall * 1e6) / calls, cpu: ((user + system) * 1e3) / calls });
      await new Promise(setImmediate);
    }
  }
  return new Map([...samples].map(([name, list]) => {
    const walls = list.map(({ wall }) => wall).sort((a, b) => a - b);
    const at = (share) => walls[Math.floor(share * (walls.length - 1))];
    const wall = median(walls);
    return [name, { wall, cpu: median(list.map(({ cpu }) => cpu)), spread: (at(0.75) - at(0.25)) / 2 / wall }];
  }));
}
