//! Steps on the thread that submits the request.

use leafseal_engine::Scheme;
use leafseal_engine::pool::InlineSlice;

use super::*;

/// Values that open before one that fails were opened, whichever thread did it: no worker repeats the step.
#[test]
fn values_opened_before_a_failure_are_counted_on_either_thread() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    for scheme in [Scheme::PublicKey, Scheme::Symmetric] {
        let options = EncryptOptions { scheme: Some(scheme), ..EncryptOptions::new("acme") };
        let sealed = envelopes(&encrypt_with(&engine, &options, &[], "[1,2,3,4]").expect("encrypts"));
        let good: Vec<&[u8]> = sealed.iter().map(|text| text.as_bytes()).collect();
        let malformed = format!("{}!:$", sealed[0].trim_end_matches(":$"));
        let cases: [(Vec<&[u8]>, u64); 3] = [
            // What is behind the failure is not looked at.
            (vec![good[0], good[1], good[2], malformed.as_bytes(), b"plain"], 3),
            (vec![malformed.as_bytes(), b"plain", good[0]], 0),
            (vec![b"plain", good[0], b"plain", malformed.as_bytes(), b"plain"], 1),
        ];
        for (texts, count) in &cases {
            let run = |is_inline: bool| {
                let _slice = is_inline.then(InlineSlice::begin);
                let before = engine.counters().opened;
                let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("granted");
                let error = decryptor.decrypt(texts, |_, _| ()).expect_err("malformed");
                let after = engine.counters().opened;
                let counted = [after.public_key - before.public_key, after.symmetric - before.symmetric];
                (error.index, counted, decryptor.report().symmetric)
            };
            // The first makes the key known.
            let on_worker = run(false);
            let symmetric = if scheme == Scheme::Symmetric { *count } else { 0 };
            assert_eq!((on_worker.1, on_worker.2), ([count - symmetric, symmetric], symmetric));
            assert_eq!(run(true), on_worker, "{scheme:?} {count}");
        }
    }
}

/// A step that lacks a key is repeated by a worker, which counts its values.
#[test]
fn values_of_a_step_that_is_repeated_are_counted_once() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = [encrypt(&engine, &[], "[1,2,3]"), encrypt(&engine, &[], "[4]")];
    let texts = sealed.each_ref().map(|document| envelopes(document)).concat();
    let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    let mut first = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("granted");
    assert_eq!(first.decrypt(&texts[..3], |_, _| ()).expect("opens"), 3);
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("granted");
    let before = engine.counters().opened.public_key;
    {
        let _slice = InlineSlice::begin();
        assert_eq!(decryptor.decrypt(&texts, |_, _| ()).expect("the first three"), 3);
    }
    assert_eq!(engine.counters().opened.public_key, before);
    let mut done = 0;
    while done < texts.len() {
        done += decryptor.decrypt(&texts[done..], |_, _| ()).expect("opens");
    }
    assert_eq!(engine.counters().opened.public_key - before, 4);
}
