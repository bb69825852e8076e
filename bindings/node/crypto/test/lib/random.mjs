// Random cases that can be replayed: a generator for each case, seeded by the run's seed and the number of the case.

import { createHash, randomBytes } from 'node:crypto';

/** The seed of this run: `SEED` in the environment, or a fresh one. Failures print it. */
export const seed = process.env.SEED ?? randomBytes(6).toString('hex');

/** xoshiro128** over 32-bit integers: fast enough for 10^6 cases, and no more than reproducible. */
export class Random {
  #state = new Uint32Array(4);

  constructor(...names) {
    const digest = createHash('sha256').update(names.join(':')).digest();
    for (let i = 0; i < 4; i += 1) this.#state[i] = digest.readUInt32LE(i * 4);
  }

  u32() {
    const s = this.#state;
    const rotated = Math.imul(s[1], 5);
    const result = Math.imul((rotated << 7) | (rotated >>> 25), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  /** An integer in 0..bound, bound excluded. */
  below(bound) {
    return Math.floor((this.u32() / 4294967296) * bound);
  }

  /** An integer in least..=most. */
  between(least, most) {
    return least + this.below(most - least + 1);
  }

  chance(probability) {
    return this.u32() / 4294967296 < probability;
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  /** Fills a view with random bytes. */
  fill(bytes) {
    let at = 0;
    for (; at + 4 <= bytes.length; at += 4) {
      const word = this.u32();
      bytes[at] = word;
      bytes[at + 1] = word >>> 8;
      bytes[at + 2] = word >>> 16;
      bytes[at + 3] = word >>> 24;
    }
    for (; at < bytes.length; at += 1) bytes[at] = this.u32();
    return bytes;
  }

  bytes(size) {
    return this.fill(Buffer.alloc(size));
  }
}
