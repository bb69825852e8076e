//! Patches: the values that a patch walk finds are those that selectors find where the operations put them.

use super::slow::{self, SlowKind, SlowValue};
use super::{limits, walk};
use crate::{
    DEPTH_CEILING, DocumentLimits, PatchShape, PatchWalk, Purpose, Selection, ShapeWalk, WalkProgress, escape_into,
};

const SELECTORS: [&[&str]; 4] = [&["$.a.b"], &["$..a"], &["$.*['a','b']", "$.c"], &["$"]];

/// Treats a document as a patch: it is found in pieces of any size, and each value is searched as if it stood at its path.
pub(super) fn check_patch(document: &[u8]) {
    let limits = limits();
    for selectors in SELECTORS {
        let selection = Selection::parse(selectors, &limits).expect("valid selectors");
        let whole = found(document, &selection, &limits, usize::MAX);
        for bytes_max in [1, 100] {
            assert_eq!(found(document, &selection, &limits, bytes_max), whole, "in pieces of {bytes_max}");
        }
        let Some(whole) = whole else { continue };
        let Some(SlowValue { kind: SlowKind::Array(operations), .. }) = slow::read(document, limits.depth_max) else {
            panic!("a patch is a list");
        };
        let mut expected = Vec::new();
        for operation in &operations {
            let SlowKind::Object(members) = &operation.kind else { panic!("an operation is an object") };
            let member = |name: &str| members.iter().find(|(found, _)| found.as_deref() == Some(name));
            let (Some((_, path)), Some((_, value))) = (member("path"), member("value")) else { continue };
            let SlowKind::String(Some(path)) = &path.kind else { panic!("a path is a text") };
            if path.matches('/').count() + limits.depth_max > DEPTH_CEILING {
                return;
            }
            expected.extend(found_at(document, path, value, &selection, &limits));
        }
        assert_eq!(whole, expected, "the values of {selectors:?}");
        let is_found =
            matches!(shape(document, &limits), Some(PatchShape::Json | PatchShape::Inner | PatchShape::Scim));
        assert!(operations.is_empty() || is_found, "it has the shape of a patch");
    }
}

/// The ranges that a patch walk finds; `None` if the patch is refused.
fn found(
    document: &[u8],
    selection: &Selection,
    limits: &DocumentLimits,
    bytes_max: usize,
) -> Option<Vec<(usize, usize)>> {
    let mut walk = PatchWalk::new(document.len(), selection, Purpose::Encrypt, limits).ok()?;
    let mut matches = Vec::new();
    while walk.next_batch(document, &mut matches, bytes_max).ok()? == WalkProgress::More {}
    Some(matches.iter().map(|found| (found.start, found.end)).collect())
}

/// The ranges that selectors find in a value at this path of an otherwise empty document.
fn found_at(
    document: &[u8],
    path: &str,
    value: &SlowValue,
    selection: &Selection,
    limits: &DocumentLimits,
) -> Vec<(usize, usize)> {
    let mut text = Vec::new();
    let mut depth = 0;
    for token in path.split('/').skip(1) {
        text.push(b'{');
        escape_into(&token.replace("~1", "/").replace("~0", "~"), &mut text);
        text.push(b':');
        depth += 1;
    }
    let (offset, content) = (text.len(), &document[value.range.clone()]);
    text.extend_from_slice(content);
    text.resize(text.len() + depth, b'}');
    let limits = DocumentLimits { depth_max: limits.depth_max + depth, ..limits.clone() };
    let matches = walk(&text, selection, Purpose::Encrypt, &limits, (usize::MAX, usize::MAX)).expect("well-formed");
    let place = |at: usize| at - offset + value.range.start;
    matches.iter().map(|found| (place(found.start), place(found.end))).collect()
}

fn shape(document: &[u8], limits: &DocumentLimits) -> Option<PatchShape> {
    let mut walk = ShapeWalk::new(limits);
    loop {
        if let Some(shape) = walk.advance(document, 7).expect("well-formed") {
            return shape;
        }
    }
}
