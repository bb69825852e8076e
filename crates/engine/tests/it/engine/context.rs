//! Values that are bound each to its own: to a context from the document, to their path, or to both. The oracle computes context and path
//! of each value in the tree of another parser, and opens the envelopes one by one.

use std::sync::Arc;

use leafseal_engine::{Binding, PathBinding, Scheme};
use leafseal_envelope::BindingPart;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::*;

/// What binds the values of a request.
type Wish = (Option<&'static str>, Option<PathBinding>);

const WISHES: [Wish; 7] = [
    (Some("id"), None),
    (Some("customer.id"), None),
    (Some("id"), Some(PathBinding::Path)),
    (Some("['customer'].id"), Some(PathBinding::PathAndIndex)),
    (None, Some(PathBinding::Path)),
    (None, Some(PathBinding::PathAndIndex)),
    (Some("id"), Some(PathBinding::PathAndIndex)),
];

fn sealing((context_select, bind): Wish) -> EncryptOptions<'static> {
    EncryptOptions { scheme: Some(Scheme::Symmetric), context_select, bind, ..EncryptOptions::new("acme") }
}

fn opening((context_select, bind): Wish) -> DecryptOptions<'static> {
    DecryptOptions { context_select, bind, ..DecryptOptions::new("acme") }
}

fn seal(engine: &Engine, wish: Wish, document: &str) -> Result<String, Error> {
    encrypt_with(engine, &sealing(wish), &["$..v"], document)
}

fn open(engine: &Engine, wish: Wish, document: &str) -> Result<String, Error> {
    let selection = engine.selection(&["$..v"])?;
    let work = engine.decrypt_document(&Caller::Owner, &opening(wish), Some(&selection), document.len())?;
    rewritten(work, document)
}

fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().map(|error| error.code)
}

/// A value of which objects have an id, and a customer with one, and values to encrypt anywhere.
fn random(rng: &mut StdRng, depth: usize) -> Value {
    let scalar = |rng: &mut StdRng| match rng.random_range(0..5) {
        0 => Value::from(rng.random_range(-3..1_000)),
        1 => Value::Bool(rng.random()),
        2 => Value::Null,
        3 => Value::from(format!("text {} \u{e9}\"\\", rng.random_range(0..1_000))),
        _ => Value::from("x".repeat(rng.random_range(0..400))),
    };
    if depth == 0 {
        return scalar(rng);
    }
    match rng.random_range(0..4) {
        0 => Value::Array((0..rng.random_range(0..5)).map(|_| random(rng, depth - 1)).collect()),
        1 => scalar(rng),
        _ => object(rng, depth, 0.6),
    }
}

fn object(rng: &mut StdRng, depth: usize, has_id: f64) -> Value {
    let mut members = serde_json::Map::new();
    for _ in 0..rng.random_range(1..5) {
        let name = ["v", "v", "a'\\", "b\n", "\u{e9}"][rng.random_range(0..5)];
        members.insert(name.to_owned(), random(rng, depth - 1));
    }
    let id = |rng: &mut StdRng| match rng.random::<bool>() {
        true => Value::from(rng.random_range(-5..100_000)),
        false => Value::from(format!("id \u{1}{}", rng.random_range(0..9))),
    };
    if rng.random_bool(has_id) {
        members.insert("id".to_owned(), id(rng));
    }
    if rng.random_bool(has_id) {
        let mut customer = serde_json::Map::new();
        customer.insert("id".to_owned(), id(rng));
        members.insert("customer".to_owned(), Value::Object(customer));
    }
    Value::Object(members)
}

/// A document in which no context is selected: an object named `v` has no id of its own.
fn document(rng: &mut StdRng) -> String {
    fn without_ids(value: &mut Value, is_selected: bool) {
        match value {
            Value::Object(members) => {
                if is_selected {
                    members.retain(|name, _| name != "id" && name != "customer");
                }
                members.iter_mut().for_each(|(name, member)| without_ids(member, is_selected || name == "v"));
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| without_ids(element, is_selected)),
            _ => {}
        }
    }
    let mut value = object(rng, 5, 1.0);
    without_ids(&mut value, false);
    value.to_string()
}

/// The envelopes of a document with their bindings, and the values at the same places of the plain one.
fn bound(
    (sealed, plain): (&Value, &Value),
    wish: Wish,
    (context, path): (Option<&str>, &str),
    found: &mut Vec<(String, Arc<Binding>, Value)>,
) {
    match sealed {
        Value::Object(members) => {
            let member = match wish.0 {
                Some("id") => sealed.get("id"),
                Some(_) => sealed.get("customer").and_then(|customer| customer.get("id")),
                None => None,
            };
            let own = member.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
            for (name, member) in members {
                let name = name.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
                let path = format!("{path}['{name}']");
                let plain = &plain[name_of(members, member)];
                bound((member, plain), wish, (own.as_deref().or(context), &path), found);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let path = match wish.1 {
                    Some(PathBinding::Path) => format!("{path}[*]"),
                    _ => format!("{path}[{index}]"),
                };
                bound((element, &plain[index]), wish, (context, &path), found);
            }
        }
        Value::String(text) if text.starts_with("ev:") => {
            let mut binding = Binding::default();
            if let Some(context) = context {
                binding = binding.with_context(context).expect("a context");
            }
            binding = match wish.1 {
                None => binding,
                Some(PathBinding::Path) => binding.with_path(BindingPart::Path, path).expect("a path"),
                Some(PathBinding::PathAndIndex) => binding.with_path(BindingPart::IndexedPath, path).expect("a path"),
            };
            found.push((text.clone(), Arc::new(binding), plain.clone()));
        }
        _ => {}
    }
}

/// The name of a member.
fn name_of<'v>(members: &'v serde_json::Map<String, Value>, member: &Value) -> &'v str {
    members.iter().find(|(_, other)| std::ptr::eq(*other, member)).expect("it is one of them").0
}

#[test]
fn every_value_opens_with_the_context_and_path_that_another_parser_finds() {
    let small = Settings { step_bytes_max: 64, step_values_max: 3, ..Settings::default() };
    let mut rng = StdRng::seed_from_u64(1);
    let mut opened = 0;
    for settings in [Settings::default(), small] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        for round in 0..150 {
            let (plain, wish) = (document(&mut rng), WISHES[round % WISHES.len()]);
            let sealed = seal(&engine, wish, &plain).unwrap_or_else(|error| panic!("{error}: {plain}"));
            let parsed: Value = serde_json::from_str(&sealed).expect("JSON");
            let mut found = Vec::new();
            let original: Value = serde_json::from_str(&plain).expect("JSON");
            bound((&parsed, &original), wish, (None, "$"), &mut found);
            assert_eq!(found.len(), envelopes(&sealed).len());
            let options = DecryptOptions { has_contexts: true, ..DecryptOptions::new("acme") };
            for (text, binding, value) in &found {
                let mut decryptor = engine.decryptor(&Caller::Owner, &options).expect("begins");
                let own = std::slice::from_ref(binding);
                let done = decryptor.decrypt_bound(&[text.as_bytes()], Some(own), |_, one| {
                    let one = one.expect("an envelope");
                    let expected = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    assert_eq!(one.text, expected);
                    opened += 1;
                });
                assert_eq!(done.unwrap_or_else(|error| panic!("{error}: {binding:?} in {sealed}")), 1);
            }
            let back = open(&engine, wish, &sealed).expect("opens");
            assert_eq!(serde_json::from_str::<Value>(&back).expect("JSON"), original);
            let selection = engine.selection(&["$..v"]).expect("a selector");
            let work = engine.decrypt_document(&Caller::Owner, &opening(wish), Some(&selection), sealed.len());
            assert_eq!(in_parts(work.expect("begins"), &sealed).expect("opens").0, back, "in parts too");
            let work = engine.encrypt_document(&Caller::Owner, &sealing(wish), Some(&selection), plain.len());
            let (in_parts, _) = in_parts(work.expect("begins"), &plain).expect("encrypts");
            assert_eq!(open(&engine, wish, &in_parts).expect("opens"), back);
        }
    }
    assert!(opened > 1_000, "{opened} values");
}

const ROWS: &str = r#"{"rows":[{"id":1,"v":"a","w":{"v":"b"}},{"v":"c","w":{"v":"d"},"id":"2"}]}"#;

/// The document with the envelopes exchanged that stand at these places.
fn exchanged(sealed: &str, one: usize, other: usize) -> String {
    let found = envelopes(sealed);
    sealed.replace(&found[one], "@").replace(&found[other], &found[one]).replace('@', &found[other])
}

#[test]
fn a_value_in_another_row_column_or_record_does_not_open() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let (path, indexed) = (Some(PathBinding::Path), Some(PathBinding::PathAndIndex));
    // Rows 1 and 2, columns `v` and `w.v`: the envelopes of a row are 0 and 1, of the other 2 and 3.
    for (wish, (rows, columns)) in [
        ((Some("id"), None), (false, true)),
        ((Some("id"), path), (false, false)),
        ((None, path), (true, false)),
        ((None, indexed), (false, false)),
        ((Some("id"), indexed), (false, false)),
    ] {
        let sealed = seal(&engine, wish, ROWS).expect("encrypts");
        assert_eq!(open(&engine, wish, &sealed).expect("opens"), ROWS, "{wish:?}");
        for (changed, opens) in [(exchanged(&sealed, 0, 2), rows), (exchanged(&sealed, 0, 1), columns)] {
            let result = open(&engine, wish, &changed);
            assert_eq!(code(result), (!opens).then_some(ErrorCode::DecryptFailed), "{wish:?}");
        }
        for other in WISHES.into_iter().filter(|other| *other != wish && matches!(other.0, None | Some("id"))) {
            assert_eq!(code(open(&engine, other, &sealed)), Some(ErrorCode::DecryptFailed), "{wish:?} {other:?}");
        }
        assert_eq!(code(open(&engine, (None, None), &sealed)), Some(ErrorCode::DecryptFailed));
    }
    let wish = (Some("customer.id"), None);
    let orders =
        r#"[{"customer":{"id":"k\u0031"},"v":1},{"customer":{"id":"k2"},"v":2},{"customer":{"id":"k1"},"v":3}]"#;
    let sealed = seal(&engine, wish, orders).expect("encrypts");
    assert_eq!(code(open(&engine, wish, &exchanged(&sealed, 0, 1))), Some(ErrorCode::DecryptFailed));
    assert!(open(&engine, wish, &exchanged(&sealed, 0, 2)).is_ok(), "records of one customer");
    // In an object with a context of its own, which encryption would not have left there.
    let sealed = seal(&engine, (Some("id"), None), ROWS).expect("encrypts");
    let found = envelopes(&sealed);
    let wrapped =
        sealed.replace(&format!("\"v\":\"{}\"", found[2]), &format!("\"v\":{{\"id\":1,\"x\":\"{}\"}}", found[0]));
    let error = open(&engine, (Some("id"), None), &wrapped).expect_err("the id is selected");
    assert_eq!((error.code, error.offset), (ErrorCode::InvalidContext, wrapped.rfind("1,\"x\"").map(|at| at as u64)));
    // Without selectors every context is selected, the first one too.
    for document in [&wrapped, &sealed] {
        let error = decrypt_as(&engine, &Caller::Owner, &opening((Some("id"), None)), document)
            .expect_err("the id is selected");
        assert_eq!((error.code, error.offset), (ErrorCode::InvalidContext, document.find("1,").map(|at| at as u64)));
    }
    let sealed = seal(&engine, wish, orders).expect("encrypts");
    // A changed or removed context.
    for changed in ["k3", "K1"] {
        let changed = sealed.replace("k\\u0031", changed);
        assert_eq!(code(open(&engine, wish, &changed)), Some(ErrorCode::DecryptFailed));
    }
    let removed = sealed.replace("\"id\":\"k2\"", "\"ID\":\"k2\"");
    assert_eq!(code(open(&engine, wish, &removed)), Some(ErrorCode::InvalidContext));
    // With an index as `[*]` elements may move; with the index they may not.
    let list = r#"{"v":[1,2]}"#;
    for (bind, opens) in [(path, true), (indexed, false)] {
        let sealed = seal(&engine, (None, bind), list).expect("encrypts");
        assert_eq!(open(&engine, (None, bind), &exchanged(&sealed, 0, 1)).is_ok(), opens);
    }
}

/// What the threat model says of selectors that pass through objects without a context of their own, and of those whose objects have it.
#[test]
fn an_object_with_a_context_around_a_selected_name_moves_its_value() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let wish = (Some("id"), Some(PathBinding::Path));
    let rows = r#"[{"id":1,"w":{"v":"a"}},{"id":2,"w":{"v":"b"}}]"#;
    let sealed = seal(&engine, wish, rows).expect("encrypts");
    let found = envelopes(&sealed);
    let moved = sealed.replace(&format!("\"v\":\"{}\"", found[1]), &format!("\"id\":1,\"v\":\"{}\"", found[0]));
    assert_eq!(open(&engine, wish, &moved).expect("opens"), rows.replace(r#""v":"b""#, r#""id":1,"v":"a""#));
    let rows = r#"[{"id":1,"v":"a"},{"id":2,"v":"b"}]"#;
    let sealed = seal(&engine, wish, rows).expect("encrypts");
    let found = envelopes(&sealed);
    let second = format!("\"v\":\"{}\"", found[1]);
    for (planted, expected) in [
        (format!("\"v\":\"{}\"", found[0]), ErrorCode::DecryptFailed),
        (format!("\"id\":1,\"v\":\"{}\"", found[0]), ErrorCode::AmbiguousName),
    ] {
        assert_eq!(code(open(&engine, wish, &sealed.replace(&second, &planted))), Some(expected), "{planted}");
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let document = r#"{"id":1,"v":2}"#;
    let bound = sealing((Some("id"), Some(PathBinding::Path)));
    let refused = |options: EncryptOptions<'_>| code(encrypt_with(&engine, &options, &["$.v"], document));
    let invalid = Some(ErrorCode::InvalidParams);
    assert_eq!(refused(bound), None);
    assert_eq!(refused(EncryptOptions { context: Some("1"), ..bound }), invalid);
    assert_eq!(refused(EncryptOptions { context: Some("1"), context_select: None, ..bound }), None);
    for (context_select, bind) in [(Some("id"), None), (None, Some(PathBinding::Path))] {
        let options = EncryptOptions { context_select, bind, scheme: None, ..bound };
        assert_eq!(refused(options), invalid, "to a public key");
        assert_eq!(refused(EncryptOptions { curve: Some(Curve::P256), ..options }), invalid);
    }
    for path in ["", "$.id", "a[0]", "*", "a..b"] {
        let options = EncryptOptions { context_select: Some(path), ..bound };
        assert_eq!(refused(options), Some(ErrorCode::InvalidSelector), "{path}");
    }
    assert_eq!(refused(EncryptOptions { has_contexts: true, context_select: None, bind: None, ..bound }), invalid);
    assert_eq!(refused(EncryptOptions { has_contexts: true, ..bound }), invalid);
    // Values that are no document have no place, and lists only contexts that come with them.
    let value = [SealedInput { value_type: ValueType::String, text: b"a" }];
    let own = [Arc::new(Binding::context("1").expect("a context"))];
    let list = EncryptOptions { has_contexts: true, context_select: None, bind: None, ..bound };
    let one = EncryptOptions { has_contexts: false, ..list };
    for (options, own, expected) in
        [(bound, None, invalid), (list, None, invalid), (one, Some(&own[..]), invalid), (list, Some(&own[..]), None)]
    {
        let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("begins");
        assert_eq!(code(encryptor.encrypt_bound(&value, own, &mut Vec::new(), |_, _, _| ())), expected);
    }
}

#[test]
fn faults_of_contexts_name_the_byte_and_the_line() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let wish = (Some("id"), None);
    for (document, expected, offset) in [
        (r#"[{"v":1}]"#, ErrorCode::InvalidContext, 6),
        (r#"{"id":1.5,"v":1}"#, ErrorCode::InvalidContext, 6),
        (r#"{"id":"","v":1}"#, ErrorCode::InvalidContext, 6),
        (r#"{"id":1,"v":1,"id":1}"#, ErrorCode::AmbiguousName, 14),
        // The first value is bound to the id beside it, which is selected too.
        (r#"{"v":{"w":1,"id":2}}"#, ErrorCode::InvalidContext, 17),
        (r#"{"id":3,"v":{"id":2}}"#, ErrorCode::InvalidContext, 18),
        (r#"{"id":1,"v":1"#, ErrorCode::InvalidDocument, 13),
    ] {
        let error = seal(&engine, wish, document).expect_err(document);
        assert_eq!((error.code, error.offset), (expected, Some(offset)), "{document}");
        assert!(error.to_string().contains(&format!("byte {}", error.offset.expect("a byte"))), "{error}");
    }
    let text = "{\"id\":1,\"v\":1}\n{\"v\":2}\n";
    let selection = engine.selection(&["$..v"]).expect("a selector");
    let lines = |text: &str| {
        let work = engine.encrypt_document(&Caller::Owner, &sealing(wish), Some(&selection), text.len())?;
        rewritten(work.lines(), text)
    };
    let error = lines(text).expect_err("the second line has no id");
    assert_eq!((error.code, error.offset), (ErrorCode::InvalidContext, Some(20)));
    assert!(error.message.starts_with("line 2: "), "{error}");
    // Each line is a document: the same record opens wherever it is.
    let sealed = lines("{\"id\":1,\"v\":1}\n{\"v\":2,\"id\":2}\n").expect("encrypts");
    for line in sealed.lines() {
        open(&engine, wish, line).expect("opens alone");
    }
    let path: Wish = (Some("id"), Some(PathBinding::PathAndIndex));
    let text = "{\"id\":1,\"v\":1}\n{\"id\":1,\"v\":[2]}";
    let work = engine.encrypt_document(&Caller::Owner, &sealing(path), Some(&selection), text.len());
    let sealed = rewritten(work.expect("begins").lines(), text).expect("encrypts");
    for line in sealed.lines() {
        open(&engine, path, line).expect("opens alone");
    }
}

/// A name before many values would otherwise take the square of the document's size.
#[test]
fn long_paths_are_refused() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let document = |size: usize| format!("{{\"{}\":{{\"v\":[1,2]}}}}", "n".repeat(size));
    let wish = (None, Some(PathBinding::Path));
    let sealed = seal(&engine, wish, &document(4_000)).expect("encrypts");
    assert_eq!(open(&engine, wish, &sealed).expect("opens"), document(4_000));
    assert_eq!(code(seal(&engine, wish, &document(5_000))), Some(ErrorCode::TooLarge));
    let surrogate = r#"{"\ud800":{"v":1}}"#;
    assert_eq!(code(seal(&engine, wish, surrogate)), Some(ErrorCode::InvalidDocument));
}

#[test]
fn long_values_skipping_failures_and_rewrapping_use_the_same_bindings() {
    let settings = Settings { step_bytes_max: 1_024, ..Settings::default() };
    let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
    let long = "x".repeat(20_000);
    let document = format!(r#"{{"rows":[{{"id":1,"v":"{long}","w":{{"v":[true,7]}}}},{{"id":2,"v":"{long}"}}]}}"#);
    for wish in [(Some("id"), None), (Some("id"), Some(PathBinding::PathAndIndex)), (None, Some(PathBinding::Path))] {
        let sealed = seal(&engine, wish, &document).expect("encrypts");
        assert_eq!(open(&engine, wish, &sealed).expect("opens"), document);
        let moved = exchanged(&sealed, 0, 3);
        let is_moved = wish.0.is_some();
        assert_eq!(code(open(&engine, wish, &moved)), is_moved.then_some(ErrorCode::DecryptFailed));
        // What opens is skipped, and what was moved is encrypted again.
        let skip = EncryptOptions { skip_sealed: true, ..sealing(wish) };
        assert_eq!(encrypt_with(&engine, &skip, &["$..v"], &sealed).expect("skips"), sealed);
        let again = encrypt_with(&engine, &skip, &["$..v"], &moved).expect("encrypts");
        let opened = open(&engine, wish, &again).expect("opens");
        assert_eq!(envelopes(&opened).len(), if is_moved { 2 } else { 0 });
        // Failures are replaced, and named by their paths.
        let selection = engine.selection(&["$..v"]).expect("a selector");
        let options = DecryptOptions { on_failure: OnFailure::Null, ..opening(wish) };
        let mut work =
            engine.decrypt_document(&Caller::Owner, &options, Some(&selection), moved.len()).expect("begins");
        let mut out = Vec::new();
        while work.step(moved.as_bytes(), &mut out).expect("continues") == Progress::More {}
        let paths: Vec<String> = work.report().failures.into_iter().map(|failure| failure.path).collect();
        let expected: &[&str] = if is_moved { &["$['rows'][0]['v']", "$['rows'][1]['v']"] } else { &[] };
        assert_eq!(paths, expected);
        // A new key version.
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        let rewrap = |document: &str, on_failure: OnFailure| {
            let (context_select, bind) = wish;
            let options = RewrapOptions { context_select, bind, on_failure, ..RewrapOptions::new("acme") };
            let work = engine.rewrap_document(&Caller::Owner, &options, Some(&selection), document.len())?;
            rewritten(work, document)
        };
        let newer = rewrap(&sealed, OnFailure::Fail).expect("rewraps");
        assert!(envelopes(&newer).iter().zip(envelopes(&sealed)).all(|(new, old)| *new != old));
        assert_eq!(open(&engine, wish, &newer).expect("opens"), document);
        assert_eq!(rewrap(&newer, OnFailure::Fail).expect("they are of the newest version"), newer);
        if is_moved {
            assert_eq!(code(rewrap(&moved, OnFailure::Fail)), Some(ErrorCode::DecryptFailed));
            let left = rewrap(&moved, OnFailure::Leave).expect("they stay");
            assert_eq!((&envelopes(&left)[0], &envelopes(&left)[3]), (&envelopes(&moved)[0], &envelopes(&moved)[3]));
        }
        // An envelope to a public key is bound to nothing: anyone could put it there.
        let public = encrypt_with(&engine, &EncryptOptions::new("acme"), &["$..v"], &document).expect("encrypts");
        assert_eq!(code(open(&engine, wish, &public)), Some(ErrorCode::DecryptFailed));
    }
}
