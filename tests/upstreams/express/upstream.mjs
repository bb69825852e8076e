// The upstreams `express-…`: Express with each of its usual body parsers, one application and port each; and `formidable`, which parses
// bodies of node:http by itself.
// Prints one line, the ports by name, and serves until it is terminated.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

import express from 'express';
import jsonPatch from 'fast-json-patch';
import { unflatten } from 'flat';
import { formidable } from 'formidable';
import lodash from 'lodash';
import multer from 'multer';
import { scimPatch } from 'scim-patch';

const ROUTES = process.env.ROUTES.split(' ');

const PARSERS = {
  'express-qs': [express.json(), express.urlencoded({ extended: true }), express.text({ type: 'text/*' })],
  'express-simple': [express.json(), express.urlencoded({ extended: false })],
  'express-json-any': [express.json({ type: '*/*', strict: false })],
  'express-form-any': [express.urlencoded({ extended: true, type: '*/*' })],
  'express-multer': [multer().any()],
  'express-patch': [express.json({ type: '*/*', strict: false })],
};

const card = (body) => [body?.card_number ?? null, body?.card?.number ?? null, body?.secret_key ?? null];

/** Whether the parsed body came of JSON; of a form otherwise. */
const isJson = (name, request) => name === 'express-json-any' || (name !== 'express-form-any' && Boolean(request.is(['json', '+json'])));

/** The documents that an API stores and that patches change. */
const stored = () => ({ schemas: ['urn:x'], id: '1', meta: { resourceType: 'x' }, card: { number: null }, card_number: null, secret_key: null });

/** The result of `read`; null where the library refuses the patch. */
function attempt(read) {
  try {
    return read();
  } catch {
    return null;
  }
}

/** The stored document after the patch in the body. */
function patched(body) {
  return {
    'json fast-json-patch': attempt(() => card(jsonPatch.applyPatch(stored(), body).newDocument)),
    'json member patch': attempt(() => card(jsonPatch.applyPatch(stored(), body.patch).newDocument)),
    'json text': attempt(() => card(JSON.parse(body.payload))),
    'json merge patch': attempt(() => card(Object.assign(stored(), body))),
    'json scim-patch': attempt(() => card(scimPatch(stored(), body.Operations, { mutateDocument: false }))),
  };
}

function report(name) {
  return (request, response) => {
    const body = request.body;
    const read = {
      'query req.query': request.query.card_number ?? null,
      'header req.get': request.get('X-Card-Number') ?? null,
    };
    if (name === 'express-multer') {
      const files = (request.files ?? []).filter((file) => /^card_number(\[.*)?$/.test(file.fieldname));
      read['form req.files'] = files.map((file) => file.buffer.toString('latin1'));
    }
    if (name === 'express-patch') {
      Object.assign(read, patched(body));
    } else if (typeof body === 'object') {
      if (typeof body?.payload === 'string') read['json field'] = attempt(() => card(JSON.parse(body.payload)));
      if (isJson(name, request)) {
        // Both take a name with a dot for a path.
        const paths = ['card_number', 'card.number', 'secret_key'];
        read['json req.body'] = card(body);
        read['json lodash.get'] = paths.map((path) => lodash.get(body, path) ?? null);
        read['json unflatten'] = attempt(() => card(unflatten(body)));
      } else {
        read['form req.body'] = body?.card_number ?? null;
      }
    }
    response.set('X-Upstream', name).json({ route: request.route.path, read });
  };
}

function start(name, parsers) {
  const app = express();
  app.set('query parser', name === 'express-simple' ? 'simple' : 'extended');
  for (const route of ROUTES) app.all(route, ...parsers, report(name));
  app.use((_request, response) => response.status(404).set('X-Upstream', name).json({ route: null, read: {} }));
  // Four parameters mark an error handler.
  app.use((error, _request, response, _next) => response.status(error.status ?? 500).set('X-Upstream', name).json({ route: null, read: {} }));
  return new Promise((resolve) => {
    const server = app.listen(0, '127.0.0.1', () => resolve([name, server.address().port]));
  });
}

/** The application on formidable alone, with all of its plugins. */
function startFormidable() {
  const server = createServer(async (request, response) => {
    const route = ROUTES.find((path) => path === new URL(request.url, 'http://a').pathname) ?? null;
    const read = {};
    try {
      const [fields, files] = await formidable({ allowEmptyFiles: true, minFileSize: 0 }).parse(request);
      const contents = (files.card_number ?? []).map((file) => readFileSync(file.filepath, 'latin1'));
      Object.assign(read, { 'form fields': fields.card_number ?? null, 'form files': contents });
      // Its plugin for JSON reads a body whose type has the word anywhere.
      if (/json/i.test(request.headers['content-type'] ?? '')) {
        read['json fields'] = [fields.card_number ?? null, fields.card?.[0]?.number ?? null, fields.secret_key ?? null];
      }
    } catch {
      // Nothing was read.
    }
    response.writeHead(200, { 'X-Upstream': 'formidable', 'Content-Type': 'application/json' }).end(JSON.stringify({ route, read }));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(['formidable', server.address().port]));
  });
}

const ports = await Promise.all([...Object.entries(PARSERS).map(([name, parsers]) => start(name, parsers)), startFormidable()]);
console.log(JSON.stringify(Object.fromEntries(ports)));
