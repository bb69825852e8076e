'use strict';

// Settings: bounds of the pool and of memory, with their defaults.

const { native } = require('./native.js');

/**
 * Longest input in bytes that the automatic form processes at once: about what it takes to send an operation to another thread and back.
 * Measured: docs/decisions/0021-node-crypto.md.
 */
const AUTO_SIZE_MAX = 16 * 1024;

/** Current values; those of the native side are asked for there. */
const values = { autoSizeMax: AUTO_SIZE_MAX, keyCacheSize: 8, parallelSizeMin: 4 << 20 };

/** Priorities of the pool's threads, in the order of the native side. */
const PRIORITIES = ['normal', 'low', 'idle'];

/** Bounds or choices of each setting, and what sets it on the native side. */
const SETTINGS = {
  threads: { min: 1, max: 1024, apply: (value) => native.set_threads(value) },
  threadPriority: { choices: PRIORITIES, apply: (value) => native.set_priority(PRIORITIES.indexOf(value)) },
  queueMax: { min: 1, max: 2 ** 32, apply: (value) => native.set_queue_max(value) },
  autoSizeMax: { min: 0, max: Number.MAX_SAFE_INTEGER, apply: () => {} },
  keyCacheSize: { min: 0, max: 64, apply: (value) => native.keep_keys(value) },
  parallelSizeMin: { min: 1, max: Number.MAX_SAFE_INTEGER, apply: (value) => native.set_parallel_size_min(value) },
};

function check(name, value) {
  const setting = SETTINGS[name];
  if (setting === undefined) throw new TypeError(`unknown setting ${name}; settings are ${Object.keys(SETTINGS).join(', ')}`);
  const { min, max, choices } = setting;
  if (choices) {
    if (!choices.includes(value)) throw new RangeError(`${name} must be one of ${choices.join(', ')}`);
    return;
  }
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new RangeError(`${name} must be an integer from ${min} to ${max}`);
  }
}

/** Changes settings. Either all are changed or none. */
function configure(changes) {
  const entries = Object.entries(changes);
  for (const [name, value] of entries) check(name, value);
  for (const [name, value] of entries) {
    SETTINGS[name].apply(value);
    if (name in values) values[name] = value;
  }
}

/** The current settings. */
function settings() {
  return { threads: native.threads(), threadPriority: PRIORITIES[native.priority()], queueMax: native.queue_max(), ...values };
}

module.exports = { configure, settings, values };
