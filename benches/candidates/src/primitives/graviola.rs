//! `graviola`: Rust over formally verified assembly. In place only, so the plaintext is copied first; takes no
//! compressed points.

use ::graviola::aead::AesGcm;
use ::graviola::hashing::hmac::Hmac;
use ::graviola::hashing::{Hash, Sha256};
use ::graviola::key_agreement::p256::{PublicKey, StaticPrivateKey};

use crate::operations::{AEAD_LENS, Case, CurveInput, HMAC_LEN, Inputs, Operation, SHA256_LENS, TAG_LEN};

const GRAVIOLA: &str = "graviola";

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

fn seal(inputs: &'static Inputs, len: usize) -> Case {
    let (key, plain) = (AesGcm::new(&inputs.key), inputs.plain(len));
    Case::new(GRAVIOLA, Operation::Seal(len), move |out| {
        let (body, tag) = out.split_at_mut(len);
        body.copy_from_slice(plain);
        let tag: &mut [u8; TAG_LEN] = tag.try_into().expect("16 bytes");
        key.encrypt(&inputs.nonce, &inputs.aad, body, tag);
    })
}

fn open(inputs: &'static Inputs, len: usize) -> Case {
    let (key, sealed) = (AesGcm::new(&inputs.key), inputs.sealed(len));
    Case::new(GRAVIOLA, Operation::Open(len), move |out| {
        let (body, tag) = sealed.split_at(len);
        out.copy_from_slice(body);
        key.decrypt(&inputs.nonce, &inputs.aad, out, tag).expect("a good tag");
    })
}

fn sha256(input: &'static [u8]) -> Case {
    Case::new(GRAVIOLA, Operation::Sha256(input.len()), move |out| {
        out.copy_from_slice(Sha256::hash(input).as_ref());
    })
}

fn hmac(inputs: &'static Inputs) -> Case {
    let input = inputs.plain(HMAC_LEN);
    Case::new(GRAVIOLA, Operation::HmacSha256(HMAC_LEN), move |out| {
        let mut hmac = Hmac::<Sha256>::new(inputs.key);
        hmac.update(input);
        out.copy_from_slice(hmac.finish().as_ref());
    })
}

fn public_key(curve: &'static CurveInput) -> Case {
    Case::new(GRAVIOLA, Operation::P256PublicKey, move |out| {
        let key = StaticPrivateKey::from_bytes(&curve.scalar).expect("a scalar below the order");
        out.copy_from_slice(&key.public_key_uncompressed());
    })
}

fn ecdh(curve: &'static CurveInput) -> Case {
    let key = StaticPrivateKey::from_bytes(&curve.scalar).expect("a scalar below the order");
    Case::new(GRAVIOLA, Operation::P256Ecdh, move |out| {
        let peer = PublicKey::from_x962_uncompressed(&curve.peer_uncompressed).expect("a point on the curve");
        out.copy_from_slice(&key.diffie_hellman(&peer).expect("a valid agreement").0);
    })
}
