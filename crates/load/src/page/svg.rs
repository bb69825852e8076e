//! Draws plots as SVG with `plotters`. The page's style sheet sets the colours: light or dark, on screen or on paper.

use std::collections::BTreeSet;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Number of colours for series; further ones repeat them.
pub(super) const COLOURS: usize = 6;
/// Radius of a point, in pixels.
const POINT: i32 = 2;
/// Half the width of a cross, in pixels. A circle of this radius is its placeholder until the drawing is finished.
const CROSS: i32 = 3;
/// Height in pixels of a row of crosses below the axis. All rows together have a margin of half a row above and below.
const ROW: u32 = 12;
/// Pixels around the plot: the margin, and the areas of the axes.
const MARGIN: u32 = 8;
const BELOW: u32 = 44;
const LEFT: u32 = 68;
/// Space for the right half of the last label below the plot.
const RIGHT: u32 = 28;
/// Unique placeholder colours, which are replaced by names.
const NAMED: [(RGBColor, &str); COLOURS + 2] = [
    (RGBColor(1, 2, 101), "--series-0"),
    (RGBColor(1, 2, 102), "--series-1"),
    (RGBColor(1, 2, 103), "--series-2"),
    (RGBColor(1, 2, 104), "--series-3"),
    (RGBColor(1, 2, 105), "--series-4"),
    (RGBColor(1, 2, 106), "--series-5"),
    (TEXT, "--text"),
    (GRID, "--grid"),
];
const TEXT: RGBColor = RGBColor(1, 2, 107);
const GRID: RGBColor = RGBColor(1, 2, 108);
const IN_MEMORY: &str = "a drawing in memory";

/// An axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// Its start; above 0 if it is logarithmic.
    pub min: f64,
    /// Its end, above `min`.
    pub max: f64,
    /// Whether it is logarithmic.
    pub is_log: bool,
    /// The label of the axis.
    pub label: &'static str,
    /// Formats its numbers.
    pub format: fn(f64) -> String,
}

/// A set of points in a plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layer {
    /// Index of its colour.
    pub colour: usize,
    /// How it is drawn.
    pub form: PointStyle,
    /// Its points; NaN breaks a line.
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointStyle {
    /// Separate dots.
    Points,
    /// A line through them.
    Line,
    /// A thinner line.
    Thin,
    /// Crosses in this row below the axis, counted from the top: for points that have a time but no value. The second coordinate is
    /// ignored.
    Below(usize),
}

/// The drawing area of axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlotArea<'a> {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Number of rows below it, and their label. Plots side by side have the same rows, even if they are empty.
    pub rows: (usize, &'static str),
    /// The layers to draw.
    pub layers: &'a [Layer],
    /// Width and height in pixels.
    pub size: (u32, u32),
}

impl PlotArea<'_> {
    /// Height of all rows with their margins, in pixels.
    fn strip(&self) -> u32 {
        if self.rows.0 > 0 { (self.rows.0 as u32 + 1) * ROW } else { 0 }
    }

    /// The value on the vertical axis this many pixels below its start.
    fn below(&self, pixels: u32) -> f64 {
        let Axis { min, max, is_log, .. } = self.y;
        let whole = self.size.1.saturating_sub(2 * MARGIN + BELOW + self.strip());
        let share = f64::from(pixels) / f64::from(whole.max(1));
        if is_log { min / (max / min).powf(share) } else { min - (max - min) * share }
    }
}

/// Draws a plot.
pub(super) fn draw(frame: &PlotArea<'_>) -> String {
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, frame.size).into_drawing_area();
        let (x, y) = (frame.x, frame.y);
        let xs = x.min..x.max;
        let ys = frame.below(frame.strip())..y.max;
        match (x.is_log, y.is_log) {
            (false, false) => paint(&root, xs, ys, frame),
            (false, true) => paint(&root, xs, Logarithmic(ys), frame),
            (true, false) => paint(&root, Logarithmic(xs), ys, frame),
            (true, true) => paint(&root, Logarithmic(xs), Logarithmic(ys), frame),
        }
    }
    finished(&out)
}

/// A logarithmic axis that labels every gridline. The library's own also draws gridlines without a label.
struct Logarithmic(Range<f64>);

impl Logarithmic {
    /// Multiples of powers of ten: the finest of a few regular patterns with at most `most` ticks.
    fn ticks(&self, most: usize) -> Vec<f64> {
        let (first, last) = (self.0.start.log10().floor() as i32, self.0.end.log10().ceil() as i32);
        let inside = |tick: &f64| (self.0.start * 0.999..=self.0.end * 1.001).contains(tick);
        let of = |multiples: &[f64], step: usize| -> Vec<f64> {
            let decades = (first..=last).step_by(step);
            decades
                .flat_map(|decade| multiples.iter().map(move |one| one * 10_f64.powi(decade)))
                .filter(inside)
                .collect()
        };
        let patterns: [(&[f64], usize); 5] = [
            (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1),
            (&[1.0, 2.0, 5.0], 1),
            (&[1.0], 1),
            (&[1.0], 2),
            (&[1.0], 4),
        ];
        let all = patterns.into_iter().map(|(multiples, step)| of(multiples, step));
        all.into_iter().find(|ticks| ticks.len() <= most).unwrap_or_default()
    }
}

impl Ranged for Logarithmic {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value / self.0.start).ln() / (self.0.end / self.0.start).ln();
        low + (f64::from(high - low) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points())
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

impl ValueFormatter<f64> for Logarithmic {}

fn paint<X, Y>(root: &DrawingArea<SVGBackend<'_>, Shift>, xs: X, ys: Y, frame: &PlotArea<'_>)
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let PlotArea { x, y, rows: (rows, name), layers, size: (width, height) } = *frame;
    let mut builder = ChartBuilder::on(root);
    builder.margin(MARGIN).margin_right(RIGHT).x_label_area_size(BELOW).y_label_area_size(LEFT);
    let mut chart = builder.build_cartesian_2d(xs, ys).expect(IN_MEMORY);
    let text = ("sans-serif", 14).into_font().color(&TEXT);
    // Rows below the axis have no numbers.
    let label = |value: &f64| if *value < y.min * 0.999 { String::new() } else { (y.format)(*value) };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(text.clone())
        .axis_desc_style(text.clone())
        .x_labels((width / 90) as usize)
        .y_labels((height / 45) as usize)
        .x_desc(x.label)
        .y_desc(y.label)
        .x_label_formatter(&|value| (x.format)(*value))
        .y_label_formatter(&label)
        .draw()
        .expect(IN_MEMORY);
    if rows > 0 {
        let (left, top) = chart.backend_coord(&(x.min, y.min));
        let at = (left - MARGIN as i32, top + (frame.strip() / 2) as i32);
        let style = text.pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(name, at, style)).expect(IN_MEMORY);
    }
    layers.iter().for_each(|layer| paint_layer(&mut chart, layer, frame));
}

fn paint_layer<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    layer: &Layer,
    frame: &PlotArea<'_>,
) where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let colour = NAMED[layer.colour % COLOURS].0;
    let (left, low) = (frame.x.min, frame.y.min);
    let is_inside = |&&(a, b): &&(f64, f64)| a.is_finite() && b.is_finite() && a >= left && b >= low;
    match layer.form {
        PointStyle::Points => {
            let points = layer.points.iter().filter(is_inside);
            let dots = points.map(|&point| Circle::new(point, POINT, colour.filled()));
            chart.draw_series(dots).expect(IN_MEMORY);
        }
        PointStyle::Below(row) => {
            let height = frame.below((row as u32 + 1) * ROW);
            let times = layer.points.iter().map(|(a, _)| *a).filter(|a| a.is_finite() && *a >= left);
            let crosses = times.map(|time| Circle::new((time, height), CROSS, colour.filled()));
            chart.draw_series(crosses).expect(IN_MEMORY);
        }
        PointStyle::Line | PointStyle::Thin => {
            let style = colour.stroke_width(if layer.form == PointStyle::Line { 2 } else { 1 });
            for piece in layer.points.split(|(a, b)| !a.is_finite() || !b.is_finite()) {
                let inside: Vec<(f64, f64)> = piece.iter().filter(is_inside).copied().collect();
                if let [only] = inside[..] {
                    chart.draw_series([Circle::new(only, POINT, colour.filled())]).expect(IN_MEMORY);
                } else {
                    chart.draw_series(LineSeries::new(inside, style)).expect(IN_MEMORY);
                }
            }
        }
    }
}

/// Replaces placeholder colours by names and merges the points of a colour into one path, each pixel once. A path takes a tenth of the
/// bytes of circles.
fn finished(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut marks: Vec<(Mark<'_>, BTreeSet<(&str, &str)>)> = Vec::new();
    for line in svg.lines() {
        match circle(line) {
            Some((mark, place)) => match marks.iter_mut().find(|(known, _)| *known == mark) {
                Some((_, places)) => drop(places.insert(place)),
                None => marks.push((mark, BTreeSet::from([place]))),
            },
            None => {
                if line.starts_with("</svg") {
                    marks.drain(..).for_each(|(mark, places)| out.push_str(&path(mark, &places)));
                }
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    NAMED.iter().fold(out, |out, (RGBColor(r, g, b), name)| {
        out.replace(&format!("#{r:02X}{g:02X}{b:02X}"), &format!("var({name})"))
    })
}

/// Marks of one colour and form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark<'a> {
    fill: &'a str,
    is_cross: bool,
}

/// Draws dots as zero-length lines with round caps, and crosses as two lines each.
fn path(Mark { fill, is_cross }: Mark<'_>, places: &BTreeSet<(&str, &str)>) -> String {
    let (shape, width, cap) = if is_cross {
        let (half, whole) = (CROSS, 2 * CROSS);
        (format!("m-{half} -{half}l{whole} {whole}m0 -{whole}l-{whole} {whole}"), "1.5".to_owned(), "butt")
    } else {
        ("h0".to_owned(), (2 * POINT).to_string(), "round")
    };
    let class = if is_cross { "failures" } else { "points" };
    let marks: String = places.iter().map(|(x, y)| format!("M{x} {y}{shape}")).collect();
    format!(
        "<path class=\"{class}\" fill=\"none\" stroke=\"{fill}\" stroke-width=\"{width}\" stroke-linecap=\"{cap}\" d=\"{marks}\"/>\n"
    )
}

/// Parses the mark and the centre of a line of SVG that draws a circle.
fn circle(line: &str) -> Option<(Mark<'_>, (&str, &str))> {
    let rest = line.strip_prefix("<circle ")?;
    let value = |name: &str| rest.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next());
    let is_cross = value(" r")?.parse() == Ok(CROSS);
    Some((Mark { fill: value("fill")?, is_cross }, (value("cx")?, value("cy")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis { min: 1.0, max: 1000.0, is_log: true, label: "x", format: |number| number.to_string() };

    /// Positions of the marks of a class and colour.
    fn places(svg: &str, class: &str, colour: usize) -> Vec<(f64, f64)> {
        let is_it = |line: &&str| line.contains(class) && line.contains(&format!("var(--series-{colour})"));
        let Some(path) = svg.lines().find(is_it) else { return Vec::new() };
        let (_, marks) = path.split_once(" d=\"M").expect("a path has marks");
        let place = |mark: &str| {
            let numbers: String = mark.chars().take_while(|c| c.is_ascii_digit() || *c == ' ').collect();
            let (x, y) = numbers.split_once(' ').expect("two numbers");
            (x.parse().expect("a number"), y.parse().expect("a number"))
        };
        marks.split('M').map(place).collect()
    }

    fn frame(x: Axis, y: Axis, layers: &[Layer]) -> PlotArea<'_> {
        PlotArea { x, y, rows: (0, ""), layers, size: (400, 300) }
    }

    #[test]
    fn no_label_is_written_twice() {
        let one_decade = Axis { min: 10.0, max: 100.0, ..AXIS };
        let large = PlotArea { size: (1240, 600), ..frame(one_decade, Axis { label: "y", ..one_decade }, &[]) };
        let svg = draw(&large);
        let texts: Vec<&str> =
            svg.split("<text ").skip(1).map(|text| text.split_once("</text>").expect("it ends").0).collect();
        let different: BTreeSet<&&str> = texts.iter().collect();
        assert!(texts.len() > 10 && different.len() == texts.len(), "{svg}");
        assert!(svg.matches("\n100\n").count() == 2, "one for each axis: {svg}");
    }

    #[test]
    fn every_gridline_of_a_logarithmic_axis_has_a_label() {
        for (min, max, most, expected) in [
            (10.0, 100.0, 12, vec![10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]),
            (10.0, 100.0, 5, vec![10.0, 20.0, 50.0, 100.0]),
            (1.0, 1e4, 10, vec![1.0, 10.0, 100.0, 1e3, 1e4]),
            (1.0, 1e6, 4, vec![1.0, 100.0, 1e4, 1e6]),
        ] {
            assert_eq!(Logarithmic(min..max).ticks(most), expected, "{min} to {max}, {most} at most");
        }
        let axis = Axis { max: 1e4, ..AXIS };
        let svg = draw(&PlotArea { size: (1200, 460), ..frame(axis, axis, &[]) });
        let gridlines = svg.lines().filter(|line| line.starts_with("<line") && line.contains("var(--grid)")).count();
        let labels = svg.split("<text ").skip(1).filter(|text| {
            text.split_once('\n').is_some_and(|(_, text)| text.starts_with(|c: char| c.is_ascii_digit()))
        });
        assert_eq!(gridlines, labels.count(), "{svg}");
    }

    #[test]
    fn points_of_a_colour_are_one_path_and_colours_are_the_page_s() {
        let layers = [
            Layer {
                colour: 0,
                form: PointStyle::Points,
                points: vec![(10.0, 10.0), (10.0, 10.0), (100.0, 20.0), (f64::NAN, 1.0)],
            },
            Layer {
                colour: 7,
                form: PointStyle::Line,
                points: vec![(1.0, 1.0), (10.0, 10.0), (f64::NAN, 0.0), (100.0, 100.0)],
            },
        ];
        for is_log in [true, false] {
            let axis = Axis { is_log, ..AXIS };
            let svg = draw(&frame(axis, axis, &layers));
            assert!(!svg.contains("<circle") && !svg.contains("#0102"), "{svg}");
            assert_eq!(places(&svg, "points", 0).len(), 2, "each place once: {svg}");
            assert!(
                svg.contains("var(--series-1)") && svg.contains("var(--text)") && svg.contains("var(--grid)"),
                "{svg}"
            );
            assert!(svg.trim_end().ends_with("</svg>"));
        }
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let (width, height) = (f64::from(400 - LEFT - MARGIN - RIGHT), f64::from(300 - BELOW - 2 * MARGIN));
        let points = vec![(1.0, 1.0), (10.0, 100.0), (250.0, 31.0), (1000.0, 1000.0)];
        let layers = [Layer { colour: 2, form: PointStyle::Points, points: points.clone() }];
        for (x_is_log, y_is_log) in [(false, false), (false, true), (true, false), (true, true)] {
            let share = |value: f64, is_log: bool| if is_log { value.log10() / 3.0 } else { (value - 1.0) / 999.0 };
            let svg = draw(&frame(Axis { is_log: x_is_log, ..AXIS }, Axis { is_log: y_is_log, ..AXIS }, &layers));
            let drawn = places(&svg, "points", 2);
            assert_eq!(drawn.len(), points.len());
            for &(x, y) in &points {
                let right = f64::from(LEFT + MARGIN) + share(x, x_is_log) * width;
                let down = f64::from(MARGIN) + (1.0 - share(y, y_is_log)) * height;
                let is_near = |place: &&(f64, f64)| (place.0 - right).abs() <= 1.5 && (place.1 - down).abs() <= 1.5;
                assert!(drawn.iter().any(|place| is_near(&place)), "({x}, {y}) at ({right}, {down}), of {drawn:?}");
            }
        }
    }

    #[test]
    fn points_without_a_value_are_crosses_below_the_axis() {
        let times = vec![(10.0, f64::NAN), (500.0, 7.0)];
        let layers = [
            Layer { colour: 0, form: PointStyle::Points, points: vec![(10.0, 1.0)] },
            Layer { colour: 0, form: PointStyle::Below(0), points: times.clone() },
            Layer { colour: 5, form: PointStyle::Below(1), points: times },
        ];
        for is_log in [true, false] {
            let y = Axis { is_log, ..AXIS };
            let svg = draw(&PlotArea { rows: (2, "failed"), ..frame(AXIS, y, &layers) });
            assert!(svg.contains("\nfailed\n"), "{svg}");
            let ([(_, low)], bottom) =
                (places(&svg, "points", 0)[..].try_into().expect("a point"), 300 - BELOW - MARGIN);
            let rows = [0, 5].map(|colour| places(&svg, "failures", colour));
            assert_eq!(rows.each_ref().map(Vec::len), [2, 2]);
            let row = f64::from(ROW);
            for (index, crosses) in rows.iter().enumerate() {
                let middle = low + row * (index as f64 + 1.0);
                assert!(
                    crosses.iter().all(|(_, y)| (y - middle).abs() <= 1.5 && *y < f64::from(bottom)),
                    "{crosses:?}, {low}"
                );
            }
            let columns = rows.map(|crosses| crosses.iter().map(|(x, _)| *x).collect::<Vec<f64>>());
            assert_eq!(columns[0], columns[1], "both at the same times");
        }
    }
}
