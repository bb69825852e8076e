// Spans and metrics, from the real packages: what they say of calls, and that they hold no values.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { Registry } from 'prom-client';

import { openTelemetry } from '../dist/opentelemetry.mjs';
import { prometheus } from '../dist/prometheus.mjs';
import { APP, Engine, clientOf, rejects } from './support.mjs';

let engine;
before(async () => { engine = await Engine.start(); });
after(() => engine?.stop());

test('a span for each call, below the active one', async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  const client = clientOf(engine, { observers: [openTelemetry()] });
  const parent = trace.getTracer('test').startSpan('request');
  await context.with(trace.setSpan(context.active(), parent), async () => {
    await client.encrypt(['secret value', 'b']);
    await rejects(client.encrypt('secret value', { app: 'other' }), 'forbidden');
  });
  parent.end();
  const [good, bad] = exporter.getFinishedSpans();
  assert.equal(good.name, 'leafseal encrypt');
  assert.equal(good.parentSpanContext?.spanId ?? good.parentSpanId, parent.spanContext().spanId);
  const { attributes } = good;
  assert.deepEqual([attributes['leafseal.app'], attributes['leafseal.values'], attributes['server.port']], [APP, 2, engine.port]);
  assert.ok(attributes['rpc.request.size'] > 0 && attributes['rpc.response.size'] > 0);
  assert.deepEqual([bad.attributes['error.type'], bad.status.code], ['forbidden', 2]);
  assert.ok(!JSON.stringify([good.attributes, bad.attributes, bad.status]).includes('secret'));
  await client.close();
  trace.disable();
  context.disable();
});

test('counts for Prometheus', async () => {
  const registry = new Registry();
  const client = clientOf(engine, { observers: [prometheus({ registry })], connectionsMax: 1 });
  await client.encrypt(['a', 'b', 'c']);
  await rejects(client.encrypt('x', { app: 'other' }), 'forbidden');
  const text = await registry.metrics();
  for (const line of [
    'leafseal_client_call_seconds_count{method="encrypt",code="ok"} 1',
    'leafseal_client_call_seconds_count{method="encrypt",code="forbidden"} 1',
    'leafseal_client_values_total{method="encrypt"} 3',
    'leafseal_client_calls_in_flight 0',
    `leafseal_client_connections{address="127.0.0.1:${engine.port}"} 1`,
  ]) assert.ok(text.includes(line), `${line} is missing in:\n${text}`);
  await client.close();
  assert.ok((await registry.metrics()).includes(`leafseal_client_connections{address="127.0.0.1:${engine.port}"} 0`));
});

test('an observer that throws fails no call', async () => {
  const fail = () => { throw new Error('observer'); };
  const client = clientOf(engine, { observers: [{ call: fail, connection: fail, retried: fail }, { call: () => fail }] });
  assert.equal(await client.decrypt(await client.encrypt('x')), 'x');
  await client.close();
});
