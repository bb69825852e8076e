//! Patches: the values of operations that selectors select in the document that a patch changes, and the shapes of patches.

use leafseal_document::{
    CaseFold, DocumentErrorKind, DocumentLimits, POINTER_SIZE_MAX, PatchShape, PatchWalk, Purpose, Selection,
    ShapeWalk, WalkProgress,
};

fn selection(selectors: &[&str]) -> Selection {
    let mut builder = Selection::builder(&DocumentLimits::default()).other_case(CaseFold::Refuse).unambiguous(true);
    selectors.iter().for_each(|selector| builder.add(selector).unwrap());
    builder.finish()
}

/// The selected tokens, or why the patch is refused; the same in steps of any size.
fn found(patch: &str, selectors: &[&str]) -> Result<Vec<String>, DocumentErrorKind> {
    found_strictly(patch, selectors, false)
}

fn found_strictly(patch: &str, selectors: &[&str], is_strict: bool) -> Result<Vec<String>, DocumentErrorKind> {
    let selection = selection(selectors);
    assert!(selection.is_of_names());
    let outcomes = [1, 64, usize::MAX].map(|bytes_max| {
        let walk = PatchWalk::new(patch.len(), &selection, Purpose::Encrypt, &DocumentLimits::default()).unwrap();
        let mut walk = walk.strict(is_strict);
        let mut matches = Vec::new();
        loop {
            match walk.next_batch(patch.as_bytes(), &mut matches, bytes_max) {
                Ok(WalkProgress::More) => {}
                Ok(WalkProgress::Done) => break,
                Err(error) => {
                    assert!(error.offset <= patch.len());
                    return Err(error.kind);
                }
            }
        }
        Ok(matches.iter().map(|found| patch[found.start..found.end].to_owned()).collect::<Vec<_>>())
    });
    assert_eq!(outcomes[0], outcomes[1], "{patch}");
    assert_eq!(outcomes[1], outcomes[2], "{patch}");
    outcomes[0].clone()
}

#[test]
fn values_are_selected_by_the_paths_of_operations() {
    let card = &["$.card.number"][..];
    for (patch, selectors, expected) in [
        (r#"[{"op":"add","path":"/card/number","value":"4"}]"#, card, &["\"4\""][..]),
        (r#"[{"value":"4","path":"/card/number","op":"replace"}]"#, card, &["\"4\""]),
        (r#"[{"op":"test","path":"/card/number","value":4.50}]"#, card, &["4.50"]),
        // The path ends above the selected value, or below it.
        (r#"[{"op":"add","path":"/card","value":{"number":"4","x":1}}]"#, card, &["\"4\""]),
        (r#"[{"op":"add","path":"","value":{"card":{"number":"4"},"number":1}}]"#, card, &["\"4\""]),
        (r#"[{"op":"add","path":"/card/number/0","value":["4",{"a":true}]}]"#, card, &["\"4\"", "true"]),
        (r#"[{"op":"add","path":"/cards/-","value":{"number":"4"}}]"#, &["$.cards[*].number"], &["\"4\""]),
        (r#"[{"op":"replace","path":"/cards/0/number","value":"4"}]"#, &["$.cards[*].number"], &["\"4\""]),
        (r#"[{"op":"replace","path":"/a/b/0/pin","value":"4"}]"#, &["$..pin"], &["\"4\""]),
        (r#"[{"op":"add","path":"/a~1b/~0c","value":"4"}]"#, &["$['a/b']['~c']"], &["\"4\""]),
        (r#"[{"op":"add","path":"\u002fcard\/number","value":"4"}]"#, card, &["\"4\""]),
        (r#"[{"op":"add","path":"/number","value":"4"},{"op":"remove","path":"/card/number"}]"#, card, &[]),
        // Members that some libraries always write.
        (r#"[{"op":"remove","path":"/card/number","from":null,"value":"4"}]"#, card, &["\"4\""]),
        (r#"[{"op":"move","from":"/cards/0","path":"/cards/1"}]"#, &["$.cards[*].number"], &[]),
        (r#"[{"op":"copy","from":"/card/number","path":"/backup"}]"#, card, &[]),
        ("[]", card, &[]),
    ] {
        let expected = expected.iter().map(|&token| token.to_owned()).collect::<Vec<_>>();
        assert_eq!(found(patch, selectors), Ok(expected), "{patch}");
    }
}

#[test]
fn a_patch_that_readers_could_apply_differently_is_refused() {
    use DocumentErrorKind::{AmbiguousName, DuplicateName, NotAPatch, PatchMove, PatchPath};
    let card = &["$.card.number"][..];
    for (patch, kind) in [
        (r#"{"op":"add","path":"/card/number","value":"4"}"#, NotAPatch),
        (r#"["4"]"#, NotAPatch),
        (r#"[[{"op":"add","path":"/card/number","value":"4"}]]"#, NotAPatch),
        (r#"[{"op":"Add","path":"/card/number","value":"4"}]"#, NotAPatch),
        (r#"[{"OP":"add","path":"/card/number","value":"4"}]"#, NotAPatch),
        (r#"[{"op":"add","path":"/card/number","Value":"4"}]"#, NotAPatch),
        (r#"[{"op":"add","value":"4"}]"#, NotAPatch),
        (r#"[{"op":"add","path":["card","number"],"value":"4"}]"#, NotAPatch),
        (r#"[{"op":"add","path":"/x","path":"/card/number","value":"4"}]"#, DuplicateName),
        (r#"[{"op":"add","path":"/card/number","value":"4","value":"5"}]"#, DuplicateName),
        (r#"[{"op":"add","path":"card/number","value":"4"}]"#, PatchPath),
        (r#"[{"op":"add","path":"/card/~2number","value":"4"}]"#, PatchPath),
        (r#"[{"op":"add","path":"/card//number","value":"4"}]"#, PatchPath),
        (r#"[{"op":"add","path":"//card/number","value":"4"}]"#, PatchPath),
        (r#"[{"op":"add","path":"/card/number/","value":"4"}]"#, PatchPath),
        (r#"[{"op":"add","path":"/","value":{"card":{"number":"4"}}}]"#, PatchPath),
        (r#"[{"op":"add","path":"/card/n%75mber","value":"4"}]"#, PatchPath),
        (r#"[{"op":"move","from":"/card//number","path":"/x"}]"#, PatchPath),
        ("[{\"op\":\"add\",\"path\":\"/card/number\\u0000\",\"value\":\"4\"}]", PatchPath),
        (r#"[{"op":"add","path":"/Card/number","value":"4"}]"#, AmbiguousName),
        (r#"[{"op":"add","path":"/card","value":{"Number":"4"}}]"#, AmbiguousName),
        (r#"[{"op":"add","path":"/card","value":{"number":"4","number":"5"}}]"#, DuplicateName),
        (r#"[{"op":"add","path":"/x","value":"4"},{"op":"move","from":"/x","path":"/card/number"}]"#, PatchMove),
        (r#"[{"op":"copy","from":"/x","path":"/card"}]"#, PatchMove),
        (r#"[{"op":"copy","from":"/x","path":""}]"#, PatchMove),
    ] {
        assert_eq!(found(patch, card), Err(kind), "{patch}");
    }
    assert_eq!(found(r#"[{"op":"copy","from":"/a/b","path":"/a/pin"}]"#, &["$..pin"]), Err(PatchMove));
    assert_eq!(found(r#"[{"op":"copy","from":"/a/b","path":"/a/c"}]"#, &["$..pin"]), Ok(vec![]));
    let long = |size: usize| format!(r#"[{{"op":"add","path":"/{}","value":"4"}}]"#, "x".repeat(size));
    assert_eq!(found(&long(POINTER_SIZE_MAX - 3), card), Ok(vec![]));
    assert_eq!(found(&long(POINTER_SIZE_MAX - 2), card), Err(PatchPath));
    assert_eq!(found(r#"[{"op":"add","path":"/100%/a%2x","value":"4"}]"#, card), Ok(vec![]));
    assert!(!selection(&["$.a[?@.b]"]).is_of_names() && !selection(&["$.a[0]"]).is_of_names());
}

/// Decrypted values may be under any name.
#[test]
fn paths_of_values_to_decrypt_may_have_empty_names() {
    let patch = r#"[{"op":"add","path":"/a//b","value":"ev:4"},{"op":"add","path":"/a/%41","value":"ev:4"}]"#;
    let selection = selection(&["$.a.*.*", "$.a.*"]);
    let mut walk = PatchWalk::new(patch.len(), &selection, Purpose::Decrypt, &DocumentLimits::default()).unwrap();
    let mut matches = Vec::new();
    while walk.next_batch(patch.as_bytes(), &mut matches, 64).unwrap() == WalkProgress::More {}
    assert_eq!(matches.len(), 2);
}

#[test]
fn shapes_of_patches_are_found_as_lenient_readers_see_them() {
    let shape = |document: &str| {
        let mut walk = ShapeWalk::new(&DocumentLimits::default());
        loop {
            if let Some(shape) = walk.advance(document.as_bytes(), 8).unwrap() {
                return shape;
            }
        }
    };
    for document in [
        r#"[{"op":"add","path":"/card","value":1}]"#,
        r#"[1,{"x":1},{"path":"/card","OP":"add"}]"#,
        r#"[{"\u006fp":"add","\u0070ath":"/card"}]"#,
        r#"{"op":"add","path":"/card","value":1}"#,
        r#"[{"op":" Replace","path":["card","number"]}]"#,
        r#"[{"op":"0","path":"/card"},{"op":"x"}]"#,
        r#"[{"op":2,"path":"/card"}]"#,
        r#"[{"op":"x","op":"add\u0000","path":"/card"}]"#,
    ] {
        assert_eq!(shape(document), Some(PatchShape::Json), "{document}");
    }
    for document in [
        r#"{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","value":{}}]}"#,
        r#"{"operations":{"Op":"add"}}"#,
        r#"{"a":[{"Operations":[{"op":"replace","value":{}}]}]}"#,
    ] {
        assert_eq!(shape(document), Some(PatchShape::Scim), "{document}");
    }
    for document in [
        r#"{"a":[{"op":"add","path":"/card"}]}"#,
        r#"{"a":{"path":"/card","x":[1,{"op":1}],"OP":"Add"}}"#,
        r#"[[{"op":"add","path":"/card"}]]"#,
        r#"[{"op":"add","path":"/a","value":[{"op":"add","path":"/card"}]}]"#,
    ] {
        assert_eq!(shape(document), Some(PatchShape::Inner), "{document}");
    }
    for document in [
        r#"[{"op":"add"},{"path":"/x"}]"#,
        r#"[{"op":"http.client","path":"/x"}]"#,
        r#"{"filters":[{"op":"eq","path":"/x"},{"op":null,"path":"/x"}]}"#,
        r#"{"ops":["add"],"path":"/x"}"#,
        r#"{"x":{"op":1},"path":"/"}"#,
        r#"{"Operations":1,"x":[{"op":1}]}"#,
        r#"{"Operations":[{"op":"eq"}]}"#,
        r#""op""#,
    ] {
        assert_eq!(shape(document), None, "{document}");
    }
}

#[test]
fn a_value_in_another_shape_than_selectors_expect_is_refused_where_that_is_set() {
    let cards = &["$.cards[*].number"][..];
    for (patch, selectors, is_refused) in [
        (r#"[{"op":"add","path":"/cards/number","value":"4"}]"#, cards, true),
        (r#"[{"op":"add","path":"/cards","value":{"number":"4"}}]"#, cards, true),
        (r#"[{"op":"add","path":"/cards/-","value":[{"number":"4"}]}]"#, cards, true),
        (r#"[{"op":"add","path":"/cards/-","value":{"number":"4"}}]"#, cards, false),
        (r#"[{"op":"add","path":"/cards/0/expiry","value":"4"},{"op":"remove","path":"/cards/1"}]"#, cards, false),
        (r#"[{"op":"add","path":"/notes","value":"4"}]"#, cards, false),
        (r#"[{"op":"add","path":"/notes","value":"4"}]"#, &["$..pin"], false),
        // The value is the whole document.
        (r#"[{"op":"replace","path":"","value":{"cards":{"number":"4"}}}]"#, cards, true),
        (r#"[{"op":"replace","path":"","value":[{"pin":"4"}]}]"#, &["$.pin"], true),
        (r#"[{"op":"replace","path":"","value":{"notes":"4"}}]"#, &["$..pin"], true),
        (r#"[{"op":"replace","path":"","value":{"cards":[{"number":"4"}]}}]"#, cards, false),
    ] {
        let found = found_strictly(patch, selectors, true);
        assert_eq!(found == Err(DocumentErrorKind::PatchUnmatched), is_refused, "{patch}: {found:?}");
        assert!(found_strictly(patch, selectors, false).is_ok(), "{patch}");
    }
}
