// Which routes of Fastify the plugin covers. A route whose rules would have no effect, or would be applied twice, is an error at the start.
//
// Fastify announces each new instance on a channel of `node:diagnostics_channel`, so that all its routes are seen, those outside of the
// plugin's scope included. If this package is loaded after the instance was created, requests for such routes are refused instead.

import { subscribe } from 'node:diagnostics_channel';

import { type BodyRules, check } from './body.js';
import { LeafsealError } from './errors.js';

/** The parts of a Fastify instance that the plugin uses. */
export interface Instance {
  addHook: (name: 'onRoute' | 'onReady' | 'onRequest' | 'preParsing' | 'onSend', hook: never) => unknown;
  readonly initialConfig?: { readonly bodyLimit?: number };
}

/** A route that is being defined. */
export interface Route {
  readonly method: string | readonly string[];
  readonly url: string;
  bodyLimit?: number;
  config?: { readonly leafseal?: BodyRules };
}

interface Request {
  readonly server: Instance;
  readonly routeOptions: { readonly url?: string; readonly config?: Route['config'] };
}

/** Marks an instance on which the plugin is registered. Scopes inside inherit it, and other copies of this package read it. */
const REGISTERED = Symbol.for('@leafseal/client:fastify');
/** Methods of which Fastify parses no body. `HEAD` is left out: Fastify adds it to routes itself. */
const BODYLESS = new Set(['GET', 'TRACE']);

const roots = new WeakSet<Instance>();
const prepared = new WeakSet<BodyRules>();

subscribe('fastify.initialization', (message) => {
  watch((message as { fastify: Instance }).fastify);
});

/** Registers the plugin on an instance. @throws {LeafsealError} `invalid_settings`. */
export function claim(instance: Instance): void {
  if (registrations(instance) > 0) throw twice('for this scope');
  Object.defineProperty(instance, REGISTERED, { value: true });
  const root = rootOf(instance);
  if (roots.has(root)) return;
  watch(root);
  instance.addHook('onRoute', ((route: Route) => {
    prepare(instance, route);
  }) as never);
  const onRequest = ({ server, routeOptions }: Request, _: unknown, next: (error?: Error) => void): void => {
    next(routeOptions.config?.leafseal ? fault(server, routeOptions.url ?? '') : undefined);
  };
  root.addHook('onRequest', onRequest as never);
}

/** Checks the routes of an instance, and of its scopes, when they are defined and again at the start. */
function watch(root: Instance): void {
  roots.add(root);
  const routes: { readonly scope: Instance; readonly url: string }[] = [];
  const onReady = (done: (error?: Error) => void): void => {
    done(routes.map(({ scope, url }) => fault(scope, url)).find((error) => error));
  };
  function onRoute(this: Instance, route: Route): void {
    if (!route.config?.leafseal) return;
    prepare(this, route);
    if (routes.length === 0) root.addHook('onReady', onReady as never);
    routes.push({ scope: this, url: route.url });
  }
  root.addHook('onRoute', onRoute as never);
}

/** Why the rules of a route in this scope have no effect, or twice. */
function fault(scope: Instance, url: string): LeafsealError | undefined {
  const count = registrations(scope);
  if (count === 1) return undefined;
  if (count > 1) return twice(`for the route ${url}`);
  const advice = 'register the plugin in a scope that contains the route';
  return new LeafsealError('invalid_settings', `the rules of the route ${url} have no effect: ${advice}`);
}

function twice(where: string): LeafsealError {
  return new LeafsealError('invalid_settings', `@leafseal/client is registered twice ${where}: rules would be applied twice`);
}

/** How often the plugin is registered on a scope and those around it. */
function registrations(scope: Instance): number {
  let count = 0;
  for (let one: object | null = scope; one; one = Object.getPrototypeOf(one) as object | null) {
    if (Object.hasOwn(one, REGISTERED)) count += 1;
  }
  return count;
}

function rootOf(scope: Instance): Instance {
  let root = scope;
  for (;;) {
    const outer = Object.getPrototypeOf(root) as Instance | null;
    if (!outer || !('addHook' in outer)) return root;
    root = outer;
  }
}

/**
 * Checks the rules of a route, and gives them the limit of what clients may send. The parser's own limit would apply to the body that the
 * rule returns, which is larger.
 */
function prepare(scope: Instance, route: Route): void {
  const rules = route.config?.leafseal;
  if (!rules || prepared.has(rules)) return;
  check(rules);
  const methods = [route.method].flat();
  if (rules.request && methods.every((method) => BODYLESS.has(method))) {
    throw new LeafsealError('invalid_settings', `the request rule of ${methods.join()} ${route.url} has no effect: Fastify parses no body`);
  }
  const { requestSizeMax } = rules;
  if (rules.request && requestSizeMax !== undefined && route.bodyLimit !== undefined && route.bodyLimit < requestSizeMax) {
    throw new LeafsealError('invalid_settings', `route ${route.url}: requestSizeMax exceeds the route's bodyLimit; set one of them`);
  }
  const sizeMax = requestSizeMax ?? route.bodyLimit ?? scope.initialConfig?.bodyLimit;
  const own: BodyRules = { ...rules, ...(sizeMax !== undefined && { requestSizeMax: sizeMax }) };
  prepared.add(own);
  route.config = { ...route.config, leafseal: own };
  if (rules.request) route.bodyLimit = Number.MAX_SAFE_INTEGER;
}
