// Fetches an app's public key from an engine, whose answers to pages are governed by `api.cors_origins`.

import { LeafsealError } from './errors.js';
import { readPublicKey, type Point } from './point.js';

/** Where an app's public key is. */
export interface KeyEndpoint {
  /** The address of the engine's HTTPS API, such as `https://engine.example:8443`. */
  readonly url: string;
  /** The app's name. */
  readonly app: string;
  /** The engine's `api.team`. Engines serve every app under any team; some proxies route by it. Default: `leafseal`. */
  readonly team?: string;
  /** Milliseconds to wait for the key. Default: 10000. */
  readonly timeout?: number;
  /** Cancels the request. */
  readonly signal?: AbortSignal;
}

const TIMEOUT_DEFAULT = 10_000;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** @throws LeafsealError `invalid_option`, `key_unavailable` or `invalid_key`; the signal's reason if it aborts. */
export async function fetchPublicKey(endpoint: KeyEndpoint): Promise<Point> {
  const url = addressOf(endpoint);
  const material = await request(url, endpoint);
  const { ecdhP256Key: compressed, ecdhP256KeyUncompressed: whole } = (material ?? {}) as Record<string, unknown>;
  if (typeof compressed !== 'string' && typeof whole !== 'string') {
    throw unavailable(url, 'the answer has no ecdhP256Key: check that the address is that of an engine');
  }
  const points = [compressed, whole].filter(key => typeof key === 'string').map(readPublicKey);
  const [first, second] = points as [Point, Point | undefined];
  if (second && String(first.uncompressed) !== String(second.uncompressed)) {
    throw unavailable(url, 'ecdhP256Key and ecdhP256KeyUncompressed differ');
  }
  return first;
}

function addressOf({ url, app, team = 'leafseal' }: KeyEndpoint): string {
  let base: URL;
  try {
    base = new URL(url);
  } catch {
    throw new LeafsealError('invalid_option', 'url must be an absolute URL, such as https://engine.example:8443');
  }
  // An attacker who replaces the key in transit can decrypt everything that is encrypted with it.
  if (base.protocol !== 'https:' && !(base.protocol === 'http:' && LOOPBACK.test(base.hostname))) {
    throw new LeafsealError('invalid_option', `url must begin with https:// (${base.protocol}// is allowed to this machine only)`);
  }
  if (!app || !team) throw new LeafsealError('invalid_option', 'app and team must not be empty');
  const path = `${base.pathname.replace(/\/+$/, '')}/${encodeURIComponent(team)}/apps/${encodeURIComponent(app)}`;
  return `${base.origin}${path}`;
}

async function request(url: string, { timeout = TIMEOUT_DEFAULT, signal }: KeyEndpoint): Promise<unknown> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal?.reason);
  const timer = setTimeout(() => controller.abort(unavailable(url, `no answer in ${timeout} ms`)), timeout);
  signal?.addEventListener('abort', abort);
  try {
    const answer = await fetch(url, { credentials: 'omit', redirect: 'error', cache: 'no-store', signal: controller.signal });
    const body: unknown = await answer.json().catch(() => undefined);
    controller.signal.throwIfAborted();
    if (answer.ok) return body;
    const { detail } = (body ?? {}) as { detail?: unknown };
    throw unavailable(url, `status ${answer.status}${typeof detail === 'string' ? `: ${detail}` : ''}`);
  } catch (error) {
    controller.signal.throwIfAborted();
    if (error instanceof LeafsealError) throw error;
    // Browsers do not distinguish these to a page.
    const { origin = 'this origin' } = globalThis as { origin?: string };
    const causes = 'the engine is unreachable, its certificate is not trusted, or its api.cors_origins does not list';
    throw unavailable(url, `${causes} ${origin}`, error);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

function unavailable(url: string, problem: string, cause?: unknown): LeafsealError {
  return new LeafsealError('key_unavailable', `no public key from ${url}: ${problem}`, { cause });
}
