//! Typed access to the nodes of a file. Collects all problems instead of stopping at the first.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use leafseal_config::parse_duration;

use super::yaml::{NodeContent, YamlNode, YamlPosition, YamlProblem, short};

/// The start of keys of the file that are ignored: a place for what anchors name.
const EXTENSION: &str = "x-";

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<YamlProblem>);

impl Problems {
    pub(super) fn add(&mut self, place: YamlPosition, message: impl fmt::Display) {
        self.0.push(YamlProblem::new(place, message));
    }

    /// Returns all problems, in the order of the file.
    pub(super) fn sorted(mut self) -> Vec<YamlProblem> {
        self.0.sort_by_key(|problem| problem.place);
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A node and its path, such as `config.phases[0]`.
#[derive(Clone, Debug)]
pub(super) struct PathValue<'a> {
    pub(super) node: &'a YamlNode,
    pub(super) path: String,
}

impl<'a> PathValue<'a> {
    pub(super) fn place(&self) -> YamlPosition {
        self.node.place
    }

    /// Records a problem: the value must be `expected`.
    fn refuse(&self, expected: impl fmt::Display, problems: &mut Problems) {
        let found = match &self.node.content {
            _ if self.node.is_nothing() => "found nothing".to_owned(),
            NodeContent::Scalar(text, _) => format!("found `{}`", short(text)),
            NodeContent::List(_) => "found a list".to_owned(),
            NodeContent::Map(_) => "found a map".to_owned(),
        };
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        problems.add(self.node.place, format_args!("{path}: must be {expected}, {found}"));
    }

    fn scalar(&self) -> Option<&'a str> {
        match &self.node.content {
            NodeContent::Scalar(text, _) if !self.node.is_nothing() => Some(text.trim()),
            _ => None,
        }
    }

    /// The values of a map with any keys, without empty ones.
    pub(super) fn entries(&self, problems: &mut Problems) -> Vec<PathValue<'a>> {
        let NodeContent::Map(pairs) = &self.node.content else {
            self.refuse("a map", problems);
            return Vec::new();
        };
        pairs
            .iter()
            .filter(|(_, node)| !node.is_nothing())
            .map(|(key, node)| PathValue { node, path: self.path_of(&short(key.text().unwrap_or_default())) })
            .collect()
    }

    /// A map that may contain only `keys`.
    pub(super) fn map(&self, keys: &[&str], problems: &mut Problems) -> Option<MapFields<'a>> {
        let NodeContent::Map(pairs) = &self.node.content else {
            self.refuse("a map", problems);
            return None;
        };
        let mut values = Vec::new();
        for (key, node) in pairs {
            let NodeContent::Scalar(name, _) = &key.content else { continue };
            if self.path.is_empty() && name.starts_with(EXTENSION) {
                continue;
            }
            if keys.contains(&name.as_str()) {
                values.push((name.as_str(), PathValue { node, path: self.path_of(name) }));
            } else {
                let known = keys.join(", ");
                problems.add(
                    key.place,
                    format_args!("unknown key `{}`: must be one of {known}", self.path_of(&short(name))),
                );
            }
        }
        Some(MapFields { place: self.node.place, path: self.path.clone(), values })
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A list whose length is in `count`.
    pub(super) fn list(&self, count: RangeInclusive<usize>, problems: &mut Problems) -> Option<Vec<PathValue<'a>>> {
        let NodeContent::List(nodes) = &self.node.content else {
            self.refuse("a list", problems);
            return None;
        };
        if !count.contains(&nodes.len()) {
            let (min, max) = (count.start(), count.end());
            problems.add(
                self.node.place,
                format_args!("{}: must have {min} to {max} items, found {}", self.path, nodes.len()),
            );
            return None;
        }
        let item = |(index, node)| PathValue { node, path: format!("{}[{index}]", self.path) };
        Some(nodes.iter().enumerate().map(item).collect())
    }

    /// Non-empty text.
    pub(super) fn text(&self, problems: &mut Problems) -> Option<&'a str> {
        let text = self.scalar().filter(|text| !text.is_empty());
        if text.is_none() {
            self.refuse("text", problems);
        }
        text
    }

    /// A whole number.
    pub(super) fn whole(&self, range: RangeInclusive<u64>, problems: &mut Problems) -> Option<u64> {
        let number = self.scalar().and_then(|text| text.parse().ok()).filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(format_args!("a whole number from {} to {}", range.start(), range.end()), problems);
        }
        number
    }

    /// A whole number as `usize`.
    pub(super) fn count(&self, range: RangeInclusive<u32>, problems: &mut Problems) -> Option<usize> {
        let number = self.whole(u64::from(*range.start())..=u64::from(*range.end()), problems)?;
        usize::try_from(number).ok()
    }

    /// A decimal number.
    pub(super) fn number(&self, range: RangeInclusive<f64>, problems: &mut Problems) -> Option<f64> {
        let number = self.scalar().and_then(decimal).filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(format_args!("a number from {} to {}", range.start(), range.end()), problems);
        }
        number
    }

    /// A duration with a unit, or, as in Artillery's files, a number of seconds.
    pub(super) fn time(&self, range: RangeInclusive<Duration>, problems: &mut Problems) -> Option<Duration> {
        let time = self.scalar().and_then(|text| {
            let seconds = decimal(text).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.or_else(|| parse_duration(text))
        });
        let time = time.filter(|time| range.contains(time));
        if time.is_none() {
            let max = range.end().as_secs();
            let least = if range.start().is_zero() { "a time" } else { "a time above 0" };
            let expected =
                format!("{least}, up to {max} seconds: seconds, or text such as \"250ms\", \"1.5s\" or \"15m\"");
            self.refuse(expected, problems);
        }
        time
    }

    /// A boolean.
    pub(super) fn boolean(&self, problems: &mut Problems) -> Option<bool> {
        match self.scalar() {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            _ => {
                self.refuse("true or false", problems);
                None
            }
        }
    }

    /// One of `words`, each with its value.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
        let found = self.scalar().and_then(|text| words.iter().find(|(word, _)| *word == text));
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(all.join(" or "), problems);
        }
        found.map(|(_, value)| *value)
    }
}

/// The values of a map.
#[derive(Debug)]
pub(super) struct MapFields<'a> {
    pub(super) place: YamlPosition,
    pub(super) path: String,
    values: Vec<(&'a str, PathValue<'a>)>,
}

impl<'a> MapFields<'a> {
    /// Returns the value of an optional key; an empty value counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<&PathValue<'a>> {
        let found = self.values.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        found.filter(|value| !value.node.is_nothing())
    }

    /// Returns the value of a required key.
    pub(super) fn required(&self, key: &str, problems: &mut Problems) -> Option<&PathValue<'a>> {
        let value = self.get(key);
        if value.is_none() {
            let path = if self.path.is_empty() { "the file" } else { &self.path };
            problems.add(self.place, format_args!("{path}: the key `{key}` is missing"));
        }
        value
    }

    /// Whether the key has a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// Parses digits with an optional decimal point; refuses `inf` and `1e9`.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}
