// The upstreams `express-…`: Express with each of its usual body parsers, one application and port each.
// Prints one line, the ports by name, and serves until it is terminated.
import express from 'express';
import multer from 'multer';

const ROUTES = ['/v1/cards', '/v1/form', '/v1/json', '/v1/query'];

const PARSERS = {
  'express-qs': [express.json(), express.urlencoded({ extended: true }), express.text({ type: 'text/*' })],
  'express-simple': [express.json(), express.urlencoded({ extended: false })],
  'express-json-any': [express.json({ type: '*/*', strict: false })],
  'express-form-any': [express.urlencoded({ extended: true, type: '*/*' })],
  'express-multer': [multer().any()],
};

const card = (body) => [body?.card_number ?? null, body?.card?.number ?? null, body?.secret_key ?? null];

/** Whether the parsed body came of JSON; of a form otherwise. */
const isJson = (name, request) => name === 'express-json-any' || (name !== 'express-form-any' && Boolean(request.is(['json', '+json'])));

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
    if (typeof body === 'object') {
      if (isJson(name, request)) read['json req.body'] = card(body);
      else read['form req.body'] = body?.card_number ?? null;
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

const ports = await Promise.all(Object.entries(PARSERS).map(([name, parsers]) => start(name, parsers)));
console.log(JSON.stringify(Object.fromEntries(ports)));
