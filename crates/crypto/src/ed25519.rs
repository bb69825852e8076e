//! Signatures with Ed25519 (RFC 8032), over BoringSSL.

pub use crate::types::ed25519::{PUBLIC_KEY_SIZE, SEED_SIZE, SIGNATURE_SIZE};
use crate::{Secret, ffi, wipe_dead_stack};

/// A private key, wiped on drop.
#[derive(Debug, Clone)]
pub struct Ed25519PrivateKey(Secret<SEED_SIZE>);

impl Ed25519PrivateKey {
    /// The key of a seed: every seed has one.
    pub fn from_seed(seed: Secret<SEED_SIZE>) -> Self {
        Self(seed)
    }

    /// The public half.
    pub fn public_key(&self) -> [u8; PUBLIC_KEY_SIZE] {
        let public = ffi::ed25519::public_key(self.0.expose());
        wipe_dead_stack();
        public
    }

    /// The signature of `message`, the same each time.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_SIZE] {
        let signature = ffi::ed25519::sign(self.0.expose(), message);
        wipe_dead_stack();
        signature
    }
}

/// Whether the holder of the private key of `public` has signed `message`.
pub fn verify(public: &[u8; PUBLIC_KEY_SIZE], message: &[u8], signature: &[u8; SIGNATURE_SIZE]) -> bool {
    ffi::ed25519::verify(public, message, signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        hex::decode(text).expect("hexadecimal").try_into().expect("its size")
    }

    /// RFC 8032, 7.1, tests 1 to 3.
    #[test]
    fn signatures_are_those_of_the_standard_and_no_other_verifies() {
        let vectors = [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                concat!(
                    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155",
                    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
                ),
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                concat!(
                    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
                    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
                ),
            ),
            (
                "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                "af82",
                concat!(
                    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac",
                    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
                ),
            ),
        ];
        for (seed, public, message, signature) in vectors {
            let key = Ed25519PrivateKey::from_seed(Secret::from_bytes(&bytes(seed)));
            let (public, message, expected) = (bytes(public), hex::decode(message).expect("hex"), bytes(signature));
            assert_eq!((key.public_key(), key.sign(&message)), (public, expected));
            assert!(verify(&public, &message, &expected));
            assert!(!verify(&public, &[&message[..], b"x"].concat(), &expected));
            for at in [0, 31, 32, 63] {
                let mut changed = expected;
                changed[at] ^= 1;
                assert!(!verify(&public, &message, &changed));
            }
        }
        let key = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[7; SEED_SIZE]));
        assert!(!verify(&bytes(vectors[0].1), b"", &key.sign(b"")));
        assert!(!format!("{key:?}").contains('7'));
    }
}
