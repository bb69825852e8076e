// A plot of the results: throughput against the size of a call, one panel for each algorithm, a line for the best form of each package.

/** Lines in the order in which they get colours, light and dark. */
const COLOURS = {
  '@leafseal/crypto': ['#1f6fb5', '#62aee8'],
  'crypto-async': ['#c2571a', '#f0955a'],
  'node:crypto': ['#3c8d40', '#7cc47f'],
  WebCrypto: ['#8250b4', '#b893e0'],
  'sodium-native': ['#9a7a00', '#d9bb45'],
  '@noble/ciphers': ['#777777', '#a5a5a5'],
  '@noble/hashes': ['#777777', '#a5a5a5'],
};
const PANEL = { width: 330, height: 220, left: 76, top: 34, gapX: 34, gapY: 62 };
const COLUMNS = 2;

const classOf = (who) => `s${Object.keys(COLOURS).indexOf(who)}`;
const sizeName = (size) => (size < 1024 ? `${size} B` : size < 1 << 20 ? `${size >> 10} KiB` : `${size >> 20} MiB`);
const text = (x, y, content, attributes = '') => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${content}</text>`;

function style() {
  const rules = (index) => Object.values(COLOURS).map((colours, at) => `.s${at}{stroke:${colours[index]};fill:${colours[index]}}`).join('');
  return '<style>text{font:12px sans-serif;fill:#222;stroke:none}.title{font-weight:bold}.grid{stroke:#ddd}path{fill:none!important;stroke-width:2}'
    + `${rules(0)}@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}${rules(1)}}</style>`;
}

/** The highest throughput of each package at each size, in bytes a second. */
function linesOf(rows) {
  const lines = new Map();
  for (const { who, size, wallNs } of rows) {
    const line = lines.get(who) ?? lines.set(who, new Map()).get(who);
    line.set(size, Math.max(line.get(size) ?? 0, (size / wallNs) * 1e9));
  }
  return lines;
}

/** Least distance of two labels of sizes; those between are left out. */
const LABEL_WIDTH = 45;

function panel(rows, title, left, top) {
  const lines = linesOf(rows);
  const sizes = [...new Set(rows.map(({ size }) => size))].sort((a, b) => a - b);
  const speeds = [...lines.values()].flatMap((line) => [...line.values()]);
  const low = Math.floor(Math.log10(Math.min(...speeds)));
  const high = Math.ceil(Math.log10(Math.max(...speeds)));
  const x = (size) => left + (PANEL.width * Math.log2(size / sizes[0])) / Math.max(1, Math.log2(sizes.at(-1) / sizes[0]));
  const y = (speed) => top + (PANEL.height * (high - Math.log10(speed))) / (high - low);
  const parts = [text(left, top - 12, title, 'class="title"')];
  for (let power = low; power <= high; power += 1) {
    const at = y(10 ** power);
    parts.push(`<line class="grid" x1="${left}" x2="${left + PANEL.width}" y1="${at}" y2="${at}"/>`);
    parts.push(text(left - 6, at + 4, power >= 9 ? `${10 ** (power - 9)} GB/s` : `${10 ** (power - 6)} MB/s`, 'text-anchor="end"'));
  }
  let last = -Infinity;
  for (const size of sizes) {
    if (x(size) - last < LABEL_WIDTH) continue;
    last = x(size);
    parts.push(text(last, top + PANEL.height + 16, sizeName(size), 'text-anchor="middle" font-size="10"'));
  }
  for (const [who, line] of lines) {
    const points = sizes.filter((size) => line.has(size)).map((size) => [x(size), y(line.get(size))]);
    parts.push(`<path class="${classOf(who)}" d="M${points.map((point) => point.map((at) => at.toFixed(1)).join(' ')).join('L')}"/>`);
    parts.push(...points.map(([at, height]) => `<circle class="${classOf(who)}" cx="${at.toFixed(1)}" cy="${height.toFixed(1)}" r="2.5"/>`));
  }
  return parts.join('');
}

/** The plot of measured rows as SVG. */
export function plot(rows, titleOf) {
  const names = [...new Set(rows.map(({ algorithm }) => algorithm))];
  const packages = Object.keys(COLOURS).filter((who) => rows.some((row) => row.who === who));
  const columns = Math.min(COLUMNS, names.length);
  const width = columns * (PANEL.left + PANEL.width + PANEL.gapX);
  const bottom = Math.ceil(names.length / columns) * (PANEL.height + PANEL.top + PANEL.gapY);
  const panels = names.map((name, index) => panel(
    rows.filter(({ algorithm }) => algorithm === name),
    `${titleOf(name)}: throughput of the best form`,
    PANEL.left + (index % columns) * (PANEL.left + PANEL.width + PANEL.gapX),
    PANEL.top + Math.floor(index / columns) * (PANEL.height + PANEL.top + PANEL.gapY),
  ));
  const legend = packages.map((who, index) => {
    const [left, top] = [PANEL.left + (index % 3) * 190, bottom + Math.floor(index / 3) * 20];
    return `<circle class="${classOf(who)}" cx="${left}" cy="${top - 4}" r="5"/>${text(left + 10, top, who)}`;
  });
  const height = bottom + Math.ceil(packages.length / 3) * 20;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`
    + `${style()}${panels.join('')}${legend.join('')}</svg>\n`;
}
