//! What apps, grants and API keys accept: other envelopes fail as damaged ones do, on every path that opens one.

use leafseal_engine::admin::{AcceptedSchemes, NewApiKey};
use leafseal_engine::{ApiKeySecret, Scheme};

use super::*;
use crate::common::{digest, grant_accepting};

const ENGINES_ALONE: AcceptedSchemes = AcceptedSchemes { public_key: false, symmetric: true, from_public_key: false };
const NOT_PUBLIC: AcceptedSchemes = AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL };

fn accept(engine: &Engine, kinds: AcceptedSchemes) {
    engine.store().set_accepted(&app("acme"), kinds).expect("set");
    engine.maintain().expect("refreshed");
}

fn symmetric(app: &str) -> EncryptOptions<'_> {
    EncryptOptions { scheme: Some(Scheme::Symmetric), ..EncryptOptions::new(app) }
}

fn rewrap_to(
    engine: &Engine,
    caller: &Caller,
    (scheme, on_failure): (Option<Scheme>, OnFailure),
    document: &str,
) -> Result<String, Error> {
    let options = RewrapOptions { scheme, on_failure, ..RewrapOptions::new("acme") };
    rewritten(engine.rewrap_document(caller, &options, None, document.len())?, document)
}

/// One text of each kind, in JSON.
struct Texts {
    symmetric: String,
    public: String,
    resealed: String,
    damaged: String,
    foreign: String,
}

impl Texts {
    fn of(engine: &Engine, value: &str) -> Self {
        let of_app = |app| encrypt_with(engine, &symmetric(app), &[], value).expect("encrypts");
        let public = encrypt(engine, &[], value);
        let to = (Some(Scheme::Symmetric), OnFailure::Fail);
        let resealed = rewrap_to(engine, &Caller::Owner, to, &public).expect("rewraps");
        let symmetric = of_app("acme");
        // In the middle of what is sealed.
        let at = symmetric.len() - 20;
        let other = if &symmetric[at..=at] == "A" { "B" } else { "A" };
        let damaged = format!("{}{other}{}", &symmetric[..at], &symmetric[at + 1..]);
        Self { symmetric, public, resealed, damaged, foreign: of_app("other") }
    }

    /// Those that an app does not open which accepts symmetric ones alone, the damaged one first.
    fn refused(&self) -> [&str; 4] {
        [&self.damaged, &self.public, &self.resealed, &self.foreign]
    }
}

/// What each path makes of an envelope.
fn outcomes(engine: &Engine, caller: &Caller, text: &str) -> Vec<Result<String, Error>> {
    let document = format!("{{\"first\": 1, \"a\": [{text}, true]}}");
    let decrypted = |on_failure| {
        let options = DecryptOptions { on_failure, ..DecryptOptions::new("acme") };
        let mut work = engine.decrypt_document(caller, &options, None, document.len())?;
        let mut out = Vec::new();
        while work.step(document.as_bytes(), &mut out)? == Progress::More {}
        let out = String::from_utf8(out).expect("UTF-8").replace(text, "it");
        Ok(format!("{out} {} {:?}", work.count(), work.report()))
    };
    let envelope = text.trim_matches('"').as_bytes();
    let mut found = vec![decrypted(OnFailure::Fail), decrypted(OnFailure::Leave), decrypted(OnFailure::Null)];
    found.push(engine.decryptor(caller, &DecryptOptions::new("acme")).and_then(|mut decryptor| {
        let (mut texts, mut out) = (&[&b"plain"[..], envelope][..], String::new());
        while !texts.is_empty() {
            let done = decryptor.decrypt(texts, |_, opened| {
                out += opened.map_or("plain ", |opened| opened.text);
            })?;
            texts = &texts[done..];
        }
        Ok(out)
    }));
    for scheme in [None, Some(Scheme::Symmetric)] {
        let rewrapped = |on_failure| rewrap_to(engine, caller, (scheme, on_failure), &document);
        found.push(rewrapped(OnFailure::Fail).map(|_| "rewrapped".to_owned()));
        found.push(rewrapped(OnFailure::Leave).map(|out| if out == document { "left" } else { "other" }.to_owned()));
    }
    // What does not open is a text, and encrypted as one.
    let skip = |scheme| {
        let options = EncryptOptions { skip_sealed: true, scheme: Some(scheme), ..EncryptOptions::new("acme") };
        engine.encrypt_document(caller, &options, None, text.len())
    };
    // In a scheme that the app accepts.
    let skipping = skip(Scheme::Symmetric).or_else(|_| skip(Scheme::PublicKey)).expect("begins");
    found.push(rewritten(skipping, text).map(|out| if out == text { "skipped" } else { "sealed again" }.to_owned()));
    found.push(
        engine.inspect(caller, Some("acme"), envelope).map(|found| format!("{:?} {:?}", found.scheme, found.role)),
    );
    found
}

#[test]
fn what_an_app_does_not_accept_fails_as_a_damaged_value_does_on_every_path() {
    // The second makes the value a long one.
    for settings in [Settings::default(), Settings { step_bytes_max: 64, step_values_max: 2, ..Settings::default() }] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let both = grant(&engine, "both", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
        let texts = Texts::of(&engine, &format!("\"{}\"", "4242".repeat(60)));
        for caller in [&Caller::Owner, &both] {
            accept(&engine, AcceptedSchemes::ALL);
            let damaged = outcomes(&engine, caller, &texts.damaged);
            let sound = outcomes(&engine, caller, &texts.symmetric);
            assert!(sound.iter().all(Result::is_ok), "{sound:?}");
            for opened in [&texts.public, &texts.resealed] {
                assert!(outcomes(&engine, caller, opened).iter().all(Result::is_ok));
            }
            let failed = damaged.iter().filter_map(|outcome| outcome.as_ref().err());
            assert!(failed.clone().count() == 5 && failed.clone().all(|error| error.code == ErrorCode::DecryptFailed));
            assert!(failed.clone().next().expect("the document").to_string().contains("(at byte 19)"), "{damaged:?}");
            accept(&engine, ENGINES_ALONE);
            assert_eq!(outcomes(&engine, caller, &texts.symmetric), sound);
            for refused in texts.refused() {
                assert_eq!(outcomes(&engine, caller, refused), damaged, "{refused}");
            }
            accept(&engine, NOT_PUBLIC);
            assert_eq!(outcomes(&engine, caller, &texts.public), damaged);
            assert!(outcomes(&engine, caller, &texts.resealed).iter().all(Result::is_ok));
            accept(&engine, AcceptedSchemes { symmetric: false, ..AcceptedSchemes::ALL });
            assert_eq!(outcomes(&engine, caller, &texts.symmetric), damaged);
            assert!(outcomes(&engine, caller, &texts.resealed).iter().all(Result::is_ok));
        }
    }
}

#[test]
fn files_that_are_not_accepted_fail_as_foreign_ones_do() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { step_bytes_max: 1_024, ..Settings::default() });
    let content = b"content ".repeat(1_000);
    let sealed = |app: &str| {
        let options = FileOptions { scheme: Some(Scheme::Symmetric), ..FileOptions::default() };
        let mut work = engine.encrypt_file(&Caller::Owner, app, &options).expect("begins");
        let mut file = Vec::new();
        while work.step(&content, &mut file).expect("encrypts") == Progress::More {}
        file
    };
    let (public, own, foreign) = (encrypt_file(&engine, Curve::P256, &content), sealed("acme"), sealed("other"));
    let open = |file: &[u8]| {
        let mut out = b"kept".to_vec();
        let opened = decrypt_file(&engine, &Caller::Owner, "acme", file, &mut out);
        assert!(opened.is_ok() || out == b"kept", "nothing is left");
        opened.map(|()| out.len())
    };
    let failed = open(&foreign);
    assert_eq!(kind(failed.clone()), ErrorCode::DecryptFailed);
    assert!(open(&public).is_ok() && open(&own).is_ok());
    accept(&engine, ENGINES_ALONE);
    assert_eq!((open(&public), open(&foreign), open(&own).is_ok()), (failed.clone(), failed.clone(), true));
    // No file is resealed.
    accept(&engine, AcceptedSchemes { symmetric: false, ..AcceptedSchemes::ALL });
    assert_eq!((open(&own), open(&public).is_ok()), (failed, true));
}

/// All that an app can accept.
fn kinds() -> Vec<AcceptedSchemes> {
    let of_bits =
        |bits: u8| AcceptedSchemes { public_key: bits & 1 > 0, symmetric: bits & 2 > 0, from_public_key: bits & 4 > 0 };
    (0..8).map(of_bits).collect()
}

fn list(kinds: AcceptedSchemes) -> [bool; 3] {
    [kinds.public_key, kinds.symmetric, kinds.from_public_key]
}

/// An API key that may decrypt.
fn key_accepting(engine: &Engine, accept: AcceptedSchemes) -> Caller {
    let secret = ApiKeySecret::generate(&mut system_random());
    let operations = BTreeSet::from([Operation::Decrypt, Operation::Inspect, Operation::IssueTokens]);
    let new = NewApiKey { app: app("acme"), operations, roles: Roles::Any, accept, secret_sha256: secret.sha256() };
    let id = engine.store().create_api_key(&new).expect("made").id;
    engine.maintain().expect("refreshed");
    engine.api_caller(&id, secret.sha256()).expect("known").caller().clone()
}

/// Also on behalf of a key, and with tokens that it made, whatever the app accepts later.
#[test]
fn keys_and_their_tokens_open_what_key_and_app_accept() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let texts = Texts::of(&engine, "\"4242\"");
    let reader = grant_accepting(&engine, "reader", &[Operation::Decrypt], Roles::Any, AcceptedSchemes::ALL);
    for of_key in kinds() {
        accept(&engine, AcceptedSchemes::ALL);
        let key = key_accepting(&engine, of_key);
        let Caller::ApiKey { id, .. } = &key else { panic!("a key") };
        let on_behalf = engine.on_behalf(&reader, id.as_str()).expect("good");
        let by_token = |text: &str| {
            let payload = digest(&engine, text);
            let issued = engine.issue_token(&key, "acme", payload, None).expect("made");
            let token = Caller::Token(engine.token(&issued.text).expect("good"));
            engine.show_payload(&token, &payload).expect("its payload")
        };
        for of_app in [AcceptedSchemes::ALL, NOT_PUBLIC, ENGINES_ALONE] {
            let kinds = [&texts.public, &texts.symmetric, &texts.resealed, &texts.damaged];
            let tokens = kinds.map(|text| by_token(text));
            accept(&engine, of_app);
            let open = |caller: &Caller, text: &str| decrypt_as(&engine, caller, &DecryptOptions::new("acme"), text);
            let failed = open(&key, &texts.damaged).expect_err("damaged");
            assert_eq!(failed.code, ErrorCode::DecryptFailed);
            for (kind, (text, token)) in kinds.into_iter().zip(&tokens).enumerate() {
                let is_accepted = kind < 3 && list(of_key)[kind] && list(of_app)[kind];
                let expected = if is_accepted { Ok("\"4242\"".to_owned()) } else { Err(failed.clone()) };
                for caller in [&key, &on_behalf, token] {
                    assert_eq!(open(caller, text), expected, "{of_key:?} {of_app:?} {kind}");
                }
                let inspected = engine.inspect(&key, Some("acme"), text.trim_matches('"').as_bytes());
                assert_eq!(inspected.is_ok(), is_accepted);
            }
        }
    }
}

#[test]
fn app_grant_and_call_accept_what_all_of_them_do() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let texts = Texts::of(&engine, "\"4242\"");
    let all = [&texts.public, &texts.symmetric, &texts.resealed];
    let opens = |caller: &Caller, asked: Option<AcceptedSchemes>| {
        let options = DecryptOptions { accept: asked, ..DecryptOptions::new("acme") };
        all.map(|text| decrypt_as(&engine, caller, &options, text).is_ok())
    };
    let of_grant = |kinds| grant_accepting(&engine, "reader", &[Operation::Decrypt], Roles::Any, kinds);
    let kinds = kinds();
    for app in &kinds {
        accept(&engine, *app);
        for granted in &kinds {
            let reader = of_grant(*granted);
            for asked in kinds.iter().map(|asked| Some(*asked)).chain([None]) {
                let each = [list(*app), list(*granted), list(asked.unwrap_or_default())];
                let expected = [0, 1, 2].map(|kind| each.iter().all(|accepted| accepted[kind]));
                assert_eq!(opens(&reader, asked), expected, "{app:?} {granted:?} {asked:?}");
            }
        }
        assert_eq!(opens(&Caller::Owner, None), list(*app));
    }
    // A client that acts for an API key opens no more than for itself.
    accept(&engine, AcceptedSchemes::ALL);
    let (reader, secret) = (of_grant(ENGINES_ALONE), ApiKeySecret::generate(&mut system_random()));
    let (operations, roles) = (BTreeSet::from([Operation::Decrypt]), Roles::Any);
    let new =
        NewApiKey { app: app("acme"), operations, roles, accept: AcceptedSchemes::ALL, secret_sha256: secret.sha256() };
    let id = engine.store().create_api_key(&new).expect("made").id;
    engine.maintain().expect("refreshed");
    let on_behalf = engine.on_behalf(&reader, id.as_str()).expect("good");
    assert_eq!(opens(&on_behalf, None), [false, true, false]);
}

/// The rest of a request in progress fails from its next step on.
#[test]
fn a_change_ends_requests_that_depend_on_it() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { step_bytes_max: 200, step_values_max: 2, ..Settings::default() });
    let document = format!("[{}]", ["\"4242\""; 12].join(","));
    let (public, sealed) =
        (encrypt(&engine, &[], &document), encrypt_with(&engine, &symmetric("acme"), &[], &document));
    let sealed = sealed.expect("encrypts");
    let long = encrypt(&engine, &[], &format!("\"{}\"", "4242".repeat(1_000)));
    let content = b"content ".repeat(1_000);
    let file = encrypt_file(&engine, Curve::P256, &content);
    let operations = &[Operation::Encrypt, Operation::Decrypt];
    let narrowed: [&dyn Fn(); 2] = [&|| accept(&engine, NOT_PUBLIC), &|| {
        accept(&engine, AcceptedSchemes::ALL);
        grant_accepting(&engine, "both", operations, Roles::Any, NOT_PUBLIC);
    }];
    for narrow in narrowed {
        accept(&engine, AcceptedSchemes::ALL);
        let both = grant_accepting(&engine, "both", operations, Roles::Any, AcceptedSchemes::ALL);
        let decrypt = |document: &str| {
            engine.decrypt_document(&both, &DecryptOptions::new("acme"), None, document.len()).expect("granted")
        };
        let mut works = [&public, &sealed, &long].map(|document| (decrypt(document), document, Vec::new()));
        let mut rewrapping =
            engine.rewrap_document(&both, &RewrapOptions::new("acme"), None, public.len()).expect("granted");
        let (mut opening, mut out) = (engine.decrypt_file(&both, "acme").expect("granted"), Vec::new());
        let mut inspector = engine.inspector(&both, Some("acme")).expect("granted");
        let text = envelopes(&public).remove(0);
        let inspect = |inspector: &mut leafseal_engine::Inspector| loop {
            if let Some(inspected) = inspector.inspect(text.as_bytes()).transpose() {
                break inspected;
            }
        };
        for (work, document, out) in &mut works {
            assert_eq!(work.step(document.as_bytes(), out).expect("accepted"), Progress::More);
        }
        let mut other = Vec::new();
        assert_eq!(rewrapping.step(public.as_bytes(), &mut other).expect("accepted"), Progress::More);
        while out.len() < 400 {
            assert_eq!(opening.step(&file, &mut out).expect("accepted"), Progress::More);
        }
        inspect(&mut inspector).expect("accepted");
        narrow();
        let [of_public, of_sealed, of_long] = works.map(|(mut work, document, mut out)| {
            loop {
                match work.step(document.as_bytes(), &mut out) {
                    Ok(Progress::More) => {}
                    Ok(Progress::Done) => break Ok(()),
                    Err(error) => break Err(error.code),
                }
            }
        });
        let failed = Err(ErrorCode::DecryptFailed);
        assert_eq!((of_public, of_sealed, of_long), (failed, Ok(()), failed));
        let rewrapped = loop {
            match rewrapping.step(public.as_bytes(), &mut other) {
                Ok(Progress::More) => {}
                end => break end,
            }
        };
        assert_eq!(kind(rewrapped), ErrorCode::DecryptFailed);
        let opened = loop {
            match opening.step(&file, &mut out) {
                Ok(Progress::More) => {}
                end => break end,
            }
        };
        assert_eq!((kind(opened), out.len()), (ErrorCode::DecryptFailed, 0), "what was written is gone");
        assert_eq!(kind(inspect(&mut inspector)), ErrorCode::DecryptFailed);
    }
}

/// What the app does not open, nobody could: it is not made in the first place.
#[test]
fn what_an_app_does_not_accept_is_not_made() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let texts = Texts::of(&engine, "\"4242\"");
    let public = EncryptOptions::new("acme");
    let made = |outcome: Result<String, Error>| match outcome {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code, ErrorCode::InvalidParams);
            assert!(error.message.contains("app acme accepts no "), "{}", error.message);
            false
        }
    };
    let file = |scheme| {
        let options = FileOptions { scheme: Some(scheme), ..FileOptions::default() };
        engine.encrypt_file(&Caller::Owner, "acme", &options).is_ok()
    };
    for kinds in kinds() {
        accept(&engine, kinds);
        let AcceptedSchemes { public_key, symmetric: own, from_public_key } = kinds;
        assert_eq!(made(encrypt_with(&engine, &public, &[], "[1]")), public_key, "{kinds:?}");
        assert_eq!(made(encrypt_with(&engine, &symmetric("acme"), &[], "[1]")), own, "{kinds:?}");
        assert_eq!((file(Scheme::PublicKey), file(Scheme::Symmetric)), (public_key, own));
        let rewrap = |scheme| made(rewrap_to(&engine, &Caller::Owner, (Some(scheme), OnFailure::Leave), &texts.public));
        assert_eq!(rewrap(Scheme::PublicKey), public_key);
        // Resealed it would have the mark. Where those to a public key do not open, nothing is resealed.
        assert_eq!(rewrap(Scheme::Symmetric), !public_key || from_public_key);
        // Nobody loses what a client alone does not accept.
        let writer = grant_accepting(&engine, "writer", &[Operation::Encrypt], Roles::Any, ENGINES_ALONE);
        let sealed = engine.encrypt_document(&writer, &public, None, 3).and_then(|work| rewritten(work, "[1]"));
        assert_eq!(made(sealed), public_key);
    }
    accept(&engine, AcceptedSchemes::ALL);
    let document = format!("[{}]", ["\"4242\""; 5_000].join(","));
    let mut work = engine.encrypt_document(&Caller::Owner, &public, None, document.len()).expect("begins");
    assert_eq!(work.step(document.as_bytes(), &mut Vec::new()).expect("accepted"), Progress::More);
    accept(&engine, ENGINES_ALONE);
    let end = loop {
        match work.step(document.as_bytes(), &mut Vec::new()) {
            Ok(Progress::More) => {}
            end => break end,
        }
    };
    assert_eq!(kind(end), ErrorCode::InvalidParams);
}
