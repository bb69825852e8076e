//! Where JSON documents have the values that fields of forms name, the reverse of `fields`: frameworks that merge the sources read
//! `{"card":{"number":1}}` as `card[number]=1`. Together with them, names of members that are paths to hidden values.

use std::sync::Arc;

use super::ast::{JsonPathQuery, PathSegment, Reach, Selector};
use super::automaton::CompiledQueries;
use super::code::FilterCode;
use super::{Compiled, Selection};
use crate::fold::CaseFold;

/// A step of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemberStep {
    Name(String),
    /// An element of a list, which some send as an object with numbers for names.
    Element(i64),
    AnyElement,
}

impl Selection {
    /// Selects the values that are members of a document where forms have fields of these names: the member of that name, and for names
    /// with brackets or dots the one at that path. Those that one of the selections in `hidden` selects in any document are left out, if
    /// names and wildcards show it.
    ///
    /// It also selects what some upstreams read as such a value, or as one that `hidden` selects, by a name that is a path: `card.number`,
    /// `card[number]`, `number(1i)`, whatever filters say. A name that a selector looks for there is none of these. A document with such a
    /// name of more than 8 KiB is refused ([`DocumentErrorKind::PathName`]). `None` if nothing can be selected.
    ///
    /// [`DocumentErrorKind::PathName`]: crate::DocumentErrorKind::PathName
    pub fn guard<'n>(
        names: impl IntoIterator<Item = &'n str>,
        hidden: &[Selection],
        other_case: CaseFold,
    ) -> Option<Selection> {
        let is_hidden =
            |path: &Vec<MemberStep>| hidden.iter().flat_map(Selection::queries).any(|query| covers(query, path));
        let mut paths: Vec<Vec<MemberStep>> =
            names.into_iter().flat_map(paths).filter(|path| !is_hidden(path)).collect();
        paths.sort();
        paths.dedup();
        let (single, longer): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.len() == 1);
        let mut queries: Vec<JsonPathQuery> = Vec::new();
        if !single.is_empty() {
            let selectors = single.into_iter().flatten().flat_map(MemberStep::selectors).collect();
            queries.push(JsonPathQuery { segments: vec![PathSegment { reach: Reach::Children, selectors }] });
        }
        let segment = |step: MemberStep| PathSegment { reach: Reach::Children, selectors: step.selectors() };
        queries
            .extend(longer.into_iter().map(|path| JsonPathQuery { segments: path.into_iter().map(segment).collect() }));
        let fields = queries.len();
        for _ in 0..2 {
            queries.extend(hidden.iter().flat_map(Selection::queries).map(JsonPathQuery::by_names));
        }
        if queries.is_empty() {
            return None;
        }
        let program = CompiledQueries::new(&queries, other_case, false).finding_paths(fields);
        let (code, program) = (FilterCode::new(Vec::new(), 0), Some(Arc::new(program)));
        Some(Selection {
            compiled: Arc::new(Compiled { queries, code, program, sieve: None, other_case, is_unambiguous: true }),
        })
    }

    /// Whether it selects values by the paths that names are, and in no other way: for one that [`Selection::guard`] returns.
    pub fn has_paths_alone(&self) -> bool {
        self.program().is_some_and(|program| program.has_paths_alone())
    }
}

impl MemberStep {
    fn new(text: &str) -> MemberStep {
        match text.parse::<u32>() {
            _ if text.is_empty() => MemberStep::AnyElement,
            Ok(index) if text == index.to_string() => MemberStep::Element(index.into()),
            _ => MemberStep::Name(text.to_owned()),
        }
    }

    fn selectors(self) -> Vec<Selector> {
        match self {
            MemberStep::Name(name) => vec![Selector::Name(name)],
            MemberStep::Element(index) => vec![Selector::Name(index.to_string()), Selector::Index(index)],
            MemberStep::AnyElement => vec![Selector::Wildcard],
        }
    }
}

/// The paths by which frameworks read a member as the field of this name. Elements at the end of a name belong to the list.
fn paths(name: &str) -> Vec<Vec<MemberStep>> {
    let mut paths = vec![vec![MemberStep::Name(name.to_owned())]];
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
            let steps = behind.iter().map(|step| MemberStep::new(step));
            paths.push(std::iter::once(MemberStep::Name(root.to_owned())).chain(steps).collect());
        }
        let dotted = root.split('.').chain(behind.iter().flat_map(|step| step.split('.')));
        let steps = dotted
            .enumerate()
            .map(|(at, step)| if at == 0 { MemberStep::Name(step.to_owned()) } else { MemberStep::new(step) });
        paths.push(steps.collect());
    }
    for path in &mut paths {
        let length = path.iter().rposition(|step| matches!(step, MemberStep::Name(_))).map_or(0, |last| last + 1);
        path.truncate(length);
    }
    paths.retain(|path| matches!(path.first(), Some(MemberStep::Name(name)) if !name.trim().is_empty()));
    paths
}

/// Whether the query selects the value at this path in every document that has one, or a value that holds it.
fn covers(query: &JsonPathQuery, path: &[MemberStep]) -> bool {
    let selects = |(segment, step): (&PathSegment, &MemberStep)| {
        segment.reach == Reach::Children
            && segment.selectors.iter().any(|selector| match (selector, step) {
                (Selector::Wildcard, _) => true,
                (Selector::Name(name), MemberStep::Name(step)) => name == step,
                _ => false,
            })
    };
    query.segments.len() <= path.len() && query.segments.iter().zip(path).all(selects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DocumentErrorKind;
    use crate::limits::DocumentLimits;
    use crate::walker::{Purpose, WalkProgress, Walker};

    /// The values that are found, or where a name is refused.
    fn search(
        (names, hidden): (&[&str], &[&str]),
        other_case: CaseFold,
        document: &str,
    ) -> Result<Vec<String>, (DocumentErrorKind, usize)> {
        let limits = DocumentLimits::default();
        let hidden = Selection::parse(hidden, &limits).unwrap();
        let Some(selection) = Selection::guard(names.iter().copied(), &[hidden], other_case) else {
            return Ok(Vec::new());
        };
        let mut walker = Walker::new(document.as_bytes(), &selection, Purpose::Encrypt, &limits).unwrap();
        let mut matches = Vec::new();
        while walker.next_batch(&mut matches, 1000, 1 << 20).map_err(|error| (error.kind, error.offset))?
            == WalkProgress::More
        {}
        Ok(matches.into_iter().map(|found| document[found.start..found.end].to_owned()).collect())
    }

    fn found(names: &[&str], hidden: &[&str], document: &str) -> Vec<String> {
        search((names, hidden), CaseFold::Same, document).unwrap()
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
            let hidden = Selection::parse(&[selector], &DocumentLimits::default()).unwrap();
            let guard = Selection::guard([name], &[hidden], CaseFold::Same).expect("a guard of names");
            assert!(guard.has_paths_alone(), "{name} and {selector}");
        }
        for (name, selector) in [("pin", "$.PIN"), ("pin", "$.pin.a"), ("pin", "$[0]"), ("pin", "$[?@.a]")] {
            assert_eq!(found(&[name], &[selector], r#"{"pin":1}"#), ["1"], "{name} and {selector}");
        }
        assert!(Selection::guard([], &[], CaseFold::Same).is_none());
    }

    #[test]
    fn values_are_found_by_names_that_are_paths() {
        for (selector, names) in [
            (
                "$.card.number",
                &[
                    "card.number",
                    "Card.Number",
                    "card[number]",
                    "card['number']",
                    r"card\u002enumber",
                    "card[number](1i)",
                    "card.number.x",
                    "card[number][0]",
                    ".card.number",
                    "card.number.",
                    r"card.number\u0000x",
                    "card.number(1i)",
                    "card[num]ber",
                    "ca]rd[number",
                    r"card.\\number",
                    r#"card[\"n\\umber\"]"#,
                ][..],
            ),
            ("$.card_number", &["card.number", "card[number", "card number", " card_number"]),
            ("$.number", &["number(1i)", "number.", "[number]", "number[0]"]),
            (
                "$.cards[*].number",
                &["cards[0][number]", "cards[].number", "cards.0.number", "cards.x.number", "cards..number"],
            ),
            (
                "$.cards[0].number",
                &["cards[0].number", "cards[][number]", "cards.0.number", "cards..number", "cards.0x0.number"],
            ),
            ("$.cards[1:].number", &["cards[].number", "cards[1].number"]),
            ("$.cards[-1].number", &["cards[7].number"]),
            ("$.cards[?@.kind=='card'].number", &["cards[0].number"]),
            ("$..number", &["a.number", "number.a", "x[y][number]", r"a\u0000.number", r"\ud800.number"]),
            ("$.*.number", &["a.number", ".number", r"\ud800.number"]),
            ("$.users.*.ssn", &[r#"users[\"x[1]\"].ssn"#, "users['x[0]'][ssn]", "users.x[0].ssn", "[]users[[0]ssn"]),
            ("$.card['first.name']", &["card[first.name]"]),
            ("$.a.card['first.name']", &["a.card[first.name]", r#"a.card[\"first.name\"]"#]),
        ] {
            for name in names {
                let document = r#"{"card":{"number":1},"x":[],"NAME":2,"z":"3"}"#.replace("NAME", name);
                let of = |document: &str| search((&[], &[selector]), CaseFold::Same, document);
                assert_eq!(of(&document), Ok(vec!["2".to_owned()]), "{selector} and {name}");
                let below = format!(r#"{{"a":1,"b":[{{}}],"c":{document}}}"#);
                let is_anywhere = selector.starts_with("$..");
                if !selector.starts_with("$.*") {
                    let expected = if is_anywhere { vec!["2".to_owned()] } else { Vec::new() };
                    assert_eq!(of(&below), Ok(expected), "{selector} and {name} below");
                }
            }
        }
        let case = |case| search((&[], &["$.card.number"]), case, r#"{"Card.number":1}"#).unwrap().len();
        assert_eq!((case(CaseFold::Same), case(CaseFold::Other)), (1, 0));
        for (selector, document) in [
            ("$.card.billing.number", r#"{"card.billing":{"x":1,"number":2}}"#),
            ("$.users.*.ssn", r#"{"users":{".ssn":2}}"#),
            ("$.card.number", r#"{"card":{"number(1i)":2}}"#),
            ("$.card.number", r#"{"card":{"number":1,".number":[2]}}"#),
            ("$.a.b.c.d", r#"{"a.b":{"c.d":2,"c":3}}"#),
            ("$.card.number", r#"{"__proto__":{"card":{"number":2}}}"#),
            ("$.card.number", r#"{"card":{"__pr\u006fto__":{"x":1,"number":2}}}"#),
        ] {
            let found = search((&[], &[selector]), CaseFold::Other, document).unwrap();
            assert_eq!(found.first().map(String::as_str), Some("2"), "{selector} in {document}");
        }
        for document in [r#"{"card":{"number(1i)":1}}"#, r#"{"card.number":1}"#] {
            assert_eq!(search((&["card[number]"], &[]), CaseFold::Other, document).unwrap(), ["1"], "{document}");
        }
        let both: (&[&str], &[&str]) = (&["cards[0][cvc]"], &["$.cards[0].number"]);
        assert_eq!(search(both, CaseFold::Same, r#"{"cards[0].number":1}"#).unwrap(), ["1"]);
    }

    #[test]
    fn other_names_with_dots_and_brackets_select_nothing() {
        for (selectors, name) in [
            (&["$.card.number"][..], "card.numbers"),
            (&["$.card.number"], "x.card.number"),
            (&["$.card.number"], "number.card"),
            (&["$.card.number"], "card.holder"),
            (&["$.card.billing.number"], "card.billing"),
            (&["$.card.number", "$['card.number']"], "card.number"),
            (&["$.cards[-1].number"], "cards.count"),
            (&["$.payments[?@.kind=='card'].number"], "payments.enabled"),
            (&["$..card.number"], "app.card"),
            (&["$..number"], "numbers.x"),
            (&["$.*"], "card.number"),
            (&["$.*.number"], "a.b"),
            (&["$.*.number"], "number"),
            (&["$.number"], "(number)"),
            (&["$.number"], "number (1i)"),
            (&["$.number"], "."),
            (&["$.number"], "[]"),
            (&[], "card.number"),
        ] {
            let document = format!(r#"{{"{name}":1,"é":[1.5,"a.number"]}}"#);
            assert_eq!(search((&[], selectors), CaseFold::Same, &document), Ok(Vec::new()), "{selectors:?} and {name}");
        }
    }

    #[test]
    fn long_names_with_characters_of_paths_are_refused() {
        let of = |name: String| search((&[], &["$.card.number"]), CaseFold::Same, &format!(r#"{{"{name}":1}}"#));
        assert_eq!(of("a".repeat(100_000)), Ok(Vec::new()));
        assert_eq!(of("a.".repeat(4095)), Ok(Vec::new()));
        assert_eq!(of("a.".repeat(4096)), Err((DocumentErrorKind::PathName, 1)));
    }

    /// The sets that paths lead to are bounded, whatever the selectors.
    #[test]
    fn paths_through_many_descendants_end() {
        let names = |at: usize| format!("$..a{at}{}.b", ".*".repeat(8));
        let selectors: Vec<String> = (0..20).map(names).collect();
        let selectors: Vec<&str> = selectors.iter().map(String::as_str).collect();
        let member = |at: usize| {
            format!(r#""{}":0"#, (0..12).map(|step| format!("a{}.", (at * 7 + step * step) % 20)).collect::<String>())
        };
        let document = format!("{{{}}}", (0..400).map(member).collect::<Vec<_>>().join(","));
        let result = search((&[], &selectors), CaseFold::Same, &document);
        assert!(matches!(result, Ok(_) | Err((DocumentErrorKind::PathName, _))), "{result:?}");
    }
}
