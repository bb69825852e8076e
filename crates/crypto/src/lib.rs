//! The primitives that the rest of Leafseal needs, each over the library that measured best (`docs/decisions/0001-crypto-libraries.md`):
//! AES-GCM, SHA-2, HMAC-SHA-256, RSA, ECDSA, Ed25519 and P-256 from BoringSSL, secp256k1 from libsecp256k1; short messages of AES-GCM, and
//! signatures, from the kernels of `leafseal-lanes`, where the CPU has the instructions; encapsulation to a key that is used often, from
//! tables of its multiples. Also the session tickets of TLS servers and the expiry of verified chains, for which BoringSSL has hooks.
//!
//! Guarantees: bytes in, bytes out. No files, threads, environment, clock or hidden randomness: the caller passes a generator, such as
//! those of [`random`]. Secret types wipe themselves and never print. A [`PublicKey`] is always a point on its curve, not infinity. Every
//! failed decryption is the same [`DecryptFailed`].
//!
//! The calls that end in `_many` take independent operations and may run them side by side; they always equal a loop of the
//! single call. Callers state the operation ([`AeadAlgorithm`], [`Curve`]), never the library.

pub mod aead;
pub mod argon2;
mod chacha;
pub mod chain;
pub mod cipher;
pub mod digest;
pub mod ec;
pub mod ecdsa;
pub mod ed25519;
mod guarded;
pub mod hash;
pub mod hpke;
mod lanes;
pub mod mac;
mod pair;
mod peer;
pub mod random;
pub mod recipient;
pub mod rsa;
pub mod secret;
pub mod symmetric;
pub mod tickets;
pub mod xaes;

mod ffi;
mod types;

pub use aead::{AeadAlgorithm, AeadKey, Nonce, NonceSequence};
pub use cipher::{CipherAlgorithm, CipherKey, CipherStream};
pub use digest::{DigestAlgorithm, DigestState};
pub use ec::{Curve, EcContext, PrivateKey, PublicKey};
pub use ecdsa::{EcdsaPrivateKey, EcdsaPublicKey};
pub use ed25519::Ed25519PrivateKey;
pub use ffi::allocator::{WipingAllocator, in_guarded_memory};
pub use ffi::fork_barrier::ForkBarrier;
pub use ffi::guarded::{GuardedMemory, guard_secrets};
pub use ffi::process_mark::ProcessMark;
pub use ffi::stack::wipe_dead_stack;
pub use ffi::wiped::wipe;
pub use guarded::{GUARDED_SIZE, GuardedSecret};
pub use hash::HashFunction;
pub use lanes::{CurveLanes, Implementations, LanesUnavailable, text_kernel, use_curve_lanes, use_lanes};
pub use mac::{MacKey, MacState};
pub use peer::{Peer, PeerWork};
pub use rand_core;
pub use rand_core::CryptoRng;
pub use recipient::{Encapsulation, Recipient, RecipientWork, prepare_tables};
pub use rsa::{RsaComponents, RsaPrivateKey, RsaPublicKey, RsaScheme};
pub use secret::Secret;
pub use symmetric::{SymmetricKey, SymmetricKeyId, SymmetricRoot};
pub use xaes::{XaesKey, XaesNonce, XaesNonces, XaesOpenItem, XaesSealItem};

/// A tag, key or padding fault. It deliberately carries no detail: the cause must not be distinguishable from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("decrypt failed")]
pub struct DecryptFailed;

/// Which library serves which primitive, for `leafseal info`: pairs of primitive and implementation.
pub fn implementations() -> Vec<(&'static str, String)> {
    let boringssl = ffi::boringssl_version();
    let gcm = format!("{boringssl}, {}", ffi::aead::acceleration());
    let short = lanes::serving().map_or(Implementations::Portable.name(), |kernel| kernel.name());
    vec![
        ("aes-gcm-lanes", short.to_owned()),
        ("aes-256-gcm", gcm.clone()),
        ("aes-128-gcm", gcm),
        ("sha-256", boringssl.clone()),
        ("hmac-sha-256", boringssl.clone()),
        ("ecdh-p256", boringssl),
        ("ecdh-secp256k1", "libsecp256k1".to_owned()),
        ("base64", text_kernel().name().to_owned()),
        (
            "encapsulation",
            lanes::serving_curves().map_or(CurveLanes::Library.name(), |kernel| kernel.name()).to_owned(),
        ),
        (
            "ecdsa-p256-signatures",
            lanes::serving_curves()
                .filter(|kernel| kernel.has_lanes())
                .map_or(CurveLanes::Library.name(), |kernel| kernel.name())
                .to_owned(),
        ),
        ("rsa-signatures", lanes::serving_rsa().map_or(CurveLanes::Library.name(), |kernel| kernel.name()).to_owned()),
    ]
}
