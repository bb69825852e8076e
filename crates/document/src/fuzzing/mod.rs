//! Properties that hold for any bytes: the fuzz targets check them, and an ordinary test replays their corpora.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

mod form;
mod media_type;
mod multipart;
mod patch;
pub mod slow;
mod slow_form;

pub use form::check_form;
pub use media_type::check_media_type;
pub use multipart::check_multipart_form;

use crate::{
    DocumentError, DocumentErrorKind, DocumentLimits, Match, Purpose, ScalarKind, Selection, Strategy, WalkProgress,
    Walker, escape_into, is_number, select, unescape,
};
use slow::{SlowKind, SlowValue};

/// Selectors that exercise every path through the walker, tried on each document.
const SELECTORS: [&str; 7] =
    ["$..a", "$[-2:]", "$.*[1,'a']", "$..[::-2]", "$..*..a", "$..[?@.a == @.b]", "$[?length(@) > 1 || @[0]]..*"];

/// A document for selectors without one.
const DOCUMENT: &str =
    r#"{"a":[1,{"a":"x","b":null,"a":[[],{}]},-2.50e1,"ev:y"],"b":{"a":true,"é":[0,1,2,3,4]},"":"a"}"#;

fn limits() -> DocumentLimits {
    DocumentLimits { depth_max: 24, filter_steps_max: 1 << 16, tree_nodes_max: 1 << 16, ..DocumentLimits::default() }
}

/// Walks a document in batches of the given sizes.
pub fn walk(
    document: &[u8],
    selection: &Selection,
    purpose: Purpose,
    limits: &DocumentLimits,
    (matches_max, bytes_max): (usize, usize),
) -> Result<Vec<Match>, DocumentError> {
    let mut walker = Walker::new(document, selection, purpose, limits)?;
    let mut matches = Vec::new();
    loop {
        let before = (matches.len(), walker.position());
        let progress = walker.next_batch(&mut matches, matches_max, bytes_max)?;
        assert!(matches.len() - before.0 <= matches_max, "a batch keeps to its size");
        assert!(walker.position() >= before.1, "a walk goes forward");
        assert!(matches[before.0..].iter().all(|found| before.1 <= found.start && found.end <= walker.position()));
        if progress == WalkProgress::Done {
            assert_eq!(walker.position(), document.len());
            return Ok(matches);
        }
    }
}

/// Treats any bytes as a document: accepted exactly if the slow parser accepts them, with the same matches, in pieces of any size.
pub fn check_document(document: &[u8]) {
    let limits = limits();
    let everything = Selection::everything();
    let whole = (usize::MAX, usize::MAX);
    let walked = walk(document, &everything, Purpose::Encrypt, &limits, whole);
    for pieces in [(1, usize::MAX), (usize::MAX, 1), (3, 17)] {
        assert_eq!(walk(document, &everything, Purpose::Encrypt, &limits, pieces), walked, "in pieces {pieces:?}");
    }
    let slow = slow::read(document, limits.depth_max);
    assert_eq!(walked.is_ok(), slow.is_some(), "acceptance: {walked:?}");
    let (Ok(walked), Some(slow)) = (walked, slow) else {
        return assert!(select(document, &everything, &limits, Strategy::Tree).is_err());
    };
    let mut scalars = Vec::new();
    slow.scalars(&mut scalars);
    check_matches(document, &walked, scalars.iter().copied().filter(|value| value.kind != SlowKind::Null));
    let sealed = walk(document, &everything, Purpose::Decrypt, &limits, whole).expect("it was accepted");
    check_matches(document, &sealed, scalars.iter().copied().filter(|value| begins_like_envelope(document, value)));
    patch::check_patch(document);
    for selector in SELECTORS {
        check_selection(document, &Selection::parse(&[selector], &limits).expect("a valid selector"), &limits);
    }
}

/// Whether the slow parser considers a string an envelope; a string without text is judged by the spelling of its beginning.
fn begins_like_envelope(document: &[u8], value: &SlowValue) -> bool {
    match &value.kind {
        SlowKind::String(Some(text)) => text.starts_with("ev:"),
        SlowKind::String(None) => {
            let mut rest = &document[value.range.start + 1..];
            "ev:".chars().all(|wanted| {
                let spellings =
                    [wanted.to_string(), format!("\\u{:04x}", wanted as u32), format!("\\u{:04X}", wanted as u32)];
                let found = spellings.iter().find(|spelling| rest.starts_with(spelling.as_bytes()));
                rest = &rest[found.map_or(0, String::len)..];
                found.is_some()
            })
        }
        _ => false,
    }
}

fn check_matches<'v>(document: &[u8], matches: &[Match], expected: impl Iterator<Item = &'v SlowValue>) {
    let mut count = 0;
    for (found, expected) in matches.iter().zip(expected.inspect(|_| count += 1)) {
        let token = &document[found.start..found.end];
        assert_eq!(found.start..found.end, expected.range);
        match (&expected.kind, found.kind) {
            (SlowKind::String(text), ScalarKind::String { escaped }) => {
                assert_eq!(escaped, token.contains(&b'\\'));
                check_text(token, text.as_deref());
            }
            (SlowKind::Number, ScalarKind::Number) => assert!(is_number(token)),
            (SlowKind::Boolean, ScalarKind::Boolean) => {}
            (expected, found) => panic!("{found:?} where {expected:?} stands"),
        }
    }
    assert_eq!(matches.len(), count, "as many matches as expected");
}

/// A token's text equals the slow parser's, and re-encoded it parses the same.
fn check_text(token: &[u8], expected: Option<&str>) {
    let mut scratch = String::new();
    let text = unescape(token, &mut scratch).ok();
    assert_eq!(text, expected);
    let Some(text) = text else { return };
    let mut written = Vec::new();
    escape_into(text, &mut written);
    assert_eq!(unescape(&written, &mut String::new()), Ok(text));
    assert!(written.iter().all(|&byte| byte >= 0x20));
}

/// A selection on a well-formed document: streaming and tree select the same nodes, and the walk matches the scalars below.
fn check_selection(document: &[u8], selection: &Selection, limits: &DocumentLimits) {
    let selected = match select(document, selection, limits, Strategy::Tree) {
        Ok(selected) => selected,
        Err(error) => return check_bound(document, selection, limits, error),
    };
    assert_eq!(select(document, selection, limits, Strategy::Automatic).as_ref(), Ok(&selected));
    assert!(selected.is_sorted_by_key(|node| node.start));
    let slow = slow::read(document, limits.depth_max).expect("it was accepted");
    let mut scalars = Vec::new();
    slow.scalars(&mut scalars);
    let mut reach = 0;
    let mut nodes = selected.iter().peekable();
    scalars.retain(|value| {
        while let Some(node) = nodes.next_if(|node| node.start <= value.range.start) {
            reach = reach.max(node.end);
        }
        value.range.end <= reach && value.kind != SlowKind::Null
    });
    for pieces in [(usize::MAX, usize::MAX), (2, 5)] {
        let walked = walk(document, selection, Purpose::Encrypt, limits, pieces).expect("it was accepted");
        check_matches(document, &walked, scalars.iter().copied());
    }
}

/// The only error of a selection on a well-formed document is a limit of filters, which is found in pieces too.
fn check_bound(document: &[u8], selection: &Selection, limits: &DocumentLimits, error: DocumentError) {
    let is_bound = matches!(
        error.kind,
        DocumentErrorKind::FilterTooCostly(_)
            | DocumentErrorKind::ComparisonTooLong(_)
            | DocumentErrorKind::TooManyMembers(_)
            | DocumentErrorKind::PatternTooLarge(_)
    );
    assert!(is_bound, "{error}");
    assert_eq!(walk(document, selection, Purpose::Encrypt, limits, (2, 5)), Err(error));
}

/// Treats any bytes as selectors, one per line, and after an empty line a document: refused with a position inside, or evaluated.
pub fn check_selectors(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (selectors, document) = text.split_once("\n\n").unwrap_or((text, DOCUMENT));
    let selectors: Vec<_> = selectors.lines().collect();
    let limits = limits();
    match Selection::parse(&selectors, &limits) {
        Err(error) => {
            let within = selectors.get(error.selector).map_or(0, |selector| selector.len());
            assert!(error.position <= within, "{error}");
            assert!(!error.to_string().is_empty());
        }
        Ok(selection) => {
            let is_document = slow::read(document.as_bytes(), limits.depth_max).is_some();
            check_selection(if is_document { document } else { DOCUMENT }.as_bytes(), &selection, &limits);
        }
    }
}
