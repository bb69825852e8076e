// A web server for the pages of a test: an empty page under a strict content security policy, and the files that it may import.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

/** A host name that Chromium resolves to this machine, but which is no secure context. */
export const INSECURE_HOST = 'insecure.test';
export const flags = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
  '--disable-sync',
];

export class Site {
  /** `files` maps paths to files. */
  static async start(files) {
    const site = new Site();
    // The addresses that a page may connect to; set once the engine has an address.
    site.connections = "'none'";
    // Where else scripts may come from.
    site.scripts = '';
    site.server = createServer((request, response) => {
      const file = files[request.url];
      if (!file && request.url !== '/') return response.writeHead(404).end();
      const policy = `default-src 'none'; script-src 'self' ${site.scripts}; connect-src ${site.connections}; frame-src 'self'`;
      response.writeHead(200, { 'content-type': file ? 'text/javascript' : 'text/html', 'content-security-policy': policy });
      response.end(file ? readFileSync(file) : '<!doctype html><title>test</title>');
    }).listen(0, '127.0.0.1');
    await once(site.server, 'listening');
    site.port = site.server.address().port;
    return site;
  }

  origin(host = '127.0.0.1') {
    return `http://${host}:${this.port}`;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }
}
