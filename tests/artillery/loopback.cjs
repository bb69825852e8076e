// Loaded before anything else (node --require): tests reach 127.0.0.1 alone.
//
// Whoever wants to reach another machine gets an error at once. Artillery tells its makers of each run, if only that there was one
// where telemetry is off, and tries again for ten seconds; it does without where the package for that cannot be loaded.

'use strict';

const Module = require('node:module');
const net = require('node:net');

const LOOPBACK = ['127.0.0.1', 'localhost', '::1'];

const load = Module._load;
Module._load = function loadOffline(name, ...rest) {
  if (name === 'posthog-node') throw new Error('tests tell nobody of their runs');
  return Reflect.apply(load, this, [name, ...rest]);
};

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function connectToLoopback(...parameters) {
  const [options] = net._normalizeArgs(Array.isArray(parameters[0]) ? parameters[0] : parameters);
  if (options.path || LOOPBACK.includes(options.host ?? 'localhost')) return Reflect.apply(connect, this, parameters);
  process.nextTick(() => this.destroy(new Error(`tests reach 127.0.0.1 alone, not ${options.host}`)));
  return this;
};
