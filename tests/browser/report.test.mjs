// The page of `fieldseal load report` in a real browser: nothing asked of any host, no error, nothing wider than the screen, every number
// the one of the JSON, and each plot saved as PNG. FIELDSEAL names the program; CHROMIUM the browser, else it is looked for.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const program = process.env.FIELDSEAL;
const places = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = places.find(path => path && existsSync(path));
// Screenshots are kept here where it is set.
const shots = process.env.SCREENSHOTS;
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const scenario = `
config:
  target: "127.0.0.1"
  e3: { key: k, cert: c }
  phases: [ { duration: 3, arrivalRate: 40 } ]
scenarios:
  - { name: "30 <b>values</b> & \\"more\\"", engine: e3, weight: 9, flow: [ { send: { numEncrypts: 30 } } ] }
  - { name: "2,000 values", engine: e3, weight: 1, flow: [ { send: { numEncrypts: 2000 } } ] }
  - { name: "out of patience", engine: e3, every: 0.5s, flow: [ { send: { numEncrypts: 20000, keying: field, cancelAfter: 5ms } } ] }
`;

let folder, browser;
const reports = {};

before(async () => {
  assert.ok(program, 'set FIELDSEAL to the path of the program');
  folder = mkdtempSync(join(tmpdir(), 'fieldseal-report-'));
  const file = name => join(folder, name);
  writeFileSync(file('scenario.yml'), scenario);
  const run = (...rest) => execFileSync(program, rest, { stdio: ['ignore', 'ignore', 'ignore'] });
  for (const seed of ['1', '2']) run('load', file('scenario.yml'), '--start', '--seed', seed, '-o', file(`${seed}.json`));
  run('load', 'report', file('1.json'), '-o', file('one.html'));
  run('load', 'report', file('1.json'), file('2.json'), '--name', 'before', '--name', 'after', '-o', file('two.html'));
  const json = seed => JSON.parse(readFileSync(file(`${seed}.json`), 'utf8'));
  reports.one = { url: pathToFileURL(file('one.html')).href, results: [json(1)] };
  reports.two = { url: pathToFileURL(file('two.html')).href, results: [json(1), json(2)] };
  if (executablePath) browser = await chromium.launch({ executablePath, args: flags });
});

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

// The number that a text stands for, in the unit of the JSON's field.
function read(text, path) {
  const [, digits, unit] = /^([\d.]+)(?: (\S+))?$/.exec(text);
  const seconds = { s: 1, ms: 1e-3, 'µs': 1e-6, ns: 1e-9 }[unit];
  if (seconds === undefined) return Number(digits) * ({ k: 1e3, M: 1e6 }[unit] ?? 1);
  return Number(digits) * seconds * (path.includes('_us') ? 1e6 : path.endsWith('_ns') ? 1e9 : 1);
}

for (const name of ['one', 'two']) {
  for (const width of [1280, 390]) {
    for (const colorScheme of ['light', 'dark']) {
      test(`${name} result${name === 'one' ? '' : 's'}, ${width} pixels, ${colorScheme}`, async context => {
        if (!browser) return context.skip('no Chromium here');
        const { url, results } = reports[name];
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
        const faults = [], requests = [];
        page.on('console', message => faults.push(message.text()));
        page.on('pageerror', error => faults.push(String(error)));
        page.on('request', request => requests.push(request.url()));
        await page.goto(url);
        if (shots) {
          mkdirSync(shots, { recursive: true });
          await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        }

        const seen = await page.evaluate(() => {
          const shown = element => element.getBoundingClientRect().width > 0;
          return {
            wide: document.documentElement.scrollWidth,
            background: getComputedStyle(document.body).backgroundColor,
            plots: [...document.querySelectorAll('figure')].map(figure => figure.id),
            drawings: [...document.querySelectorAll('.panel')].map(panel => [...panel.querySelectorAll('svg')].filter(shown).length),
            names: [...document.querySelectorAll('tbody td:first-child')].map(cell => cell.textContent),
            sections: [...document.querySelectorAll('section[data-result]')].map(section =>
              [...section.querySelectorAll('data')].map(data => [data.dataset.path, Number(data.value), data.textContent])),
          };
        });
        assert.ok(seen.wide <= width, `the page is ${seen.wide} pixels wide`);
        const [red] = seen.background.match(/\d+/g).map(Number);
        assert.ok(colorScheme === 'light' ? red > 200 : red < 60, seen.background);
        assert.deepEqual(seen.plots, ['speed', 'latency', 'distribution', 'throughput', 'errors', 'server', 'queue']);
        assert.equal(seen.drawings.length, 7 * results.length);
        assert.ok(seen.drawings.every(count => count === 1), `each panel shows one of its drawings: ${seen.drawings}`);
        assert.ok(seen.names.some(text => text.includes('30 <b>values</b> & "more"')), 'names are text, not HTML');

        assert.equal(seen.sections.length, results.length);
        for (const [index, numbers] of seen.sections.entries()) {
          assert.ok(numbers.length >= 9 + 2 * 9, `${numbers.length} numbers`);
          for (const [path, value, text] of numbers) {
            const told = path.split('.').reduce((part, key) => part[key], results[index]);
            assert.equal(value, told, path);
            // A text has three digits, a short one two.
            assert.ok(Math.abs(read(text, path) - told) <= Math.max(Math.abs(told) * 0.051, 0.051), `${path}: ${text} for ${told}`);
          }
        }

        // Of one result every plot, of two the first.
        const panels = await page.locator('.panel').all();
        for (const panel of name === 'one' ? panels : panels.slice(0, 1)) {
          const waiting = page.waitForEvent('download');
          await panel.locator('button.png').click();
          const bytes = readFileSync(await (await waiting).path());
          assert.equal(bytes.subarray(1, 4).toString(), 'PNG');
          assert.ok(bytes.length > 5000, `${bytes.length} bytes of PNG`);
        }
        assert.deepEqual(faults, []);
        assert.deepEqual(requests.filter(asked => asked !== url && !/^(data|blob):/.test(asked)), []);
        await page.close();
      });
    }
  }
}
