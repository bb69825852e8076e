//! Permissions of clients, and requests whose permission is revoked while they run.

use super::*;

#[test]
fn clients_may_use_only_granted_operations() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let encrypts = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let decrypts = grant(&engine, "reader", &[Operation::Decrypt], Roles::Any);
    let (to_acme, from_acme) = (EncryptOptions::new("acme"), DecryptOptions::new("acme"));
    engine.encryptor(&encrypts, &to_acme).map(drop).expect("may encrypt");
    engine.decryptor(&decrypts, &from_acme).map(drop).expect("may decrypt");
    assert_eq!(kind(engine.encryptor(&decrypts, &to_acme)), ErrorCode::Forbidden);
    assert_eq!(kind(engine.decryptor(&encrypts, &from_acme)), ErrorCode::Forbidden);
    assert_eq!(kind(engine.encryptor(&encrypts, &EncryptOptions::new("other"))), ErrorCode::Forbidden);
    assert_eq!(kind(engine.encryptor(&encrypts, &EncryptOptions::new("none"))), ErrorCode::Forbidden, "not: unknown");
    let options = RewrapOptions::new("acme");
    assert_eq!(kind(engine.rewrapper(&encrypts, &options)), ErrorCode::Forbidden);
    assert_eq!(kind(engine.rewrapper(&decrypts, &options)), ErrorCode::Forbidden);
    engine.public_keys(&encrypts, "acme").expect("either right is enough");
    assert_eq!(kind(engine.public_keys(&encrypts, "other")), ErrorCode::Forbidden);
    assert_eq!(kind(engine.encrypt_file(&decrypts, "acme", &FileOptions::default())), ErrorCode::Forbidden);
    assert_eq!(kind(engine.decrypt_file(&encrypts, "acme")), ErrorCode::Forbidden);
    assert_eq!(kind(engine.client("writer", [8; 32])), ErrorCode::Forbidden, "another certificate");
    assert_eq!(kind(engine.client("stranger", [7; 32])), ErrorCode::Forbidden);
    assert_eq!(kind(engine.client("no/name", [7; 32])), ErrorCode::Forbidden);
    engine.store().disable_client(&ClientName::parse("writer").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(engine.encryptor(&encrypts, &to_acme)), ErrorCode::Forbidden, "at once, on an open connection too");
}

#[test]
fn inspecting_the_inside_needs_the_right_to_decrypt_and_the_role() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let cards = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let reader = grant(&engine, "reader", &[Operation::Decrypt], cards);
    let sealed = |role| {
        let options = EncryptOptions { role: Some(role), ..EncryptOptions::new("acme") };
        envelopes(&encrypt_with(&engine, &options, &[], "[1]").expect("encrypts")).remove(0)
    };
    let inspect = |caller: &Caller, app, text: &str| engine.inspect(caller, app, text.as_bytes());
    assert_eq!(inspect(&writer, None, &sealed("card")).expect("the outside is for everyone").role, None);
    assert_eq!(kind(inspect(&writer, Some("acme"), &sealed("card"))), ErrorCode::Forbidden);
    assert_eq!(inspect(&reader, Some("acme"), &sealed("card")).expect("granted").role.as_deref(), Some("card"));
    assert_eq!(kind(inspect(&reader, Some("acme"), &sealed("health"))), ErrorCode::Forbidden);
}

#[test]
fn revoking_a_permission_ends_requests_that_need_it() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { step_values_max: 1, ..Settings::default() });
    let document = "[1, 2, 3, 4]";
    let sealed = encrypt(&engine, &[], document);
    let both = grant(&engine, "both", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    let mut encrypting =
        engine.encrypt_document(&both, &EncryptOptions::new("acme"), None, document.len()).expect("begins");
    let mut decrypting =
        engine.decrypt_document(&both, &DecryptOptions::new("acme"), None, sealed.len()).expect("begins");
    let (mut one, mut other) = (Vec::new(), Vec::new());
    encrypting.step(document.as_bytes(), &mut one).expect("granted");
    decrypting.step(sealed.as_bytes(), &mut other).expect("granted");
    engine.store().rotate(&app("other")).expect("rotated");
    engine.maintain().expect("refreshed");
    encrypting.step(document.as_bytes(), &mut one).expect("another change takes nothing away");
    decrypting.step(sealed.as_bytes(), &mut other).expect("another change takes nothing away");
    engine.store().disable_client(&ClientName::parse("both").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(encrypting.step(document.as_bytes(), &mut one)), ErrorCode::Forbidden);
    assert_eq!(kind(decrypting.step(sealed.as_bytes(), &mut other)), ErrorCode::Forbidden);
    assert_eq!(kind(engine.inspect(&both, None, envelopes(&sealed)[0].as_bytes())), ErrorCode::Forbidden);
}

#[test]
fn revoking_a_permission_ends_parts_that_need_it() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { step_values_max: 2, ..Settings::default() });
    let document = "[1, 2, 3, 4, 5, 6, 7, 8]";
    let both = grant(&engine, "both", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    let mut work = engine.encrypt_document(&both, &EncryptOptions::new("acme"), None, document.len()).expect("begins");
    work.step(document.as_bytes(), &mut Vec::new()).expect("granted");
    let mut part = || match work.next_part(document.as_bytes()) {
        Ok(PlannedPart::Part(part)) => Ok(part),
        Err(error) => Err(error),
        Ok(PlannedPart::Walked | PlannedPart::All) => panic!("there is more"),
    };
    let (mut first, mut second) = (part().expect("granted"), part().expect("granted"));
    first.step(document.as_bytes(), &mut Vec::new()).expect("granted");
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    let mut out = Vec::new();
    second.step(document.as_bytes(), &mut out).expect("the right is still there");
    let text = envelopes(&String::from_utf8(out).expect("UTF-8")).remove(0);
    let inspected = engine.inspect(&Caller::Owner, Some("acme"), text.as_bytes()).expect("opens");
    assert_eq!(inspected.key_version, Some(2), "a part sees the new key");
    let mut third = part().expect("granted");
    engine.store().disable_client(&ClientName::parse("both").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(third.step(document.as_bytes(), &mut Vec::new())), ErrorCode::Forbidden);
    assert_eq!(kind(part()), ErrorCode::Forbidden);
}

#[test]
fn roles_are_checked_when_a_value_is_open() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let cards = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let reader = grant(&engine, "reader", &[Operation::Decrypt], cards);
    let sealed = |role| {
        let options = EncryptOptions { role, ..EncryptOptions::new("acme") };
        encrypt_with(&engine, &options, &[], "[\"secret\"]").expect("encrypts")
    };
    let open = |document: &str, role| {
        decrypt_as(&engine, &reader, &DecryptOptions { role, ..DecryptOptions::new("acme") }, document)
    };
    assert_eq!(open(&sealed(Some("card")), None).expect("granted"), "[\"secret\"]");
    assert_eq!(open(&sealed(None), None).expect("without a role"), "[\"secret\"]");
    assert_eq!(kind(open(&sealed(Some("health")), None)), ErrorCode::Forbidden);
    assert_eq!(open(&sealed(Some("card")), Some("card")).expect("as asked"), "[\"secret\"]");
    assert_eq!(kind(open(&sealed(None), Some("card"))), ErrorCode::Forbidden);
    assert_eq!(kind(open(&sealed(Some("card")), Some("not a role"))), ErrorCode::InvalidParams);
}

#[test]
fn apps_that_are_unknown_or_disabled_are_refused() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt(&engine, &[], "[1]");
    assert_eq!(kind(encrypt_with(&engine, &EncryptOptions::new("none"), &[], "[1]")), ErrorCode::UnknownApp);
    assert_eq!(kind(encrypt_with(&engine, &EncryptOptions::new("../x"), &[], "[1]")), ErrorCode::UnknownApp);
    engine.store().disable_app(&app("acme")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(encrypt_with(&engine, &EncryptOptions::new("acme"), &[], "[1]")), ErrorCode::AppDisabled);
    assert_eq!(kind(decrypt(&engine, &sealed)), ErrorCode::AppDisabled);
    engine.store().enable_app(&app("acme")).expect("enabled");
    engine.maintain().expect("refreshed");
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), "[1]");
}
