// The rules of all clients, read from `vectors/client/rules.json`. Its README explains the words and the algorithm.

import { RULES } from './rules_generated.js';
import type { Settings } from './settings.js';

/** How an attempt of a call, or a connection, ends without success. */
export type Event = (typeof RULES)['outcomes'][number]['event'] | 'closed';
/** The action of the call. */
export type Action = (typeof RULES)['outcomes'][number]['action'];

interface Outcome {
  readonly event: string;
  readonly code?: string;
  readonly sent?: boolean;
  readonly elsewhere?: boolean;
  readonly action: Action;
}

const OUTCOMES: readonly Outcome[] = RULES.outcomes;
const AVOID: readonly { readonly event: string; readonly code: string; readonly until_success: boolean }[] = RULES.avoid;
const EARNED_EXCEPT: readonly string[] = RULES.budget.earned_except;

/** The action of a call after an event. A request counts as sent: a socket of Node takes it at once. */
export function actionAfter(event: Event, code: string, elsewhere: boolean): Action {
  const line = OUTCOMES.find((outcome) => outcome.event === event
    && (outcome.code === undefined || outcome.code === '*' || outcome.code === code)
    && outcome.sent !== false
    && (outcome.elsewhere === undefined || outcome.elsewhere === elsewhere));
  // The client itself was closed.
  return line?.action ?? 'fail';
}

/** Whether a place is avoided after an event, and if so whether a success ends that. */
export function avoidanceAfter(event: string, code: string): { readonly untilSuccess: boolean } | undefined {
  const line = AVOID.find((rule) => rule.event === event && rule.code === code);
  return line && { untilSuccess: line.until_success };
}

/** Whether success in a method says that the engine serves: others are answered without the keystore. */
export function earns(method: string): boolean {
  return !EARNED_EXCEPT.includes(method);
}

/** The pause after `failures` earlier ones, with jitter, so that clients do not all return at once. */
export function backoff(settings: Pick<Settings, 'backoffMinMs' | 'backoffMaxMs'>, failures: number, random: number): number {
  const { factor, jitter_from: from, jitter_to: to } = RULES.backoff;
  const longest = Math.min(settings.backoffMinMs * factor ** Math.min(failures, 60), settings.backoffMaxMs);
  return longest * (from + (to - from) * random);
}
