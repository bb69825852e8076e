//! Numbers in the page. Each has its position in the result as an attribute, so that readers can look it up.

use crate::report::duration;
use crate::result::ResultSeries;

use super::escaped;

/// The position of a number in the JSON: keys and indexes, joined by dots. Several positions, separated by spaces, mean the sum of
/// their values; an object counts as the sum of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberPath {
    /// The index of the result on the page, unless the enclosing element has it.
    pub result: Option<usize>,
    /// Its path.
    pub path: String,
}

impl NumberPath {
    /// A path in the result of the enclosing element.
    pub(super) fn here(path: impl Into<String>) -> Self {
        NumberPath { result: None, path: path.into() }
    }

    fn attributes(&self, name: &str) -> String {
        let result = match (self.result, name) {
            (None, _) => String::new(),
            (Some(result), "path") => format!(" data-result=\"{result}\""),
            (Some(result), _) => format!(" data-{name}-result=\"{result}\""),
        };
        format!(" data-{name}=\"{}\"{result}", escaped(&self.path))
    }
}

/// A number of the result, exact as an attribute and formatted as text.
pub(super) fn number(place: &NumberPath, value: f64, text: &str) -> String {
    format!("<data{} value=\"{value}\">{}</data>", place.attributes("path"), escaped(text))
}

/// The quotient of two numbers, formatted as text.
pub(super) fn quotient(place: &NumberPath, per: &NumberPath, value: f64, text: &str) -> String {
    format!("<data{}{} value=\"{value}\">{}</data>", place.attributes("path"), per.attributes("per"), escaped(text))
}

/// A count.
pub(super) fn count(place: &NumberPath, value: u64) -> String {
    number(place, value as f64, &value.to_string())
}

/// A duration in microseconds.
pub(super) fn micros(place: &NumberPath, value: f64) -> String {
    number(place, value, &duration(value / 1e6))
}

/// The number of requests of a series without a successful answer.
pub(super) fn failures(series: &ResultSeries) -> u64 {
    series.errors.values().sum()
}
