// Metrics for prom-client. Labels have few values: methods, error codes and configured addresses.

import { Counter, Gauge, Histogram, register as defaultRegistry } from 'prom-client';

import type { Observer } from './observer.js';

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** A `Registry` of prom-client, of any version and content type. The declarations of this package do not import those of prom-client. */
export interface MetricsRegistry {
  registerMetric: (metric: never) => void;
}

/** Creates an observer that counts in `registry`, by default the global one. Create one for each registry. */
export function prometheus(options: { readonly registry?: MetricsRegistry; readonly prefix?: string } = {}): Observer {
  const { registry = defaultRegistry, prefix = 'leafseal_client_' } = options;
  const registers = [registry as never];
  const seconds = new Histogram({
    name: `${prefix}call_seconds`, help: 'Duration of calls, retries included', labelNames: ['method', 'code'], buckets: SECONDS,
    registers,
  });
  const values = new Counter({
    name: `${prefix}values_total`, help: 'Values in lists of successful calls', labelNames: ['method'], registers,
  });
  const retries = new Counter({ name: `${prefix}retries_total`, help: 'Retries of calls', labelNames: ['method', 'code'], registers });
  const inFlight = new Gauge({ name: `${prefix}calls_in_flight`, help: 'Calls that have not ended', registers });
  const open = new Gauge({ name: `${prefix}connections`, help: 'Open connections', labelNames: ['address'], registers });
  const failures = new Counter({
    name: `${prefix}connection_failures_total`, help: 'Connections that could not be opened', labelNames: ['address', 'code'], registers,
  });
  return {
    call({ method, values: count }) {
      inFlight.inc();
      return ({ durationMs, error }) => {
        inFlight.dec();
        seconds.observe({ method, code: error?.code ?? 'ok' }, durationMs / 1000);
        if (!error && count !== undefined) values.inc({ method }, count);
      };
    },
    retried: (method, error) => retries.inc({ method, code: error.code }),
    connection({ address, kind, error }) {
      if (kind === 'opened') open.inc({ address });
      if (kind === 'closed') open.dec({ address });
      if (kind === 'failed') failures.inc({ address, code: error?.code ?? 'unknown' });
    },
  };
}
