//! Which kinds of envelopes a request opens whose values are bound, and that no request unbinds values.

use std::sync::Arc;

use leafseal_engine::{AcceptedSchemes, Binding, Curve, InspectOptions, PathBinding, Scheme};

use super::*;

const SYMMETRIC: AcceptedSchemes = AcceptedSchemes { public_key: false, symmetric: true, from_public_key: false };

/// What binds the values of a document.
#[derive(Clone, Copy, Debug)]
struct Wish {
    context: Option<&'static str>,
    context_select: Option<&'static str>,
    bind: Option<PathBinding>,
}

const WISHES: [Wish; 5] = [
    Wish { context: None, context_select: None, bind: None },
    Wish { context: Some("row 1"), context_select: None, bind: None },
    Wish { context: None, context_select: Some("id"), bind: None },
    Wish { context: None, context_select: None, bind: Some(PathBinding::Path) },
    Wish { context: Some("row 1"), context_select: None, bind: Some(PathBinding::PathAndIndex) },
];

impl Wish {
    fn is_bound(self) -> bool {
        self.context.is_some() || self.context_select.is_some() || self.bind.is_some()
    }

    fn encrypting(self) -> EncryptOptions<'static> {
        let Self { context, context_select, bind } = self;
        let scheme = Some(Scheme::Symmetric);
        EncryptOptions { scheme, context, context_select, bind, ..EncryptOptions::new("acme") }
    }

    fn decrypting(self, accept: Option<AcceptedSchemes>) -> DecryptOptions<'static> {
        let Self { context, context_select, bind } = self;
        DecryptOptions { context, context_select, bind, accept, ..DecryptOptions::new("acme") }
    }

    fn inspecting(self, accept: Option<AcceptedSchemes>) -> InspectOptions<'static> {
        let Self { context, context_select, bind } = self;
        InspectOptions { context, context_select, bind, accept, ..InspectOptions::default() }
    }

    fn rewrapping(self, accept: Option<AcceptedSchemes>) -> RewrapOptions<'static> {
        let Self { context, context_select, bind } = self;
        RewrapOptions { context, context_select, bind, accept, ..RewrapOptions::new("acme") }
    }
}

/// Checks what the inspection of a document says of its envelope: of one that does not open, the version that its key id names.
fn check_inspected(engine: &Engine, options: &InspectOptions<'_>, document: &str, opens: bool, case: &str) {
    let selection = engine.selection(&SELECT).expect("a selection");
    for leaves_unopened in [false, true] {
        let options = InspectOptions { leaves_unopened, ..*options };
        let inspector = engine.inspector(&Caller::Owner, Some("acme")).and_then(|inspector| inspector.with(&options));
        let begun = engine.inspect_document(inspector.expect("it has an app"), Some(&selection), document.len());
        let mut work = begun.expect("begins");
        let inspected = work.next(document.as_bytes()).expect("a document").expect("an envelope");
        assert!(work.next(document.as_bytes()).expect("a document").is_none(), "{case}: there is one");
        match inspected {
            Ok(facts) => {
                assert!(opens || leaves_unopened, "{case}");
                assert_eq!(facts.is_unopened, !opens, "{case}");
                let is_known = opens || facts.scheme == Scheme::Symmetric;
                assert_eq!(facts.key_version.is_some(), is_known, "{case}");
                assert!(opens || (facts.role, facts.origin, facts.encrypted_at) == (None, None, None), "{case}");
            }
            Err(error) => {
                assert!(!opens && !leaves_unopened && error.code == ErrorCode::DecryptFailed, "{case}: {error}")
            }
        }
    }
}

const PLAIN: &str = r#"{"id":7,"v":"4242"}"#;
const SELECT: [&str; 1] = ["$.v"];

fn decrypt(engine: &Engine, options: &DecryptOptions<'_>, document: &str) -> Result<String, Error> {
    let selection = engine.selection(&SELECT)?;
    rewritten(engine.decrypt_document(&Caller::Owner, options, Some(&selection), document.len())?, document)
}

fn rewrap(engine: &Engine, options: &RewrapOptions<'_>, document: &str) -> Result<String, Error> {
    let selection = engine.selection(&SELECT)?;
    rewritten(engine.rewrap_document(&Caller::Owner, options, Some(&selection), document.len())?, document)
}

/// The plain document with an envelope of each kind, bound as the wish says where the kind can be.
fn kinds(engine: &Engine, wish: Wish) -> [(&'static str, String); 3] {
    let public = encrypt_with(engine, &EncryptOptions::new("acme"), &SELECT, PLAIN).expect("encrypts");
    let symmetric = encrypt_with(engine, &wish.encrypting(), &SELECT, PLAIN).expect("encrypts");
    let to_symmetric = RewrapOptions { scheme: Some(Scheme::Symmetric), ..wish.rewrapping(Some(AcceptedSchemes::ALL)) };
    let resealed = rewrap(engine, &to_symmetric, &public).expect("an explicit wish migrates values");
    [("public-key", public), ("symmetric", symmetric), ("from-public-key", resealed)]
}

/// Every set of kinds that a request may ask for, and none.
fn asked() -> Vec<Option<AcceptedSchemes>> {
    let set = |bits: u8| AcceptedSchemes {
        public_key: bits & 1 != 0,
        symmetric: bits & 2 != 0,
        from_public_key: bits & 4 != 0,
    };
    std::iter::once(None).chain((0..8).map(|bits| Some(set(bits)))).collect()
}

fn takes(accept: AcceptedSchemes, kind: &str) -> bool {
    match kind {
        "public-key" => accept.public_key,
        "symmetric" => accept.symmetric,
        _ => accept.from_public_key,
    }
}

/// The oracle is the rule as the guide states it: all kinds, but `symmetric` alone where values are bound, unless the request names some.
#[test]
fn bound_requests_open_symmetric_envelopes_of_values_unless_they_ask_for_others() {
    // The second makes the value a long one.
    for settings in [Settings::default(), Settings { step_bytes_max: 64, ..Settings::default() }] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        for wish in WISHES {
            let sealed = kinds(&engine, wish);
            engine.store().rotate(&app("acme")).expect("rotated");
            engine.maintain().expect("refreshed");
            for asked in asked() {
                let accept = asked.unwrap_or(if wish.is_bound() { SYMMETRIC } else { AcceptedSchemes::ALL });
                for (kind, document) in &sealed {
                    let case = format!("{wish:?} {asked:?} {kind}");
                    let opened = decrypt(&engine, &wish.decrypting(asked), document);
                    let rewrapped = rewrap(&engine, &wish.rewrapping(asked), document);
                    let envelope = envelopes(document).remove(0);
                    let inspector = engine.inspector(&Caller::Owner, Some("acme")).expect("begins");
                    if wish.context_select.is_none() && wish.bind.is_none() {
                        let options = wish.inspecting(asked);
                        let mut inspector = inspector.with(&options).expect("it has an app");
                        let inspected = inspector.inspect_whole(envelope.as_bytes());
                        assert_eq!(inspected.is_ok(), takes(accept, kind), "{case}");
                    }
                    check_inspected(&engine, &wish.inspecting(asked), document, takes(accept, kind), &case);
                    if !takes(accept, kind) {
                        for error in [opened.expect_err(&case), rewrapped.expect_err(&case)] {
                            assert_eq!(error.code, ErrorCode::DecryptFailed, "{case}");
                        }
                        continue;
                    }
                    assert_eq!(opened.expect(&case), PLAIN, "{case}");
                    let rewrapped = rewrapped.expect(&case);
                    assert_ne!(&rewrapped, document, "{case}: there is a newer version");
                    let again = decrypt(&engine, &wish.decrypting(Some(accept)), &rewrapped);
                    assert_eq!(again.expect(&case), PLAIN, "{case}: it keeps kind and place");
                }
            }
        }
    }
}

#[test]
fn lists_with_contexts_open_symmetric_envelopes_of_values_by_default() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let wish = WISHES[1];
    let own = [Arc::new(Binding::context("row 1").expect("a context"))];
    for (kind, document) in kinds(&engine, wish) {
        let envelope = envelopes(&document).remove(0);
        for asked in asked() {
            let accept = asked.unwrap_or(SYMMETRIC);
            let options = DecryptOptions { has_contexts: true, accept: asked, ..DecryptOptions::new("acme") };
            let mut decryptor = engine.decryptor(&Caller::Owner, &options).expect("begins");
            let mut text = None;
            let opened = decryptor.decrypt_bound(&[envelope.as_bytes()], Some(&own), |_, opened| {
                text = opened.map(|opened| opened.text.to_owned());
            });
            assert_eq!(opened.is_ok(), takes(accept, kind), "{kind} {asked:?}");
            assert_eq!(text.as_deref(), takes(accept, kind).then_some("4242"), "{kind} {asked:?}");
            let options = RewrapOptions { has_contexts: true, accept: asked, ..RewrapOptions::new("acme") };
            let mut rewrapper = engine.rewrapper(&Caller::Owner, &options).expect("begins");
            let rewrapped = rewrapper.rewrap_bound(&[envelope.as_bytes()], Some(&own), |_, _| ());
            assert_eq!(rewrapped.is_ok(), takes(accept, kind), "{kind} {asked:?}");
            let options = InspectOptions { has_contexts: true, accept: asked, ..InspectOptions::default() };
            let begun = engine.inspector(&Caller::Owner, Some("acme")).and_then(|it| it.with(&options));
            let mut inspector = begun.expect("begins");
            let inspected = inspector.inspect_bound(envelope.as_bytes(), Some(&own));
            assert_eq!(inspected.is_ok(), takes(accept, kind), "{kind} {asked:?}");
            let error = inspector.inspect(envelope.as_bytes()).expect_err("it has no binding");
            assert_eq!(error.code, ErrorCode::InvalidParams);
        }
    }
}

#[test]
fn no_rewrap_unbinds_values() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    for (scheme, curve) in
        [(Some(Scheme::PublicKey), None), (None, Some(Curve::P256)), (Some(Scheme::PublicKey), Some(Curve::Secp256k1))]
    {
        for wish in WISHES {
            let options = RewrapOptions { scheme, curve, ..wish.rewrapping(Some(AcceptedSchemes::ALL)) };
            let begun = engine.rewrapper(&Caller::Owner, &options).map(drop);
            assert_eq!(begun.is_err(), wish.is_bound(), "{wish:?}");
            if let Err(error) = begun {
                assert_eq!(error.code, ErrorCode::InvalidParams);
                assert!(
                    error.message.ends_with("decrypt these with their context and encrypt them without it"),
                    "{error}"
                );
            }
        }
        let of_list = RewrapOptions { scheme, curve, has_contexts: true, ..RewrapOptions::new("acme") };
        assert_eq!(engine.rewrapper(&Caller::Owner, &of_list).err().map(|it| it.code), Some(ErrorCode::InvalidParams));
    }
}

#[test]
fn what_opens_envelopes_for_inspection_needs_an_app() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let nothing = InspectOptions::default();
    for (options, begins) in [
        (InspectOptions { context: Some("row 1"), ..nothing }, "a context needs"),
        (InspectOptions { accept: Some(SYMMETRIC), ..nothing }, "accept needs"),
        (InspectOptions { context: Some("a"), accept: Some(SYMMETRIC), ..nothing }, "a context"),
        (InspectOptions { context_select: Some("id"), ..nothing }, "what binds values needs"),
        (InspectOptions { bind: Some(PathBinding::Path), ..nothing }, "what binds values needs"),
        (InspectOptions { has_contexts: true, ..nothing }, "what binds values needs"),
        (InspectOptions { leaves_unopened: true, ..nothing }, "on_failure needs"),
    ] {
        let inspector = engine.inspector(&Caller::Owner, None).expect("begins");
        let error = inspector.with(&options).map(drop).expect_err("it opens nothing");
        assert!(error.code == ErrorCode::InvalidParams && error.message.starts_with(begins), "{error}");
    }
    engine.inspector(&Caller::Owner, None).and_then(|it| it.with(&nothing)).map(drop).expect("nothing is asked for");
}
