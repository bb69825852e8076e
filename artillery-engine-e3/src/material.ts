// The content of requests of a kind, seeded values or envelopes of these, and the checks of their answers.

import { type Encode, Failure } from './connection';
import type { Slot } from './pool';
import type { Kind } from './scenario';
import type { Answer, Wire } from './wire';

const LETTERS = Buffer.from('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_');
const SEED = 1;

/** The content of the requests of one kind, the same for each request. */
export interface Material {
  /** Encodes a request with an id; `undefined` while envelopes are missing. */
  readonly encode: Encode | undefined;
  /** Waits until `encode` is available: the engine creates the envelopes once. */
  ready: (slot: Slot) => Promise<Encode>;
  /** @throws {Error} If an answer is wrong. */
  check: (answer: Answer) => void;
}

/** Requests that encrypt. */
export class Values implements Material {
  private content: Buffer | undefined;

  constructor(
    private readonly kind: Kind,
    private readonly wire: Wire,
  ) {}

  readonly encode = (id: number): Buffer => {
    const { app, curve, keying, numEncrypts, fieldSize } = this.kind;
    this.content ??= lettersBySeed(numEncrypts * fieldSize);
    return this.wire.encodeEncryptFields(id, { app, ...(curve && { curve }), ...(keying && { keying }) }, this.content, fieldSize);
  };

  ready(): Promise<Encode> {
    return Promise.resolve(this.encode);
  }

  check(answer: Answer): void {
    checkCount(answer, this.kind);
  }
}

/** Requests that decrypt envelopes which were created once. */
export class Envelopes implements Material {
  encode: Encode | undefined;
  private sealing: Promise<Encode> | undefined;

  constructor(
    private readonly kind: Kind,
    private readonly wire: Wire,
  ) {}

  ready(slot: Slot): Promise<Encode> {
    this.sealing ??= this.seal(slot).catch((error: unknown) => {
      // The next request tries again.
      this.sealing = undefined;
      throw error;
    });
    return this.sealing;
  }

  check(answer: Answer): void {
    checkCount(answer, this.kind);
  }

  private async seal(slot: Slot): Promise<Encode> {
    const connection = slot.current ?? (await slot.get());
    const { encode } = new Values(this.kind, this.wire);
    const answer = await new Promise<Answer>((resolve, reject) => {
      connection.send(encode, (outcome) => {
        if (outcome instanceof Failure) reject(outcome);
        else resolve(outcome);
      });
    });
    const options = { app: this.kind.app };
    this.encode = (id) => this.wire.encodeDecryptAnswer(id, options, answer);
    return this.encode;
  }
}

/** Health requests, which have no content. */
export class Health implements Material {
  constructor(private readonly wire: Wire) {}

  readonly encode = (id: number): Buffer => this.wire.encodeHealth(id);

  ready(): Promise<Encode> {
    return Promise.resolve(this.encode);
  }

  check(answer: Answer): void {
    if (answer.status === '') throw new Error('an empty word for health');
  }
}

function checkCount(answer: Answer, kind: Kind): void {
  if (answer.count !== kind.numEncrypts) throw new Error(`${answer.count} values came for ${kind.numEncrypts}`);
}

/** ASCII letters, the same for the same size: xorshift32. */
function lettersBySeed(size: number): Buffer {
  const content = Buffer.allocUnsafe(size);
  let state = SEED;
  for (let at = 0; at < size; at += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    content[at] = LETTERS[(state >>> 8) & 63] ?? 0;
  }
  return content;
}
