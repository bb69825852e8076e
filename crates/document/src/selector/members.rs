//! Where JSON documents have the values that fields of forms name, the reverse of `fields`: frameworks that merge the sources read
//! `{"card":{"number":1}}` as `card[number]=1`.

use super::Selection;
use super::ast::{Query, Reach, Segment, Selector};
use super::code::Code;
use crate::fold::OtherCase;

/// A step of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Name(String),
    /// An element of a list, which some send as an object with numbers for names.
    Element(i64),
    AnyElement,
}

impl Selection {
    /// Selects the values that are members of a document where forms have fields of these names: the member of that name, and for names
    /// with brackets or dots the one at that path. Those that one of the selections in `hidden` selects in any document are left out, if
    /// names and wildcards show it. `None` if nothing is left.
    pub fn of_fields<'n>(
        names: impl IntoIterator<Item = &'n str>,
        hidden: &[Selection],
        other_case: OtherCase,
    ) -> Option<Selection> {
        let is_hidden = |path: &Vec<Step>| hidden.iter().flat_map(Selection::queries).any(|query| covers(query, path));
        let mut paths: Vec<Vec<Step>> = names.into_iter().flat_map(paths).filter(|path| !is_hidden(path)).collect();
        paths.sort();
        paths.dedup();
        let (single, longer): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.len() == 1);
        let mut queries: Vec<Query> = Vec::new();
        if !single.is_empty() {
            let selectors = single.into_iter().flatten().flat_map(Step::selectors).collect();
            queries.push(Query { segments: vec![Segment { reach: Reach::Children, selectors }] });
        }
        let segment = |step: Step| Segment { reach: Reach::Children, selectors: step.selectors() };
        queries.extend(longer.into_iter().map(|path| Query { segments: path.into_iter().map(segment).collect() }));
        (!queries.is_empty()).then(|| Selection::compile(queries, Code::new(Vec::new(), 0), other_case, false))
    }
}

impl Step {
    fn new(text: &str) -> Step {
        match text.parse::<u32>() {
            _ if text.is_empty() => Step::AnyElement,
            Ok(index) if text == index.to_string() => Step::Element(index.into()),
            _ => Step::Name(text.to_owned()),
        }
    }

    fn selectors(self) -> Vec<Selector> {
        match self {
            Step::Name(name) => vec![Selector::Name(name)],
            Step::Element(index) => vec![Selector::Name(index.to_string()), Selector::Index(index)],
            Step::AnyElement => vec![Selector::Wildcard],
        }
    }
}

/// The paths by which frameworks read a member as the field of this name. Elements at the end of a name belong to the list.
fn paths(name: &str) -> Vec<Vec<Step>> {
    let mut paths = vec![vec![Step::Name(name.to_owned())]];
    let (root, rest) = name.split_at(name.find('[').unwrap_or(name.len()));
    let mut behind = Vec::new();
    let mut open = rest;
    while let Some((step, next)) = open.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        behind.push(step);
        open = next;
    }
    if open.is_empty() && !root.is_empty() {
        // PHP writes the first name so.
        let of_php = root.replace([' ', '.'], "_");
        for root in [root, &of_php] {
            let steps = behind.iter().map(|step| Step::new(step));
            paths.push(std::iter::once(Step::Name(root.to_owned())).chain(steps).collect());
        }
        let dotted = root.split('.').chain(behind.iter().flat_map(|step| step.split('.')));
        let steps =
            dotted.enumerate().map(|(at, step)| if at == 0 { Step::Name(step.to_owned()) } else { Step::new(step) });
        paths.push(steps.collect());
    }
    for path in &mut paths {
        let length = path.iter().rposition(|step| matches!(step, Step::Name(_))).map_or(0, |last| last + 1);
        path.truncate(length);
    }
    paths.retain(|path| matches!(path.first(), Some(Step::Name(name)) if !name.trim().is_empty()));
    paths
}

/// Whether the query selects the value at this path in every document that has one, or a value that holds it.
fn covers(query: &Query, path: &[Step]) -> bool {
    let selects = |(segment, step): (&Segment, &Step)| {
        segment.reach == Reach::Children
            && segment.selectors.iter().any(|selector| match (selector, step) {
                (Selector::Wildcard, _) => true,
                (Selector::Name(name), Step::Name(step)) => name == step,
                _ => false,
            })
    };
    query.segments.len() <= path.len() && query.segments.iter().zip(path).all(selects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::walker::{Progress, Purpose, Walker};

    fn found(names: &[&str], hidden: &[&str], document: &str) -> Vec<String> {
        let limits = Limits::default();
        let hidden = Selection::parse(hidden, &limits).unwrap();
        let Some(selection) = Selection::of_fields(names.iter().copied(), &[hidden], OtherCase::Same) else {
            return Vec::new();
        };
        let mut walker = Walker::new(document.as_bytes(), &selection, Purpose::Encrypt, &limits).unwrap();
        let mut matches = Vec::new();
        while walker.next_batch(&mut matches, 1000, 1 << 20).unwrap() == Progress::More {}
        matches.into_iter().map(|found| document[found.start..found.end].to_owned()).collect()
    }

    #[test]
    fn members_are_found_where_forms_have_fields() {
        for (name, document) in [
            ("pin", r#"{"pin":1}"#),
            ("pin", r#"{"x":0,"P\u0049N":{"a":[1]}}"#),
            ("card[number]", r#"{"card":{"number":1}}"#),
            ("card[number]", r#"{"card[number]":1}"#),
            ("card.number", r#"{"card":{"number":1}}"#),
            ("card.number", r#"{"card_number":1}"#),
            ("card.number", r#"{"card.number":1}"#),
            ("cards[][number]", r#"{"cards":[{"number":1}]}"#),
            ("cards[][number]", r#"{"cards":{"0":{"number":1}}}"#),
            ("cards[0][number]", r#"{"cards":[{"number":1},{"number":2}]}"#),
            ("cards[0][number]", r#"{"cards":{"0":{"number":1}}}"#),
            ("pins[]", r#"{"pins":[1]}"#),
            ("pins[0]", r#"{"pins":1}"#),
            ("a[b", r#"{"a[b":1}"#),
        ] {
            assert_eq!(found(&[name], &[], document), ["1"], "{name} in {document}");
        }
        for (name, document) in [
            ("pin", r#"{"pins":1,"a":{"pin":1},"b":[{"pin":1}]}"#),
            ("card[number]", r#"{"card":1,"number":1,"cards":{"number":1}}"#),
            ("pin", r#"["pin",{"pin":1}]"#),
            ("*[]", "[1]"),
        ] {
            assert!(found(&[name], &[], document).is_empty(), "{name} in {document}");
        }
    }

    #[test]
    fn what_selectors_hide_in_any_document_is_left_out() {
        for (name, selector) in [
            ("pin", "$.pin"),
            ("pin", "$.*"),
            ("pin", "$"),
            ("card[number]", "$['card[number]','card']"),
            ("cards[][number]", "$['cards[][number]','cards']"),
        ] {
            let hidden = Selection::parse(&[selector], &Limits::default()).unwrap();
            assert!(Selection::of_fields([name], &[hidden], OtherCase::Same).is_none(), "{name} and {selector}");
        }
        for (name, selector) in [("pin", "$.PIN"), ("pin", "$.pin.a"), ("pin", "$[0]"), ("pin", "$[?@.a]")] {
            assert_eq!(found(&[name], &[selector], r#"{"pin":1}"#), ["1"], "{name} and {selector}");
        }
    }
}
