//! The contexts and whole paths of matches, against a recursive search in the slow parser's tree.

use leafseal_document::fuzzing::slow::{self, SlowKind, SlowValue};
use leafseal_document::{
    CaseFold, ContextSelector, DocumentError, DocumentErrorKind as Kind, DocumentLimits, DocumentWalk, Match,
    PathWriter, Purpose, Selection, WalkProgress,
};
use proptest::prelude::*;
use proptest::sample::select as one_of;

const SIZE_MAX: usize = 8;
const WHOLE: (usize, usize) = (usize::MAX, usize::MAX);

/// A match: where it begins, the text of its context, and its path with indexes and without.
type Found = (usize, String, String, String);

fn walk_of(text: &str, context: &str, selectors: &[&str], limits: &DocumentLimits) -> DocumentWalk {
    let selection = Selection::parse(selectors, limits).expect("selectors");
    let context = ContextSelector::parse(context, limits).expect("a path");
    let walk = DocumentWalk::new(text.len(), &selection, Purpose::Encrypt, limits).expect("it fits");
    walk.with_paths().with_contexts(&context, SIZE_MAX)
}

/// All matches up to the first fault, and that; the number of batches too.
fn run(mut walk: DocumentWalk, text: &str, sizes: (usize, usize)) -> (Vec<Found>, Option<DocumentError>, usize) {
    let (document, mut all, mut batches) = (text.as_bytes(), Vec::new(), 0);
    loop {
        let mut matches: Vec<Match> = Vec::new();
        let progress = walk.next_batch(document, &mut matches, sizes.0, sizes.1);
        batches += 1;
        let (contexts, paths) = (walk.take_contexts(), walk.take_paths());
        // A failed batch of a text of lines has none.
        if progress.is_ok() || !contexts.is_empty() {
            assert_eq!(contexts.len(), matches.len(), "each has one");
        }
        let mut writers = [PathWriter::new(true, 1 << 20), PathWriter::new(false, 1 << 20)];
        for (index, found) in matches.iter().enumerate() {
            let context = contexts.get(index).map(|context| context.text(document, &mut String::new()).to_owned());
            let context = context.unwrap_or_default();
            // A failed batch has no paths.
            let mut path = |writer: usize| match progress {
                Ok(_) => writers[writer].path(&paths, document, index).expect("text").to_owned(),
                Err(_) => String::new(),
            };
            all.push((found.start, context, path(0), path(1)));
        }
        match progress {
            Ok(WalkProgress::More) => {}
            Ok(WalkProgress::Done) => return (all, None, batches),
            Err(error) => return (all, Some(error), batches),
        }
    }
}

/// What surrounds a value: the objects around it from the outermost one on, and its paths.
#[derive(Clone, Default)]
struct Around<'v> {
    objects: Vec<&'v SlowValue>,
    indexed: String,
    plain: String,
}

/// Visits the scalars that are matches, in document order.
fn visit<'v>(value: &'v SlowValue, around: &Around<'v>, each: &mut dyn FnMut(&'v SlowValue, &Around<'v>)) {
    match &value.kind {
        SlowKind::Object(members) => {
            for (name, member) in members {
                let name = name.as_deref().expect("text").replace('\\', "\\\\").replace('\'', "\\'");
                let name = format!("['{}']", name.replace('\n', "\\n").replace('\u{1}', "\\u0001"));
                let mut inner = around.clone();
                inner.objects.push(value);
                inner.indexed += &name;
                inner.plain += &name;
                visit(member, &inner, each);
            }
        }
        SlowKind::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let mut inner = around.clone();
                inner.indexed += &format!("[{index}]");
                inner.plain += "[*]";
                visit(element, &inner, each);
            }
        }
        SlowKind::Null => {}
        _ => each(value, around),
    }
}

/// The values that names lead to, and whether one of the names occurs twice on the way.
fn reached<'v>(object: &'v SlowValue, names: &[&str]) -> (Vec<&'v SlowValue>, bool) {
    let (mut values, mut is_ambiguous) = (vec![object], false);
    for name in names {
        let mut next = Vec::new();
        for value in values {
            let SlowKind::Object(members) = &value.kind else { continue };
            let named: Vec<_> = members.iter().filter(|(other, _)| other.as_deref() == Some(name)).collect();
            is_ambiguous |= named.len() > 1;
            next.extend(named.into_iter().map(|(_, value)| value));
        }
        values = next;
    }
    (values, is_ambiguous)
}

/// The context of a scalar.
fn context_of(text: &str, scalar: &SlowValue, around: &Around<'_>, names: &[&str]) -> Result<String, Kind> {
    let is_of = |object: &&SlowValue| match reached(object, names) {
        (values, false) => values.first().is_some_and(|value| value.range == scalar.range),
        _ => false,
    };
    if around.objects.iter().any(is_of) {
        return Err(Kind::ContextSelected);
    }
    for object in around.objects.iter().rev() {
        let (values, is_ambiguous) = reached(object, names);
        let Some(value) = values.first() else { continue };
        if is_ambiguous {
            return Err(Kind::DuplicateContext);
        }
        let token = &text[value.range.clone()];
        let found = match &value.kind {
            SlowKind::String(Some(context)) => Some(context.clone()),
            // An integer is what its own decimal text is.
            SlowKind::Number if token.parse::<i128>().is_ok_and(|number| number.to_string() == token) => {
                Some(token.to_owned())
            }
            _ => None,
        };
        let fits = |context: &String| (1..=SIZE_MAX).contains(&context.len());
        return found.filter(fits).ok_or(Kind::ContextValue(SIZE_MAX));
    }
    Err(Kind::ContextMissing)
}

/// All matches by the oracle, up to the first fault.
fn expected(text: &str, names: &[&str], is_selected: impl Fn(&Around<'_>) -> bool) -> (Vec<Found>, Option<Kind>) {
    let root = slow::read(text.as_bytes(), 1024).expect("JSON");
    let (mut all, mut fault) = (Vec::new(), None);
    let start = Around { indexed: "$".to_owned(), plain: "$".to_owned(), ..Around::default() };
    visit(&root, &start, &mut |scalar, around| {
        if fault.is_some() || !is_selected(around) {
            return;
        }
        match context_of(text, scalar, around, names) {
            Ok(context) => {
                all.push((scalar.range.start, context, around.indexed.clone(), around.plain.clone()));
            }
            Err(kind) => fault = Some(kind),
        }
    });
    (all, fault)
}

fn name() -> impl Strategy<Value = &'static str> {
    one_of(vec!["id", "id", "i\\u0064", "c", "c", "\\u0063", "v", "v", "w", "b'\\\\", "\\u0001\\n", "é", "ID"])
}

fn scalar() -> impl Strategy<Value = String> {
    let scalars = [
        "1",
        "-7",
        "0",
        "\"k\"",
        "\"\\u006b\"",
        "\"1\"",
        "\"ünï\"",
        "\"\\u00fc\\t\"",
        "-0",
        "1.0",
        "1e3",
        "12345678",
        "123456789",
        "\"\"",
        "\"123456789\"",
        "\"\\ud800\"",
        "null",
        "true",
        "{}",
        "[]",
    ];
    one_of(scalars.to_vec()).prop_map(str::to_owned)
}

fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![4 => one_of(vec!["1", "\"k\"", "2", "\"x\""]).prop_map(str::to_owned), 1 => scalar()];
    leaf.prop_recursive(6, 48, 6, |inner| {
        let member = (name(), inner.clone()).prop_map(|(name, value)| format!("\"{name}\": {value}"));
        let object = prop::collection::vec(member, 0..6).prop_map(|it| format!("{{{}}}", it.join(", ")));
        let array = prop::collection::vec(inner, 0..4).prop_map(|it| format!("[{}]", it.join(",")));
        prop_oneof![3 => object, 1 => array]
    })
}

/// Whether a value is selected.
type Chosen<'f> = &'f dyn Fn(&Around<'_>) -> bool;

fn compare(text: &str, context: &str, sizes: (usize, usize)) {
    let limits = DocumentLimits::default();
    let names: Vec<&str> = context.split('.').collect();
    // Everything; the members `v`, with what is below them; the same by a filter, which takes the other way through the walk.
    let below_v = |around: &Around<'_>| around.plain.contains("['v']");
    let selections: [(&str, Chosen<'_>); 2] = [("$", &|_| true), ("$..v", &below_v)];
    for (selector, is_selected) in selections {
        let expected = expected(text, &names, is_selected);
        for selectors in [&[selector][..], &[selector, "$[?@.nothing]"], &[selector, "$.none[-1]"]] {
            let (found, fault, _) = run(walk_of(text, context, selectors, &limits), text, sizes);
            // A failed batch has no paths.
            let places = |found: &[Found]| found.iter().map(|it| (it.0, it.1.clone())).collect::<Vec<_>>();
            match fault {
                None => assert_eq!(found, expected.0, "{text} {context} {selector}"),
                Some(_) => assert_eq!(places(&found), places(&expected.0), "{text} {context} {selector}"),
            }
            assert_eq!(fault.map(|fault| fault.kind), expected.1, "{text} {context} {selector}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn contexts_and_paths_are_those_of_a_search_in_the_tree(
        text in document(),
        context in one_of(vec!["id", "c.id", "c.c", "id.id", "c.c.id"]),
        matches_max in 1_usize..5,
        bytes_max in 1_usize..40,
    ) {
        compare(&text, context, WHOLE);
        compare(&text, context, (matches_max, bytes_max));
    }

    #[test]
    fn lines_have_the_contexts_that_each_has_alone(lines in prop::collection::vec(document(), 1..5), bytes_max in 1_usize..60) {
        let limits = DocumentLimits::default();
        let text = lines.join("\n");
        let alone = |line: &String| run(walk_of(line, "id", &["$..v"], &limits), line, WHOLE);
        let (mut all, mut start, mut fault) = (Vec::new(), 0, None);
        for line in &lines {
            let (found, of_line, _) = alone(line);
            all.extend(found.into_iter().map(|(at, context, _, _)| (start + at, context)));
            if let Some(error) = of_line {
                fault = Some((error.kind, start + error.offset));
                break;
            }
            start += line.len() + 1;
        }
        let selection = Selection::parse(&["$..v"], &limits).expect("selectors");
        let context = ContextSelector::parse("id", &limits).expect("a path");
        for sizes in [WHOLE, (3, bytes_max)] {
            // Without paths, batches go on over lines.
            let walk = DocumentWalk::new(text.len(), &selection, Purpose::Encrypt, &limits).expect("it fits");
            let (mut walk, mut found) = (walk.with_contexts(&context, SIZE_MAX).lines(), Vec::new());
            let is_whole = loop {
                let mut matches = Vec::new();
                let progress = walk.next_batch(text.as_bytes(), &mut matches, sizes.0, sizes.1);
                let contexts = walk.take_contexts();
                prop_assert!(progress.is_err() || contexts.len() == matches.len(), "each has one");
                let text_of = |it: &leafseal_document::MatchContext| it.text(text.as_bytes(), &mut String::new()).to_owned();
                found.extend(matches.iter().zip(&contexts).map(|(it, context)| (it.start, text_of(context))));
                match progress {
                    Ok(WalkProgress::More) => {}
                    progress => break progress.is_ok(),
                }
            };
            prop_assert_eq!(is_whole, fault.is_none());
            prop_assert!(!is_whole || found == all);
            let (found, error, _) = run(walk_of(&text, "id", &["$..v"], &limits).lines(), &text, sizes);
            let found: Vec<(usize, String)> = found.into_iter().map(|it| (it.0, it.1)).collect();
            let places = |found: &[(usize, String)]| found.iter().map(|it| it.0).collect::<Vec<_>>();
            prop_assert_eq!(places(&found), places(&all));
            prop_assert!(error.is_some() || found == all);
            prop_assert_eq!(error.map(|error| (error.kind, error.offset)), fault);
        }
    }
}

/// The kind of the fault of a document, and its offset.
fn fault(text: &str, context: &str, selectors: &[&str]) -> (Kind, usize) {
    let (_, fault, _) = run(walk_of(text, context, selectors, &DocumentLimits::default()), text, WHOLE);
    let fault = fault.unwrap_or_else(|| panic!("{text} has a fault"));
    (fault.kind, fault.offset)
}

#[test]
fn faults_name_their_place() {
    let v: &[&str] = &["$..v"];
    assert_eq!(fault(r#"[{"v":1}]"#, "id", v), (Kind::ContextMissing, 6));
    assert_eq!(fault(r#"{"id":1,"v":1,"i\u0064":1}"#, "id", v), (Kind::DuplicateContext, 14));
    // Readers that take the last of two members find no context.
    assert_eq!(fault(r#"{"c":{"id":1},"v":1,"c":5}"#, "c.id", v), (Kind::DuplicateContext, 20));
    assert_eq!(fault(r#"{"id":1.0,"v":1}"#, "id", v), (Kind::ContextValue(SIZE_MAX), 6));
    assert_eq!(fault(r#"{"id":{"id":1},"v":1}"#, "id", v), (Kind::ContextValue(SIZE_MAX), 6));
    // In a selected object, and in one that is itself a context.
    assert_eq!(fault(r#"{"id":7,"v":{"w":1,"id":2}}"#, "id", v), (Kind::ContextSelected, 24));
    assert_eq!(fault(r#"{"c":{"id":7},"v":1}"#, "c.id", &["$.c", "$.v"]), (Kind::ContextSelected, 11));
    assert_eq!(fault(r#"{"id":{"v":7}}"#, "id", v), (Kind::ContextValue(SIZE_MAX), 6));
    // One that no match needs does not count.
    let text = r#"{"id":1,"v":1,"rows":[{"id":1,"id":2,"w":0},{"id":null}]}"#;
    let (found, fault, _) = run(walk_of(text, "id", v, &DocumentLimits::default()), text, WHOLE);
    assert_eq!((found.len(), fault), (1, None));
}

/// Readers that ignore case would find another context than the walk.
#[test]
fn names_in_another_case_are_refused_taken_or_others() {
    let limits = DocumentLimits::default();
    let find = |other_case: CaseFold, context: &str, text: &str| {
        let mut builder = Selection::builder(&limits).other_case(other_case);
        builder.add("$..v").expect("a selector");
        let context = ContextSelector::parse(context, &limits).expect("a path");
        let walk = DocumentWalk::new(text.len(), &builder.finish(), Purpose::Encrypt, &limits).expect("it fits");
        let (found, fault, _) = run(walk.with_paths().with_contexts(&context, SIZE_MAX), text, WHOLE);
        fault.map_or_else(|| Ok(found.into_iter().map(|it| it.1).collect::<String>()), |fault| Err(fault.kind))
    };
    let (ambiguous, twice) = (Err(Kind::AmbiguousName), Err(Kind::DuplicateContext));
    let text = |text: &str| Ok(text.to_owned());
    for (context, document, refused, same, other) in [
        ("id", r#"{"id":1,"v":0}"#, text("1"), text("1"), text("1")),
        ("id", r#"{"id":1,"v":0,"ID":2}"#, ambiguous.clone(), twice.clone(), text("1")),
        ("id", r#"{"id":1,"v":0,"I\u0064":2}"#, ambiguous.clone(), twice.clone(), text("1")),
        ("id", r#"{"id":1,"v":0,"\u0131d":2}"#, ambiguous.clone(), twice.clone(), text("1")),
        ("id", r#"{"id":1,"v":0,"Id\u0000x":2}"#, ambiguous.clone(), twice.clone(), text("1")),
        ("id", r#"{"id":1,"v":0,"idx":2,"i":3,"d":4}"#, text("1"), text("1"), text("1")),
        // In the place of an outer one.
        ("id", r#"{"id":1,"a":{"Id":2,"v":0}}"#, ambiguous.clone(), text("2"), text("1")),
        ("c.id", r#"{"c":{"id":1},"v":0,"C":{"id":2}}"#, ambiguous.clone(), twice.clone(), text("1")),
        ("c.id", r#"{"c":{"id":1,"ID":2},"v":0}"#, ambiguous.clone(), twice, text("1")),
        ("c.id", r#"{"c":{"id":1},"v":0,"a":{"C":{"ID":2}}}"#, text("1"), text("1"), text("1")),
        ("K", r#"{"\u212a":1,"v":0}"#, ambiguous, text("1"), Err(Kind::ContextMissing)),
    ] {
        for (other_case, expected) in [(CaseFold::Refuse, refused), (CaseFold::Same, same), (CaseFold::Other, other)] {
            assert_eq!(find(other_case, context, document), expected, "{other_case:?} {context} {document}");
        }
    }
}

/// A context that a decryption selects was none when the values were encrypted, though it is no envelope; also one that is selected
/// because everything is.
#[test]
fn a_selected_context_is_refused_for_decryption_too() {
    let limits = DocumentLimits::default();
    let context = ContextSelector::parse("id", &limits).expect("a path");
    let text = r#"[{"id":1,"v":"ev:a"},{"id":2,"v":{"x":"ev:b","y":null,"id":1}}]"#;
    let first = text.find("1,").expect("the first id");
    let inner = text.rfind("1}").expect("the id");
    // The fault's place, and the matches before it.
    for (selectors, refused, count) in [
        (&["$[*].v"][..], Some(inner), 2),
        (&["$[*].v", "$[?@.nothing]"], Some(inner), 2),
        (&["$[*].v", "$.none[-1]"], Some(inner), 2),
        (&["$[*].v.x", "$[0].v"], None, 2),
        (&["$"], Some(first), 0),
        (&["$", "$[?@.nothing]"], Some(first), 0),
        (&["$[*]"], Some(first), 0),
        (&["$..*"], Some(first), 0),
    ] {
        for lines in [false, true] {
            for sizes in [WHOLE, (1, 1)] {
                let selection = Selection::parse(selectors, &limits).expect("selectors");
                let walk = DocumentWalk::new(text.len(), &selection, Purpose::Decrypt, &limits).expect("it fits");
                let walk = walk.with_contexts(&context, SIZE_MAX);
                let mut walk = if lines { walk.lines() } else { walk };
                let mut matches = Vec::new();
                let fault = loop {
                    match walk.next_batch(text.as_bytes(), &mut matches, sizes.0, sizes.1) {
                        Ok(WalkProgress::More) => {}
                        Ok(WalkProgress::Done) => break None,
                        Err(error) => break Some((error.kind, error.offset)),
                    }
                };
                assert_eq!(fault, refused.map(|place| (Kind::ContextSelected, place)), "{selectors:?} {lines}");
                assert_eq!(matches.len(), count, "{selectors:?}");
            }
        }
    }
}

/// Each step reads a bounded part, however the document is made; also where filters lead from one end of it to the other.
#[test]
fn large_documents_take_as_many_steps_as_they_have_bytes() {
    let rows = |count: usize, row: &str| vec![row; count].join(",");
    let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let ends = "{\"id\":9,\"w\":1}";
    for text in [
        format!("{{\"id\":1,\"v\":[{}]}}", rows(20_000, "\"x\"")),
        format!("[{}]", rows(20_000, "{\"id\":1,\"v\":0}")),
        format!("{{\"id\":1,\"a\":[{},{{\"v\":3}}],\"v\":2}}", rows(20_000, "{\"id\":1}")),
        format!("{{\"id\":1,\"a\":{}}}", nested(100, &format!("[{}]", rows(5_000, "{\"id\":1},{\"v\":0}")))),
        format!("{{\"id\":4,\"rows\":[{ends},{},{ends}],\"v\":7}}", rows(9_000, "{\"id\":1,\"a\":{\"id\":2}}")),
    ] {
        let names = ["id"];
        let w = |around: &Around<'_>| around.plain.ends_with("['v']") || around.plain.contains("['v'][*]");
        let expected = expected(&text, &names, w);
        let limits = DocumentLimits::default();
        let (found, fault, batches) = run(walk_of(&text, "id", &["$..v"], &limits), &text, (1024, 16 << 10));
        assert_eq!((&found, fault.map(|it| it.kind)), (&expected.0, expected.1));
        assert!(batches <= 2 * (text.len() >> 14) + found.len() / 1024 + 3, "{batches} of {} bytes", text.len());
        let (by_filter, fault, _) = run(walk_of(&text, "id", &["$..v", "$[?@.x]"], &limits), &text, (1024, 16 << 10));
        assert_eq!((by_filter, fault.map(|it| it.kind)), expected);
    }
    let text = format!("{{\"id\":4,\"rows\":[{ends},{},{ends}]}}", rows(9_000, "{\"id\":1,\"a\":{\"id\":2}}"));
    let w = |around: &Around<'_>| around.plain.ends_with("['w']");
    let walk = walk_of(&text, "id", &["$.rows[?@.id == 9].w"], &DocumentLimits::default());
    assert_eq!(run(walk, &text, WHOLE).0, expected(&text, &["id"], w).0, "over thousands of objects at once");
}

#[test]
fn memory_grows_with_objects_that_have_a_context_alone_and_is_limited() {
    let limits = DocumentLimits { tree_nodes_max: 1_000, ..DocumentLimits::default() };
    let memory = |row: &str, count: usize| {
        let text = format!("{{\"id\":1,\"rows\":[{}]}}", vec![row; count].join(","));
        let mut walk = walk_of(&text, "id", &["$.v"], &limits);
        let mut memory = 0;
        while walk.next_batch(text.as_bytes(), &mut Vec::new(), 1024, 1024)? == WalkProgress::More {
            memory = memory.max(walk.memory());
        }
        Ok::<_, DocumentError>(memory)
    };
    let few = memory("{\"a\":{}}", 10_000).expect("they are not kept");
    assert!(few > 0 && few <= 128 << 10, "{few} bytes");
    assert!(memory("{\"id\":1}", 900).is_ok());
    let error = memory("{\"id\":1}", 1_100).expect_err("too many");
    assert_eq!(error.kind, Kind::TooManyContexts(1_000));
}

/// A name before many values costs no more than the limit each, and the path of a name that is not text is none.
#[test]
fn paths_are_limited_and_text() {
    let path = |text: &str, size_max: usize| {
        let mut walk = walk_of(text, "id", &["$..v"], &DocumentLimits::default());
        let mut matches = Vec::new();
        while walk.next_batch(text.as_bytes(), &mut matches, 1024, 1 << 20).expect("JSON") == WalkProgress::More {}
        let paths = walk.take_paths();
        let mut writer = PathWriter::new(true, size_max);
        writer.path(&paths, text.as_bytes(), matches.len() - 1).map(str::to_owned)
    };
    let text = r#"{"id":1,"long":[{"v":1},{"v":2}]}"#;
    let expected = "$['long'][1]['v']";
    assert_eq!(path(text, expected.len()), Ok(expected.to_owned()));
    let kind = |text: &str, size_max: usize| path(text, size_max).expect_err("a fault").kind;
    assert_eq!(kind(text, expected.len() - 1), Kind::PathTooLong(expected.len() - 1));
    assert_eq!(kind(r#"{"id":1,"\ud800":{"v":1}}"#, 100), Kind::LoneSurrogate);
}
