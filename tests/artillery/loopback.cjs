// Loaded before anything else (node --require): whoever wants to reach another machine gets an error at once. Artillery tells its
// makers of each run, if only that there was one.

'use strict';

const net = require('node:net');

const connect = net.Socket.prototype.connect;
const LOOPBACK = ['127.0.0.1', 'localhost', '::1'];

net.Socket.prototype.connect = function connectToLoopback(...parameters) {
  const [options] = net._normalizeArgs(Array.isArray(parameters[0]) ? parameters[0] : parameters);
  if (options.path || LOOPBACK.includes(options.host ?? 'localhost')) return Reflect.apply(connect, this, parameters);
  process.nextTick(() => this.destroy(new Error(`tests reach 127.0.0.1 alone, not ${options.host}`)));
  return this;
};
