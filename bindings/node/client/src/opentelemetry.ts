// Spans for OpenTelemetry: one for each call, as a child of the span that is active where the call was made.

import { type Attributes, SpanKind, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';

import type { Observer } from './observer.js';

/** Creates an observer whose spans have the name `leafseal METHOD`. They contain counts and sizes, never values. */
export function openTelemetry(options: { readonly tracer?: Tracer } = {}): Observer {
  const tracer = options.tracer ?? trace.getTracer('@leafseal/client');
  return {
    call({ method, app, values }) {
      const attributes: Attributes = { 'rpc.system': 'leafseal', 'rpc.method': method };
      if (app !== undefined) attributes['leafseal.app'] = app;
      if (values !== undefined) attributes['leafseal.values'] = values;
      const span = tracer.startSpan(`leafseal ${method}`, { kind: SpanKind.CLIENT, attributes });
      return ({ error, address, retries, requestBytes, answerBytes }) => {
        const [, host, port] = /^(.*):(\d+)$/.exec(address ?? '') ?? [];
        if (host !== undefined) span.setAttributes({ 'server.address': host, 'server.port': Number(port) });
        span.setAttributes({ 'leafseal.retries': retries, 'rpc.request.size': requestBytes, 'rpc.response.size': answerBytes });
        if (error) {
          span.setAttribute('error.type', error.code);
          span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
        }
        span.end();
      };
    },
  };
}
