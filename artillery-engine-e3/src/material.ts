// What requests of a kind hold: values by a seed, or envelopes that were made of them once.

import type { Slot } from './pool';
import type { Kind } from './scenario';
import type { Answer, Wire } from './wire';

const LETTERS = Buffer.from('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_');
const SEED = 1;

/** The content of the requests of one kind, the same each time. */
export class Material {
  private content: Buffer | undefined;
  private envelopes: Promise<Answer> | undefined;

  constructor(
    readonly kind: Kind,
    private readonly wire: Wire,
  ) {}

  /** Waits until requests of this kind can be sent: envelopes are asked of the engine once. */
  async ready(slot: Slot): Promise<void> {
    if (this.kind.decrypt) await this.sealed(slot);
  }

  /** What makes a request of an id. */
  async encoder(slot: Slot): Promise<(id: number) => Buffer> {
    if (!this.kind.decrypt) return (id) => this.encrypt(id);
    const answer = await this.sealed(slot);
    const options = { app: this.kind.app };
    return (id) => this.wire.encodeDecryptAnswer(id, options, answer);
  }

  private encrypt(id: number): Buffer {
    const { app, curve, keying, numEncrypts, fieldSize } = this.kind;
    this.content ??= lettersBySeed(numEncrypts * fieldSize);
    return this.wire.encodeEncryptFields(id, { app, ...(curve && { curve }), ...(keying && { keying }) }, this.content, fieldSize);
  }

  private sealed(slot: Slot): Promise<Answer> {
    this.envelopes ??= this.seal(slot).catch((error: unknown) => {
      // The next request tries again.
      this.envelopes = undefined;
      throw error;
    });
    return this.envelopes;
  }

  private async seal(slot: Slot): Promise<Answer> {
    const connection = await slot.get();
    const { answer } = await connection.send((id) => this.encrypt(id)).arrived;
    this.content = undefined;
    return answer;
  }
}

/** Letters of one byte each, the same for the same size: xorshift32. */
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
