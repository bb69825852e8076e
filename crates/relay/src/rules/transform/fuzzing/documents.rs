//! Bounds on the work that JSON documents cause: patches, texts inside of strings, and names.

use leafseal_document::{CaseFold, Match, PatchWalk, Purpose, Walker};

use super::*;
use crate::json_text::{MemberNames, TextSearch, Verdict};
use crate::rules::transform::embedded::StringSearch;
use crate::rules::transform::members::MemberSearch;
use crate::rules::transform::names::NameSearch;
use crate::rules::transform::patch::{LineSearch, PatchSearch, ShapeSearch};
use crate::rules::transform::splice::{Elements, List, Splice, Tokens};

/// Selectors of names and wildcards, for patches and names.
const SELECTORS: [&str; 4] = ["$.card.number", "$..a", "$.*['a','b']", "$"];

fn selection(selector: &str) -> Selection {
    let mut builder = Selection::builder(&DocumentLimits::default()).other_case(CaseFold::Refuse).unambiguous(true);
    builder.add(selector).expect("a selector");
    builder.finish()
}

/// Patches are found, searched and written again in few calls.
pub(super) fn check_patch(body: &[u8]) {
    let (may_be, calls) = drive(ShapeSearch::new(buffer(body)), ShapeSearch::look);
    check_calls(calls, body.len(), 1, "words of a patch");
    let (shape, calls) = drive(ShapeSearch::new(buffer(body)), ShapeSearch::step);
    check_calls(calls, body.len(), 2, "shape of a patch");
    assert!(may_be.is_ok() || shape.0.is_none(), "a patch has the words");
    let (_, calls) = drive(LineSearch::new(buffer(body)), LineSearch::step);
    check_calls(calls, body.len(), LINE_READINGS, "patches in lines");
    for selector in SELECTORS {
        let walk = PatchWalk::new(body.len(), &selection(selector), Purpose::Encrypt, &DocumentLimits::default());
        let Ok(walk) = walk else { return };
        let search = PatchSearch::new(walk, buffer(body)).expect("there is room");
        let (found, calls) = drive(search, PatchSearch::step);
        // Finding the place of an operation counts as many bytes as the shortest one has.
        check_calls(calls, body.len(), 8, "patch");
        let Ok(found) = found else { continue };
        let (body, matches, share) = found.into_parts();
        assert!(matches.is_sorted_by_key(|found| found.start), "matches are in order");
        check_splice(&body, &matches);
        drop(share);
    }
}

/// The bytes that a line takes besides its own.
const LINE_READINGS: u64 = 96;

/// The tokens of a document become a list, and are put back from it.
fn check_splice(body: &BodyBuffer, matches: &[Match]) {
    let list = List::new(buffer(body.as_ref()), matches.to_vec()).expect("there is room");
    let (listed, calls) = drive(list, List::step);
    check_calls(calls, body.len(), 4, "list");
    let (_, _, list) = listed.expect("there is room");
    let (elements, calls) = drive(Elements::new(list).unwrap_or_else(|_| panic!("a list")), Elements::step);
    check_calls(calls, body.len(), 2, "elements");
    let Ok((list, places, share)) = elements else { panic!("the elements of a list") };
    assert_eq!(places.len(), matches.len());
    let same = Splice::new(buffer(body.as_ref()), matches.to_vec(), Tokens::Each(list, places), share);
    let (same, calls) = drive(same.expect("there is room"), Splice::step);
    check_calls(calls, 2 * body.len(), 4, "splice");
    assert_eq!(same.expect("there is room").as_ref(), body.as_ref(), "the same tokens make the same document");
}

/// Texts are searched in steps that their size bounds, whatever they hold.
pub(super) fn check_texts(body: &[u8], names: &FieldNames) {
    let selectors: Vec<String> =
        names.iter().filter(|name| !name.contains(['\'', '\\'])).map(|name| format!("$..['{name}']")).collect();
    let Ok(selection) = Selection::parse(&selectors, &DocumentLimits::default()) else { return };
    for case in [CaseFold::Refuse, CaseFold::Other] {
        let names = Arc::new(MemberNames::new(std::slice::from_ref(&selection), names.iter(), case));
        let mut texts = TextSearch::new(Arc::clone(&names));
        texts.begin_bytes();
        let mut rest = body;
        let readings = texts.steps_max(1);
        while !rest.is_empty() {
            let before = texts.steps();
            let (read, verdict) = texts.read(rest);
            assert!(texts.steps() - before <= (8 << 10) + readings, "{} steps in one call", texts.steps() - before);
            rest = if verdict == Verdict::More { &rest[read..] } else { &[] };
        }
        assert!(texts.steps() <= texts.steps_max(body.len()), "{} steps for {} bytes", texts.steps(), body.len());
        let (may_hold, calls) = drive(StringSearch::new(body, Arc::clone(&names)), StringSearch::look);
        check_calls(calls, body.len(), 1, "strings");
        let ((_, holds), calls) = drive(StringSearch::new(body, Arc::clone(&names)), StringSearch::step);
        check_calls(calls, body.len(), 2 * readings + 8, "texts in strings");
        assert!(may_hold.is_ok() || !holds, "a text is in a string");
        let checks = Checks { texts: Some(names), ..Checks::default() };
        let fields = Arc::new(FieldNames::default());
        let canonical = CanonicalFields::new(buffer(body), Arc::clone(&fields), limits(), checks.clone(), Syntax::Form);
        let (_, calls) = drive(canonical, CanonicalFields::step);
        check_calls(calls, body.len(), FieldReader::STEPS_PER_BYTE + readings + 6, "texts in fields");
        let parts = CanonicalParts::new(buffer(body), "B".to_owned(), fields, limits(), checks).expect("a boundary");
        let (_, calls) = drive(parts, CanonicalParts::step);
        check_calls(calls, body.len(), PartReader::STEPS_PER_BYTE + readings + 6, "texts in parts");
    }
}

/// Members are found, and compared with what rules select, in few calls.
pub(super) fn check_members(body: &[u8]) {
    let members = Selection::guard(["card[number]", "a"], &[], CaseFold::Same).expect("names");
    for is_lines in [false, true] {
        let readings = if is_lines { LINE_READINGS } else { 2 };
        let search = MemberSearch::new(buffer(body), &members, is_lines).expect("there is room");
        let (found, calls) = drive(search, MemberSearch::step);
        check_calls(calls, body.len(), readings, "members");
        let Ok(found) = found else { continue };
        let (compared, calls) = drive(found.compare(&members, is_lines).expect("it fits"), MemberSearch::step);
        check_calls(calls, body.len(), readings, "members that are compared");
        assert!(compared.expect("it was read before").is_covered(), "the same selection selects all of them");
    }
}

/// Written again, a document has the same values and no name that can be written more plainly.
pub(super) fn check_names(body: &[u8]) {
    let scalars = |document: &[u8]| {
        let limits = DocumentLimits::default();
        let mut walker = Walker::new(document, &Selection::everything(), Purpose::Encrypt, &limits).ok()?;
        let mut found = Vec::new();
        while walker.next_batch(&mut found, usize::MAX, usize::MAX).ok()? == WalkProgress::More {}
        Some(found.iter().map(|found| document[found.start..found.end].to_vec()).collect::<Vec<_>>())
    };
    let selections = SELECTORS.map(|selector| Some(selection(selector)));
    for selection in selections.into_iter().chain([None]) {
        let search = |body: &[u8], is_lines| {
            let search = NameSearch::new(buffer(body), selection.clone(), is_lines).expect("there is room");
            let (found, calls) = drive(search, NameSearch::step);
            check_calls(calls, body.len(), if is_lines { LINE_READINGS } else { 2 }, "names");
            found.expect("there is room").into_parts()
        };
        search(body, true);
        let (body, found, share) = search(body, false);
        let Some(before) = scalars(body.as_ref()) else { continue };
        let tokens = BodyBuffer::of(found.tokens, share.another(0).expect("there is room"));
        let splice = Splice::new(body, found.matches, Tokens::Each(tokens, found.places), share);
        let (written, _) = drive(splice.expect("there is room"), Splice::step);
        let written = written.expect("there is room");
        assert_eq!(scalars(written.as_ref()), Some(before), "the values stay");
        assert!(search(written.as_ref(), false).1.matches.is_empty(), "names are canonical");
    }
}
