// Compares the numbers on a page of `leafseal load report` with the JSON that it is made of.

import assert from 'node:assert/strict';

/** The sum of the values at places of a result, named as `data-path` names them; an object's value is the sum of its numbers. */
export function at(result, paths) {
  const sum = found => (typeof found === 'number' ? found : Object.values(found).reduce((total, part) => total + sum(part), 0));
  const found = paths.split(' ').map(path => path.split('.').reduce((part, key) => part[key], result));
  return sum(found);
}

/** The number that a text stands for, in the unit of the JSON's field, and half of its last digit. */
export function read(text, path) {
  const [, whole, digits = '', unit] = /^(\d+)(?:\.(\d+))?(?: (\S+))?$/.exec(text) ?? assert.fail(`no number: ${text}`);
  const factors = { undefined: 1, k: 1e3, M: 1e6, '%': 1e-2 };
  const seconds = { s: 1, ms: 1e-3, 'µs': 1e-6, ns: 1e-9 };
  const perSecond = path.includes('_us') ? 1e6 : path.endsWith('_ns') ? 1e9 : 1;
  const factor = unit in seconds ? seconds[unit] * perSecond : factors[unit];
  assert.ok(factor, `a unit: ${text}`);
  return [Number(`${whole}.${digits}`) * factor, 0.5 * 10 ** -digits.length * factor];
}

/** Whether a text is what rounding makes of a number. */
export function isRounded(text, value, path) {
  const words = /^([\d.]+) times (as long|as many|shorter|fewer)$/.exec(text);
  const within = (number, [rendered, half]) => Math.abs(rendered - number) <= half * (1 + 1e-9) + Math.abs(number) * 1e-12;
  if (words) return within(/shorter|fewer/.test(words[2]) ? 1 / value : value, read(words[1], path));
  const [least, most] = [Number.MIN_VALUE, 1 - Number.EPSILON / 2];
  const ranges = { 'about the same': [0.95, 1.05], 'less than 0.1 %': [least, 5e-4], 'more than 99.9 %': [0.9995, most] };
  const range = ranges[text];
  return range ? value >= range[0] && value <= range[1] : within(value, read(text, path));
}

/** All numbers of a page, and what stands around them. Runs in the page. */
export function reportedNumbers() {
  const result = (data, name) => Number(data.dataset[name] ?? data.closest('[data-result]').dataset.result);
  const numbers = [...document.querySelectorAll('data')].map(data => ({
    result: result(data, 'result'), path: data.dataset.path, value: Number(data.value), text: data.textContent,
    per: data.dataset.per && { result: result(data, 'perResult'), path: data.dataset.per }, isSentence: data.closest('.words') !== null,
  }));
  const around = [...document.querySelectorAll('.words li, section[data-result] td, p.faint')].map(element => {
    const copy = element.cloneNode(true);
    for (const data of copy.querySelectorAll('data')) data.replaceWith('…');
    return copy.textContent;
  });
  return { numbers, around };
}

/** Every number of the page is that of its place in the JSON, its text rounds to it, and there is no number besides. */
export function assertNumbers({ numbers, around }, results) {
  for (const { result, path, value, text, per } of numbers) {
    const divisor = per ? at(results[per.result], per.path) : 1;
    assert.equal(value, at(results[result], path) / divisor, `${path} of result ${result}`);
    assert.ok(isRounded(text, value, path), `${path} of result ${result}: ${text} for ${value}`);
  }
  const known = results.flatMap(({ scenario, series, program, machine, engine_settings: settings }) =>
    [scenario, ...series.map(({ name }) => name), program.version, program.commit, machine.cpu, machine.kernel, ...settings]);
  const names = known.filter(Boolean).sort((one, other) => other.length - one.length);
  for (const text of around) {
    const rest = names.reduce((left, name) => left.replaceAll(name, ''), text).replaceAll(/\bp99\b|slowest 10? %/g, '');
    assert.doesNotMatch(rest, /\d/, `a number that nothing vouches for: ${text}`);
  }
}

/** The labels of a drawing's axes with their pixels, and its marks by the name of their colour in the legend. Runs in the page. */
export function drawn(panel) {
  const svg = [...panel.querySelectorAll('svg')].find(one => one.getBoundingClientRect().width > 0);
  const labels = (anchor, axis) => [...svg.querySelectorAll(`text[text-anchor=${anchor}]`)]
    .filter(text => /^\s*\d/.test(text.textContent)).map(text => [text.textContent.trim(), Number(text.getAttribute(axis))]);
  const kinds = [...panel.closest('figure').querySelectorAll('.legend li')].map(item => ({
    name: item.lastChild.textContent, colour: /var\(--[a-z0-9-]+\)/.exec(item.firstChild.getAttribute('style') ?? '')?.[0],
  }));
  const marks = (kind, colour) => [...svg.querySelectorAll(`path.${kind}`)].filter(path => path.getAttribute('stroke') === colour)
    .flatMap(path => [...path.getAttribute('d').matchAll(/M(\d+) (\d+)/g)].map(([, x, y]) => [Number(x), Number(y)]));
  const series = kinds.filter(({ colour }) => colour)
    .map(({ name, colour }) => ({ name, points: marks('points', colour), failures: marks('failures', colour) }));
  return { x: labels('middle', 'x'), y: labels('end', 'y'), series, legend: kinds.map(({ name }) => name) };
}

/** Where a number lies by the labels of an axis; `scale` is what its distances are equal in. */
function axis(labels, scale) {
  const places = labels.map(([text, pixel]) => [scale(read(text, '')[0]), pixel]).sort(([one], [other]) => one - other);
  const [[low, from], [high, to]] = [places[0], places.at(-1)];
  assert.ok(high > low, `labels: ${JSON.stringify(labels)}`);
  return value => from + ((scale(value) - low) / (high - low)) * (to - from);
}

/** Pixels that a mark may lie off: two labels and the mark itself are at whole pixels. */
const OFF_MAX = 2;

/** Marks and what they stand for, each within a few pixels of one of the other kind. */
function assertMatched(marks, wanted, what) {
  const isNear = ([x, y]) => ([right, down]) => Math.abs(x - right) <= OFF_MAX && Math.abs(y - down) <= OFF_MAX;
  for (const place of wanted) assert.ok(marks.some(isNear(place)), `${what}: nothing drawn at ${place}`);
  for (const mark of marks) assert.ok(wanted.some(isNear(mark)), `${what}: something drawn at ${mark}`);
}

/** The first plot's marks are the requests of the result, where the labels of its axes say: points by speed, crosses below. */
export function assertPlotted({ x, y, series: all, legend }, { series: whole }) {
  const [right, down] = [axis(x, Number), axis(y, Math.log10)];
  const lowest = Math.max(...y.map(([, pixel]) => pixel));
  const rows = new Set();
  for (const { name, fields, requests, failures } of whole) {
    const drawnOf = all.find(one => one.name === name) ?? assert.fail(`${name} in the legend: ${legend}`);
    const points = requests.due_us.map((due, index) => [right(due / 1e6), down((fields * 1e6) / requests.latency_us[index])]);
    assertMatched(drawnOf.points, points, name);
    const [row] = [...new Set(drawnOf.failures.map(([, pixel]) => pixel))];
    if (row === undefined) assert.equal(failures.due_us.length, 0, `${name}: failures are not drawn`);
    else assert.ok(row > lowest && !rows.has(row), `${name}: crosses at ${row}, the axis begins at ${lowest}`);
    rows.add(row);
    assertMatched(drawnOf.failures, failures.due_us.map(due => [right(due / 1e6), row]), `${name}, failed`);
  }
  const hasFailures = whole.some(({ failures }) => failures.due_us.length > 0);
  if (hasFailures) assert.ok(legend.includes('without a good answer'), legend);
}
