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

const rgb = text => text.match(/\d+/g).slice(0, 3).map(Number);
const near = (one, other) => one.every((part, index) => Math.abs(part - other[index]) <= 2);

/** What a panel's PNG must be. Runs in the page. */
function described(panel) {
  const figure = panel.closest('figure');
  const drawing = [...panel.querySelectorAll('svg')].find(svg => svg.getBoundingClientRect().width > 0);
  const legend = [...figure.querySelectorAll('.legend li')];
  const { width, height } = drawing.viewBox.baseVal;
  const colours = legend.map(item => ({ name: item.textContent, colour: getComputedStyle(item.firstChild).backgroundColor }));
  return { id: figure.id, width, height, legend: colours };
}

/** The pixels of a PNG below its title and legend, as the browser decodes it: colours with their number, and the one in the corner. */
async function decoded(page, bytes) {
  return page.evaluate(async source => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const { width, height } = image;
    const canvas = Object.assign(document.createElement('canvas'), { width, height });
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    const below = context.getImageData(0, Math.floor(height / 3), width, height - Math.floor(height / 3)).data;
    const counts = new Map();
    for (let at = 0; at < below.length; at += 4) {
      const key = `${below[at]},${below[at + 1]},${below[at + 2]}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const colours = [...counts].map(([key, count]) => [key.split(',').map(Number), count]);
    return { width, height, colours, corner: [...context.getImageData(0, 0, 1, 1).data].slice(0, 3) };
  }, `data:image/png;base64,${bytes.toString('base64')}`);
}

/** Pixels of CSS that an A4 page has between the margins of the style: 297 and 210 mm less 2 times 14. */
const [PAGE_HEIGHT, PAGE_WIDTH] = [269, 182].map(millimetres => Math.floor((millimetres / 25.4) * 96));

for (const name of ['one', 'two']) {
  test(`${name} result${name === 'one' ? '' : 's'} on paper, also where the screen is dark`, async context => {
    if (!browser) return context.skip('no Chromium here');
    const page = await browser.newPage({ viewport: { width: PAGE_WIDTH, height: PAGE_HEIGHT }, colorScheme: 'dark' });
    await page.goto(reports[name].url);
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    const seen = await page.evaluate(() => {
      const style = element => getComputedStyle(element);
      const shown = [...document.querySelectorAll('.panel')].map(panel => panel.getBoundingClientRect().height);
      const wide = [...document.querySelectorAll('.panel svg, table')].map(one => one.getBoundingClientRect().right);
      return {
        background: style(document.body).backgroundColor, text: style(document.body).color,
        dots: [...document.querySelectorAll('.legend i')].map(dot => style(dot).printColorAdjust),
        breaks: [...document.querySelectorAll('.panel, tr')].map(one => style(one).breakInside),
        buttons: [...document.querySelectorAll('button')].filter(button => button.getBoundingClientRect().width > 0).length,
        highest: Math.max(...shown), widest: Math.max(...wide), wide: document.documentElement.scrollWidth,
      };
    });
    assert.deepEqual([rgb(seen.background), rgb(seen.text)], [[255, 255, 255], [0, 0, 0]]);
    assert.equal(seen.buttons, 0);
    assert.ok(seen.dots.length > 0 && seen.dots.every(adjust => adjust === 'exact'), 'the legend keeps its colours');
    assert.ok(seen.breaks.every(rule => rule === 'avoid'), 'no drawing and no row of a table is cut');
    assert.ok(seen.highest > 100 && seen.highest < PAGE_HEIGHT, `a drawing of ${seen.highest} on a page of ${PAGE_HEIGHT}`);
    assert.ok(seen.widest <= PAGE_WIDTH && seen.wide <= PAGE_WIDTH, `${seen.widest} and ${seen.wide} on a page of ${PAGE_WIDTH}`);
    const pdf = await page.pdf({ format: 'A4', preferCSSPageSize: true });
    assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
    if (shots) {
      mkdirSync(shots, { recursive: true });
      writeFileSync(join(shots, `${name}.pdf`), pdf);
    }
    await page.close();
  });

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
          const [image, shown] = [await decoded(page, bytes), await panel.evaluate(described)];
          // Twice the pixels of the drawing, and of the title and a line for each colour above it.
          assert.deepEqual([image.width, image.height], [2 * shown.width, 2 * (shown.height + 34 + 22 * shown.legend.length)], shown.id);
          assert.ok(near(image.corner, rgb(seen.background)), `${shown.id}: the corner is ${image.corner}`);
          // The incident's plot has points of every kind of request that was answered.
          const answered = results[0].series.filter(series => series.ok > 20).map(series => series.name);
          const expected = shown.id === 'speed' ? shown.legend.filter(({ name: kind }) => answered.includes(kind)) : [];
          for (const { name: kind, colour } of expected) {
            const pixels = image.colours.filter(([pixel]) => near(pixel, rgb(colour))).reduce((sum, [, count]) => sum + count, 0);
            assert.ok(pixels > 50, `${pixels} pixels of ${colour} for ${kind}`);
          }
        }
        assert.deepEqual(faults, []);
        assert.deepEqual(requests.filter(asked => asked !== url && !/^(data|blob):/.test(asked)), []);
        await page.close();
      });
    }
  }
}
