//! XAES-256-GCM against the specification's vectors and RustCrypto's block cipher and AES-GCM, through every kernel of this CPU and the
//! library.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::aes::cipher::{BlockEncrypt, KeyInit};
use leafseal_crypto::aead::TAG_SIZE;
use leafseal_crypto::xaes::{XaesKey, XaesNonce, XaesOpenItem, XaesSealItem};
use leafseal_crypto::{DecryptFailed, Implementations};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use shake::Shake128;

use crate::{pieces, random};

/// Counts around the widths of kernels and the number of equal prefixes from which they share a key.
const COUNTS: [usize; 19] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 32, 33, 65];

struct Message {
    nonce: XaesNonce,
    aad: Vec<u8>,
    plaintext: Vec<u8>,
}

impl Message {
    fn item(&self) -> XaesSealItem<'_> {
        XaesSealItem { nonce: self.nonce, aad: &self.aad, plaintext: &self.plaintext }
    }
}

/// The steps of the specification, by another library.
fn reference(key: &[u8; 32], item: &XaesSealItem<'_>) -> Vec<u8> {
    let aes = Aes256::new(key.into());
    let encrypt = |block: [u8; 16]| {
        let mut block = block.into();
        aes.encrypt_block(&mut block);
        <[u8; 16]>::from(block)
    };
    let l = encrypt([0; 16]);
    let mut k1 = [0; 16];
    for i in 0..16 {
        k1[i] = l[i] << 1 | l.get(i + 1).map_or(0, |next| next >> 7);
    }
    if l[0] >> 7 == 1 {
        k1[15] ^= 0b1000_0111;
    }
    let derived = [1, 2].map(|counter| {
        let mut message = [0, counter, 0x58, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        message[4..].copy_from_slice(&item.nonce.0[..12]);
        encrypt(std::array::from_fn(|i| message[i] ^ k1[i]))
    });
    let gcm = Aes256Gcm::new(derived.as_flattened().into());
    gcm.encrypt(item.nonce.0[12..].into(), Payload { msg: item.plaintext, aad: item.aad }).expect("sealed")
}

fn keys(key: &[u8; 32]) -> Vec<(Implementations, XaesKey)> {
    let on = |lanes| Some((lanes, XaesKey::with_lanes(lanes, key).ok()?));
    let keys: Vec<_> = Implementations::ALL.into_iter().skip(1).filter_map(on).collect();
    assert!(!keys.is_empty(), "the library is everywhere");
    keys
}

fn seal(key: &XaesKey, items: &[XaesSealItem<'_>]) -> Vec<Vec<u8>> {
    let mut sealed = vec![0x55; items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum()];
    key.seal_many(items, &mut sealed);
    split(&sealed, items.iter().map(|item| item.plaintext.len() + TAG_SIZE))
}

fn open(key: &XaesKey, items: &[XaesOpenItem<'_>]) -> Vec<(Result<(), DecryptFailed>, Vec<u8>)> {
    let sizes = || items.iter().map(|item| item.sealed.len().saturating_sub(TAG_SIZE));
    let mut out = vec![0x55; sizes().sum()];
    let mut results = vec![Ok(()); items.len()];
    key.open_many(items, &mut out, &mut results);
    results.into_iter().zip(split(&out, sizes())).collect()
}

fn split(mut bytes: &[u8], sizes: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let parts = sizes.map(|size| bytes.split_off(..size).expect("long enough").to_vec()).collect();
    assert!(bytes.is_empty());
    parts
}

/// Messages of which some have their neighbour's prefix.
fn messages(rng: &mut StdRng, sizes: impl Iterator<Item = (usize, usize)>, is_shared: bool) -> Vec<Message> {
    let mut prefix: [u8; 12] = rng.random();
    let mut message = |(aad, plaintext)| {
        if !is_shared || rng.random_bool(0.05) {
            prefix = rng.random();
        }
        let mut nonce: [u8; 24] = rng.random();
        nonce[..12].copy_from_slice(&prefix);
        Message { nonce: XaesNonce(nonce), aad: random(rng, aad), plaintext: random(rng, plaintext) }
    };
    sizes.map(&mut message).collect()
}

/// Seals, compares with the reference, opens, and opens again with some messages damaged, and some cut shorter than a tag.
fn check(rng: &mut StdRng, messages: &[Message]) {
    let key_bytes = rng.random();
    let items: Vec<XaesSealItem<'_>> = messages.iter().map(Message::item).collect();
    let expected: Vec<Vec<u8>> = items.iter().map(|item| reference(&key_bytes, item)).collect();
    let mut damaged = expected.clone();
    for sealed in &mut damaged {
        if rng.random_bool(0.8) {
            continue;
        }
        let bit = rng.random_range(0..sealed.len() * 8);
        sealed[bit / 8] ^= 1 << (bit % 8);
        if rng.random_bool(0.1) {
            sealed.truncate(rng.random_range(0..TAG_SIZE));
        }
    }
    for (lanes, key) in keys(&key_bytes) {
        assert!(seal(&key, &items) == expected, "{} seals as the reference does", lanes.name());
        for sealed in [&expected, &damaged] {
            let open_items: Vec<XaesOpenItem<'_>> = messages
                .iter()
                .zip(sealed)
                .map(|(message, sealed)| XaesOpenItem { nonce: message.nonce, aad: &message.aad, sealed })
                .collect();
            for (i, (result, text)) in open(&key, &open_items).into_iter().enumerate() {
                assert_eq!(result.is_ok(), sealed[i] == expected[i], "{}: {i} of {}", lanes.name(), items.len());
                let expected = if result.is_ok() { messages[i].plaintext.clone() } else { vec![0; text.len()] };
                assert!(text == expected, "{}: {i} of {}", lanes.name(), items.len());
            }
        }
    }
}

#[test]
fn vectors() {
    let nonce = XaesNonce(*b"ABCDEFGHIJKLMNOPQRSTUVWX");
    for (byte, aad, expected) in [
        (1, b"".as_slice(), "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (3, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ] {
        let item = XaesSealItem { nonce, aad, plaintext: b"XAES-256-GCM" };
        assert_eq!(hex::encode(reference(&[byte; 32], &item)), expected);
        for (lanes, key) in keys(&[byte; 32]) {
            for count in COUNTS {
                assert!(
                    seal(&key, &vec![item; count]).iter().all(|sealed| hex::encode(sealed) == expected),
                    "{lanes:?}"
                );
            }
        }
    }
}

/// The specification's accumulated test: keys and messages of one SHAKE128, ciphertexts to another. Each message is among others, at
/// another place each time.
fn accumulated(lanes: Implementations, rounds: usize) -> Option<String> {
    let (mut random, mut digest) = (Shake128::default().finalize_xof(), Shake128::default());
    let other = XaesSealItem { nonce: XaesNonce([9; 24]), aad: b"other", plaintext: &[7; 40] };
    let mut out = Vec::new();
    for round in 0..rounds {
        let (mut key, mut nonce) = ([0; 32], [0; 24]);
        random.read(&mut key);
        random.read(&mut nonce);
        let mut text = || {
            let mut size = [0];
            random.read(&mut size);
            let mut text = vec![0; usize::from(size[0])];
            random.read(&mut text);
            text
        };
        let (plaintext, aad) = (text(), text());
        let count = 1 + round % 6;
        let place = round % count;
        let mut items = [other; 6];
        items[place] = XaesSealItem { nonce: XaesNonce(nonce), aad: &aad, plaintext: &plaintext };
        let before = place * (other.plaintext.len() + TAG_SIZE);
        out.resize((count - 1) * (other.plaintext.len() + TAG_SIZE) + plaintext.len() + TAG_SIZE, 0);
        XaesKey::with_lanes(lanes, &key).ok()?.seal_many(&items[..count], &mut out);
        digest.update(&out[before..before + plaintext.len() + TAG_SIZE]);
    }
    let mut hash = [0; 32];
    digest.finalize_xof().read(&mut hash);
    Some(hex::encode(hash))
}

fn accumulates(rounds: usize, expected: &str) {
    let mut names = Vec::new();
    for lanes in Implementations::ALL.into_iter().skip(1) {
        let Some(hash) = accumulated(lanes, rounds) else { continue };
        assert_eq!(hash, expected, "{}", lanes.name());
        names.push(lanes.name());
    }
    println!("{rounds} rounds through {}", names.join(", "));
}

#[test]
fn ten_thousand_accumulated_rounds() {
    accumulates(10_000, "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939");
}

#[test]
fn a_million_accumulated_rounds() {
    accumulates(1_000_000, "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15");
}

#[test]
fn equals_another_library_at_every_length() {
    let mut rng = StdRng::seed_from_u64(0x7861_6573);
    for size in (0..=300).chain([383, 384, 385, 511, 512, 513, 1_000, 4_096, 10_000]) {
        let count = COUNTS[size % COUNTS.len()];
        for is_shared in [false, true] {
            let alike = messages(&mut rng, (0..count).map(|_| (size % 101, size)), is_shared);
            check(&mut rng, &alike);
            let sizes: Vec<_> = (0..count).map(|_| (rng.random_range(0..=100), rng.random_range(0..=size))).collect();
            let mixed = messages(&mut rng, sizes.into_iter(), is_shared);
            check(&mut rng, &mixed);
        }
    }
}

/// Associated data of every length, and longer than the lanes take.
#[test]
fn equals_another_library_for_all_associated_data() {
    let mut rng = StdRng::seed_from_u64(2);
    for size in (0..=100).chain([1_023, 1_024, 1_025, 4_096, 4_097, 10_000]) {
        let count = 1 + size % 21;
        for is_shared in [false, true] {
            let alike = messages(&mut rng, (0..count).map(|_| (size, size % 50)), is_shared);
            check(&mut rng, &alike);
            let sizes: Vec<_> = (0..count).map(|_| (rng.random_range(0..=size), 32)).collect();
            let mixed = messages(&mut rng, sizes.into_iter(), is_shared);
            check(&mut rng, &mixed);
        }
    }
}

/// Messages that pass the same slice of associated data, under one prefix and under many.
#[test]
fn shared_slices_of_associated_data_are_distinguished() {
    let mut rng = StdRng::seed_from_u64(3);
    let aads: Vec<Vec<u8>> = (0..7).map(|size| random(&mut rng, 11 * size)).collect();
    for round in 0..60 {
        let key_bytes = rng.random();
        let (slices, prefixes) = (1 + round % 7, [1, 3, 1_000][round % 3]);
        let texts: Vec<Vec<u8>> = (0..40).map(|i| random(&mut rng, if round % 2 == 0 { 32 } else { i })).collect();
        let mut nonces: Vec<[u8; 24]> = (0..40).map(|_| rng.random()).collect();
        nonces.iter_mut().enumerate().for_each(|(i, nonce)| nonce[..12].fill((i % prefixes) as u8));
        nonces.sort_unstable();
        let items: Vec<XaesSealItem<'_>> = texts
            .iter()
            .enumerate()
            .map(|(i, plaintext)| XaesSealItem { nonce: XaesNonce(nonces[i]), aad: &aads[i % slices], plaintext })
            .collect();
        for (lanes, key) in keys(&key_bytes) {
            for (i, sealed) in seal(&key, &items).into_iter().enumerate() {
                assert_eq!(sealed, reference(&key_bytes, &items[i]), "{}: message {i}", lanes.name());
            }
        }
    }
}

/// Every changed bit of ciphertext, tag, nonce and associated data is found, at every place, and affects no other message.
#[test]
fn one_bad_message_spoils_only_itself() {
    let mut rng = StdRng::seed_from_u64(4);
    let key_bytes = rng.random();
    let some = messages(&mut rng, (0..9).map(|i| (33, 30 + i % 3)), false);
    let items: Vec<XaesSealItem<'_>> = some.iter().map(Message::item).collect();
    for (_, key) in keys(&key_bytes) {
        let sealed = seal(&key, &items);
        for place in 0..items.len() {
            let (aad, nonce) = (&some[place].aad, some[place].nonce);
            for bit in 0..8 * (sealed[place].len() + aad.len() + nonce.0.len()) {
                let (mut text, mut aad, mut nonce) = (sealed[place].clone(), aad.clone(), nonce);
                let changed = text.iter_mut().chain(&mut aad).chain(&mut nonce.0).nth(bit / 8).expect("a byte");
                *changed ^= 1 << (bit % 8);
                let mut open_items: Vec<XaesOpenItem<'_>> = items
                    .iter()
                    .zip(&sealed)
                    .map(|(item, sealed)| XaesOpenItem { nonce: item.nonce, aad: item.aad, sealed })
                    .collect();
                open_items[place] = XaesOpenItem { nonce, aad: &aad, sealed: &text };
                for (i, (result, text)) in open(&key, &open_items).into_iter().enumerate() {
                    assert_eq!(result.is_ok(), i != place);
                    assert_eq!(text, if i == place { vec![0; text.len()] } else { some[i].plaintext.clone() });
                }
            }
        }
    }
}

#[test]
fn streams_equal_whole_messages() {
    let mut rng = StdRng::seed_from_u64(5);
    for (_, key) in keys(&[4; 32]) {
        for size in [0, 1, 15, 16, 17, 1_000, 70_000] {
            let message = &messages(&mut rng, [(20, size)].into_iter(), false)[0];
            let (mut text, mut at) = (message.plaintext.clone(), 0);
            let mut stream = key.seal_stream(&message.nonce, &message.aad);
            for piece in pieces(&mut rng, size) {
                stream.update_in_place(&mut text[at..at + piece]);
                at += piece;
            }
            let tag = stream.finish();
            assert_eq!([text.as_slice(), &tag].concat(), reference(&[4; 32], &message.item()));
            let mut stream = key.open_stream(&message.nonce, &message.aad);
            stream.update_in_place(&mut text);
            assert_eq!((stream.finish(&tag), &text), (Ok(()), &message.plaintext));
            let stream = key.open_stream(&XaesNonce([0; 24]), &message.aad);
            assert_eq!(stream.finish(&tag), Err(DecryptFailed));
        }
    }
}

#[test]
#[should_panic(expected = "room for exactly these messages")]
fn room_must_fit() {
    let item = XaesSealItem { nonce: XaesNonce([0; 24]), aad: &[], plaintext: &[1] };
    XaesKey::new(&[0; 32]).seal_many(&[item], &mut [0; 18]);
}
