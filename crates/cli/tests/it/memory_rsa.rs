//! A core dump of an engine whose certificate is RSA contains neither that key, in any of the forms that it has where lanes sign, nor the
//! keys of session tickets.

use std::collections::BTreeSet;
use std::process::Stdio;

use boring::asn1::Asn1Time;
use boring::bn::{BigNum, BigNumRef};
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::x509::X509;
use boring::x509::extension::{ExtendedKeyUsage, KeyUsage, SubjectAlternativeName};
use leafseal_engine::CurveLanes;

use crate::common::{Running, TestFolder};
use crate::memory::{Secrets, core_of, forms, found, writes_files};

/// Random.
const TICKET_KEY: &str = "917254c305237838e97e106b71b21d5a80f3aa046c4d35972eb9d10bc8637f5c";
/// Bits of a limb of the lanes.
const LIMB_BITS: usize = 52;

/// Replaces the certificate of the engine by one with an RSA key of the same authority.
fn certify(folder: &TestFolder, key: &PKey<Private>) {
    let file = |name: &str| folder.read(&format!(".leafseal/certs/{name}"));
    let authority = X509::from_pem(&file("ca.pem")).expect("a certificate");
    let authority_key = PKey::private_key_from_pem(&file("ca.key")).expect("a key");
    let mut builder = X509::builder().expect("memory");
    builder.set_version(2).expect("version 3");
    let serial = BigNum::from_u32(7).and_then(|number| number.to_asn1_integer()).expect("a number");
    builder.set_serial_number(&serial).expect("set");
    builder.set_subject_name(authority.subject_name()).expect("set");
    builder.set_issuer_name(authority.subject_name()).expect("set");
    builder.set_pubkey(key).expect("set");
    let [start, end] = [0, 9].map(|days| Asn1Time::days_from_now(days).expect("a time"));
    builder.set_not_before(&start).expect("set");
    builder.set_not_after(&end).expect("set");
    let usage = KeyUsage::new().critical().digital_signature().build().expect("an extension");
    let extended = ExtendedKeyUsage::new().server_auth().build().expect("an extension");
    let context = builder.x509v3_context(Some(&authority), None);
    let names = SubjectAlternativeName::new().ip("127.0.0.1").dns("localhost").build(&context).expect("an extension");
    for extension in [&usage, &extended, &names] {
        builder.append_extension(extension).expect("added");
    }
    builder.sign(&authority_key, MessageDigest::sha256()).expect("signed");
    folder.write(".leafseal/certs/server.pem", builder.build().to_pem().expect("PEM"));
    folder.write(".leafseal/certs/server.key", key.private_key_to_pem_pkcs8().expect("PEM"));
}

/// The limbs or words of a number, from the lowest.
fn digits(big_endian: &[u8], bits: usize) -> Vec<u64> {
    let bit = |at: usize| big_endian.iter().rev().nth(at / 8).map_or(0, |byte| u64::from(byte >> (at % 8) & 1));
    let digit = |first: usize| (0..bits).map(|at| bit(first + at) << at).sum();
    (0..8 * big_endian.len()).step_by(bits).map(digit).collect()
}

/// Two numbers as lanes have them: digit by digit, in turns. The highest digits may be short, and are left out.
fn in_turns(first: &[u8], second: &[u8], bits: usize) -> Vec<Vec<u8>> {
    let pairs = digits(first, bits).into_iter().zip(digits(second, bits));
    let mut pairs: Vec<Vec<u8>> = pairs.map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect();
    pairs.pop();
    pairs
}

/// The forms of every number of a key, and of its file.
fn rsa_secrets(rsa: &Rsa<Private>, pem: &[u8]) -> Secrets {
    let bytes = |number: Option<&BigNumRef>| number.expect("a whole key").to_vec();
    let [p, q, d] = [bytes(rsa.p()), bytes(rsa.q()), rsa.d().to_vec()];
    let [dp, dq, inverse] = [bytes(rsa.dmp1()), bytes(rsa.dmq1()), bytes(rsa.iqmp())];
    let mut secrets = Secrets::new();
    for (name, number) in [("p", &p), ("q", &q), ("d", &d), ("dp", &dp), ("dq", &dq), ("inverse", &inverse)] {
        // Whole pieces of 16 bytes, so that none ends in another thing.
        let whole = &number[number.len() % 16..];
        secrets.insert(name.to_owned(), whole.chunks_exact(32).flat_map(forms).collect());
    }
    let zeros = vec![0; inverse.len()];
    secrets.insert("primes in lanes".to_owned(), in_turns(&p, &q, LIMB_BITS));
    secrets.insert("inverse in lanes".to_owned(), in_turns(&inverse, &zeros, LIMB_BITS));
    secrets.insert("exponents in lanes".to_owned(), in_turns(&dp, &dq, 64));
    // After the modulus, which is public.
    let lines = pem.split(|byte| *byte == b'\n').skip(9).filter(|line| line.len() == 64);
    secrets.insert("PEM".to_owned(), lines.map(<[u8]>::to_vec).collect());
    secrets.insert("ticket key".to_owned(), forms(&hex::decode(TICKET_KEY).expect("hexadecimal")));
    secrets
}

/// Whether RSA keys sign in lanes on this CPU.
fn signs_in_lanes() -> bool {
    leafseal_engine::facts().iter().any(|(name, by)| *name == "rsa-signatures" && by != CurveLanes::Library.name())
}

/// What a core of an engine contains that has signed with an RSA key and sealed tickets.
fn found_in_core(dumps: &str) -> (BTreeSet<String>, Secrets) {
    let folder = TestFolder::with_app();
    folder.run(&["certs", "init", "--name", "localhost", "--ip", "127.0.0.1"]).ok();
    folder.run(&["certs", "issue", "all", "--all-apps", "--allow", "encrypt"]).ok();
    let rsa = Rsa::generate(2048).expect("a key");
    let key = PKey::from_rsa(rsa.clone()).expect("a key");
    certify(&folder, &key);
    folder.write(".leafseal/tickets.keys", TICKET_KEY);
    let tickets = ["--set", "server.session_ticket_keys=tickets.keys"];
    let mut command = folder.command(&[&["serve", "--json", "--address", "127.0.0.1:0"][..], &tickets].concat());
    let mut engine = Running::start(command.env("LEAFSEAL_CORE_DUMPS", dumps).stderr(Stdio::null()));
    for _ in 0..5 {
        let flags = ["encrypt", "--app", "acme", "--connect", engine.address(), "--client", "all"];
        folder.run_with(&flags, b"{\"a\": 1}").ok();
    }
    let metrics = engine.probe("/metrics");
    assert!(!signs_in_lanes() || metrics.contains("leafseal_tls_signature_batch_size_count 5"), "{metrics}");
    let secrets = rsa_secrets(&rsa, &key.private_key_to_pem_pkcs8().expect("PEM"));
    (found(&core_of(&mut engine, &folder), &secrets), secrets)
}

#[test]
fn a_core_of_an_engine_with_an_rsa_certificate_contains_neither_its_key_nor_those_of_tickets() {
    if writes_files() {
        assert_eq!(found_in_core("without-keys").0, BTreeSet::new());
    }
}

/// The search finds each of them in ordinary memory, except a form that this CPU has no lanes for and what is overwritten after use.
#[test]
fn a_core_of_an_engine_without_guarded_memory_contains_its_rsa_key_and_those_of_tickets() {
    if writes_files() {
        let (found, secrets) = found_in_core("whole");
        let missing: Vec<&String> = secrets.keys().filter(|name| !found.contains(*name)).collect();
        assert!(missing.iter().all(|name| name.contains("lanes") || *name == "PEM"), "{missing:?}");
        if signs_in_lanes() {
            assert!(missing.is_empty() || missing == ["PEM"], "{missing:?}");
        }
    }
}
