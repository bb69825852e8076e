//! Symmetric envelopes against an implementation of the rules with other libraries, and against changes of every part.

use std::collections::HashSet;
use std::sync::Arc;

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::aes::cipher::{BlockEncrypt, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, Mac};
use leafseal_crypto::symmetric::{SymmetricKey, SymmetricRoot};
use leafseal_envelope::file::{EncryptedFile, FileCheck, FileSealing};
use leafseal_envelope::{
    Binding, BindingPart, Bindings, CONTEXT_SIZE_MAX, Envelope, LongKey, LongOpening, LongText, Malformed, Marking,
    Metadata, NoncePrefixes, OpenError, OpenScratch, PATH_SIZE_MAX, Role, SYMMETRIC_OVERHEAD, SealScratch, Sealed,
    SealedInput, SymmetricEnvelope, SymmetricOpening, SymmetricProfile, SymmetricSealing, SymmetricVersion, ValueType,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha2::Sha256;

const ROOT: [u8; 32] = [0x5a; 32];
const PAN: &str = "4242424242424242";

fn key(root: [u8; 32]) -> Arc<SymmetricKey> {
    Arc::new(SymmetricKey::new(&SymmetricRoot::from_slice(&root).expect("32 bytes")))
}

fn bound(context: Option<&str>) -> Binding {
    context.map_or_else(Binding::default, |context| Binding::context(context).expect("a context"))
}

fn profile(has_metadata: bool, marking: Marking) -> SymmetricProfile {
    SymmetricProfile { version: SymmetricVersion::of(has_metadata), marking }
}

fn metadata() -> Metadata {
    Metadata::new(Some(&Role::parse("card-number").expect("a role")), 70, 1_700_000_000)
}

/// Seals values in one call.
fn seal(
    (profile, binding, prefixes): (SymmetricProfile, &Binding, NoncePrefixes),
    values: &[SealedInput<'_>],
    rng: &mut StdRng,
) -> Vec<String> {
    let sealing = SymmetricSealing::new(key(ROOT), profile, binding, prefixes, rng);
    let metadata = profile.version.has_metadata().then(metadata);
    let (mut out, mut sizes) = (Vec::new(), Vec::new());
    sealing.seal_many(metadata.as_ref(), rng, values, &mut SealScratch::default(), &mut out, |index, size, _| {
        assert_eq!(index, sizes.len());
        sizes.push(size);
    });
    let text = String::from_utf8(out).expect("ASCII");
    let mut rest = text.as_str();
    let each = sizes.iter().map(|&size| {
        let (envelope, after) = rest.split_at(size);
        rest = after;
        envelope.to_owned()
    });
    let envelopes: Vec<String> = each.collect();
    assert!(rest.is_empty(), "the sizes that were announced");
    envelopes
}

fn string(text: &str) -> SealedInput<'_> {
    SealedInput { value_type: ValueType::String, text: text.as_bytes() }
}

/// The text that opens: alone, between others, and in pieces, which agree.
fn open(text: &str, key: &SymmetricKey, binding: &Binding) -> Result<String, OpenError> {
    let Envelope::Symmetric(envelope) = Envelope::parse(text.as_bytes()).map_err(OpenError::Malformed)? else {
        panic!("a symmetric envelope")
    };
    if envelope.key_id != key.id() {
        return Err(OpenError::DecryptFailed);
    }
    let opening = SymmetricOpening::new(key, binding);
    let mut scratch = OpenScratch::default();
    let alone = opening.open(&envelope, &mut scratch).map(|opened| opened.text.to_owned());
    let mut together = Vec::new();
    opening.open_many(&[envelope; 3], &mut scratch, |_, opened| {
        together.push(opened.map(|opened| opened.text.to_owned()));
    });
    assert_eq!(together, [alone.clone(), alone.clone(), alone.clone()], "many equals one");
    for size in [1, 7, usize::MAX] {
        assert_eq!(open_in_pieces(&envelope, opening, size), alone, "pieces of {size}");
    }
    alone
}

fn open_in_pieces(
    envelope: &SymmetricEnvelope<'_>,
    opening: SymmetricOpening<'_>,
    size: usize,
) -> Result<String, OpenError> {
    let envelope = Envelope::Symmetric(*envelope);
    let (mut plaintext, mut long) = (Vec::new(), LongOpening::default());
    while long.step(LongKey::Symmetric(opening), &Sealed::Value(envelope), size, &mut plaintext)?.is_none() {}
    let mut text = LongText::new(&envelope, &plaintext)?;
    while !text.check(&plaintext, size)? {}
    Ok(String::from_utf8(text.text(&plaintext).to_vec()).expect("checked"))
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// HKDF-SHA-256 without salt, by RFC 5869's two steps.
fn derived(label: &str) -> [u8; 32] {
    derived_from(&ROOT, label)
}

pub(crate) fn derived_from(root: &[u8; 32], label: &str) -> [u8; 32] {
    mac(&mac(&[0; 32], &[root]), &[label.as_bytes(), &[1]])
}

/// AES-256-GCM under the key of a nonce's prefix.
fn cipher(key: &[u8; 32], prefix: &[u8]) -> Aes256Gcm {
    Aes256Gcm::new(&gcm_key(key, prefix).into())
}

/// The key of a nonce's prefix, as C2SP has it.
pub(crate) fn gcm_key(key: &[u8; 32], prefix: &[u8]) -> [u8; 32] {
    let aes = Aes256::new(key.into());
    let block = |input: [u8; 16]| {
        let mut block = input.into();
        aes.encrypt_block(&mut block);
        <[u8; 16]>::from(block)
    };
    let l = u128::from_be_bytes(block([0; 16]));
    let k1 = l << 1 ^ if l >> 127 == 1 { 0x87 } else { 0 };
    let half = |counter: u8| {
        let mut message = [0, counter, b'X', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        message[4..].copy_from_slice(prefix);
        block((u128::from_be_bytes(message) ^ k1).to_be_bytes())
    };
    [half(1), half(2)].concat().try_into().expect("32 bytes")
}

/// The plaintext, metadata included, by other libraries and the rules of docs/format.md.
fn open_otherwise(text: &str, parts: &[(u8, &[u8])]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix("ev:")?.strip_suffix(":$")?;
    let (is_debug, inner) = inner.strip_prefix("debug:").map_or((false, inner), |rest| (true, rest));
    let (version, inner) = inner.split_once(':')?;
    let types = [("number:", 1_u8), ("boolean:", 2), ("string:", 0)];
    let found = types.iter().find_map(|(label, number)| Some((*number, inner.strip_prefix(label)?)));
    let (value_type, inner) = found.unwrap_or((0, inner));
    let decoded: Vec<Vec<u8>> = inner.split(':').map(|part| STANDARD_NO_PAD.decode(part).expect("base64")).collect();
    let [id, nonce, sealed] = decoded.as_slice() else { return None };
    assert_eq!(id[..], derived("leafseal-symmetric-1 key id")[..16]);
    let mut aad = [version.as_bytes(), &[value_type << 4 | u8::from(is_debug)], id, &[parts.len() as u8]].concat();
    for (kind, bytes) in parts {
        aad.push(*kind);
        aad.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        aad.extend_from_slice(bytes);
    }
    let key = derived("leafseal-symmetric-1 XAES-256-GCM key");
    cipher(&key, &nonce[..12]).decrypt(&nonce_of(nonce), Payload { msg: sealed, aad: &aad }).ok()
}

/// The second half of the nonce, for AES-GCM.
fn nonce_of(nonce: &[u8]) -> Nonce<U12> {
    let half: [u8; 12] = nonce[12..].try_into().expect("12 bytes");
    half.into()
}

/// Rules 13 to 16.
#[test]
fn other_libraries_open_every_profile_type_and_binding() {
    let mut rng = StdRng::seed_from_u64(1);
    let long = "x".repeat(20_000);
    let values = [
        string(""),
        string("héllo ✓"),
        string(&long),
        SealedInput { value_type: ValueType::Number, text: b"-12.50e+3" },
        SealedInput { value_type: ValueType::Boolean, text: b"false" },
        string(PAN),
    ];
    let path = Binding::context("row 17")
        .expect("a context")
        .with_path(BindingPart::Path, "$.cards[*].number")
        .expect("a path");
    let indexed = Binding::default().with_path(BindingPart::IndexedPath, "$.cards[3].number").expect("a path");
    let none: &[(u8, &[u8])] = &[];
    let bindings = [
        (Binding::default(), none),
        (bound(Some("ü")), &[(1, "ü".as_bytes())]),
        (path, &[(1, b"row 17"), (2, b"$.cards[*].number")]),
        (indexed, &[(3, b"$.cards[3].number")]),
    ];
    for has_metadata in [false, true] {
        for marking in [Marking::Live, Marking::Debug] {
            for prefixes in [NoncePrefixes::One, NoncePrefixes::Each] {
                for (binding, parts) in &bindings {
                    let sealed = seal((profile(has_metadata, marking), binding, prefixes), &values, &mut rng);
                    for (value, text) in values.iter().zip(&sealed) {
                        let plaintext = open_otherwise(text, parts).expect("opens by other libraries");
                        let size = plaintext.len() - value.text.len();
                        assert_eq!((&plaintext[size..], size == 0), (value.text, !has_metadata));
                        assert_eq!(open(text, &key(ROOT), binding).expect("opens").as_bytes(), value.text);
                    }
                }
            }
        }
    }
}

/// Rule 13: 109 characters for 16 digits, and exactly three parts of base64.
#[test]
fn a_card_number_takes_109_characters_in_three_parts() {
    let sealed = seal(
        (profile(false, Marking::Live), &Binding::default(), NoncePrefixes::One),
        &[string(PAN)],
        &mut StdRng::seed_from_u64(2),
    );
    assert_eq!(sealed[0].len(), 109);
    // 16 bytes more than an empty value, whose tag takes 22 characters.
    assert_eq!(SYMMETRIC_OVERHEAD + 21, 109);
    let parts: Vec<&str> = sealed[0].split(':').collect();
    assert_eq!((parts[0], parts[1], parts.len(), parts[5]), ("ev", "WEFF", 6, "$"));
    let sizes: Vec<usize> =
        parts[2..5].iter().map(|part| STANDARD_NO_PAD.decode(part).expect("base64").len()).collect();
    assert_eq!(sizes, [16, 24, 32]);
}

/// Rule 14: one prefix for a request, or one for each value; a suffix never repeats under a prefix.
#[test]
fn nonces_have_one_prefix_or_one_each_and_never_repeat() {
    let mut rng = StdRng::seed_from_u64(3);
    let values = vec![string("a"); 1_000];
    for (prefixes, count) in [(NoncePrefixes::One, 1), (NoncePrefixes::Each, 1_000)] {
        let sealed = seal((profile(false, Marking::Live), &Binding::default(), prefixes), &values, &mut rng);
        let nonces: Vec<[u8; 24]> = sealed
            .iter()
            .map(|text| match Envelope::parse(text.as_bytes()) {
                Ok(Envelope::Symmetric(envelope)) => envelope.nonce.0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(nonces.iter().map(|nonce| nonce[..12].to_vec()).collect::<HashSet<_>>().len(), count);
        assert_eq!(nonces.iter().collect::<HashSet<_>>().len(), 1_000);
    }
}

/// One changed part of an envelope, or of what it is opened with.
fn swapped(text: &str, other: &str, rng: &mut StdRng) -> String {
    let mut parts: Vec<String> = text.split(':').map(str::to_owned).collect();
    let others: Vec<&str> = other.split(':').collect();
    match rng.random_range(0..6_u8) {
        0 => parts[1] = if parts[1] == "WEFF" { "WEFN".to_owned() } else { "WEFF".to_owned() },
        1 => parts.insert(1, "debug".to_owned()),
        2 => parts.insert(2, if rng.random() { "number".to_owned() } else { "boolean".to_owned() }),
        // Another's nonce, or ciphertext.
        3 => parts[3] = others[3].to_owned(),
        4 => parts[4] = others[4].to_owned(),
        _ => {
            // A character of key id, nonce or ciphertext.
            let part = &mut parts[rng.random_range(2..5)];
            let at = rng.random_range(0..part.len());
            let character = char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef0123456789+/"[rng.random_range(0..44)]);
            if part[at..].starts_with(character) {
                return swapped(text, other, rng);
            }
            part.replace_range(at..=at, &character.to_string());
        }
    }
    parts.join(":")
}

/// Rules 13 and 15: no part can be exchanged, nor the binding.
#[test]
fn no_changed_envelope_and_no_other_binding_opens() {
    let mut rng = StdRng::seed_from_u64(4);
    let key = key(ROOT);
    let digits = SealedInput { value_type: ValueType::String, text: b"4242" };
    for context in [None, Some("17")] {
        let binding = bound(context);
        let sealed = seal((profile(false, Marking::Live), &binding, NoncePrefixes::Each), &[digits; 2], &mut rng);
        let same = seal((profile(false, Marking::Live), &binding, NoncePrefixes::One), &[digits; 2], &mut rng);
        for (text, other) in [(&sealed[0], &sealed[1]), (&same[0], &same[1])] {
            for _ in 0..5_000 {
                let changed = swapped(text, other, &mut rng);
                assert!(open(&changed, &key, &binding).is_err(), "{changed} of {text}");
            }
            for other in [None, Some("1"), Some("17 "), Some("171"), Some("018")] {
                assert_eq!(open(text, &key, &bound(other)).is_ok(), other == context, "{context:?} {other:?}");
            }
            for kind in [BindingPart::Path, BindingPart::IndexedPath] {
                let path = Binding::default().with_path(kind, "17").expect("a path");
                assert!(open(text, &key, &path).is_err(), "a path is no context");
            }
        }
    }
}

/// Rule 15: lengths are part of what is authenticated, so that two parts cannot be read as others.
#[test]
fn parts_of_a_binding_do_not_run_together() {
    let one = Binding::context("a").expect("a context").with_path(BindingPart::Path, "bc").expect("a path");
    let other = Binding::context("ab").expect("a context").with_path(BindingPart::Path, "c").expect("a path");
    let mut rng = StdRng::seed_from_u64(5);
    let sealed = seal((profile(false, Marking::Live), &one, NoncePrefixes::One), &[string(PAN)], &mut rng);
    assert!(open(&sealed[0], &key(ROOT), &one).is_ok() && open(&sealed[0], &key(ROOT), &other).is_err());
    assert!(Binding::context("").is_err() && Binding::context(&"x".repeat(CONTEXT_SIZE_MAX + 1)).is_err());
    assert!(Binding::context(&"x".repeat(CONTEXT_SIZE_MAX)).is_ok());
}

/// Rule 15: in one call each value is bound to its own, whatever its neighbours are bound to, also in pieces.
#[test]
fn values_of_one_call_are_bound_each_to_its_own() {
    let (mut rng, key) = (StdRng::seed_from_u64(9), key(ROOT));
    let own = |number: usize| {
        let path = format!("$['rows'][{number}]['{}']", "n".repeat(number * 9));
        let binding = Binding::context(&format!("row {}", number % 7)).expect("a context");
        Arc::new(binding.with_path(BindingPart::IndexedPath, &path).expect("a path"))
    };
    let distinct: Vec<Arc<Binding>> = (0..40).map(own).chain([Arc::new(Binding::default())]).collect();
    let bindings: Vec<Arc<Binding>> = (0..500).map(|_| Arc::clone(&distinct[rng.random_range(0..41)])).collect();
    // Runs of one binding too, the same one and an equal one.
    let bindings: Vec<Arc<Binding>> =
        bindings.iter().flat_map(|it| [Arc::clone(it), Arc::clone(it), Arc::new(Binding::clone(it))]).collect();
    let texts: Vec<String> = (0..bindings.len()).map(|i| format!("value {i} {}", "x".repeat(i % 300))).collect();
    let input = |(i, text): (usize, &String)| match i % 5 {
        0 => SealedInput { value_type: ValueType::Number, text: b"12" },
        _ => string(&texts[i][..text.len()]),
    };
    let values: Vec<SealedInput<'_>> = texts.iter().enumerate().map(input).collect();
    for has_metadata in [false, true] {
        let profile = profile(has_metadata, Marking::Live);
        let other = Binding::context("of the request").expect("a context");
        let sealing = SymmetricSealing::new(Arc::clone(&key), profile, &other, NoncePrefixes::One, &mut rng);
        let metadata = has_metadata.then(metadata);
        let mut out = Vec::new();
        let of_values = (values.as_slice(), bindings.as_slice());
        let before = |_, _, out: &mut Vec<u8>| out.push(b'\n');
        sealing.seal_bound(metadata.as_ref(), &mut rng, of_values, &mut SealScratch::default(), &mut out, before);
        let sealed = String::from_utf8(out).expect("ASCII");
        let sealed: Vec<&str> = sealed.lines().skip(1).collect();
        let mut envelopes: Vec<SymmetricEnvelope<'_>> = Vec::new();
        for text in &sealed {
            SymmetricEnvelope::parse_next(text.as_bytes(), &mut envelopes).expect("an envelope");
        }
        let mut scratch = OpenScratch::default();
        let mut opened = 0;
        SymmetricOpening::bound(&key, Bindings::Each(&bindings)).open_many(&envelopes, &mut scratch, |i, result| {
            assert_eq!(result.expect("opens").text.as_bytes(), values[i].text);
            opened += 1;
        });
        assert_eq!(opened, values.len());
        // Each to the next one's.
        let rotated = [&bindings[1..], &bindings[..1]].concat();
        SymmetricOpening::bound(&key, Bindings::Each(&rotated)).open_many(&envelopes, &mut scratch, |i, result| {
            assert_eq!(result.is_ok(), bindings[i] == rotated[i], "{i}");
        });
        for ((text, binding), value) in sealed.iter().zip(&bindings).zip(&values).step_by(17) {
            assert_eq!(open(text, &key, binding).expect("opens").as_bytes(), value.text);
            assert!(open(text, &key, &other).is_err());
            let mut long = Vec::new();
            let mut sealing =
                sealing.seal_long(metadata.as_ref(), &mut rng, value.value_type, Some(binding), &mut long);
            value.text.chunks(7).for_each(|piece| sealing.update(piece, &mut long));
            sealing.finish(&mut long);
            let long = String::from_utf8(long).expect("ASCII");
            assert_eq!(open(&long, &key, binding).expect("opens").as_bytes(), value.text);
            assert!(open(&long, &key, &other).is_err());
        }
    }
    let path = |size| Binding::default().with_path(BindingPart::Path, &"x".repeat(size)).is_ok();
    assert!(path(PATH_SIZE_MAX) && !path(PATH_SIZE_MAX + 1));
}

/// Rules 1 and 13: what is not of the form is refused by name, before any key.
#[test]
fn each_fault_of_the_text_is_named() {
    let mut rng = StdRng::seed_from_u64(6);
    let text =
        &seal((profile(false, Marking::Live), &Binding::default(), NoncePrefixes::One), &[string(PAN)], &mut rng)[0];
    let parts: Vec<&str> = text.split(':').collect();
    let error = |text: String| Envelope::parse(text.as_bytes()).expect_err("malformed");
    assert_eq!(error(text.replace("WEFF", "WEFG")), Malformed::UnknownVersion);
    assert_eq!(error(text.replace(":$", "")), Malformed::CutShort);
    assert_eq!(error(text.replace(parts[2], &parts[2][1..])), Malformed::KeyId);
    assert_eq!(error(text.replace(parts[2], &format!("{}!", &parts[2][1..]))), Malformed::KeyId);
    // Bits that no byte has.
    assert_eq!(error(text.replace(parts[2], &format!("{}B", &parts[2][..21]))), Malformed::KeyId);
    assert_eq!(error(text.replace(parts[3], &parts[3][1..])), Malformed::Nonce);
    assert_eq!(error(text.replace(parts[3], &format!("!{}", &parts[3][1..]))), Malformed::Nonce);
    assert_eq!(error(text.replace(parts[4], &parts[4][..20])), Malformed::Ciphertext);
    assert_eq!(error(format!("ev:WEFF:{}:{}:$", parts[2], parts[3])), Malformed::Nonce);
    // Neighbours are compared with the last of a run: with the same result.
    let texts =
        seal((profile(false, Marking::Live), &Binding::default(), NoncePrefixes::Each), &[string("a"); 3], &mut rng);
    let mut run = Vec::new();
    for text in &texts {
        SymmetricEnvelope::parse_next(text.as_bytes(), &mut run).expect("an envelope");
        assert_eq!(Envelope::parse(text.as_bytes()), Ok(Envelope::Symmetric(run[run.len() - 1])));
    }
    let broken = [text.replace(":$", ""), text.replace(parts[3], &parts[3][1..]), "ev:Tk9D:x:$".to_owned()];
    for text in &broken {
        assert!(SymmetricEnvelope::parse_next(text.as_bytes(), &mut run).is_err());
        assert_eq!(run.len(), 3);
    }
}

/// Rule 15: a content that is not of its type fails as a wrong tag does.
#[test]
fn a_text_that_is_not_of_its_type_does_not_open() {
    let mut rng = StdRng::seed_from_u64(7);
    let values = [
        SealedInput { value_type: ValueType::Number, text: b"1,\"admin\":true" },
        SealedInput { value_type: ValueType::Boolean, text: b"yes" },
        SealedInput { value_type: ValueType::String, text: b"\xff" },
    ];
    for text in seal((profile(false, Marking::Live), &Binding::default(), NoncePrefixes::One), &values, &mut rng) {
        assert_eq!(open(&text, &key(ROOT), &Binding::default()), Err(OpenError::DecryptFailed));
    }
}

/// Rule 17: files, by other libraries too.
#[test]
fn files_open_with_their_own_key_and_binding_alone() {
    let mut rng = StdRng::seed_from_u64(8);
    let key = key(ROOT);
    for (size, context) in [(0, None), (1, Some("17")), (100_000, None)] {
        let content: Vec<u8> = (0..size).map(|i: u32| (i % 251) as u8).collect();
        let binding = bound(context);
        let mut file = Vec::new();
        let mut sealing = FileSealing::begin_symmetric(&key, &binding, content.len(), &mut rng, &mut file);
        content.chunks(777).for_each(|piece| sealing.update(piece, &mut file));
        sealing.finish(&mut file);
        let (id, nonce, sealed) = (&file[9..25], &file[25..49], &file[50..file.len() - 4]);
        let mut aad = [b"%EVENC\x04".as_slice(), id, &[u8::from(context.is_some())]].concat();
        if let Some(context) = context {
            aad.extend_from_slice(&[1, 0, 0, 0, context.len() as u8]);
            aad.extend_from_slice(context.as_bytes());
        }
        let cipher = cipher(&derived("leafseal-symmetric-1 file key"), &nonce[..12]);
        let opened = cipher.decrypt(&nonce_of(nonce), Payload { msg: sealed, aad: &aad });
        assert_eq!(opened.expect("opens by other libraries"), content);
        assert_eq!(open_file(&file, &key, &binding), Ok(content));
        assert_eq!(open_file(&file, &key, &bound(Some("other"))), Err(OpenError::DecryptFailed));
        for at in [30, 49, 50, file.len() - 5] {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            let end = damaged.len() - 4;
            let checksum = crc32fast::hash(&damaged[..end]).to_le_bytes();
            damaged[end..].copy_from_slice(&checksum);
            assert!(open_file(&damaged, &key, &binding).is_err(), "byte {at}");
        }
    }
}

fn open_file(bytes: &[u8], key: &SymmetricKey, binding: &Binding) -> Result<Vec<u8>, OpenError> {
    let file = EncryptedFile::parse(bytes).map_err(OpenError::Malformed)?;
    let mut check = FileCheck::default();
    while !check.step(bytes, 999).map_err(OpenError::Malformed)? {}
    let (mut content, mut opening) = (Vec::new(), LongOpening::default());
    let key = LongKey::Symmetric(SymmetricOpening::new(key, binding));
    while opening.step(key, &Sealed::File(file), 999, &mut content)?.is_none() {}
    Ok(content)
}
