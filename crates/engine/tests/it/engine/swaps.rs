//! Parts of symmetric envelopes, and of what they are opened with, exchanged at random: nothing opens but what was sealed, in its place.

use std::collections::HashMap;

use leafseal_engine::{AcceptedSchemes, PathBinding, Scheme};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::*;

/// Exchanges of an ordinary run. `LEAFSEAL_SWAPS=1000000` makes a million.
const SWAP_COUNT: usize = 20_000;
const APPS: [&str; 2] = ["acme", "other"];
const ROLES: [Option<&str>; 3] = [None, Some("card"), Some("pan")];
const CONTEXTS: [Option<&str>; 4] = [None, Some("17"), Some("1"), Some("x17")];
const KINDS: [AcceptedSchemes; 3] = [
    AcceptedSchemes { public_key: true, symmetric: true, from_public_key: true },
    AcceptedSchemes { public_key: false, symmetric: true, from_public_key: false },
    AcceptedSchemes { public_key: true, symmetric: false, from_public_key: true },
];

/// Documents with one value, and its path without and with indexes, as the guide has them.
const SPOTS: [(&str, [&str; 2]); 5] = [
    ("VALUE", ["$", "$"]),
    (r#"{"pan": VALUE}"#, ["$['pan']", "$['pan']"]),
    (r#"{"cvc": VALUE}"#, ["$['cvc']", "$['cvc']"]),
    ("[VALUE]", ["$[*]", "$[0]"]),
    ("[[], VALUE]", ["$[*]", "$[1]"]),
];
const BINDS: [Option<PathBinding>; 3] = [None, Some(PathBinding::Path), Some(PathBinding::PathAndIndex)];

/// How an envelope was sealed, or is opened.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    app: &'static str,
    role: Option<&'static str>,
    context: Option<&'static str>,
    bind: Option<PathBinding>,
    /// An index of [`SPOTS`].
    spot: usize,
}

impl Place {
    fn document(self, value: &str) -> String {
        SPOTS[self.spot].0.replace("VALUE", value)
    }

    /// The path that it is bound to.
    fn path(self) -> Option<(PathBinding, &'static str)> {
        let [path, indexed] = SPOTS[self.spot].1;
        self.bind.map(|bind| (bind, if bind == PathBinding::Path { path } else { indexed }))
    }
}

#[derive(Debug, Clone)]
struct Original {
    place: Place,
    is_from_public_key: bool,
    /// A JSON text, as it is to open.
    value: &'static str,
    /// Label, type (with `:`), key id, nonce and ciphertext.
    parts: [String; 5],
}

fn parts(envelope: &str) -> [String; 5] {
    let mut parts: Vec<&str> = envelope.split(':').collect();
    let kind = if parts.len() == 7 { format!("{}:", parts.remove(2)) } else { String::new() };
    [parts[1].to_owned(), kind, parts[2].to_owned(), parts[3].to_owned(), parts[4].to_owned()]
}

fn joined([label, kind, id, nonce, ciphertext]: &[String; 5]) -> String {
    format!("ev:{label}:{kind}{id}:{nonce}:{ciphertext}:$")
}

fn originals(engine: &Engine) -> Vec<Original> {
    let mut all = Vec::new();
    for app in APPS {
        for _version in 0..3 {
            for role in ROLES {
                for context in CONTEXTS {
                    for value in ["\"4242\"", "4242", "true"] {
                        for (keying, is_from_public_key) in
                            [(Keying::Field, false), (Keying::Request, false), (Keying::Request, true)]
                        {
                            // Every third unbound, and the others in every spot with either kind of path.
                            let (bind, spot) = (BINDS[all.len() % BINDS.len()], all.len() / BINDS.len() % SPOTS.len());
                            let place = Place { app, role, context, bind, spot };
                            let envelope = sealed(engine, place, keying, is_from_public_key, value);
                            all.push(Original { place, is_from_public_key, value, parts: parts(&envelope) });
                        }
                    }
                }
            }
            engine.store().rotate(&super::app(app)).expect("rotated");
            engine.maintain().expect("refreshed");
        }
    }
    all
}

/// The envelope of a value, without quotation marks.
fn sealed(engine: &Engine, place: Place, keying: Keying, is_from_public_key: bool, value: &str) -> String {
    let Place { app, role, context, bind, .. } = place;
    let document = place.document(value);
    let options = EncryptOptions { keying: Some(keying), role, ..EncryptOptions::new(app) };
    let document = if is_from_public_key {
        let public = encrypt_with(engine, &options, &[], &document).expect("encrypts");
        let (scheme, accept) = (Some(Scheme::Symmetric), Some(AcceptedSchemes::ALL));
        let options = RewrapOptions { scheme, context, bind, accept, ..RewrapOptions::new(app) };
        let work = engine.rewrap_document(&Caller::Owner, &options, None, public.len()).expect("begins");
        rewritten(work, &public).expect("rewraps")
    } else {
        let options = EncryptOptions { scheme: Some(Scheme::Symmetric), context, bind, ..options };
        encrypt_with(engine, &options, &[], &document).expect("encrypts")
    };
    envelopes(&document).remove(0)
}

#[test]
fn nothing_opens_whose_parts_or_place_were_exchanged() {
    let count = std::env::var("LEAFSEAL_SWAPS").map_or(SWAP_COUNT, |text| text.parse().expect("a number"));
    let TestEngine { engine, store: _store, .. } = test_engine();
    let originals = originals(&engine);
    let by_text: HashMap<String, &Original> = originals.iter().map(|one| (joined(&one.parts), one)).collect();
    assert_eq!(by_text.len(), originals.len());
    let mut rng = StdRng::seed_from_u64(11);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..count {
        let one = originals.choose(&mut rng).expect("some");
        let other = originals.choose(&mut rng).expect("some");
        let mut text = one.parts.clone();
        let swapped = rng.random_range(0..1_u32 << text.len());
        for (at, part) in text.iter_mut().enumerate().filter(|(at, _)| swapped >> at & 1 == 1) {
            part.clone_from(&other.parts[at]);
        }
        let mut text = joined(&text);
        if rng.random_range(0..50) == 0 {
            text = text.replacen("ev:", "ev:debug:", 1);
        }
        // Five in twelve are opened in another place, too.
        let mut place = one.place;
        match rng.random_range(0..12) {
            0 => place.app = APPS.choose(&mut rng).expect("some"),
            1 => place.context = *CONTEXTS.choose(&mut rng).expect("some"),
            2 => place.role = *ROLES.choose(&mut rng).expect("some"),
            3 => place.bind = *BINDS.choose(&mut rng).expect("some"),
            4 => place.spot = rng.random_range(0..SPOTS.len()),
            _ => (),
        }
        let accept = *KINDS.choose(&mut rng).expect("some");
        let options = DecryptOptions {
            role: place.role,
            context: place.context,
            bind: place.bind,
            accept: Some(accept),
            ..DecryptOptions::new(place.app)
        };
        let found = decrypt_as(&engine, &Caller::Owner, &options, &place.document(&format!("\"{text}\"")));
        let expected = by_text.get(&text).filter(|original| {
            let Place { app, role, context, .. } = original.place;
            let is_accepted = if original.is_from_public_key { accept.from_public_key } else { accept.symmetric };
            app == place.app
                && context == place.context
                && original.place.path() == place.path()
                && place.role.is_none_or(|wanted| role == Some(wanted))
                && is_accepted
        });
        match expected {
            Some(original) => {
                assert_eq!(found.as_deref(), Ok(&*place.document(original.value)), "{text} {place:?} {accept:?}");
                opened += 1;
            }
            None => {
                let code = found.as_ref().expect_err(&text).code;
                let wrong_role = place.role.is_some() && code == ErrorCode::Forbidden;
                assert!(code == ErrorCode::DecryptFailed || wrong_role, "{text} {place:?} {accept:?}: {code:?}");
                refused += 1;
            }
        }
    }
    assert!(opened > count / 100 && refused > count / 2, "{opened} opened, {refused} refused");
}
