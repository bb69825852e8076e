// What TypeScript makes of the browser build's types. Compiled by browser_types.test.mjs.

import { Encryptor, LeafsealError } from '@leafseal/client/browser';
import type { Encrypted, EncryptOptions, ErrorCode, KeyEndpoint } from '@leafseal/client/browser';

interface Payment {
  readonly card: string;
  amount: number;
  saved?: boolean;
  tags: string[];
  pair: [number, null];
}

export async function encrypted(payment: Payment, endpoint: KeyEndpoint): Promise<string[]> {
  const encryptor = await Encryptor.fetch(endpoint, { depthMax: 8 });
  const options: EncryptOptions = { role: 'pci', keying: 'field' };
  const sealed = await encryptor.encrypt(payment, options);
  const text: string = sealed.amount;
  const optional: string | undefined = sealed.saved;
  const tags: string[] = sealed.tags;
  const nothing: null = sealed.pair[1];
  // @ts-expect-error A number is an envelope afterwards.
  const number: number = sealed.amount;
  // @ts-expect-error The shape stays: it has no other property.
  void sealed.other;
  const [first, second]: [string, string] = [await encryptor.encrypt('x'), await encryptor.encrypt(true)];
  // @ts-expect-error Roles are strings.
  await encryptor.encrypt('x', { role: 1 });
  // @ts-expect-error There is no such keying.
  await encryptor.encrypt('x', { keying: 'session' });
  return [text, optional ?? '', ...tags, String(nothing), String(number), first, second];
}

export async function files(): Promise<[File, Blob, Uint8Array<ArrayBuffer>]> {
  const encryptor = await Encryptor.of(new Uint8Array(33));
  const [file, blob] = [await encryptor.encryptFile(new File([], 'a')), await encryptor.encryptFile(new Blob())];
  return [file, blob, await encryptor.encryptFile(new Uint8Array())];
}

export function isOurs(error: unknown): ErrorCode | undefined {
  return error instanceof LeafsealError ? error.code : undefined;
}

// @ts-expect-error Only the functions make encryptors.
export const make = (): Encryptor => new Encryptor();

// @ts-expect-error Dates are refused.
export const date: Encrypted<Date> = '';
