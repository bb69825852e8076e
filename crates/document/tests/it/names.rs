//! Member names that differ from selected ones only in case: refused, selected or ignored, on the automaton and on the tree.

use leafseal_document::{
    CanonicalNames, CaseFold, DocumentErrorKind, DocumentLimits, DocumentWalk, NameWalk, Purpose, Selection, Strategy,
    WalkProgress, Walker, select,
};

fn selection(selectors: &[&str], other_case: CaseFold) -> Selection {
    let mut builder = Selection::builder(&DocumentLimits::default()).other_case(other_case);
    selectors.iter().for_each(|selector| builder.add(selector).unwrap());
    builder.finish()
}

/// The paths of selected values, or the offset of the refused name; all strategies must agree.
fn found(document: &str, selectors: &[&str], other_case: CaseFold) -> Result<Vec<String>, usize> {
    let selection = selection(selectors, other_case);
    let limits = DocumentLimits::default();
    let [streamed, tree] = [Strategy::Automatic, Strategy::Tree].map(|strategy| {
        let selected = select(document.as_bytes(), &selection, &limits, strategy);
        selected.map(|nodes| nodes.into_iter().map(|node| node.path).collect::<Vec<_>>()).map_err(|error| {
            assert_eq!(error.kind, DocumentErrorKind::AmbiguousName, "{document}: {error}");
            error.offset
        })
    });
    assert_eq!(streamed, tree, "{document} {selectors:?}");
    for bytes_max in [16, usize::MAX] {
        let mut walker = Walker::new(document.as_bytes(), &selection, Purpose::Encrypt, &limits).unwrap();
        let mut matches = Vec::new();
        let walked = loop {
            match walker.next_batch(&mut matches, 3, bytes_max) {
                Ok(WalkProgress::More) => {}
                Ok(WalkProgress::Done) => break Ok(()),
                Err(error) => break Err(error.offset),
            }
        };
        assert_eq!(walked.err(), streamed.as_ref().err().copied(), "{document} {selectors:?}");
    }
    streamed
}

#[test]
fn a_name_in_another_case_is_refused() {
    for (document, selectors, offset) in [
        (r#"{"card":{"number":1,"Number":2}}"#, &["$.card.number"][..], 20),
        (r#"{"card":{"Number":2}}"#, &["$.card.number"], 9),
        (r#"{"CARD":{"x":2}}"#, &["$.card.number"], 1),
        (r#"{"a":[{"b":{"PIN":1}}]}"#, &["$..pin"], 12),
        (r#"{"a":{"PIN":1}}"#, &["$.*.pin"], 6),
        (r#"[{"x":1},{"Pin":1}]"#, &["$[*].pin"], 10),
        (r#"{"p\u0049n":1}"#, &["$.pin"], 1),
        (r#"{"x":{"\u212aey":1}}"#, &["$.x.key"], 6),
        ("{\"\u{212a}i\u{17f}s\":1}", &["$.kiss"], 1),
        (r#"{"ki\u017fs":1}"#, &["$.kiss"], 1),
        ("{\"p\u{131}n\":1,\"x\":2}", &["$.pin", "$.x"], 1),
        ("{\"STRASSE\":1,\"STRA\u{1e9e}E\":2}", &["$['stra\u{df}e']"], 13),
        (r#"{"pin\u0000x":1}"#, &["$.pin"], 1),
        (r#"{"a":{"x":1},"B":{"x":1}}"#, &["$['a','b'].x"], 13),
        (r#"{"a":[{"T":"visa","n":1}]}"#, &["$.a[?@.t == 'visa'].n"], 7),
        (r#"{"a":[{"t":"visa","N":1}]}"#, &["$.a[?@.t == 'visa'].n"], 18),
    ] {
        assert_eq!(found(document, selectors, CaseFold::Refuse), Err(offset), "{document} {selectors:?}");
    }
}

#[test]
fn a_name_that_is_another_in_every_case_passes() {
    for (document, selectors, paths) in [
        (r#"{"card":{"number":1,"numbers":2,"num":3}}"#, &["$.card.number"][..], &["$['card']['number']"][..]),
        // Everything below a selected value is selected, whatever its name.
        (r#"{"card":{"number":1,"Number":2,"CARD":3}}"#, &["$.card"], &["$['card']"]),
        // Names are compared only where a selector has one.
        (r#"{"x":{"Number":1},"card":{"number":1}}"#, &["$.card.number"], &["$['card']['number']"]),
        (r#"{"Number":1,"card":{"y":1}}"#, &["$.card.number"], &[]),
        (r#"{"Id":1}"#, &["$.*"], &["$['Id']"]),
        (r#"{"\ud800":1,"pin":2}"#, &["$.pin"], &["$['pin']"]),
        (r#"{"n\u0000umber":1}"#, &["$.number"], &[]),
    ] {
        let expected = paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
        assert_eq!(found(document, selectors, CaseFold::Refuse), Ok(expected), "{document} {selectors:?}");
    }
    assert_eq!(found(r#"{"card":{"Number":2}}"#, &["$.card.number"], CaseFold::Other), Ok(vec![]));
    // A name that another selector contains is not ambiguous.
    let both = selection(&["$.id", "$.ID"], CaseFold::Refuse);
    let nodes = select(br#"{"id":1,"ID":2}"#, &both, &DocumentLimits::default(), Strategy::Automatic).unwrap();
    assert_eq!(nodes.len(), 2);
}

#[test]
fn names_in_any_case_are_selected_where_that_is_set() {
    for (document, selectors, paths) in [
        (
            r#"{"Card":{"NUMBER":1,"number":2}}"#,
            &["$.card.number"][..],
            &["$['Card']['NUMBER']", "$['Card']['number']"][..],
        ),
        (r#"{"a":{"PIN":1}}"#, &["$..pin"], &["$['a']['PIN']"]),
        (r#"{"\u212aey":1}"#, &["$.KEY"], &["$['\u{212a}ey']"]),
        // Both selectors select both members.
        (
            r#"{"a":{"x":1,"y":2},"A":{"x":3,"y":4}}"#,
            &["$.a.x", "$.A.y"],
            &["$['a']['x']", "$['a']['y']", "$['A']['x']", "$['A']['y']"],
        ),
        (r#"{"a":[{"T":"visa","N":1}]}"#, &["$.a[?@.t == 'visa'].n"], &["$['a'][0]['N']"]),
        (r#"{"pins":1}"#, &["$.pin"], &[]),
    ] {
        let expected = paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
        assert_eq!(found(document, selectors, CaseFold::Same), Ok(expected), "{document} {selectors:?}");
    }
}

/// The kind and offset of the refusal, in steps of any size, with and without the paths of matches.
fn refused(document: &str, selector: &str, other_case: CaseFold) -> Option<(DocumentErrorKind, usize)> {
    let limits = DocumentLimits::default();
    let mut builder = Selection::builder(&limits).other_case(other_case).unambiguous(true);
    builder.add(selector).unwrap();
    let selection = builder.finish();
    let outcomes = [(16, false), (usize::MAX, false), (usize::MAX, true)].map(|(bytes_max, with_paths)| {
        let walk = DocumentWalk::new(document.len(), &selection, Purpose::Encrypt, &limits).unwrap();
        let mut walk = if with_paths { walk.with_paths() } else { walk };
        let mut matches = Vec::new();
        loop {
            match walk.next_batch(document.as_bytes(), &mut matches, 3, bytes_max) {
                Ok(WalkProgress::More) => {}
                Ok(WalkProgress::Done) => return None,
                Err(error) => return Some((error.kind, error.offset)),
            }
        }
    });
    assert_eq!(outcomes[0], outcomes[1], "{document} {selector}");
    assert_eq!(outcomes[1], outcomes[2], "{document} {selector}");
    outcomes[0]
}

#[test]
fn a_name_that_occurs_twice_where_a_selector_looks_is_refused() {
    let filter = "$.payments[?@.kind == 'card'].number";
    for (document, selector, offset) in [
        (r#"{"number":1,"number":2}"#, "$.number", 12),
        (r#"{"card":{"number":1},"card":{"number":2}}"#, "$.card.number", 21),
        (r#"{"a":[{"x":1},{"x":1,"\u0078":2}]}"#, "$.a[*].x", 21),
        (r#"{"a":{"pin":1,"b":{"pin":2},"pin":3}}"#, "$..pin", 28),
        // Filters see the last member, other readers the first, and some functions all of them.
        (r#"{"payments":[{"kind":"card","kind":"bank","number":"4111"}]}"#, filter, 28),
        (r#"{"payments":[{"kind":"card","\u006bind":"bank","number":"4111"}]}"#, filter, 28),
        (r#"{"payments":[{"kind":"bank","number":"4111","kind\u0000x":"card"}]}"#, filter, 44),
        (r#"{"payments":[{"kind":"card","kind":"bank"}]}"#, "$.payments[?length(@) == 1].number", 28),
        (r#"{"payments":[{"x":{"y":1},"x":{}}]}"#, "$.payments[?!@.x.y].number", 26),
        (r#"{"want":"card","want":"x","p":[{"kind":"card"}]}"#, "$.p[?@.kind == $.want]", 15),
    ] {
        let expected = Some((DocumentErrorKind::DuplicateName, offset));
        assert_eq!(refused(document, selector, CaseFold::Other), expected, "{document} {selector}");
    }
    let twice = r#"{"payments":[{"kind":"card","Kind":"bank","number":"4111"}]}"#;
    assert_eq!(refused(twice, filter, CaseFold::Same), Some((DocumentErrorKind::DuplicateName, 28)));
    let twice = r#"{"Pin":1,"pin":2}"#;
    assert_eq!(refused(twice, "$.pin", CaseFold::Same), Some((DocumentErrorKind::DuplicateName, 9)));
    for (document, selector) in [
        // Nothing looks at them.
        (r#"{"x":1,"x":2,"number":3}"#, "$.number"),
        (r#"{"card":{"x":1,"x":2}}"#, "$.card"),
        // The same name in different objects.
        (r#"[{"number":1},{"number":2,"a":{"number":3}}]"#, "$..number"),
        (r#"{"payments":[{"kind":"card"},{"kind":"bank"}],"kind":1}"#, filter),
    ] {
        assert_eq!(refused(document, selector, CaseFold::Refuse), None, "{document} {selector}");
    }
}

/// A row has more names than a word has bits.
#[test]
fn each_of_many_names_is_remembered_for_each_object() {
    let names: Vec<String> = (0..200).map(|number| format!("'n{number}'")).collect();
    let selector = format!("$..[{}]", names.join(","));
    let members: Vec<String> = (0..200).map(|number| format!("\"n{number}\":1")).collect();
    let members = members.join(",");
    let document = format!("[{{{members},\"x\":{{{members}}}}},{{{members}}}]");
    assert_eq!(refused(&document, &selector, CaseFold::Refuse), None);
    let twice = document.replace("\"x\":{\"n0\":1", "\"x\":{\"n198\":1");
    let found = refused(&twice, &selector, CaseFold::Refuse);
    assert!(matches!(found, Some((DocumentErrorKind::DuplicateName, _))), "{found:?}");
}

#[test]
fn values_that_parsers_read_differently_decide_nothing() {
    let ambiguous = |document: &str, selector: &str| match refused(document, selector, CaseFold::Refuse) {
        None => false,
        Some((kind, _)) => {
            assert_eq!(kind, DocumentErrorKind::AmbiguousOperand, "{document} {selector}");
            true
        }
    };
    let equals = "$.p[?@.kind == 1].number";
    for kind in ["1", "1.0", "1e0", "10E-1", "2", "-1", "\"1\"", "1.5", "9007199254740992"] {
        assert!(!ambiguous(&format!("{{\"p\":[{{\"kind\":{kind}}}]}}"), equals), "{kind}");
    }
    for kind in ["1.00000000000000000001", "0.99999999999999999999"] {
        assert!(ambiguous(&format!("{{\"p\":[{{\"kind\":{kind}}}]}}"), equals), "{kind}");
    }
    assert!(ambiguous(r#"{"p":[{"kind":9007199254740993}]}"#, "$.p[?@.kind == 9007199254740992].number"));
    assert!(ambiguous(r#"{"p":[{"kind":1e400}]}"#, "$.p[?@.kind < 1e399].number"));
    for selector in ["$.p[?@.kind == 'card'].number", "$.p[?match(@.kind, 'card')].number"] {
        assert!(ambiguous("{\"p\":[{\"kind\":\"card\\u0000x\"}]}", selector));
        assert!(!ambiguous("{\"p\":[{\"kind\":\"card\\u0001x\"}]}", selector));
    }
}

/// The canonical forms of the names of a document; the same in steps of any size.
fn canonical(document: &str, selectors: &[&str], other_case: CaseFold) -> Vec<String> {
    let selection = selection(selectors, other_case);
    let outcomes = [1, 64, usize::MAX].map(|bytes_max| {
        let mut walk = NameWalk::new(&selection, &DocumentLimits::default());
        let mut found = CanonicalNames::default();
        while walk.next_batch(document.as_bytes(), bytes_max, &mut found).unwrap() == WalkProgress::More {}
        let tokens =
            found.places.iter().map(|place| std::str::from_utf8(&found.tokens[place.start..place.end]).unwrap());
        let places = found.matches.iter().map(|found| &document[found.start..found.end]);
        places.zip(tokens).map(|(before, after)| format!("{before} {after}")).collect::<Vec<_>>()
    });
    assert!(outcomes[0] == outcomes[1] && outcomes[1] == outcomes[2], "{document}");
    outcomes[0].clone()
}

#[test]
fn names_of_selected_members_have_one_spelling() {
    let (refuse, same) = (CaseFold::Refuse, CaseFold::Same);
    for (document, selectors, case, expected) in [
        (
            r#"{"c\u0061rd":{"n\u0075mber":1,"\u0078":2}}"#,
            &["$.card.number"][..],
            refuse,
            &[r#""c\u0061rd" "card""#, r#""n\u0075mber" "number""#][..],
        ),
        (r#"{"x":{"n\u0075mber":1},"card":{"number":"\u0061"}}"#, &["$.card.number"], refuse, &[]),
        (
            r#"{"a\/b":1,"c\"d":2,"e\u000a":3,"f\u005C":4}"#,
            &[r#"$['a/b','c"d','e\n','f\\']"#],
            refuse,
            &[r#""a\/b" "a/b""#, r#""e\u000a" "e\n""#, r#""f\u005C" "f\\""#],
        ),
        (r#"{"N\u0055MBER":1}"#, &["$.number"], same, &[r#""N\u0055MBER" "NUMBER""#]),
        // Of members that a wildcard selects, and inside of selected objects.
        (r#"{"\u0061":{"\u0062":1}}"#, &["$.*"], refuse, &[r#""\u0061" "a""#, r#""\u0062" "b""#]),
        (r#"{"c\u0061rd":{"\u0062":1}}"#, &["$.card"], refuse, &[r#""c\u0061rd" "card""#, r#""\u0062" "b""#]),
        // A filter may look at any name.
        (
            r#"{"p":[{"k\u0069nd":"x","\u0061":1}]}"#,
            &["$.p[?@.kind == 'x'].a"],
            refuse,
            &[r#""k\u0069nd" "kind""#, r#""\u0061" "a""#],
        ),
        (r#"{"\u0061":[1]}"#, &["$.a[-1]"], refuse, &[r#""\u0061" "a""#]),
        // The rules refuse the document.
        (r#"{"N\u0075mber":1,"n\u0075mber":1}"#, &["$.number"], refuse, &[]),
        (r#"{"\ud800":1}"#, &["$.*"], refuse, &[]),
    ] {
        assert_eq!(canonical(document, selectors, case), expected, "{document}");
    }
}
