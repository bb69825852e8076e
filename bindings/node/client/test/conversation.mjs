// Plays a conversation of vectors/client with the client's own calls, pool and connections, on a virtual clock and without sockets.

import { createRequire } from 'node:module';

import { decode, encode } from '@msgpack/msgpack';
import wire from '@leafseal/wire';

const require = createRequire(import.meta.url);
const { Calls } = require('../dist/calls.js');
const { Connection } = require('../dist/connection.js');
const { LeafsealError } = require('../dist/errors.js');
const { checked } = require('../dist/settings.js');

/** Time that passes only from event to event. */
class VirtualClock {
  time = 0;
  #sequence = 0;
  #due = [];
  random = () => 0;

  now = () => this.time;

  after = (ms, act) => {
    const timer = { at: this.time + ms, sequence: this.#sequence++, act };
    this.#due.push(timer);
    return timer;
  };

  cancel = (timer) => { if (timer) timer.act = undefined; };

  /** Runs what is due before `end`. */
  runUntil(end) {
    for (;;) {
      let next = 0;
      for (let index = 1; index < this.#due.length; index += 1) {
        const [one, other] = [this.#due[index], this.#due[next]];
        if (one.at < other.at || (one.at === other.at && one.sequence < other.sequence)) next = index;
      }
      const timer = this.#due[next];
      if (!timer || timer.at >= end) return;
      this.#due.splice(next, 1);
      this.time = timer.at;
      timer.act?.();
    }
  }
}

/** `MS WORD WORD …`; undefined for `never`. */
function timed(text) {
  if (text === undefined || text === 'never') return undefined;
  const [after, what, code, number] = text.split(' ');
  return { after: Number(after), what, code, retryAfter: code === 'retry_after' ? Number(number) : undefined };
}

const numbered = (list, number) => list?.[Math.min(number, list.length - 1)];
const errorOf = (code, retryAfter) => ({
  code, message: 'of the conversation', retry: 'later', ...(retryAfter !== undefined && { retry_after_ms: retryAfter }),
});

/** The engine's side of one connection. */
class Engine {
  #requests = 0;
  #isOver = false;

  constructor(world, name, attempt) {
    Object.assign(this, { world, name, attempt });
  }

  opened(connection) {
    this.connection = connection;
    for (const text of this.attempt.events ?? []) {
      const event = timed(text);
      this.world.clock.after(event.after, () => this.#act(event));
    }
  }

  #act({ what, code }) {
    if (this.#isOver) return;
    if (what === 'close') this.#end();
    else if (what === 'going_away') this.#send([2, 'going_away', [code]]);
    else this.#send([2, 'connection_error', [errorOf(code)]]);
    if (code === 'closed' || what === 'connection_error') this.#end();
  }

  #end() {
    this.#isOver = true;
    this.connection.lost();
  }

  #send(message) {
    // In response to any of these, this side closes the connection.
    if (message[1] === 'connection_error' || message[2]?.[0] === 'closed') this.#isOver = true;
    this.connection.take(Buffer.from(encode(message)));
  }

  // The socket, as the client's connection sees it.
  cork() {}
  uncork() {}
  ref() {}
  unref() {}
  end() {}

  destroy() {
    if (this.#isOver) return;
    this.#isOver = true;
    this.world.write(`close ${this.name}`);
  }

  write(bytes) {
    const [type, id, method, [params] = []] = decode(bytes);
    if (type === 2) {
      const [cancelled] = method;
      this.world.write(`cancel ${this.subjects.get(cancelled)} on ${this.name}`);
      return;
    }
    const subject = method === 'health' ? 'health' : params.app.replace('call-', '');
    const deadline = method === 'health' ? this.world.healthDeadline : params.deadline_ms;
    this.subjects.set(id, subject);
    this.world.write(`request ${subject}${deadline === undefined ? '' : ` within ${deadline}`} on ${this.name}`);
    const answer = timed(numbered(this.attempt.answers, this.#requests));
    this.#requests += 1;
    if (!answer) return;
    this.world.clock.after(answer.after, () => {
      if (this.#isOver) return;
      const isOk = answer.what === 'ok';
      this.#send([1, id, isOk ? null : errorOf(answer.what, answer.retryAfter), isOk ? {} : null]);
    });
  }

  subjects = new Map();
}

const RESULTS = { cancelled: 'cancelled', deadline_exceeded: 'timeout' };
const resultOf = ({ code, source }) => (source === 'client' ? RESULTS[code] ?? code : code);

/** The transcript of a conversation. */
export function play(conversation) {
  const clock = new VirtualClock();
  const lines = [];
  const world = { clock, write: (line) => lines.push({ at: clock.time, line }) };
  const { settings: changed = {} } = conversation;
  const settings = checked({
    addresses: conversation.addresses.map((_, index) => `address-${index}`), ca: '-', certificate: '-', key: '-',
    connectionsMax: changed.connections_max, requestsInFlightMax: changed.requests_in_flight_max, retriesMax: changed.retries_max,
    backoffMinMs: changed.backoff_min_ms, backoffMaxMs: changed.backoff_max_ms, connectTimeoutMs: changed.connect_timeout_ms,
    timeoutMs: changed.request_timeout_ms, abandonedTimeoutMs: changed.abandoned_timeout_ms,
  });
  const attempts = conversation.addresses.map(() => 0);
  const opener = (place, listener, done) => {
    const address = conversation.addresses[place];
    const attempt = numbered(address.attempts, attempts[place]);
    attempts[place] += 1;
    const name = `${address.name}#${attempts[place]}`;
    world.write(`connect ${address.name}`);
    const outcome = timed(attempt.outcome);
    const isInTime = outcome !== undefined && outcome.after < settings.connectTimeoutMs;
    clock.after(isInTime ? outcome.after : settings.connectTimeoutMs, () => {
      if (!isInTime || outcome.what === 'refuse') done(new LeafsealError('connect_failed', name));
      else if (outcome.what === 'tls_failed') done(new LeafsealError('tls_failed', name));
      else {
        world.write(`opened ${name}`);
        const engine = new Engine(world, name, attempt);
        const connection = new Connection(place, engine, settings, clock, listener);
        engine.opened(connection);
        done(connection);
      }
    });
  };
  const calls = new Calls(settings, clock, opener);
  clock.random = () => conversation.random;
  conversation.calls.forEach((call, index) => {
    const controller = new AbortController();
    const { method = 'encrypt', deadline_ms: deadline } = call;
    const app = `call-${index + 1}`;
    const ends = (result) => world.write(`result ${index + 1} ${result}`);
    const request = {
      method, app, values: undefined, timeoutMs: undefined, deadlineMs: deadline, signal: controller.signal, read: () => undefined,
      encode: (id, left) => {
        const deadlineMs = deadline === undefined ? undefined : left;
        if (method !== 'health') return wire.encodeEncrypt(id, { app, deadlineMs }, ['x']);
        // The message has no place for it.
        world.healthDeadline = deadlineMs;
        return wire.encodeHealth(id);
      },
    };
    clock.after(call.at, () => calls.begin(request, () => ends('ok'), (error) => ends(resultOf(error))));
    if (call.cancel_at !== undefined) clock.after(call.cancel_at, () => controller.abort());
  });
  clock.runUntil(conversation.until);
  const order = (one, other) => one.at - other.at || (one.line < other.line ? -1 : 1);
  return lines.sort(order).map(({ at, line }) => `${at} ${line}`);
}
