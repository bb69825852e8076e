//! Files, and values disguised as files.

use super::*;

#[test]
fn files_decrypt_under_any_version() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    for curve in [Curve::P256, Curve::Secp256k1] {
        let mut content = b"kept".to_vec();
        let file = encrypt_file(&engine, curve, b"content");
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        for _ in 0..2 {
            decrypt_file(&engine, &Caller::Owner, "acme", &file, &mut content).expect("decrypts");
        }
        assert_eq!(content, b"keptcontentcontent");
        let other = decrypt_file(&engine, &Caller::Owner, "other", &file, &mut content);
        assert_eq!(kind(other), ErrorCode::DecryptFailed);
        assert_eq!(content, b"keptcontentcontent");
        let text = decrypt_file(&engine, &Caller::Owner, "acme", b"text", &mut content);
        assert_eq!(kind(text), ErrorCode::InvalidEnvelope);
    }
}

/// A file that is actually a legacy value (`TENZ`) with a role: both have the same key and associated data on P-256.
fn file_of_a_value_with_a_role(engine: &Engine, role: &str, text: &str) -> Vec<u8> {
    let recipient = engine.public_keys(&Caller::Owner, "acme").expect("keys").r1;
    let mut rng = system_random();
    let encapsulation = Recipient::from(recipient).encapsulate(&EcContext::new(&mut rng), &mut rng);
    let prefixes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/der-prefix.txt");
    let prefixes = std::fs::read_to_string(prefixes).expect("readable");
    let digits = prefixes.lines().find_map(|line| line.strip_prefix("r1 270 ")).expect("a line for r1");
    let prefix: Vec<u8> =
        (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex")).collect();
    let shared = encapsulation.shared.expose();
    let key = sha256(&[shared, &[0, 0, 0, 1], &prefix, encapsulation.ephemeral.uncompressed()]);
    let map = [b"\x81\xa2dr".as_slice(), &[0xa0 + role.len() as u8], role.as_bytes()].concat();
    let plaintext = [&(map.len() as u16).to_le_bytes(), map.as_slice(), text.as_bytes()].concat();
    let mut sealed = vec![0; plaintext.len() + 16];
    let item = SealItem { nonce: Nonce([9; 12]), aad: &recipient.compressed(), plaintext: &plaintext };
    AeadKey::new(AeadAlgorithm::Aes256Gcm, &key).expect("32 bytes").seal(&item, &mut sealed);
    let header = [b"%EVENC\x03\x37\x00".as_slice(), &encapsulation.ephemeral.compressed(), &[9; 12], &[0]].concat();
    let body = [header, sealed].concat();
    [body.as_slice(), &crc32fast::hash(&body).to_le_bytes()].concat()
}

#[test]
fn a_value_does_not_pass_its_role_as_a_file() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let file = file_of_a_value_with_a_role(&engine, "health", "secret");
    let mut content = Vec::new();
    decrypt_file(&engine, &Caller::Owner, "acme", &file, &mut content).expect("the owner may see any role");
    assert!(content.ends_with(b"secret"));
    let cards = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let reader = grant(&engine, "reader", &[Operation::Decrypt], cards);
    let mut content = b"kept".to_vec();
    assert_eq!(kind(decrypt_file(&engine, &reader, "acme", &file, &mut content)), ErrorCode::Forbidden);
    assert_eq!(content, b"kept");
}
