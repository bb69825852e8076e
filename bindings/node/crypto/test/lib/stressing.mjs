// A worker thread of copies.test.mjs: a part of the stress test. Posts how many calls ended.

import { parentPort, workerData } from 'node:worker_threads';

import { stress } from './stress.mjs';

const { calls, seed, isDoomed } = workerData;
let turns = 0;
/** A thread that is to be terminated posts once it has calls in flight, and goes on. */
const isStopped = () => {
  turns += 1;
  if (isDoomed && turns === 20) parentPort.postMessage('busy');
  return false;
};
parentPort.postMessage(await stress(calls, seed, isStopped));
