//! RustCrypto: `aes-gcm`, `sha2`, `hmac`, `p256`, `k256`.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes256Gcm, KeyInit};
use hmac::{Hmac, Mac};
use p256::elliptic_curve::sec1::ToSec1Point;
use sha2::{Digest, Sha256};

use crate::operations::{AEAD_LENS, Case, HMAC_LEN, Inputs, Operation, SHA256_LENS};

const RUST_CRYPTO: &str = "RustCrypto";

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    let mut cases = Vec::new();
    for &len in AEAD_LENS {
        cases.push(seal(inputs, len));
        cases.push(open(inputs, len));
    }
    cases.extend(SHA256_LENS.iter().map(|&len| sha256(inputs.plain(len))));
    cases.push(hmac(inputs));
    cases.extend(p256_cases(inputs));
    cases.extend(k256_cases(inputs));
    cases
}

fn seal(inputs: &'static Inputs, len: usize) -> Case {
    let (cipher, plain) = (Aes256Gcm::new(&inputs.key.into()), inputs.plain(len));
    Case::new(RUST_CRYPTO, Operation::Seal(len), move |out| {
        let (body, tag) = out.split_at_mut(len);
        let nonce = &inputs.nonce.into();
        let buffers = InOutBuf::new(plain, body).expect("equal lengths");
        let made = cipher.encrypt_inout_detached(nonce, &inputs.aad, buffers).expect("a short plaintext");
        tag.copy_from_slice(&made);
    })
}

fn open(inputs: &'static Inputs, len: usize) -> Case {
    let (cipher, sealed) = (Aes256Gcm::new(&inputs.key.into()), inputs.sealed(len));
    Case::new(RUST_CRYPTO, Operation::Open(len), move |out| {
        let (body, tag) = sealed.split_at(len);
        let nonce = &inputs.nonce.into();
        let buffers = InOutBuf::new(body, out).expect("equal lengths");
        let tag = tag.try_into().expect("16 bytes");
        cipher.decrypt_inout_detached(nonce, &inputs.aad, buffers, tag).expect("a good tag");
    })
}

fn sha256(input: &'static [u8]) -> Case {
    Case::new(RUST_CRYPTO, Operation::Sha256(input.len()), move |out| {
        out.copy_from_slice(&Sha256::digest(input));
    })
}

fn hmac(inputs: &'static Inputs) -> Case {
    let input = inputs.plain(HMAC_LEN);
    Case::new(RUST_CRYPTO, Operation::HmacSha256(HMAC_LEN), move |out| {
        let mut hmac = <Hmac<Sha256> as KeyInit>::new_from_slice(&inputs.key).expect("any length is a key");
        hmac.update(input);
        out.copy_from_slice(&hmac.finalize().into_bytes());
    })
}

/// The same code for both curves, which share their types' names but no trait that would spare the repetition.
macro_rules! curve_cases {
    ($name:ident, $curve:ident, $input:ident, $public_key:expr, $agreements:expr) => {
        fn $name(inputs: &'static Inputs) -> Vec<Case> {
            let curve = &inputs.$input;
            let mut cases = vec![Case::new(RUST_CRYPTO, $public_key, move |out| {
                let key = $curve::SecretKey::from_slice(&curve.scalar).expect("a scalar below the order");
                out.copy_from_slice(key.public_key().to_sec1_point(false).as_bytes());
            })];
            for operation in $agreements {
                let peer: &[u8] = match operation {
                    Operation::P256Ecdh => &curve.peer_uncompressed,
                    _ => &curve.peer_compressed,
                };
                let key = $curve::SecretKey::from_slice(&curve.scalar).expect("a scalar below the order");
                cases.push(Case::new(RUST_CRYPTO, operation, move |out| {
                    let peer = $curve::PublicKey::from_sec1_bytes(peer).expect("a point on the curve");
                    let shared = $curve::ecdh::diffie_hellman(key.to_nonzero_scalar(), peer.as_affine());
                    out.copy_from_slice(shared.raw_secret_bytes());
                }));
            }
            cases
        }
    };
}

curve_cases!(p256_cases, p256, p256, Operation::P256PublicKey, [Operation::P256Ecdh, Operation::P256EcdhCompressed]);
curve_cases!(k256_cases, k256, secp256k1, Operation::Secp256k1PublicKey, [Operation::Secp256k1Ecdh]);
