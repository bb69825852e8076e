//! `ring`. It seals in place, so the plaintext is copied first, and knows ECDH only with ephemeral keys that one
//! agreement consumes, from an uncompressed peer point: the engine's long-lived keys cannot live in it.

use ::ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ::ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ::ring::{digest, hmac};

use crate::operations::{AEAD_LENS, Case, CurveInput, HMAC_LEN, Inputs, Operation, SHA256_LENS};

const RING: &str = "ring";

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    let mut cases = Vec::new();
    for &len in AEAD_LENS {
        cases.push(seal(inputs, len));
        cases.push(open(inputs, len));
    }
    cases.extend(SHA256_LENS.iter().map(|&len| sha256(inputs.plain(len))));
    cases.push(hmac(inputs));
    cases.push(public_key(&inputs.p256));
    cases.push(ecdh(&inputs.p256));
    cases
}

fn key(inputs: &Inputs) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &inputs.key).expect("a 32-byte key"))
}

fn seal(inputs: &'static Inputs, len: usize) -> Case {
    let (key, plain) = (key(inputs), inputs.plain(len));
    Case::new(RING, Operation::Seal(len), move |out| {
        let (body, tag) = out.split_at_mut(len);
        body.copy_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(inputs.nonce);
        let made = key.seal_in_place_separate_tag(nonce, Aad::from(&inputs.aad), body).expect("a short plaintext");
        tag.copy_from_slice(made.as_ref());
    })
}

fn open(inputs: &'static Inputs, len: usize) -> Case {
    let (key, sealed) = (key(inputs), inputs.sealed(len));
    Case::new(RING, Operation::Open(len), move |out| {
        let (body, tag) = sealed.split_at(len);
        out.copy_from_slice(body);
        let (nonce, tag) = (Nonce::assume_unique_for_key(inputs.nonce), tag.try_into().expect("16 bytes"));
        key.open_in_place_separate_tag(nonce, Aad::from(&inputs.aad), tag, out, 0..).expect("a good tag");
    })
}

fn sha256(input: &'static [u8]) -> Case {
    Case::new(RING, Operation::Sha256(input.len()), move |out| {
        out.copy_from_slice(digest::digest(&digest::SHA256, input).as_ref());
    })
}

fn hmac(inputs: &'static Inputs) -> Case {
    let input = inputs.plain(HMAC_LEN);
    Case::new(RING, Operation::HmacSha256(HMAC_LEN), move |out| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &inputs.key);
        out.copy_from_slice(hmac::sign(&key, input).as_ref());
    })
}

/// A key of the given scalar, through the generator of fixed numbers that `ring` has for its own tests: its public
/// interface makes random keys only.
fn ephemeral(scalar: &[u8; 32]) -> EphemeralPrivateKey {
    #[allow(deprecated)]
    let scalar = ::ring::test::rand::FixedSliceRandom { bytes: scalar };
    EphemeralPrivateKey::generate(&ECDH_P256, &scalar).expect("a scalar below the order")
}

fn public_key(curve: &'static CurveInput) -> Case {
    Case::new(RING, Operation::P256PublicKey, move |out| {
        out.copy_from_slice(ephemeral(&curve.scalar).compute_public_key().expect("a key on P-256").as_ref());
    })
}

fn ecdh(curve: &'static CurveInput) -> Case {
    Case::new(RING, Operation::P256Ecdh, move |out| {
        let peer = UnparsedPublicKey::new(&ECDH_P256, &curve.peer_uncompressed);
        agree_ephemeral(ephemeral(&curve.scalar), &peer, |x| out.copy_from_slice(x)).expect("a point on the curve");
    })
}
