//! An engine that knows public keys alone: it encrypts as every other, and refuses everything that needs a private key.

use crate::common::{TestEngine, app, rewritten, test_engine};
use leafseal_engine::{
    Caller, Curve, DecryptOptions, EncryptOptions, Engine, Error, ErrorCode, Keying, RewrapOptions, Settings,
};

fn of_public_keys(engine: &Engine) -> Engine {
    let keys = engine.store().public_keys(&app("acme")).expect("read").expect("there");
    Engine::of_public_keys([(app("acme"), keys)], Settings::default())
}

fn encrypted(engine: &Engine, options: &EncryptOptions<'_>, document: &str) -> Result<String, Error> {
    rewritten(engine.encrypt_document(&Caller::Owner, options, None, document.len())?, document)
}

fn decrypted(engine: &Engine, document: &str) -> Result<String, Error> {
    let options = DecryptOptions::new("acme");
    rewritten(engine.decrypt_document(&Caller::Owner, &options, None, document.len())?, document)
}

#[test]
fn values_are_encrypted_for_the_app() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let public = of_public_keys(&engine);
    let document = r#"{"card":"4111","amount":12.5,"paid":true}"#;
    for keying in [Keying::Field, Keying::Request, Keying::Session] {
        for curve in [Curve::P256, Curve::Secp256k1] {
            for role in [None, Some("pii")] {
                let options =
                    EncryptOptions { keying: Some(keying), curve: Some(curve), role, ..EncryptOptions::new("acme") };
                let sealed = encrypted(&public, &options, document).expect("encrypted");
                assert!(!sealed.contains("4111"), "{sealed}");
                // Changes of a store, of which there are none, and the end of sessions leave the keys.
                public.maintain().expect("nothing can fail");
                assert_eq!(decrypted(&engine, &sealed).expect("decrypted"), document);
            }
        }
    }
    assert!(public.is_known_to_use(&Caller::Owner, "acme") && public.readiness().is_ok());
    let keys = public.public_keys(&Caller::Owner, "acme").expect("known");
    let stored = engine.public_keys(&Caller::Owner, "acme").expect("stored");
    assert_eq!((keys.version, keys.r1, keys.k1), (stored.version, stored.r1, stored.k1));
}

#[track_caller]
fn assert_refused<T>(outcome: Result<T, Error>) {
    let error = outcome.err().expect("refused");
    assert_eq!(error.code, ErrorCode::Forbidden);
    assert!(error.to_string().contains("public keys alone"), "{error}");
}

#[test]
fn what_needs_a_private_key_is_refused() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let public = of_public_keys(&engine);
    let sealed = encrypted(&public, &EncryptOptions::new("acme"), r#"["a"]"#).expect("encrypted");
    assert_refused(decrypted(&public, &sealed));
    assert_refused(public.rewrapper(&Caller::Owner, &RewrapOptions::new("acme")));
    assert_refused(public.inspector(&Caller::Owner, Some("acme")));
    assert_refused(
        public.encryptor(&Caller::Owner, &EncryptOptions { skip_sealed: true, ..EncryptOptions::new("acme") }),
    );
    public.inspector(&Caller::Owner, None).expect("the outside of an envelope is no secret");
    let unknown = public.encryptor(&Caller::Owner, &EncryptOptions::new("other")).err().expect("refused");
    assert_eq!(unknown.code, ErrorCode::UnknownApp);
    assert!(public.client("shop", [0; 32]).is_err() && public.store().rotate(&app("acme")).is_err());
}
