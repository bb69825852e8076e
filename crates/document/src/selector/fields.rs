//! How forms, queries and cookies name the values that selectors select in JSON. Frameworks read `card[number]=1` and
//! `{"card":{"number":1}}` as the same parameter, and many merge the sources.

use super::Selection;
use super::ast::{JsonPathQuery, PathSegment, Reach, Selector};

/// The name of the parameter under which Rails puts a document that is a list.
const ROOT_LIST: &str = "_json";
/// Maximum number of exact names of a selector with several names in a segment. Above it the last names count, wherever they are.
const NAMES_MAX: usize = 256;

/// The fields by which a selected value can be sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldPath {
    /// The field of this name and those below it: `card[number]`. An element of a list is an empty pair of brackets.
    Exactly(String),
    /// Every field with this name in its path.
    Anywhere(String),
    /// Every field whose path has this name behind its first one, which is `first` if that is given.
    Below {
        /// The first name of the path.
        first: Option<String>,
        /// The name behind it.
        name: String,
    },
}

impl Selection {
    /// The fields of forms by which selected values can be sent, each once. A selector that selects members whatever their names are has
    /// none: `$`, `$.*`, `$..*`. Behind a wildcard, a filter or `..` the last name of the selector counts.
    pub fn field_names(&self) -> Vec<FieldPath> {
        let mut paths: Vec<FieldPath> = self.queries().iter().flat_map(paths_of).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn paths_of(query: &JsonPathQuery) -> Vec<FieldPath> {
    // Everything below a selected value is selected too, so that `$.cards[*]` selects what `$.cards` does, as far as names show.
    let names_only = |segment: &PathSegment| segment.selectors.iter().all(|it| matches!(it, Selector::Name(_)));
    let length = query.segments.iter().rposition(names_only).map_or(0, |last| last + 1);
    let Some((last, before)) = query.segments[..length].split_last() else { return Vec::new() };
    let descends = query.segments[..length].iter().any(|segment| segment.reach == Reach::Descendants);
    let is_open = descends || before.iter().any(selects_any_member);
    let mut paths = Vec::new();
    if is_open {
        paths.extend(names(last).flat_map(|name| open_paths(before.first(), name)));
    }
    if !descends {
        match exact_paths(&query.segments[..length]) {
            Some(exact) => paths.extend(exact.into_iter().map(FieldPath::Exactly)),
            None => paths.extend(names(last).map(|name| FieldPath::Below { first: None, name: name.to_owned() })),
        }
    }
    paths.retain(|path| {
        let (FieldPath::Exactly(name) | FieldPath::Anywhere(name) | FieldPath::Below { name, .. }) = path;
        !name.trim().is_empty()
    });
    paths
}

fn names(segment: &PathSegment) -> impl Iterator<Item = &str> {
    segment.selectors.iter().filter_map(|selector| match selector {
        Selector::Name(name) => Some(&**name),
        _ => None,
    })
}

/// Whether a segment selects members of objects whatever their names are.
fn selects_any_member(segment: &PathSegment) -> bool {
    segment.selectors.iter().any(|selector| matches!(selector, Selector::Wildcard | Selector::Filter(_)))
}

/// The paths to a name somewhere behind the first segment, if there is one.
fn open_paths(first: Option<&PathSegment>, name: &str) -> Vec<FieldPath> {
    let below = |first: Option<&str>| FieldPath::Below { first: first.map(str::to_owned), name: name.to_owned() };
    match first {
        Some(first) if first.reach == Reach::Children => match first.selectors.iter().all(is_name) {
            true => names(first).map(|first| below(Some(first))).collect(),
            false => vec![below(None)],
        },
        _ => vec![FieldPath::Anywhere(name.to_owned())],
    }
}

fn is_name(selector: &Selector) -> bool {
    matches!(selector, Selector::Name(_))
}

/// The attribute that Rails assigns a step to (`ActiveModel::MultiparameterAttribute`).
pub(crate) fn before_parenthesis(step: &str) -> &str {
    match step.split_once('(') {
        Some((attribute, _)) if !attribute.trim().is_empty() => attribute,
        _ => step,
    }
}

/// All paths through the names of segments, with elements of lists; `None` if there are too many.
fn exact_paths(segments: &[PathSegment]) -> Option<Vec<String>> {
    let mut paths = vec![String::new()];
    for (at, segment) in segments.iter().enumerate() {
        // An element of a list has no name.
        let element = (!segment.selectors.iter().all(is_name)).then_some(None);
        let steps: Vec<Option<&str>> = names(segment).map(Some).chain(element).collect();
        if paths.len() * steps.len() > NAMES_MAX {
            return None;
        }
        let longer = |path: &String, step: Option<&str>| match (at, step) {
            (0, None) => format!("{ROOT_LIST}[]"),
            (0, Some(step)) => step.to_owned(),
            (_, step) => format!("{path}[{}]", step.unwrap_or_default()),
        };
        paths = paths.iter().flat_map(|path| steps.iter().map(move |step| longer(path, *step))).collect();
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DocumentLimits;

    fn paths(selector: &str) -> Vec<String> {
        let selection = Selection::parse(&[selector], &DocumentLimits::default()).unwrap();
        let written = |path: FieldPath| match path {
            FieldPath::Exactly(name) => name,
            FieldPath::Anywhere(name) => format!("..{name}"),
            FieldPath::Below { first, name } => format!("{}..{name}", first.as_deref().unwrap_or("*")),
        };
        selection.field_names().into_iter().map(written).collect()
    }

    #[test]
    fn selectors_have_the_names_by_which_frameworks_read_their_values() {
        for (selector, expected) in [
            ("$.number", &["number"][..]),
            ("$.card.number", &["card[number]"]),
            ("$['card']['no','cvc']", &["card[cvc]", "card[no]"]),
            ("$.cards[0].number", &["cards[][number]"]),
            ("$.cards[1:].number", &["cards[][number]"]),
            ("$.cards[*].number", &["cards[][number]", "cards..number"]),
            ("$.cards[?@.a].number", &["cards[][number]", "cards..number"]),
            ("$.card.*", &["card"]),
            ("$.cards[*]", &["cards"]),
            ("$.a.b[*][0]", &["a[b]"]),
            ("$.a..*", &["a"]),
            ("$..number", &["..number"]),
            ("$.card..number", &["card..number"]),
            ("$..card.number", &["..number"]),
            ("$..card[*]", &["..card"]),
            ("$.*.number", &["_json[][number]", "*..number"]),
            ("$[*].number", &["_json[][number]", "*..number"]),
            ("$[0].number", &["_json[][number]"]),
            ("$", &[]),
            ("$.*", &[]),
            ("$..*", &[]),
            ("$[0]", &[]),
            ("$['']", &[]),
        ] {
            assert_eq!(paths(selector), expected, "{selector}");
        }
    }

    #[test]
    fn many_names_count_wherever_they_are() {
        let many = |letter: char| (0..20).map(|at| format!("'{letter}{at}'")).collect::<Vec<_>>().join(",");
        let found = paths(&format!("$[{}][{}]", many('a'), many('b')));
        assert!(found.len() == 20 && found.iter().all(|path| path.starts_with("*..b")), "{found:?}");
    }
}
