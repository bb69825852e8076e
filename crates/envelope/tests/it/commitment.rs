//! Key commitment: AES-GCM has none, so that a ciphertext can be made that opens under two keys. The associated data of an envelope names
//! one root, under which alone such a text may open.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::aes::cipher::{BlockEncrypt, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use leafseal_crypto::symmetric::{SymmetricKey, SymmetricRoot};
use leafseal_crypto::xaes::{XaesNonce, XaesOpenItem};

use crate::symmetric::{derived_from, gcm_key};

const ROOTS: [[u8; 32]; 2] = [[1; 32], [2; 32]];
const NONCE: [u8; 24] = *b"one nonce for both keys.";

/// The product in the field of SP 800-38D, bit by bit: the first bit of the first byte is the lowest.
fn product(x: u128, y: u128) -> u128 {
    let (mut sum, mut v) = (0, y);
    for bit in (0..128).rev() {
        if x >> bit & 1 == 1 {
            sum ^= v;
        }
        v = v >> 1 ^ if v & 1 == 1 { 0xe1 << 120 } else { 0 };
    }
    sum
}

/// The inverse: the power 2^128 - 2.
fn inverse(x: u128) -> u128 {
    let (mut result, mut square) = (1_u128 << 127, product(x, x));
    for _ in 1..128 {
        result = product(result, square);
        square = product(square, square);
    }
    result
}

fn blocks(bytes: &[u8]) -> Vec<u128> {
    let block = |chunk: &[u8]| {
        let mut block = [0; 16];
        block[..chunk.len()].copy_from_slice(chunk);
        u128::from_be_bytes(block)
    };
    bytes.chunks(16).map(block).collect()
}

/// What GCM computes from a key, for one block of ciphertext: the hash without that block, masked; and the factor of the block.
fn tag_parts(key: &[u8; 32], aad: &[u8]) -> (u128, u128) {
    let aes = Aes256::new(key.into());
    let encrypt = |input: [u8; 16]| {
        let mut block = input.into();
        aes.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    };
    let h = encrypt([0; 16]);
    let mut counter = [0; 16];
    counter[..12].copy_from_slice(&NONCE[12..]);
    counter[15] = 1;
    let lengths = (aad.len() as u128 * 8) << 64 | 128;
    let hash = [blocks(aad), vec![0, lengths]].concat().into_iter().fold(0, |hash, block| product(hash ^ block, h));
    (hash ^ encrypt(counter), product(h, h))
}

/// A block of ciphertext and a tag that open under both keys with the same associated data.
fn collision(keys: &[[u8; 32]; 2], aad: &[u8]) -> Vec<u8> {
    let [(hash, factor), (other_hash, other_factor)] = [0, 1].map(|at| tag_parts(&keys[at], aad));
    let block = product(hash ^ other_hash, inverse(factor ^ other_factor));
    let tag = hash ^ product(block, factor);
    [block.to_be_bytes(), tag.to_be_bytes()].concat()
}

fn opens(root: &[u8; 32], aad: &[u8], sealed: &[u8]) -> bool {
    let key = SymmetricKey::new(&SymmetricRoot::from_slice(root).expect("32 bytes"));
    let item = XaesOpenItem { nonce: XaesNonce(NONCE), aad, sealed };
    let (mut out, mut results) = (vec![0; sealed.len() - 16], [Ok(())]);
    key.open_many(&[item], &mut out, &mut results);
    results[0].is_ok()
}

/// Rule 15: the associated data of a root's envelopes, without a binding.
fn associated_data(id: &[u8]) -> Vec<u8> {
    [b"WEFF\0".as_slice(), id, &[0]].concat()
}

#[test]
fn a_ciphertext_that_opens_under_two_keys_opens_under_neither_root() {
    let keys = ROOTS.map(|root| gcm_key(&derived_from(&root, "leafseal-symmetric-1 XAES-256-GCM key"), &NONCE[..12]));
    let ids = ROOTS.map(|root| derived_from(&root, "leafseal-symmetric-1 key id")[..16].to_vec());
    let both = |aad: &[u8], sealed: &[u8]| {
        keys.map(|key| {
            let nonce: [u8; 12] = NONCE[12..].try_into().expect("12 bytes");
            Aes256Gcm::new(&key.into()).decrypt(&Nonce::from(nonce), Payload { msg: sealed, aad }).is_ok()
        })
    };
    // Made for associated data that names no root: the construction works, and both roots refuse it.
    for without in [Vec::new(), b"WEFF\0\0".to_vec(), associated_data(&[0; 16])] {
        let sealed = collision(&keys, &without);
        assert_eq!(both(&without, &sealed), [true, true], "another library opens it under both keys");
        for (root, id) in ROOTS.iter().zip(&ids) {
            assert!(!opens(root, &associated_data(id), &sealed));
        }
    }
    // Made for the name of one root, by somebody who has both: the other refuses it under its own name.
    for (own, other) in [(0, 1), (1, 0)] {
        let aad = associated_data(&ids[own]);
        let sealed = collision(&keys, &aad);
        assert_eq!(both(&aad, &sealed), [true, true]);
        assert!(opens(&ROOTS[own], &aad, &sealed), "a holder of the root can seal anything");
        assert!(!opens(&ROOTS[other], &associated_data(&ids[other]), &sealed));
    }
}
