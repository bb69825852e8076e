// Shared by the tests of the middleware: raw HTTP requests, and the attacks that both frameworks must refuse.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';

const JSON_TYPE = { 'content-type': 'application/json' };
export const isEnvelope = (text) => typeof text === 'string' && /^ev:.*:\$$/.test(text);
export const NUMBER = '4111111111111111';

/** Sends a body, unchanged, and returns the response with its text. */
export async function send(port, path, body, headers = JSON_TYPE, method = 'POST') {
  const outgoing = request({ port, host: '127.0.0.1', path, method, headers, agent: false });
  outgoing.on('error', () => undefined);
  outgoing.end(body);
  const [response] = await once(outgoing, 'response');
  let text = '';
  for await (const piece of response.setEncoding('utf8')) text += piece;
  return { status: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) };
}

/** Sends a body over HTTP/2, where no header announces it, and returns the status. */
export async function sendHttp2(port, path, body, type) {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  const stream = session.request({ ':method': 'POST', ':path': path, ...(type && { 'content-type': type }) }, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  const [headers] = await once(stream, 'response');
  stream.resume();
  await once(stream, 'end');
  session.close();
  return headers[':status'];
}

/** Over HTTP/2, a body without Content-Length is sealed or refused, and a request without a body passes. */
export async function attackHttp2(port, path, seen) {
  const plain = JSON.stringify({ card: { number: NUMBER } });
  assert.equal(await sendHttp2(port, path, plain, 'text/plain'), 415);
  assert.equal(await sendHttp2(port, path, plain), 415);
  assert.deepEqual(seen(), []);
  assert.equal(await sendHttp2(port, path, plain, 'application/json'), 200);
  assert.ok(isEnvelope(seen()[0].card.number));
  assert.equal(await sendHttp2(port, path), 200);
  assert.equal(seen().length, 1);
}

/** Bodies that must be refused or sealed; `reach` returns what handlers have seen. */
export async function attack(port, path, seen) {
  const plain = `{"card":{"number":"${NUMBER}"}}`;
  const refused = [
    ['a form', `card=${NUMBER}`, { 'content-type': 'application/x-www-form-urlencoded' }, 415],
    ['text', plain, { 'content-type': 'text/plain' }, 415],
    ['no type', plain, {}, 415],
    ['a type that contains JSON', plain, { 'content-type': 'text/application/json' }, 415],
    ['a list of types', plain, { 'content-type': 'text/plain, application/json' }, 415],
    ['UTF-16', Buffer.from(plain, 'utf16le'), { 'content-type': 'application/json; charset=utf-16le' }, 415],
    ['UTF-16 under the name of UTF-8', Buffer.from(plain, 'utf16le'), JSON_TYPE, 400],
    ['latin 1', plain, { 'content-type': 'application/json; charset=latin1' }, 415],
    ['gzip', gzipSync(plain), { ...JSON_TYPE, 'content-encoding': 'gzip' }, 415],
    ['gzip without a header', gzipSync(plain), JSON_TYPE, 400],
    ['two codings', plain, { ...JSON_TYPE, 'content-encoding': 'identity, gzip' }, 415],
    ['trailing data', `${plain} {"card":{"number":"${NUMBER}"}}`, JSON_TYPE, 400],
    ['a trailing comma', `{"card":{"number":"${NUMBER}"},}`, JSON_TYPE, 400],
    ['half a document', plain.slice(0, -1), JSON_TYPE, 400],
    ['two byte order marks', `\ufeff\ufeff${plain}`, JSON_TYPE, 400],
    ['comments', `/* */${plain}`, JSON_TYPE, 400],
    ['a document too deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, JSON_TYPE, 400],
    ['a huge body', `"${'x'.repeat(2 << 20)}"`, JSON_TYPE, 413],
    ['a prototype', `{"__proto__":{"admin":true},"card":{"number":"${NUMBER}"}}`, JSON_TYPE, 400],
    ['an escaped prototype', `{"\\u005f_proto__":{"admin":true}}`, JSON_TYPE, 400],
    ['a prototype inside', `{"a":[{"b":{"__proto__":null}}]}`, JSON_TYPE, 400],
    ['a constructor', `{"constructor":{"prototype":{"admin":true}}}`, JSON_TYPE, 400],
  ];
  for (const [name, body, headers, status] of refused) {
    const response = await send(port, path, body, headers);
    assert.equal(response.status, status, `${name}: ${response.text}`);
    assert.ok(!response.text.includes(NUMBER), name);
  }
  assert.deepEqual(seen(), [], 'no handler saw a refused body');
  assert.equal({}.admin, undefined);

  const sealed = [
    ['a byte order mark', `\ufeff${plain}`],
    ['duplicate keys', `{"card":{"number":"${NUMBER}"},"card":{"number":"${NUMBER}"}}`],
    ['duplicate keys in one object', `{"card":{"number":"${NUMBER}","number":"${NUMBER}"}}`],
    ['escaped names', `{"c\\u0061rd":{"n\\u0075mber":"${NUMBER}"}}`],
    ['escaped values', `{"card":{"number":"\\u0034${NUMBER.slice(1)}"}}`],
    ['an array under the name', `{"card":{"number":["${NUMBER}",{"a":["${NUMBER}"]}]}}`],
    ['an object under the name', `{"card":{"number":{"value":"${NUMBER}"}}}`],
    ['a number', `{"card":{"number":${NUMBER}}}`],
    ['an envelope-like text', '{"card":{"number":"ev:Tk9D:AAAA:$"}}'],
  ];
  for (const [name, body] of sealed) {
    const response = await send(port, path, body);
    assert.equal(response.status, 200, `${name}: ${response.text}`);
    const bodies = seen();
    assert.equal(bodies.length, 1, name);
    assert.ok(!JSON.stringify(bodies).includes(NUMBER) && JSON.stringify(bodies).includes('ev:'), `${name}: ${JSON.stringify(bodies)}`);
  }
}

/** Sends more than the announced length in chunks, and stops in the middle: no handler may see it. */
export async function attackFraming(port, path, seen) {
  const plain = `{"card":{"number":"${NUMBER}"}}`;
  for (const bytes of [
    `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n${plain}`,
    `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n${plain.slice(0, 5)}\r\n`,
  ]) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined).end(bytes);
    socket.resume();
    await once(socket, 'close');
  }
  assert.deepEqual(seen(), []);
  const body = [...plain].map((character) => `1\r\n${character}\r\n`).join('');
  const socket = connect(port, '127.0.0.1');
  socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${body}0\r\n\r\n`);
  let text = '';
  for await (const piece of socket.setEncoding('utf8')) text += piece;
  assert.match(text, /^HTTP\/1.1 200/);
  assert.ok(isEnvelope(seen()[0].card.number));
}
