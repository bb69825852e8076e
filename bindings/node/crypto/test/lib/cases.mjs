// Random calls with what node:crypto says they must do: the result, and the content of all memory afterwards.
//
// All arguments of a case lie in one or more blocks of memory that are filled at random. Ranges have bytes before and behind them, tags lie
// directly behind ciphertexts, targets lie on or across their sources; afterwards every block is compared whole.

import nodeCrypto from 'node:crypto';

import { CIPHERS, CIPHER_ALIASES, DIGESTS, DIGEST_ALIASES, MESSAGES } from './contract.mjs';
import { Random } from './random.mjs';

const LARGE_MAX = 3 << 20;
const noise = nodeCrypto.createCipheriv('aes-256-ctr', Buffer.alloc(32), Buffer.alloc(16)).update(Buffer.alloc(LARGE_MAX + (1 << 20)));

/** Case `index` of a run. */
export function makeCase(seed, index) {
  const random = new Random(seed, index);
  const method = random.pick(['cipher', 'cipher', 'cipher', 'cipher', 'hash', 'hmac']);
  const made = method === 'cipher' ? cipherCase(random) : digestCase(random, method);
  return { index, random, method, ...made };
}

function spelled(random, name, aliases) {
  const spellings = [name, name.toUpperCase(), ...Object.keys(aliases).filter((alias) => aliases[alias] === name)];
  return random.chance(0.9) ? name : random.pick(spellings);
}

/** Sizes around blocks, lanes and slices, and now and then a large one. */
function someSize(random) {
  const kind = random.below(1000);
  if (kind < 60) return 0;
  if (kind < 400) return random.below(70);
  if (kind < 800) return random.below(1200);
  if (kind < 970) return random.below(16384);
  if (kind < 996) return random.below(262144);
  return random.below(LARGE_MAX);
}

/** An extra check of counters: all ones in a random part of the iv, so that carries and wraps occur. */
function someIv(random, iv) {
  random.fill(iv);
  if (random.chance(0.3)) iv.fill(0xff, random.below(iv.length), random.between(1, iv.length));
  return iv;
}

function cipherCase(random) {
  const name = random.pick(Object.keys(CIPHERS));
  const { keySize, ivSize, tags } = CIPHERS[name];
  const isTagged = tags.length > 0;
  const sizes = { key: keySize, iv: ivSize, source: someSize(random) };
  sizes.target = sizes.source;
  // Large AAD is rare, like large sources.
  sizes.aad = isTagged ? someSize(random) : 0;
  sizes.tag = isTagged ? random.pick(tags) : 0;
  const placing = random.pick(['apart', 'apart', 'in place', 'across']);
  const memory = new Memory(random, sizes, placing === 'apart' ? undefined : shift(random, placing, sizes.source));
  someIv(random, memory.bytes('iv'));
  const encrypt = random.below(2);
  const isCorrupted = encrypt === 0 && isTagged && random.chance(0.35);
  if (encrypt === 0) encipher(name, memory);
  if (isCorrupted) corrupt(random, memory);
  const result = outcome(name, encrypt, memory);
  return { name, algorithm: spelled(random, name, CIPHER_ALIASES), encrypt, isTagged, placing, memory, result };
}

function shift(random, placing, size) {
  if (placing === 'in place') return 0;
  const most = Math.max(1, Math.min(size + 8, random.pick([2, 17, 64, 300, size + 8])));
  return random.between(1, most) * random.pick([-1, 1]);
}

function corrupt(random, memory) {
  const names = ['key', 'iv', 'source', 'aad', 'tag'].filter((name) => memory.ranges[name].size > 0);
  const bytes = memory.bytes(random.pick(names));
  bytes[random.below(bytes.length)] ^= 1 << random.below(8);
}

/** node:crypto's cipher over a memory's key, iv and aad. */
function cipherOf(name, create, memory) {
  const tagSize = memory.ranges.tag.size;
  const cipher = create(name, memory.bytes('key'), memory.bytes('iv'), tagSize ? { authTagLength: tagSize } : {});
  if (tagSize) cipher.setAAD(memory.bytes('aad'), { plaintextLength: memory.ranges.source.size });
  return cipher;
}

function encipher(name, memory) {
  const cipher = cipherOf(name, nodeCrypto.createCipheriv, memory);
  memory.bytes('source').set(cipher.update(memory.bytes('source')));
  cipher.final();
  if (memory.ranges.tag.size) memory.bytes('tag').set(cipher.getAuthTag());
}

/** The result: bytes and perhaps a tag, or the message of the error. */
function outcome(name, encrypt, memory) {
  const cipher = cipherOf(name, encrypt ? nodeCrypto.createCipheriv : nodeCrypto.createDecipheriv, memory);
  const isTagged = memory.ranges.tag.size > 0;
  if (isTagged && !encrypt) cipher.setAuthTag(memory.bytes('tag'));
  const bytes = cipher.update(memory.bytes('source'));
  try {
    cipher.final();
  } catch {
    return { error: MESSAGES.E_CORRUPT };
  }
  return { bytes, tag: isTagged && encrypt ? cipher.getAuthTag() : undefined };
}

function digestCase(random, method) {
  const names = Object.keys(DIGESTS).filter((name) => method === 'hash' || DIGESTS[name].hmac);
  const name = random.pick(names);
  const sizes = { source: someSize(random), target: DIGESTS[name].size };
  if (method === 'hmac') sizes.key = random.chance(0.8) ? random.below(200) : someSize(random);
  const placing = random.pick(['apart', 'apart', 'across']);
  const memory = new Memory(random, sizes, placing === 'apart' ? undefined : random.between(-sizes.target, sizes.source));
  const hasher = method === 'hash' ? nodeCrypto.createHash(name) : nodeCrypto.createHmac(name, memory.bytes('key'));
  const result = { bytes: hasher.update(memory.bytes('source')).digest() };
  return { name, algorithm: spelled(random, name, DIGEST_ALIASES), isTagged: false, placing, memory, result };
}

/** The memory of a case: blocks, and a range in one of them for each argument. */
class Memory {
  ranges = {};
  blocks = [];
  #random;

  /** `targetShift`: where the target begins, counted from the source; undefined: apart from it. */
  constructor(random, sizes, targetShift) {
    this.#random = random;
    const together = targetShift === undefined ? [] : ['source', 'target'];
    const alone = Object.keys(sizes).filter((name) => !together.includes(name) && random.chance(0.3));
    for (const name of alone) this.#place([[name, 0, sizes[name]]]);
    const rest = Object.keys(sizes).filter((name) => !together.includes(name) && !alone.includes(name));
    const groups = rest.map((name) => [[name, 0, sizes[name]]]);
    if (together.length) groups.push([['source', Math.max(0, -targetShift), sizes.source], ['target', Math.max(0, targetShift), sizes.target]]);
    for (let i = groups.length - 1; i > 0; i -= 1) {
      const other = random.below(i + 1);
      [groups[i], groups[other]] = [groups[other], groups[i]];
    }
    let end = 0;
    const placed = groups.flatMap((group) => {
      // Often without a gap, so that a tag lies directly behind a text.
      const at = end + (random.chance(0.5) ? 0 : random.below(20));
      const ranges = group.map(([name, offset, size]) => [name, at + offset, size]);
      end = Math.max(...ranges.map(([, offset, size]) => offset + size));
      return ranges;
    });
    this.#place(placed);
  }

  #place(ranges) {
    const random = this.#random;
    const end = Math.max(0, ...ranges.map(([, at, size]) => at + size));
    const size = end + (random.chance(0.3) ? 0 : random.below(40));
    const block = Buffer.from(random.chance(0.05) ? new SharedArrayBuffer(size) : new ArrayBuffer(size));
    noise.copy(block, 0, random.below(1 << 20));
    for (const [name, at, length] of ranges) this.ranges[name] = { block: this.blocks.length, at, size: length };
    this.blocks.push(block);
  }

  /** The bytes of an argument, as they lie in memory. */
  bytes(name) {
    const { block, at, size } = this.ranges[name];
    return this.blocks[block].subarray(at, at + size);
  }

  /** An argument of a zero-copy form: a view, the offset in it, and the size. */
  zeroCopy(name) {
    const { block, at, size } = this.ranges[name];
    const whole = this.blocks[block];
    const kind = this.#random.below(8);
    if (kind < 4) return [whole, at, size];
    const before = this.#random.below(Math.min(at, 12) + 1);
    const behind = this.#random.below(Math.min(whole.length - at - size, 12) + 1);
    const place = [whole.buffer, whole.byteOffset + at - before, before + size + behind];
    if (kind === 4) return [new Uint8Array(...place), before, size];
    if (kind === 5) return [new DataView(...place), before, size];
    return [Buffer.from(...place), before, size];
  }

  /** The expected content of the blocks after the call. */
  expected(changes) {
    const blocks = this.blocks.map((block) => Buffer.from(block));
    for (const [name, bytes] of Object.entries(changes)) {
      const { block, at } = this.ranges[name];
      blocks[block].set(bytes, at);
    }
    return blocks;
  }
}
