//! Compares the walker with slow, independent implementations, on random documents and random selectors.
//!
//! Documents have unusual white space, escapes, duplicate names and deep nesting; the selectors are evaluated a second time as RFC 9535
//! specifies, on the slow parser's tree. Acceptance is also compared with `serde_json`.

use std::ops::Range;

use leafseal_document::fuzzing::slow::{self, SlowKind, SlowValue};
use leafseal_document::fuzzing::{check_document, check_selectors, walk};
use leafseal_document::{
    DocumentErrorKind, DocumentLimits, DocumentWalk, Purpose, Selection, Strategy as NodeStrategy, WalkProgress,
    escape_into, is_number, select, unescape,
};
use proptest::prelude::*;
use proptest::sample::select as one_of;
use serde::de::IgnoredAny;

const WHOLE: (usize, usize) = (usize::MAX, usize::MAX);

/// White space of every kind and of lengths around the scanner's widths.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just(String::new()),
        4 => "[ \t\n\r]{1,4}",
        1 => (0_usize..70).prop_map(|length| " ".repeat(length)),
    ]
}

/// One character, plain or as one of its escapes; occasionally a lone surrogate.
fn spelled_character() -> impl Strategy<Value = String> {
    let plain = one_of(vec!["a", "b", "e", "v", ":", " ", "é", "€", "𝄞", "\u{7f}", "'", "/", "ev:"]);
    let escaped = one_of(vec![
        "\\\"",
        "\\\\",
        "\\/",
        "\\b",
        "\\f",
        "\\n",
        "\\r",
        "\\t",
        "\\u0061",
        "\\u00e9",
        "\\uD834\\uDD1E",
        "\\u0000",
        "\\u0065",
        "\\u003A",
        "\\ud800",
        "\\uDC00",
    ]);
    prop_oneof![6 => plain, 1 => escaped].prop_map(str::to_owned)
}

fn string() -> impl Strategy<Value = String> {
    let short = prop::collection::vec(spelled_character(), 0..5);
    let long = prop::collection::vec(spelled_character(), 10..90);
    prop_oneof![6 => short, 1 => long].prop_map(|characters| format!("\"{}\"", characters.concat()))
}

/// Few different names, so that selectors match and objects repeat names.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => one_of(vec!["\"a\"", "\"b\"", "\"\\u0061\"", "\"\"", "\"é\"", "\"\\u00e9\"", "\"a b\""]).prop_map(str::to_owned),
        1 => string(),
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    let number = one_of(vec!["0", "-0", "1", "-1.50", "12345678901234567890", "1e3", "2.5E-7", "0.1", "100"]);
    let long_number = "-?[1-9][0-9]{0,80}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    prop_oneof![
        3 => string(),
        3 => number.prop_map(str::to_owned),
        1 => long_number,
        1 => one_of(vec!["true", "false", "null"]).prop_map(str::to_owned),
    ]
}

fn spaced(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), value, space()).prop_map(|(before, value, after)| before + &value + &after)
}

/// A well-formed document.
fn document() -> impl Strategy<Value = String> {
    let value = scalar().prop_recursive(5, 48, 6, |inner| {
        let member = (spaced(name()), spaced(inner.clone())).prop_map(|(name, value)| name + ":" + &value);
        let array = prop::collection::vec(spaced(inner), 0..6);
        let object = prop::collection::vec(member, 0..6);
        prop_oneof![
            (space(), array)
                .prop_map(|(space, items)| format!("[{}]", if items.is_empty() { space } else { items.join(",") })),
            (space(), object)
                .prop_map(|(space, items)| format!("{{{}}}", if items.is_empty() { space } else { items.join(",") })),
        ]
    });
    spaced(value)
}

/// A selector, for tests.
#[derive(Clone, Debug)]
enum Part {
    Name(&'static str),
    Wildcard,
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
}

/// A segment: whether it descends, and its selectors.
type Segment = (bool, Vec<Part>);

fn part() -> impl Strategy<Value = Part> {
    let bound = || prop::option::of(-4_i64..5);
    prop_oneof![
        4 => one_of(vec!["a", "b", "", "é", "a b"]).prop_map(Part::Name),
        2 => Just(Part::Wildcard),
        3 => (-4_i64..5).prop_map(Part::Index),
        2 => (bound(), bound(), -3_i64..4).prop_map(|(start, end, step)| Part::Slice(start, end, step)),
    ]
}

fn segments() -> impl Strategy<Value = Vec<Segment>> {
    prop::collection::vec((prop::bool::weighted(0.3), prop::collection::vec(part(), 1..4)), 0..5)
}

fn written(segments: &[Segment]) -> String {
    let bound = |bound: &Option<i64>| bound.map_or(String::new(), |bound| bound.to_string());
    let part = |part: &Part| match part {
        Part::Name(name) => format!("'{name}'"),
        Part::Wildcard => "*".to_owned(),
        Part::Index(index) => index.to_string(),
        Part::Slice(start, end, step) => format!("{}:{}:{step}", bound(start), bound(end)),
    };
    let one = |(descends, parts): &Segment| {
        let parts: Vec<_> = parts.iter().map(part).collect();
        format!("{}[{}]", if *descends { ".." } else { "" }, parts.join(" , "))
    };
    format!("${}", segments.iter().map(one).collect::<String>())
}

/// The children that a selector selects, by RFC 9535, section 2.3.
fn selected_children<'v>(value: &'v SlowValue, part: &Part) -> Vec<&'v SlowValue> {
    match (&value.kind, part) {
        (SlowKind::Object(members), Part::Name(wanted)) => {
            members.iter().filter(|(name, _)| name.as_deref() == Some(wanted)).map(|(_, value)| value).collect()
        }
        (SlowKind::Object(members), Part::Wildcard) => members.iter().map(|(_, value)| value).collect(),
        (SlowKind::Array(elements), Part::Wildcard) => elements.iter().collect(),
        (SlowKind::Array(elements), Part::Index(index)) => {
            let index = if *index < 0 { elements.len() as i64 + index } else { *index };
            usize::try_from(index).ok().and_then(|index| elements.get(index)).into_iter().collect()
        }
        (SlowKind::Array(elements), Part::Slice(start, end, step)) => {
            sliced(elements.len() as i64, *start, *end, *step)
                .into_iter()
                .map(|index| &elements[index as usize])
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The loops of section 2.3.4.2.2.
fn sliced(length: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Vec<i64> {
    let normal = |bound: i64| if bound >= 0 { bound } else { length + bound };
    let mut indexes = Vec::new();
    if step > 0 {
        let mut index = normal(start.unwrap_or(0)).max(0).min(length);
        while index < normal(end.unwrap_or(length)).max(0).min(length) {
            indexes.push(index);
            index += step;
        }
    } else if step < 0 {
        let mut index = normal(start.unwrap_or(length - 1)).max(-1).min(length - 1);
        while index > normal(end.unwrap_or(-length - 1)).max(-1).min(length - 1) {
            indexes.push(index);
            index += step;
        }
    }
    indexes
}

fn and_descendants<'v>(value: &'v SlowValue, found: &mut Vec<&'v SlowValue>) {
    found.push(value);
    selected_children(value, &Part::Wildcard).into_iter().for_each(|child| and_descendants(child, found));
}

/// The node list of a query as ranges, each once, in document order.
fn selected_ranges(root: &SlowValue, segments: &[Segment]) -> Vec<Range<usize>> {
    let mut nodes = vec![root];
    for (descends, parts) in segments {
        let mut inputs = Vec::new();
        for node in nodes {
            match descends {
                true => and_descendants(node, &mut inputs),
                false => inputs.push(node),
            }
        }
        nodes = inputs.iter().flat_map(|node| parts.iter().flat_map(|part| selected_children(node, part))).collect();
    }
    let mut ranges: Vec<_> = nodes.into_iter().map(|node| node.range.clone()).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    ranges.dedup();
    ranges
}

/// The number of scalars that each selector counts in a walk in pieces.
fn matched(document: &str, selectors: &[String], (matches_max, bytes_max): (usize, usize)) -> Vec<u64> {
    let limits = DocumentLimits::default();
    let selection = Selection::parse(selectors, &limits).expect("they are valid");
    let mut walk = DocumentWalk::new(document.len(), &selection, Purpose::Encrypt, &limits).expect("it is small");
    let mut matches = Vec::new();
    let mut next = || walk.next_batch(document.as_bytes(), &mut matches, matches_max, bytes_max);
    while next().expect("well-formed") == WalkProgress::More {}
    walk.matched().to_vec()
}

/// A document with some bytes changed, dropped, doubled or truncated.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let byte = one_of(b"\"\\{}[]:,0-.eE+tfn \x00\x1f\x7f\x80\xc3\xed\xffu".to_vec());
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4, byte), 1..4);
    (document(), edits).prop_map(|(document, edits)| {
        let mut bytes = document.into_bytes();
        for (place, kind, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let place = place.index(bytes.len());
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => drop(bytes.remove(place)),
                _ => bytes.truncate(place),
            }
        }
        bytes
    })
}

/// Whether `serde_json` accepts the document. It does not validate UTF-8 in ignored values, which is added here, nor depth.
fn serde_accepts(document: &[u8]) -> bool {
    std::str::from_utf8(document).is_ok() && serde_json::from_slice::<IgnoredAny>(document).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn well_formed_documents_are_walked_as_the_slow_reader_reads_them(document in document()) {
        prop_assert!(serde_accepts(document.as_bytes()));
        prop_assert!(slow::read(document.as_bytes(), 128).is_some());
        check_document(document.as_bytes());
    }

    #[test]
    fn damaged_documents_are_accepted_exactly_when_serde_json_accepts_them(document in damaged()) {
        let walked = walk(&document, &Selection::everything(), Purpose::Encrypt, &DocumentLimits::default(), WHOLE);
        prop_assert_eq!(walked.is_ok(), serde_accepts(&document), "{:?}", walked);
        check_document(&document);
    }

    #[test]
    fn selectors_follow_the_rfc_in_stream_and_tree(
        document in document(), queries in prop::collection::vec(segments(), 0..3),
    ) {
        let selectors: Vec<_> = queries.iter().map(|segments| written(segments)).collect();
        let selection = Selection::parse(&selectors, &DocumentLimits::default()).expect("they are valid");
        let root = slow::read(document.as_bytes(), 128).expect("it is well-formed");
        let mut expected: Vec<_> = queries.iter().flat_map(|segments| selected_ranges(&root, segments)).collect();
        expected.sort_by_key(|range| (range.start, range.end));
        expected.dedup();
        prop_assert!(selection.streams());
        for strategy in [NodeStrategy::Automatic, NodeStrategy::Tree] {
            let found = select(document.as_bytes(), &selection, &DocumentLimits::default(), strategy).expect("it is well-formed");
            let ranges: Vec<_> = found.iter().map(|node| node.start..node.end).collect();
            prop_assert_eq!(&ranges, &expected, "{:?} {:?}", selectors, strategy);
        }
        let text = format!("{}\n\n{document}", selectors.join("\n"));
        check_selectors(text.as_bytes());
    }

    /// However the selectors overlap, and however the walk is divided; with a filter among them the tree counts.
    #[test]
    fn each_selector_counts_its_own_scalars(
        document in document(), queries in prop::collection::vec(segments(), 0..4), pieces in (1_usize..5, 1_usize..40),
    ) {
        let root = slow::read(document.as_bytes(), 128).expect("it is well-formed");
        let mut scalars = Vec::new();
        root.scalars(&mut scalars);
        let mut expected: Vec<u64> = Vec::new();
        for segments in &queries {
            let ranges = selected_ranges(&root, segments);
            let is_within = |value: &&SlowValue| {
                ranges.iter().any(|range| range.start <= value.range.start && value.range.end <= range.end)
            };
            expected.push(scalars.iter().copied().filter(is_within).count() as u64);
        }
        let mut selectors: Vec<_> = queries.iter().map(|segments| written(segments)).collect();
        prop_assert_eq!(matched(&document, &selectors, pieces), expected.clone(), "{:?}", selectors);
        selectors.push("$[?@.no == 'such'].value".to_owned());
        expected.push(0);
        prop_assert_eq!(matched(&document, &selectors, pieces), expected, "{:?}", selectors);
    }

    #[test]
    fn matches_are_placed_as_nodes_are(
        document in document(), mut queries in prop::collection::vec(segments(), 1..3),
        pieces in (1_usize..5, 1_usize..40), has_filter in any::<bool>(),
    ) {
        let limits = DocumentLimits::default();
        let all = Selection::parse(&["$", "$..*"], &limits).expect("it is valid");
        let nodes = select(document.as_bytes(), &all, &limits, NodeStrategy::Automatic).expect("it is well-formed");
        queries.push(Vec::new());
        let mut selectors: Vec<_> = queries.iter().map(|segments| written(segments)).collect();
        if has_filter {
            selectors.push("$[?@.no == 'such'].value".to_owned());
        }
        let selection = Selection::parse(&selectors, &limits).expect("they are valid");
        let mut walk = DocumentWalk::new(document.len(), &selection, Purpose::Encrypt, &limits).expect("small").with_paths();
        let mut is_done = false;
        while !is_done {
            let mut matches = Vec::new();
            let progress = walk.next_batch(document.as_bytes(), &mut matches, pieces.0, pieces.1).expect("well-formed");
            is_done = progress == WalkProgress::Done;
            let paths = walk.take_paths();
            for (index, found) in matches.iter().enumerate() {
                let node = nodes.iter().find(|node| node.start == found.start && node.end == found.end);
                let path = paths.path(document.as_bytes(), index);
                let expected = &node.expect("a match is a node").path;
                match path.strip_suffix('…') {
                    Some(beginning) => prop_assert!(expected.starts_with(beginning) && expected.len() > 400),
                    None => prop_assert_eq!(&path, expected),
                }
            }
        }
    }

    #[test]
    fn normalized_paths_select_the_node_they_name(document in document()) {
        let limits = DocumentLimits::default();
        let all = Selection::parse(&["$..*"], &limits).expect("it is valid");
        for node in select(document.as_bytes(), &all, &limits, NodeStrategy::Automatic).expect("it is well-formed") {
            if node.path.contains('\u{fffd}') {
                // A name with a lone surrogate, which no selector can spell.
                continue;
            }
            let selection = Selection::parse(&[&node.path], &limits).expect("a normalized path is a selector");
            let found = select(document.as_bytes(), &selection, &limits, NodeStrategy::Automatic).expect("it is well-formed");
            // Members with the same name share a path.
            prop_assert!(found.contains(&node), "{}", node.path);
        }
    }

    #[test]
    fn text_survives_escaping(text in any::<String>()) {
        let mut written = Vec::new();
        escape_into(&text, &mut written);
        let mut scratch = String::new();
        prop_assert_eq!(unescape(&written, &mut scratch), Ok(text.as_str()));
        prop_assert_eq!(serde_json::from_slice::<String>(&written).ok(), Some(text));
    }

    #[test]
    fn any_bytes_unescape_as_serde_json_reads_them(inner in prop::collection::vec(spelled_character(), 0..40)) {
        let token = format!("\"{}\"", inner.concat());
        let ours = unescape(token.as_bytes(), &mut String::from("old")).ok().map(str::to_owned);
        prop_assert_eq!(ours, serde_json::from_str::<String>(&token).ok());
    }

    #[test]
    fn numbers_are_those_of_serde_json(text in "[-+0-9.eE]{0,7}") {
        let expected = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(is_number(text.as_bytes()), expected);
    }

    #[test]
    fn any_text_as_selectors_is_refused_or_evaluated(text in "[$@.*\\[\\]'\"?():,a&|=<!0-9 -]{0,24}") {
        check_selectors(text.as_bytes());
        check_selectors(format!("$[?{text}]").as_bytes());
        check_selectors(format!("${text}").as_bytes());
    }

    #[test]
    fn any_bytes_as_a_document_hold_the_properties(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        check_document(&bytes);
    }
}

#[test]
fn depth_is_the_only_thing_in_which_serde_json_differs() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let walked = |text: &str| {
        walk(text.as_bytes(), &Selection::everything(), Purpose::Encrypt, &DocumentLimits::default(), WHOLE)
    };
    assert!(serde_accepts(nested(128).as_bytes()) && walked(&nested(128)).is_ok());
    assert!(serde_accepts(nested(129).as_bytes()));
    assert_eq!(
        walked(&nested(129)).map_err(|error| (error.kind, error.offset)),
        Err((DocumentErrorKind::TooDeep(128), 128))
    );
}
