// The page of `leafseal load report` in a real browser: nothing asked of any host, no error, nothing wider than the screen, every number
// the one of the JSON, and each plot saved as PNG. LEAFSEAL names the program; CHROMIUM the browser, else it is looked for.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

import { findChromium } from './chromium.mjs';
import { assertNumbers, assertPlotted, drawn, reportedNumbers } from './numbers.mjs';

const program = process.env.LEAFSEAL;
const executablePath = findChromium(process.env);
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

/** Pages, and which results stand on each. */
const PAGES = { one: ['1'], two: ['1', '2'], three: ['1', '2', 'worse'], eight: ['1', '2', '1', '2', '1', '2', '1', 'worse'] };

/** A result in which every other request of the first kind was given up. */
function worse(result) {
  const [series] = result.series;
  const { due_us: due, latency_us: latency } = series.requests;
  const [odd, even] = [1, 0].map(rest => list => list.filter((_, index) => index % 2 === rest));
  series.failures = { of: odd(due).length, due_us: odd(due), latency_us: odd(due).map(() => 60e6) };
  series.failure_latency_us = { p50: 60e6, p90: 60e6, p99: 60e6, p99_9: 60e6, max: 60e6 };
  series.requests = { of: even(due).length, due_us: even(due), latency_us: even(latency) };
  series.ok = even(due).length;
  for (const errors of [series.errors, result.totals.errors]) errors.no_answer = odd(due).length;
  result.totals.ok -= odd(due).length;
  return result;
}

let folder, browser;
const reports = {};

before(async () => {
  assert.ok(program, 'set LEAFSEAL to the path of the program');
  folder = mkdtempSync(join(tmpdir(), 'leafseal-report-'));
  const file = name => join(folder, name);
  writeFileSync(file('scenario.yml'), scenario);
  const run = (...rest) => execFileSync(program, rest, { stdio: ['ignore', 'ignore', 'ignore'] });
  for (const seed of ['1', '2']) run('load', file('scenario.yml'), '--start', '--seed', seed, '-o', file(`${seed}.json`));
  const json = name => JSON.parse(readFileSync(file(`${name}.json`), 'utf8'));
  writeFileSync(file('worse.json'), JSON.stringify(worse(json(2))));
  for (const [name, names] of Object.entries(PAGES)) {
    const named = names.flatMap((_, index) => ['--name', `result ${'abcdefgh'[index]}`]);
    run('load', 'report', ...names.map(result => file(`${result}.json`)), ...named, '-o', file(`${name}.html`));
    reports[name] = { url: pathToFileURL(file(`${name}.html`)).href, results: names.map(json) };
  }
  if (executablePath) browser = await chromium.launch({ executablePath, args: flags });
});

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const rgb = text => text.match(/\d+/g).slice(0, 3).map(Number);
const near = (one, other) => one.every((part, index) => Math.abs(part - other[index]) <= 2);

/** The expected PNG of a panel. Runs in the page. */
function described(panel) {
  const figure = panel.closest('figure');
  const drawing = [...panel.querySelectorAll('svg')].find(svg => svg.getBoundingClientRect().width > 0);
  const legend = [...figure.querySelectorAll('.legend li')];
  const { width, height } = drawing.viewBox.baseVal;
  const colours = legend.map(item => ({ name: item.lastChild.textContent, colour: getComputedStyle(item.firstChild).backgroundColor }));
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

/** Tables, sentences and the first plot show the values of the JSON. */
async function assertReported(page, results) {
  const seen = await page.evaluate(reportedNumbers);
  assertNumbers(seen, results);
  const sentences = seen.numbers.filter(({ isSentence }) => isSentence);
  assert.ok(sentences.length >= 15 * (results.length - 1), `${sentences.length} numbers in sentences`);
  for (const [index, panel] of (await page.locator('#speed .panel').all()).entries()) {
    assertPlotted(await panel.evaluate(drawn), results[index]);
  }
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
            sections: [...document.querySelectorAll('section[data-result]')].map(section => section.querySelectorAll('data').length),
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
        assert.ok(seen.sections.every(count => count >= 9 + 2 * 9), `${seen.sections} numbers`);
        await assertReported(page, results);

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
          // The incident's plot has points of every kind of request that was answered, and crosses of those that were not.
          const many = results[0].series.filter(series => series.ok > 20 || series.failures.of > 3).map(series => series.name);
          const expected = shown.id === 'speed' ? shown.legend.filter(({ name: kind }) => many.includes(kind)) : [];
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

/** How many stand side by side on screens of so many pixels. */
const COLUMNS = {
  two: { 390: 1, 900: 2, 1280: 2, 1920: 2 },
  three: { 390: 1, 900: 2, 1280: 3, 1920: 3 },
  eight: { 390: 1, 900: 2, 1280: 3, 1920: 4 },
};
/** A panel is not narrower beside another. */
const PANEL_MIN = 380;

for (const [name, columns] of Object.entries(COLUMNS)) {
  for (const [width, wanted] of Object.entries(columns)) {
    test(`${name} results stand side by side as far as ${width} pixels allow`, async context => {
      if (!browser) return context.skip('no Chromium here');
      const { url, results } = reports[name];
      const page = await browser.newPage({ viewport: { width: Number(width), height: 900 } });
      await page.goto(url);
      const seen = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        figures: [...document.querySelectorAll('figure')].map(figure => [...figure.querySelectorAll('.panel')].map(panel => {
          const { left, right, top } = panel.getBoundingClientRect();
          const drawing = [...panel.querySelectorAll('svg')].find(svg => svg.getBoundingClientRect().width > 0);
          return { left, right, top, scale: drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width };
        })),
      }));
      assert.ok(seen.wide <= Number(width), `the page is ${seen.wide} pixels wide`);
      assert.ok(seen.figures.length >= 6);
      for (const panels of seen.figures) {
        assert.equal(panels.length, results.length);
        panels.forEach(({ left, right, top, scale }, index) => {
          const [before, above] = [panels[index - 1], panels[index - wanted]];
          if (index % wanted > 0) assert.ok(top === before.top && left >= before.right, `panel ${index + 1} stands beside the one before`);
          else if (above) assert.ok(left === above.left && top > above.top, `panel ${index + 1} begins a row`);
          assert.ok(wanted === 1 || right - left >= PANEL_MIN, `panel ${index + 1} is ${right - left} pixels wide`);
          assert.ok(scale > 0.75, `letters of panel ${index + 1} at ${scale} of their size`);
        });
      }
      if (shots) await page.screenshot({ path: join(shots, `${name}-${width}.png`), fullPage: true });
      await page.close();
    });
  }
}

test('failures come first in the sentences, and qualify the latencies', async context => {
  if (!browser) return context.skip('no Chromium here');
  const { url, results } = reports.three;
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url);
  await assertReported(page, results);
  const [, sentences] = await page.evaluate(() =>
    [...document.querySelectorAll('.words')].map(words => [...words.querySelectorAll('li')].map(item => item.textContent)));
  const lost = results[2].totals.errors.no_answer;
  assert.match(sentences[0], new RegExp(`^Requests without a good answer: .* after \\(.*\\b${lost} no_answer`));
  const small = sentences.find(sentence => sentence.startsWith(results[2].series[0].name));
  assert.match(small, /rose from 0 % to \d+\.\d %/);
  await page.close();
});
