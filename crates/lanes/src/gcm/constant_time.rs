//! Tests with Valgrind that timing does not depend on keys, texts or tags. Valgrind supports AES-NI and PCLMULQDQ but neither VAES
//! nor AVX-512; the wider kernels are the same code of `group`, `hash`, `cipher` and `key` over wider vectors, and `cargo bench
//! --bench timing` measures them.

use super::{GcmKey, Kernel, Nonce, OpenItem, SealItem, TAG_SIZE, XaesKeyParts, XaesNonce, XaesOpenItem, XaesSealItem};
use crate::cpu::AesNi;
use crate::valgrind::{assert_watched, complaints, hide, reveal};

const AADS: [[u8; 33]; 2] = [[3; 33], [4; 33]];
/// Lengths of texts: none, parts of blocks of every way that they are read in, whole blocks, many.
const SIZES: [usize; 16] = [0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 32, 33, 48, 63, 100, 512];

fn kernel() -> Kernel {
    assert_watched();
    Kernel::AesNi(AesNi::detect().expect("Valgrind has AES-NI where the CPU has it"))
}

fn nonce(i: usize) -> Nonce {
    Nonce([i as u8; 12])
}

/// Texts of all lengths, several of each in a row.
fn texts() -> Vec<Vec<u8>> {
    SIZES.into_iter().flat_map(|size| [vec![0x5a; size], vec![0xc3; size], vec![0x01; size]]).collect()
}

fn seal_items(texts: &[Vec<u8>], is_shared: bool) -> Vec<SealItem<'_>> {
    let aad = |i: usize| AADS[if is_shared { 0 } else { i % 2 }].as_slice();
    let item = |(i, plaintext)| SealItem { nonce: nonce(i), aad: aad(i), plaintext };
    texts.iter().map(Vec::as_slice).enumerate().map(item).collect()
}

fn sealed_size(texts: &[Vec<u8>]) -> usize {
    texts.iter().map(|text| text.len() + TAG_SIZE).sum()
}

/// Expands a secret key and seals secret texts with it. Compares the result with that of public ones and returns the number of errors that
/// Valgrind reported.
fn complaints_of_sealing(key_size: usize, texts: &[Vec<u8>], is_shared: bool) -> u64 {
    let kernel = kernel();
    let mut expected = vec![0; sealed_size(texts)];
    GcmKey::new(kernel, &[0x77; 32][..key_size]).seal(&seal_items(texts, is_shared), &mut expected);
    let (mut key, mut hidden) = (vec![0x77; key_size], texts.to_vec());
    hide(key.as_mut_slice());
    hidden.iter_mut().for_each(|text| hide(text.as_mut_slice()));
    let mut sealed = vec![0; expected.len()];
    let count = complaints(|| GcmKey::new(kernel, &key).seal(&seal_items(&hidden, is_shared), &mut sealed));
    reveal(sealed.as_mut_slice());
    assert!(sealed == expected);
    count
}

/// Opens with a secret key, where a third of the tags are wrong, each at another byte.
fn complaints_of_opening(key_size: usize, texts: &[Vec<u8>], is_shared: bool) -> u64 {
    let kernel = kernel();
    let mut sealed = vec![0; sealed_size(texts)];
    let items = seal_items(texts, is_shared);
    GcmKey::new(kernel, &[0x77; 32][..key_size]).seal(&items, &mut sealed);
    let mut rest = sealed.as_mut_slice();
    let mut open_items = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let (this, after) = rest.split_at_mut(item.plaintext.len() + TAG_SIZE);
        if i % 3 == 1 {
            this[item.plaintext.len() + i % TAG_SIZE] ^= 1;
        }
        open_items.push(OpenItem { nonce: item.nonce, aad: item.aad, sealed: this });
        rest = after;
    }
    let mut key = vec![0x77; key_size];
    hide(key.as_mut_slice());
    let mut out = vec![0xff; texts.iter().map(Vec::len).sum()];
    let mut opened = vec![false; items.len()];
    let count = complaints(|| GcmKey::new(kernel, &key).open(&open_items, &mut out, &mut opened));
    reveal(out.as_mut_slice());
    let expected =
        texts.iter().enumerate().flat_map(|(i, text)| if i % 3 == 1 { vec![0; text.len()] } else { text.clone() });
    assert!(out.into_iter().eq(expected));
    assert!(opened.iter().enumerate().all(|(i, opened)| *opened == (i % 3 != 1)));
    count
}

/// Key schedule, powers of the hash key, AES, GHASH, tags; in groups of one length and in mixed ones.
#[test]
fn time_of_sealing_does_not_depend_on_keys_and_texts() {
    for key_size in [16, 32] {
        assert_eq!(complaints_of_sealing(key_size, &texts(), false), 0, "mixed");
        for size in SIZES {
            assert_eq!(complaints_of_sealing(key_size, &vec![vec![0x5a; size]; 9], true), 0, "{size}");
        }
    }
}

/// The comparison of tags as well; which of them were right may be known.
#[test]
fn time_of_opening_does_not_depend_on_keys_and_tags() {
    for key_size in [16, 32] {
        assert_eq!(complaints_of_opening(key_size, &texts(), false), 0, "mixed");
        for size in SIZES {
            assert_eq!(complaints_of_opening(key_size, &vec![vec![0x5a; size]; 9], true), 0, "{size}");
        }
    }
}

/// So many nonces in a row have an equal prefix.
fn xaes_nonce(i: usize, in_a_row: usize) -> XaesNonce {
    let mut nonce = [i as u8; 24];
    nonce[..12].fill((i / in_a_row) as u8);
    XaesNonce(nonce)
}

/// Expands a secret key of XAES-256-GCM, seals secret texts, and opens them, a third with a wrong tag. Compares the results with those of
/// public ones and returns the number of errors that Valgrind reported.
fn complaints_of_xaes(texts: &[Vec<u8>], is_shared: bool, in_a_row: usize) -> u64 {
    let kernel = kernel();
    let aad = |i: usize| AADS[if is_shared { 0 } else { i % 2 }].as_slice();
    let seal = |key: &XaesKeyParts, texts: &[Vec<u8>], sealed: &mut [u8]| {
        let mut items = Vec::new();
        for (i, plaintext) in texts.iter().enumerate() {
            items.push(XaesSealItem { nonce: xaes_nonce(i, in_a_row), aad: aad(i), plaintext });
        }
        kernel.seal_xaes(key, &items, sealed);
    };
    let mut public = XaesKeyParts::zero();
    kernel.expand_xaes(&[0x77; 32], &mut public);
    let mut expected = vec![0; sealed_size(texts)];
    seal(&public, texts, &mut expected);
    let mut key = [0x77; 32];
    hide(&mut key);
    let mut hidden = texts.to_vec();
    hidden.iter_mut().for_each(|text| hide(text.as_mut_slice()));
    let (mut sealed, mut secret) = (vec![0; expected.len()], XaesKeyParts::zero());
    let count = complaints(|| {
        kernel.expand_xaes(&key, &mut secret);
        seal(&secret, &hidden, &mut sealed);
    });
    reveal(sealed.as_mut_slice());
    assert!(sealed == expected);
    let mut rest = sealed.as_mut_slice();
    let mut open_items = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let (this, after) = rest.split_at_mut(text.len() + TAG_SIZE);
        if i % 3 == 1 {
            this[text.len() + i % TAG_SIZE] ^= 1;
        }
        open_items.push(XaesOpenItem { nonce: xaes_nonce(i, in_a_row), aad: aad(i), sealed: this });
        rest = after;
    }
    let mut out = vec![0xff; texts.iter().map(Vec::len).sum()];
    let mut opened = vec![false; texts.len()];
    let count = count + complaints(|| kernel.open_xaes(&secret, &open_items, &mut out, &mut opened));
    reveal(out.as_mut_slice());
    let expected =
        texts.iter().enumerate().flat_map(|(i, text)| if i % 3 == 1 { vec![0; text.len()] } else { text.clone() });
    assert!(out.into_iter().eq(expected));
    assert!(opened.iter().enumerate().all(|(i, opened)| *opened == (i % 3 != 1)));
    count
}

/// Derivation and expansion of keys side by side, and under one prefix.
#[test]
fn time_of_xaes_does_not_depend_on_keys_texts_and_tags() {
    for in_a_row in [1, 20] {
        assert_eq!(complaints_of_xaes(&texts(), false, in_a_row), 0, "mixed");
        for size in SIZES {
            assert_eq!(complaints_of_xaes(&vec![vec![0x5a; size]; 20], true, in_a_row), 0, "{size}");
        }
    }
}

/// The check can fail: it detects a comparison that ends at the first difference, and a look-up by a secret.
#[test]
fn a_dependence_on_a_tag_or_on_a_state_is_detected() {
    let kernel = kernel();
    let mut key = [0x77; 32];
    hide(&mut key);
    let mut tag = [0; TAG_SIZE];
    GcmKey::new(kernel, &key).seal(&[SealItem { nonce: nonce(1), aad: &AADS[0], plaintext: &[] }], &mut tag);
    let careless = || _ = std::hint::black_box(tag.iter().position(|byte| *byte != std::hint::black_box(0xa5)));
    assert_ne!(complaints(careless), 0);
    let table = [[0_u8; TAG_SIZE]; 16];
    assert_ne!(complaints(|| _ = std::hint::black_box(table[usize::from(tag[0] & 15)])), 0);
}
