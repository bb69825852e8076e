// A response of Node's HTTP server whose body is held back until it is complete, transformed, and then sent.
//
// From its first send on, the response behaves as one that was sent: status and headers can no longer be changed. A second response without
// a connection receives them at that moment. It refuses everything that Node would refuse, at the same call, so that errors take the way
// that they take without the rule; afterwards it answers in place of the response.

import { type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';

import { type BodyError, REVEALING, type Transform, errorBody, isRedirect, notJson, responseNotJson, tooLarge } from './body.js';
import { type Way, asGet, hasFailedCondition, isFresh, preconditionFailed, removeDescribing, takeConditions } from './conditions.js';
import { delayDestroy } from './sockets.js';

type Method = (...args: unknown[]) => unknown;
type Next = (error?: unknown) => void;

const METHODS = [
  'write', 'end', 'writeHead', 'flushHeaders', 'setHeader', 'appendHeader', 'removeHeader', 'addTrailers', 'destroy',
] as const;
/** Those of Express, which heed conditions and send no body to `HEAD`. */
const SENDERS = ['send', 'sendFile', 'sendfile'] as const;
type Sender = (typeof SENDERS)[number];
type Name = (typeof METHODS)[number] | Sender;
const NOTHING = Buffer.alloc(0);
/** Those that Node refuses once the head was sent. */
type Late = 'setHeader' | 'appendHeader' | 'removeHeader';

/** The state that a response reports while it is held. Middleware of Express reads `_header` and `finished`. */
const STATE: Readonly<Record<string, (sent: ServerResponse | undefined) => unknown>> = {
  headersSent: (sent) => sent !== undefined,
  _header: (sent) => (sent ? (sent as unknown as { _header: unknown })._header : null),
  finished: (sent) => sent?.writableEnded ?? false,
  writableEnded: (sent) => sent?.writableEnded ?? false,
  writableFinished: () => false,
};

export class HeldResponse {
  private pieces: Buffer[] = [];
  private size = 0;
  /** Has received status and headers, and answers in place of the response. */
  private sent: ServerResponse | undefined;
  /** Whether the handler sent everything with `end`, so that Node would have announced the length. */
  private isWhole = false;
  private isSending = false;
  private isReleased = false;
  private hasFailed = false;
  /** Hidden from the handler. */
  private conditions: IncomingHttpHeaders = {};
  private way: Way | undefined;
  /** Express's handler for the error of a file that it does not send. */
  private fileFailed: Next;
  /** The status message that the handler has set. */
  private message = '';
  /** Whether the body of an answer to `HEAD` is not JSON, or too large. */
  private isUnreadable = false;
  /** Whether a body that cannot be read was left out. */
  private isEmptied = false;
  private refusal: BodyError | undefined;
  private trailers: unknown[] = [];
  /** The properties of the response before it was held: the class's, or those of other middleware. */
  private readonly before = new Map<string, PropertyDescriptor | undefined>();
  /** Methods that other middleware has wrapped since: they lead here, whatever happens. */
  private readonly wrapped = new Set<string>();
  private readonly original = {} as Record<Name, Method>;
  private readonly replacing: Readonly<Record<Name, Method>>;
  private readonly methods: readonly Name[];

  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly rule: Transform,
    private readonly signal: AbortSignal,
    /** Receives errors of steps that run after the handler. */
    private readonly next: Next,
  ) {
    const late = (name: Late): Method => (...args) => this.late(name, args);
    this.replacing = {
      write: (...args) => this.write(args),
      end: (...args) => this.end(args),
      writeHead: (...args) => this.head(args),
      flushHeaders: () => {
        if (this.isReleased) this.original.flushHeaders();
        else if (!this.sent) this.response.writeHead(this.response.statusCode);
      },
      setHeader: late('setHeader'),
      appendHeader: late('appendHeader'),
      removeHeader: late('removeHeader'),
      addTrailers: (...args) => this.addTrailers(args),
      destroy: (...args) => this.destroy(args),
      send: (...args) => this.sendBody(args),
      sendFile: (...args) => this.sendFile('sendFile', args),
      sendfile: (...args) => this.sendFile('sendfile', args),
    };
    this.fileFailed = next;
    const methods = response as unknown as Record<Name, Method>;
    this.methods = [...METHODS, ...SENDERS.filter((name) => 'fresh' in request && typeof methods[name] === 'function')];
    for (const name of this.methods) this.original[name] = methods[name].bind(response);
  }

  /** Takes the place of the methods that send, and of the properties that say what was sent. */
  install(): void {
    const { request, response, before } = this;
    this.isReleased = false;
    this.conditions = takeConditions(request.headers);
    for (const [name, read] of Object.entries(STATE)) {
      before.set(name, Object.getOwnPropertyDescriptor(response, name));
      Object.defineProperty(response, name, { configurable: true, enumerable: true, get: () => read(this.sent) });
    }
    for (const name of this.methods) {
      if (this.wrapped.has(name)) continue;
      before.set(name, Object.getOwnPropertyDescriptor(response, name));
      Object.defineProperty(response, name, { configurable: true, enumerable: true, writable: true, value: this.replacing[name] });
    }
  }

  /** Gives the properties back, unless other middleware has wrapped them; such wrappers then reach the original ones. */
  private release(): void {
    const { request, response, before, sent } = this;
    this.isReleased = true;
    Object.assign(request.headers, this.conditions);
    for (const name of [...Object.keys(STATE), ...this.methods]) {
      if (!(name in STATE) && (response as unknown as Record<string, unknown>)[name] !== this.replacing[name as Name]) {
        this.wrapped.add(name);
        continue;
      }
      const descriptor = before.get(name);
      if (descriptor) Object.defineProperty(response, name, descriptor);
      // eslint-disable-next-line @typescript-eslint/no-dynamic-delete
      else delete (response as unknown as Record<string, unknown>)[name];
    }
    if (sent) this.copyStatus(sent);
  }

  private copyStatus({ statusCode, statusMessage }: Pick<ServerResponse, 'statusCode' | 'statusMessage'>): void {
    const { response } = this;
    if (response.statusCode !== statusCode) response.statusCode = statusCode;
    // HTTP/2 has no message, and warns of one.
    if (this.request.httpVersionMajor < 2) response.statusMessage = statusMessage;
  }

  private late(name: Late, args: unknown[]): unknown {
    if (this.isReleased || !this.sent) return this.original[name](...args);
    (this.sent[name] as Method)(...args);
    return this.response;
  }

  /** Keeps status and headers. @throws What `writeHead` of the response would throw. */
  private head(args: unknown[]): unknown {
    const { request, response, original } = this;
    if (this.isReleased) return original.writeHead(...args);
    if (this.sent) return (this.sent.writeHead as Method)(...args);
    const sent = new ServerResponse(request);
    for (const [name, value] of Object.entries(response.getHeaders())) if (value !== undefined) sent.setHeader(name, value);
    const hasHeaders = sent.getHeaderNames().length > 0;
    sent.statusCode = response.statusCode;
    this.message = response.statusMessage;
    sent.statusMessage = response.statusMessage;
    try {
      (sent.writeHead as Method)(...args);
    } finally {
      // Node keeps what it had accepted before it refused something.
      this.copyStatus(sent);
      if (hasHeaders) this.copyHeaders(sent);
    }
    if (!hasHeaders) this.addHeaders(args.find((argument) => typeof argument === 'object' && argument !== null));
    sent.on('error', (error) => {
      if (!response.destroyed) response.emit('error', error);
    });
    this.sent = sent;
    return response;
  }

  private copyHeaders(sent: ServerResponse): void {
    const { response, original } = this;
    for (const name of sent.getHeaderNames()) {
      const value = sent.getHeader(name);
      if (value !== response.getHeader(name)) original.setHeader(name, value);
    }
  }

  /** Adds the headers of `writeHead`, which has checked them. */
  private addHeaders(headers: unknown): void {
    const { original } = this;
    if (Array.isArray(headers)) {
      const flat = headers.flat() as string[];
      for (let index = 0; index + 1 < flat.length; index += 2) original.appendHeader(flat[index], flat[index + 1]);
    } else {
      for (const [name, value] of Object.entries((headers ?? {}) as OutgoingHttpHeaders)) if (name) original.setHeader(name, value);
    }
  }

  private addTrailers(args: unknown[]): unknown {
    if (this.isReleased) return this.original.addTrailers(...args);
    // Checks them.
    (new ServerResponse(this.request).addTrailers as Method)(...args);
    if (!this.sent?.writableEnded) this.trailers.push(args[0]);
    return undefined;
  }

  /** Without the rule, a response that has ended would be on its way already: it is destroyed once it is. */
  private destroy(args: unknown[]): unknown {
    const { response, original } = this;
    if (this.isReleased || !this.sent?.writableEnded || this.refusal) return original.destroy(...args);
    response.once('finish', () => original.destroy(...args));
    return response;
  }

  private write(args: unknown[]): unknown {
    const [chunk, encoding] = args;
    const { response } = this;
    if (this.refusal && !this.sent?.writableEnded) return false;
    if (this.isReleased) return this.original.write(...args);
    if (!isChunk(chunk) || this.sent?.writableEnded) return ((this.sent ?? new ServerResponse(this.request)).write as Method)(...args);
    if (!this.sent) response.writeHead(response.statusCode);
    this.add(chunk, encoding);
    const callback = args.find((argument) => typeof argument === 'function');
    if (callback) queueMicrotask(callback as () => void);
    return true;
  }

  private end(args: unknown[]): unknown {
    const { response } = this;
    const [chunk, encoding] = args;
    const callback = args.find((argument) => typeof argument === 'function') as (() => void) | undefined;
    const hasChunk = typeof chunk !== 'function' && Boolean(chunk);
    if (this.refusal && !this.sent?.writableEnded) return response;
    if (this.isReleased) return this.original.end(...args);
    if (hasChunk && (!isChunk(chunk) || this.sent?.writableEnded)) {
      ((this.sent ?? new ServerResponse(this.request)).end as Method)(...args);
      return response;
    }
    const isFirst = !this.sent?.writableEnded;
    if (!this.sent) {
      this.isWhole = true;
      response.writeHead(response.statusCode);
    }
    if (callback) response.once('finish', callback);
    if (!isFirst) return response;
    this.sent?.end();
    if (hasChunk) this.add(chunk as string, encoding);
    this.send();
    return response;
  }

  /** Whether this response may have a body. */
  private get hasBody(): boolean {
    const { statusCode } = this.sent ?? this.response;
    return this.request.method !== 'HEAD' && statusCode !== 204 && statusCode !== 304 && statusCode >= 200;
  }

  /** Whether the body is known that the headers describe; to `HEAD` a handler may send none. */
  private get isKnown(): boolean {
    if (this.hasBody) return true;
    return this.isHead && !this.isUnreadable && (this.size > 0 || this.way !== undefined);
  }

  /** Whether a `GET` would have this body. */
  private get isHead(): boolean {
    const { statusCode } = this.sent ?? this.response;
    return this.request.method === 'HEAD' && statusCode !== 204 && statusCode !== 304 && statusCode >= 200;
  }

  private sendBody(args: unknown[]): unknown {
    const { request, response, original } = this;
    if (this.isReleased || this.sent) return original.send(...args);
    this.way = 'send';
    try {
      return asGet(request, response, () => original.send(...args));
    } finally {
      if (!this.sent as boolean) this.way = undefined;
    }
  }

  private sendFile(name: 'sendFile' | 'sendfile', args: unknown[]): unknown {
    const { request, response, original } = this;
    if (this.isReleased || this.sent) return original[name](...args);
    this.fileFailed = (request as { next?: Next }).next ?? this.next;
    const index = args.findIndex((argument) => typeof argument === 'function');
    if (index >= 0 && (this.conditions['if-match'] ?? this.conditions['if-unmodified-since'])) {
      const callback = once(args[index] as Next);
      this.fileFailed = callback;
      // Express calls it when the file was read, which is before the conditions are known.
      args[index] = (error?: unknown) => {
        if (error) callback(error);
        else response.once('finish', callback).once('close', callback);
      };
    }
    response.once('pipe', () => {
      if (!this.sent) this.way = 'file';
    });
    return asGet(request, response, () => original[name](...args));
  }

  private add(chunk: string | Uint8Array, encoding: unknown): void {
    if (this.refusal || this.isUnreadable || (!this.hasBody && !this.isHead)) return;
    const bytes = typeof chunk === 'string'
      ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
      : Buffer.from(chunk);
    this.size += bytes.length;
    if (this.size > this.rule.sizeMax) this.refuse(tooLarge('response', this.rule.sizeMax));
    else if (bytes.length > 0) {
      this.pieces.push(bytes);
      this.check();
    }
  }

  /** A body that is not JSON, such as an event stream, is refused at its first byte. */
  private check(): void {
    const { response } = this;
    const text = (name: string): string | undefined => response.getHeader(name)?.toString();
    const problem = notJson(text('content-type'), text('content-encoding'));
    if (problem !== undefined) this.refuse(responseNotJson(problem));
  }

  private refuse(error: BodyError): void {
    if (this.isHead) {
      this.isUnreadable = true;
      this.pieces = [];
      return;
    }
    this.refusal = error;
    this.pieces = [];
    // A stream that does not end, such as server-sent events, gets its answer now.
    this.send();
  }

  private send(): void {
    if (this.isSending) return;
    this.isSending = true;
    delayDestroy(this.request, this.response);
    this.finish().catch((error: unknown) => {
      this.fail(error);
    });
  }

  private async finish(): Promise<void> {
    const { request, response, rule, pieces, signal } = this;
    const plain = Buffer.concat(pieces);
    let body: Buffer = plain;
    let error = this.refusal;
    try {
      if (!error && plain.length > 0) body = await rule.apply(plain, signal);
    } catch (failure) {
      error = failure as BodyError;
    }
    const { statusCode, statusMessage } = response;
    this.release();
    if (response.destroyed) return;
    // A body that the rule leaves as it was is described by its headers; that of another method or status is not known.
    const isSame = !error && body.equals(plain) && this.isKnown;
    if (isSame && this.way === 'file' && hasFailedCondition(response, this.conditions)) {
      response.removeHeader('content-length');
      this.fail(preconditionFailed(), this.fileFailed);
      return;
    }
    if (!this.hasBody) body = NOTHING;
    else if (error) body = this.replace(error);
    if (isSame && this.way && isFresh(request, this.conditions, this.way)) {
      this.copyStatus({ statusCode: 304, statusMessage: this.message });
      removeDescribing(response, this.way);
      this.pass(NOTHING, true, false);
    } else {
      const isChunked = isSame
        ? !this.isWhole && !response.hasHeader('content-length')
        : response.hasHeader('trailer') || this.trailers.length > 0;
      if (!isSame) this.removeRevealing(isChunked || this.isHead);
      this.pass(body, isSame, isChunked);
    }
    // Assigned by the handler after it had sent: without effect, but a log reads it.
    const isAssigned = statusCode !== this.sent?.statusCode || statusMessage !== this.sent.statusMessage;
    if (!error && isAssigned && response.headersSent) this.copyStatus({ statusCode, statusMessage });
  }

  /** Removes headers that describe the plain body. Node reads the removal of one that is not set as a request to omit it. */
  private removeRevealing(keepsFraming: boolean): void {
    const { response } = this;
    for (const name of REVEALING) {
      if (response.hasHeader(name) && !(keepsFraming && name === 'transfer-encoding')) response.removeHeader(name);
    }
  }

  /** Sends the body. */
  private pass(body: Buffer, isSame: boolean, isChunked: boolean): void {
    const { response, original, trailers } = this;
    const isNew = body.length > 0 || this.isEmptied;
    if (isNew && !isSame && !isChunked) response.setHeader('content-length', body.length);
    for (const group of trailers) original.addTrailers(withoutRevealing(group, isSame));
    if (body.length === 0) {
      if (isChunked && this.hasBody) original.flushHeaders();
      original.end();
    } else if (isChunked) {
      original.write(body);
      original.end();
    } else original.end(body);
  }

  private replace(error: BodyError): Buffer {
    const { response } = this;
    this.trailers = [];
    for (const name of response.getHeaderNames()) if (name.startsWith('content-') || name === 'trailer') response.removeHeader(name);
    // Where a redirect leads is in its header.
    if (error.code === 'response_not_json' && isRedirect(response.statusCode, response.hasHeader('location'))) {
      this.isEmptied = true;
      return NOTHING;
    }
    if (response.statusCode < 400) {
      response.statusCode = error.status;
      if (this.request.httpVersionMajor < 2) response.statusMessage = '';
      if (error.status === 503) response.setHeader('retry-after', Math.max(1, Math.ceil((error.retryAfterMs ?? 0) / 1000)));
    }
    response.setHeader('content-type', 'application/json; charset=utf-8');
    response.emit('leafseal:refused', error);
    return errorBody(error);
  }

  /** Something refused the transformed response, such as other middleware at its head. What handles the error is held, too. */
  private fail(error: unknown, next = this.next): void {
    const { request, response } = this;
    const isFirst = !this.hasFailed && !response.headersSent && !response.destroyed;
    this.hasFailed = true;
    try {
      if (isFirst) {
        this.pieces = [];
        this.trailers = [];
        this.size = 0;
        this.sent = this.refusal = undefined;
        this.isWhole = this.isSending = this.isUnreadable = false;
        this.way = undefined;
        // As the handler left it: the error has its own.
        if (request.httpVersionMajor < 2) response.statusMessage = this.message;
        this.install();
      } else response.destroy();
      next(error);
    } catch {
      response.destroy();
    }
  }
}

/** A callback of one result: the first. */
function once(callback: Next): Next {
  let isCalled = false;
  return (error) => {
    if (isCalled) return;
    isCalled = true;
    callback(error);
  };
}

function isChunk(chunk: unknown): chunk is string | Uint8Array {
  return typeof chunk === 'string' || chunk instanceof Uint8Array;
}

function withoutRevealing(trailers: unknown, isSame: boolean): unknown {
  if (isSame) return trailers;
  const entries: [string, string][] = Array.isArray(trailers)
    ? (trailers as [string, string][])
    : Object.entries(trailers as Record<string, string>);
  return entries.filter(([name]) => !REVEALING.includes(name.toLowerCase()));
}
