"""A plot of throughput over the size of a message: warm, entire and in chunks, and the first call of a fresh virtual machine."""

import math

# Light and dark.
COLOURS = {
    "Leafseal": ("#1f6fb5", "#62aee8"),
    "SunJCE": ("#3c8d40", "#7cc47f"),
    "Corretto": ("#c2571a", "#f0955a"),
    "Conscrypt": ("#8250b4", "#b893e0"),
    "BouncyCastle": ("#777777", "#a5a5a5"),
    "crypto crate": ("#9a7a00", "#d9bb45"),
}
WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 330, 200, 76, 34, 34, 62
COLUMNS = 2


def text(x, y, content, attributes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{content}</text>'


def size_name(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def style():
    rules = [" ".join(f".s{i}{{stroke:{both[dark]};fill:{both[dark]}}}" for i, both in enumerate(COLOURS.values())) for dark in (0, 1)]
    return ("<style>text{font:12px sans-serif;fill:#222;stroke:none}.title{font-weight:bold}.grid{stroke:#ddd}"
            f"path{{fill:none!important;stroke-width:2}}{rules[0]}"
            f"@media(prefers-color-scheme:dark){{text{{fill:#ddd}}.grid{{stroke:#444}}{rules[1]}}}</style>")


def panel(title, lines, left, top):
    """`lines`: provider to points of size and bytes a second."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    sizes = sorted({size for size, _ in points})
    low = math.floor(math.log10(min(speed for _, speed in points)))
    high = math.ceil(math.log10(max(speed for _, speed in points)))
    span = max(1, math.log2(sizes[-1] / sizes[0]))

    def x(size):
        return left + WIDTH * math.log2(size / sizes[0]) / span

    def y(speed):
        return top + HEIGHT * (high - math.log10(speed)) / max(1, high - low)

    parts = [text(left, top - 12, title, 'class="title"')]
    for power in range(low, high + 1):
        at = y(10.0 ** power)
        label = f"{10 ** (power - 9)} GB/s" if power >= 9 else f"{10.0 ** (power - 6):g} MB/s"
        parts.append(f'<line class="grid" x1="{left}" x2="{left + WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(text(left - 6, at + 4, label, 'text-anchor="end"'))
    last = -math.inf
    for size in sizes:
        if x(size) - last >= 45:
            last = x(size)
            parts.append(text(last, top + HEIGHT + 16, size_name(size), 'text-anchor="middle" font-size="10"'))
    for index, name in enumerate(COLOURS):
        line = sorted(lines.get(name, []))
        if line:
            places = [(x(size), y(speed)) for size, speed in line]
            parts.append(f'<path class="s{index}" d="M' + "L".join(f"{a:.1f} {b:.1f}" for a, b in places) + '"/>')
            parts += [f'<circle class="s{index}" cx="{a:.1f}" cy="{b:.1f}" r="2.5"/>' for a, b in places]
    return "".join(parts)


def warm_panels(rows):
    jdk = max((row["jdk"] for row in rows if row["jdk"] != "Rust"), key=int)
    rows = [row for row in rows if row["jdk"] in (jdk, "Rust")]
    for mode, calls, direction, title in [("GCM", "entire", "encrypt", "GCM, one call"), ("GCM", "chunked", "encrypt", "GCM, chunks of 16 KiB"),
                                          ("GCM", "entire", "decrypt", "GCM decryption, one call"),
                                          ("GCM", "chunked", "decrypt", "GCM decryption, chunks"), ("CTR", "entire", "encrypt", "CTR, one call")]:
        for memory in ("heap", "direct"):
            lines = {}
            for row in rows:
                if (row["mode"], row["calls"], row["direction"]) == (mode, calls, direction) and row["memory"] in (memory, "native"):
                    lines.setdefault(row["provider"], []).append((row["size"], row["size"] / row["ns"] * 1e9))
            yield f"{title}, {memory}", lines


def cold_panels(cold_rows):
    jdk = max((row["jdk"] for row in cold_rows), key=int)
    for memory in ("heap", "direct"):
        lines = {}
        for row in cold_rows:
            if row["jdk"] == jdk and row["size"] > 0 and (row["memory"], row["calls"], row["direction"]) == (memory, "entire", "encrypt"):
                lines.setdefault(row["provider"], []).append((row["size"], row["size"] / row["callsNs"][0] * 1e9))
        yield f"GCM, first call of a fresh JVM, {memory}", lines


def plot(rows, cold_rows):
    """The plot as SVG, with colours for light and dark pages."""
    panels = [(title, lines) for title, lines in [*warm_panels(rows), *cold_panels(cold_rows)] if lines]
    width = COLUMNS * (LEFT + WIDTH + GAP_X)
    bottom = math.ceil(len(panels) / COLUMNS) * (HEIGHT + TOP + GAP_Y)
    parts = [panel(title, lines, LEFT + index % COLUMNS * (LEFT + WIDTH + GAP_X), TOP + index // COLUMNS * (HEIGHT + TOP + GAP_Y))
             for index, (title, lines) in enumerate(panels)]
    for index, name in enumerate(COLOURS):
        left, top = LEFT + index % 3 * 190, bottom + index // 3 * 20
        parts.append(f'<circle class="s{index}" cx="{left}" cy="{top - 4}" r="5"/>' + text(left + 10, top, name))
    height = bottom + 40
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
            f"{style()}{''.join(parts)}</svg>\n")
