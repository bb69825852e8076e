//! AWS-LC through `aws-lc-rs`.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::{digest, hmac};

use crate::operations::{AEAD_LENS, Case, CurveInput, HMAC_LEN, Inputs, Operation, SHA256_LENS, TAG_LEN};

const AWS_LC: &str = "aws-lc-rs";

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    let mut cases = Vec::new();
    for &len in AEAD_LENS {
        cases.push(seal(inputs, len));
        cases.push(open(inputs, len));
    }
    cases.extend(SHA256_LENS.iter().map(|&len| sha256(inputs.plain(len))));
    cases.push(hmac(inputs));
    cases.push(public_key(&inputs.p256));
    cases.push(ecdh(&inputs.p256, &inputs.p256.peer_uncompressed, Operation::P256Ecdh));
    cases.push(ecdh(&inputs.p256, &inputs.p256.peer_compressed, Operation::P256EcdhCompressed));
    cases
}

fn key(inputs: &Inputs) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &inputs.key).expect("a 32-byte key"))
}

fn seal(inputs: &'static Inputs, len: usize) -> Case {
    let (key, plain) = (key(inputs), inputs.plain(len));
    Case::new(AWS_LC, Operation::Seal(len), move |out| {
        let (body, tag) = out.split_at_mut(len);
        let nonce = Nonce::assume_unique_for_key(inputs.nonce);
        key.seal_out_of_place_scatter(nonce, Aad::from(&inputs.aad), plain, body, &[], tag).expect("a short plaintext");
    })
}

fn open(inputs: &'static Inputs, len: usize) -> Case {
    let (key, sealed) = (key(inputs), inputs.sealed(len));
    Case::new(AWS_LC, Operation::Open(len), move |out| {
        let (body, tag) = sealed.split_at(sealed.len() - TAG_LEN);
        let nonce = Nonce::assume_unique_for_key(inputs.nonce);
        key.open_separate_gather(nonce, Aad::from(&inputs.aad), body, tag, out).expect("a good tag");
    })
}

fn sha256(input: &'static [u8]) -> Case {
    Case::new(AWS_LC, Operation::Sha256(input.len()), move |out| {
        out.copy_from_slice(digest::digest(&digest::SHA256, input).as_ref());
    })
}

fn hmac(inputs: &'static Inputs) -> Case {
    let input = inputs.plain(HMAC_LEN);
    Case::new(AWS_LC, Operation::HmacSha256(HMAC_LEN), move |out| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &inputs.key);
        out.copy_from_slice(hmac::sign(&key, input).as_ref());
    })
}

fn public_key(curve: &'static CurveInput) -> Case {
    Case::new(AWS_LC, Operation::P256PublicKey, move |out| {
        let key = PrivateKey::from_private_key(&ECDH_P256, &curve.scalar).expect("a scalar below the order");
        out.copy_from_slice(key.compute_public_key().expect("a key on P-256").as_ref());
    })
}

fn ecdh(curve: &'static CurveInput, peer: &'static [u8], operation: Operation) -> Case {
    let key = PrivateKey::from_private_key(&ECDH_P256, &curve.scalar).expect("a scalar below the order");
    Case::new(AWS_LC, operation, move |out| {
        let peer = UnparsedPublicKey::new(&ECDH_P256, peer);
        agree(&key, peer, (), |x| {
            out.copy_from_slice(x);
            Ok(())
        })
        .expect("a point on the curve");
    })
}
