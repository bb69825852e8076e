//! Plots as SVG by `plotters`, in colours that the page's style chooses: light or dark, on a screen or on paper.

use std::collections::BTreeSet;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// Colours for series; further ones begin anew.
pub const COLOURS: usize = 6;
/// Radius of a point, in pixels.
const POINT: i32 = 2;
/// Colours stand in the drawing as numbers that nothing else has, until they are given their names.
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

/// An axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Where it begins; above 0 where it is logarithmic.
    pub min: f64,
    /// Where it ends, above `min`.
    pub max: f64,
    /// Whether equal distances are equal ratios.
    pub is_log: bool,
    /// What stands at it.
    pub label: &'static str,
    /// How its numbers are written.
    pub format: fn(f64) -> String,
}

/// Something in a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its colour's number.
    pub colour: usize,
    /// How it is drawn.
    pub form: Form,
    /// Its points; a line is broken where one is no number.
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each by itself.
    Points,
    /// A line through them.
    Line,
    /// A thinner line.
    Thin,
}

/// Draws a plot of this size in pixels.
pub fn draw(x: Axis, y: Axis, layers: &[Layer], size: (u32, u32)) -> String {
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, size).into_drawing_area();
        let mut builder = ChartBuilder::on(&root);
        builder.margin(8).margin_right(16).x_label_area_size(44).y_label_area_size(68);
        let xs = x.min..x.max;
        let ys = y.min..y.max;
        match (x.is_log, y.is_log) {
            (false, false) => paint(&mut builder, xs, ys, (x, y), layers, size),
            (false, true) => paint(&mut builder, xs, ys.log_scale(), (x, y), layers, size),
            (true, false) => paint(&mut builder, xs.log_scale(), ys, (x, y), layers, size),
            (true, true) => paint(&mut builder, xs.log_scale(), ys.log_scale(), (x, y), layers, size),
        }
    }
    finished(&out)
}

fn paint<X, Y>(
    builder: &mut ChartBuilder<'_, '_, SVGBackend<'_>>,
    xs: X,
    ys: Y,
    (x, y): (Axis, Axis),
    layers: &[Layer],
    (width, height): (u32, u32),
) where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    const IN_MEMORY: &str = "a drawing in memory";
    let mut chart = builder.build_cartesian_2d(xs, ys).expect(IN_MEMORY);
    let text = ("sans-serif", 14).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(text.clone())
        .axis_desc_style(text)
        .x_labels((width / 90) as usize)
        .y_labels((height / 45) as usize)
        .x_desc(x.label)
        .y_desc(y.label)
        .x_label_formatter(&|value| (x.format)(*value))
        .y_label_formatter(&|value| (y.format)(*value))
        .draw()
        .expect(IN_MEMORY);
    for layer in layers {
        let colour = NAMED[layer.colour % COLOURS].0;
        let is_inside = |&&(a, b): &&(f64, f64)| a.is_finite() && b.is_finite() && a >= x.min && b >= y.min;
        match layer.form {
            Form::Points => {
                let points = layer.points.iter().filter(is_inside);
                let dots = points.map(|&point| Circle::new(point, POINT, colour.filled()));
                chart.draw_series(dots).expect(IN_MEMORY);
            }
            Form::Line | Form::Thin => {
                let style = colour.stroke_width(if layer.form == Form::Line { 2 } else { 1 });
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
}

/// Gives colours their names, and puts the points of a colour together, each pixel once: a path takes a tenth of the bytes of circles.
fn finished(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut dots: Vec<(&str, BTreeSet<(&str, &str)>)> = Vec::new();
    for line in svg.lines() {
        match circle(line) {
            Some((fill, place)) => match dots.iter_mut().find(|(known, _)| *known == fill) {
                Some((_, places)) => drop(places.insert(place)),
                None => dots.push((fill, BTreeSet::from([place]))),
            },
            None => {
                if line.starts_with("</svg") {
                    dots.drain(..).for_each(|(fill, places)| out.push_str(&path(fill, &places)));
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

/// Dots as the round ends of lines without a length.
fn path(fill: &str, places: &BTreeSet<(&str, &str)>) -> String {
    let width = 2 * POINT;
    let dots: String = places.iter().map(|(x, y)| format!("M{x} {y}h0")).collect();
    format!("<path fill=\"none\" stroke=\"{fill}\" stroke-width=\"{width}\" stroke-linecap=\"round\" d=\"{dots}\"/>\n")
}

/// Colour and middle of a line that draws a circle.
fn circle(line: &str) -> Option<(&str, (&str, &str))> {
    let rest = line.strip_prefix("<circle ")?;
    let value = |name: &str| rest.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next());
    Some((value("fill")?, (value("cx")?, value("cy")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis { min: 1.0, max: 1000.0, is_log: true, label: "x", format: |number| number.to_string() };

    #[test]
    fn points_of_a_colour_are_one_path_and_colours_are_the_page_s() {
        let layers = [
            Layer {
                colour: 0,
                form: Form::Points,
                points: vec![(10.0, 10.0), (10.0, 10.0), (100.0, 20.0), (f64::NAN, 1.0)],
            },
            Layer {
                colour: 7,
                form: Form::Line,
                points: vec![(1.0, 1.0), (10.0, 10.0), (f64::NAN, 0.0), (100.0, 100.0)],
            },
        ];
        for is_log in [true, false] {
            let axis = Axis { is_log, ..AXIS };
            let svg = draw(axis, axis, &layers, (400, 300));
            assert!(!svg.contains("<circle") && !svg.contains("#0102"), "{svg}");
            let path = svg.lines().find(|line| line.contains("var(--series-0)")).expect("a path");
            assert_eq!(path.matches("h0").count(), 2, "each place once: {path}");
            assert!(
                svg.contains("var(--series-1)") && svg.contains("var(--text)") && svg.contains("var(--grid)"),
                "{svg}"
            );
            assert!(svg.trim_end().ends_with("</svg>"));
        }
    }
}
