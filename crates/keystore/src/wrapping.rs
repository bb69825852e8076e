//! The stored form of a private key: its scalar encrypted under the root key and bound to its place.
//!
//! The format on disk must not change. The associated data contains the store, the app, the version, the curve and the public key,
//! so that an encrypted key moved to another row, store or public key does not decrypt.

use leafseal_crypto::{CryptoRng, Curve, DecryptFailed, EcContext, PrivateKey, PublicKey, Secret};

use crate::AppName;
use crate::error::KeyFault;
use crate::model::AppKeyPair;
use crate::root_key::StoreRoot;
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::store_id::StoreId;
use leafseal_crypto::symmetric::{SymmetricKeyId, SymmetricRoot};

/// First bytes of the associated data, before the authenticated tree and since. Without the difference, an attacker who can write to the
/// database could pass a store off as one that has no tree.
const AAD_LABELS: [&[u8]; 2] = [b"leafseal-private-key-1", b"leafseal-private-key-2"];

/// The one of two labels that a schema has.
fn label(labels: [&'static [u8]; 2], schema: u32) -> &'static [u8] {
    labels[usize::from(schema >= TREE_SCHEMA_VERSION)]
}

/// Where a private key belongs.
#[derive(Clone, Copy)]
pub(crate) struct KeyLocation<'a> {
    pub(crate) store: StoreId,
    /// The schema of the store.
    pub(crate) schema: u32,
    pub(crate) app: &'a AppName,
    pub(crate) version: u32,
}

/// Label ‖ store id (16) ‖ version (4, big endian) ‖ curve (2) ‖ compressed public key (33) ‖ app: each part but the last has a fixed
/// length, so no two places share their bytes.
fn associated_data(place: &KeyLocation<'_>, public: &PublicKey) -> Vec<u8> {
    [
        label(AAD_LABELS, place.schema),
        &place.store.0,
        &place.version.to_be_bytes(),
        public.curve().short_name().as_bytes(),
        &public.compressed(),
        place.app.as_str().as_bytes(),
    ]
    .concat()
}

/// First bytes of the associated data of a secret of the store's own.
const SECRET_AAD_LABELS: [&[u8]; 2] = [b"leafseal-store-secret-1", b"leafseal-store-secret-2"];

/// Label ‖ store id (16) ‖ purpose: a secret opens in its own store and for its own purpose only.
pub(crate) fn secret_associated_data(store: StoreId, schema: u32, purpose: &str) -> Vec<u8> {
    [label(SECRET_AAD_LABELS, schema), &store.0, purpose.as_bytes()].concat()
}

/// Seals the private half of `pair` for its place.
pub(crate) fn wrap(root: &StoreRoot, place: &KeyLocation<'_>, pair: &AppKeyPair, rng: &mut dyn CryptoRng) -> Vec<u8> {
    let aad = associated_data(place, pair.public());
    root.seal(&aad, pair.private().scalar().expose(), rng)
}

/// Seals nothing in the place of the private half of `public`: what an extract stores for a version that must not be used. Only who has the
/// root key can write it, so that a key which was lost does not pass for one that was left out.
pub(crate) fn wrap_nothing(
    root: &StoreRoot,
    place: &KeyLocation<'_>,
    public: &PublicKey,
    rng: &mut dyn CryptoRng,
) -> Vec<u8> {
    root.seal(&associated_data(place, public), &[], rng)
}

/// Seals under one root for the place `to` what is sealed under another for `from`, whether it is a key or what stands for none.
pub(crate) fn rewrap(
    (from_root, from): (&StoreRoot, &KeyLocation<'_>),
    (to_root, to): (&StoreRoot, &KeyLocation<'_>),
    public: &PublicKey,
    wrapped: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, DecryptFailed> {
    let opened = from_root.open(&associated_data(from, public), wrapped)?;
    Ok(to_root.seal(&associated_data(to, public), &opened, rng))
}

/// First bytes of the associated data of a symmetric root.
const SYMMETRIC_AAD_LABEL: &[u8] = b"leafseal-symmetric-root-1";

/// Label ‖ store id (16) ‖ version (4, big endian) ‖ key id (16) ‖ app.
fn symmetric_data(place: &KeyLocation<'_>, id: SymmetricKeyId) -> Vec<u8> {
    let KeyLocation { store, app, version, .. } = place;
    [SYMMETRIC_AAD_LABEL, &store.0, &version.to_be_bytes(), &id.0, app.as_str().as_bytes()].concat()
}

/// Seals a symmetric root for its place; `None` in the place of one that must not be used, as [`wrap_nothing`].
pub(crate) fn wrap_symmetric(
    root: &StoreRoot,
    place: &KeyLocation<'_>,
    (id, symmetric): (SymmetricKeyId, Option<&SymmetricRoot>),
    rng: &mut dyn CryptoRng,
) -> Vec<u8> {
    root.seal(&symmetric_data(place, id), symmetric.map_or(&[], |symmetric| symmetric.bytes()), rng)
}

/// [`rewrap`] for a symmetric root, whose place stays.
pub(crate) fn rewrap_symmetric(
    (from, to): (&StoreRoot, &StoreRoot),
    place: &KeyLocation<'_>,
    id: SymmetricKeyId,
    wrapped: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, DecryptFailed> {
    let aad = symmetric_data(place, id);
    Ok(to.seal(&aad, &from.open(&aad, wrapped)?, rng))
}

/// Opens a symmetric root and proves that it has the id.
pub(crate) fn unwrap_symmetric(
    root: &StoreRoot,
    place: &KeyLocation<'_>,
    id: SymmetricKeyId,
    wrapped: &[u8],
) -> Result<SymmetricRoot, KeyFault> {
    let bytes = root.open(&symmetric_data(place, id), wrapped).map_err(|_| KeyFault::Unopenable)?;
    if bytes.is_empty() {
        return Err(KeyFault::LeftOut);
    }
    let symmetric = SymmetricRoot::from_slice(&bytes).ok_or(KeyFault::Mismatch)?;
    if symmetric.key_id() == id { Ok(symmetric) } else { Err(KeyFault::Mismatch) }
}

/// Opens the private half of `public` and proves that the two belong together.
pub(crate) fn unwrap(
    root: &StoreRoot,
    context: &EcContext,
    place: &KeyLocation<'_>,
    public: &PublicKey,
    wrapped: &[u8],
) -> Result<AppKeyPair, KeyFault> {
    let aad = associated_data(place, public);
    let scalar = root.open(&aad, wrapped).map_err(|_| KeyFault::Unopenable)?;
    if scalar.is_empty() {
        return Err(KeyFault::LeftOut);
    }
    let curve: Curve = public.curve();
    let private = Secret::from_slice(&scalar)
        .and_then(|scalar| PrivateKey::from_scalar(curve, scalar).ok())
        .ok_or(KeyFault::Mismatch)?;
    let pair = AppKeyPair::new(private, context);
    if pair.public() == public { Ok(pair) } else { Err(KeyFault::Mismatch) }
}

#[cfg(test)]
mod tests {
    use aes_gcm::Aes256Gcm;
    use aes_gcm::aead::{Aead, KeyInit, Payload};
    use hmac::{Hmac, Mac};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use sha2::Sha256;

    use super::*;
    use crate::store_id::STORE_ID_SIZE;

    struct Fixture {
        root: StoreRoot,
        context: EcContext,
        pair: AppKeyPair,
        app: AppName,
        rng: StdRng,
    }

    fn fixture(curve: Curve) -> Fixture {
        let mut rng = StdRng::seed_from_u64(1);
        let context = EcContext::new(&mut rng);
        let pair = AppKeyPair::new(PrivateKey::generate(curve, &mut rng), &context);
        Fixture {
            root: StoreRoot::from_bytes(Secret::from_bytes(&[0x5a; 32])),
            context,
            pair,
            app: AppName::parse("pay").expect("valid"),
            rng,
        }
    }

    fn place(app: &AppName) -> KeyLocation<'_> {
        let (store, version) = (StoreId([9; STORE_ID_SIZE]), 3);
        KeyLocation { store, schema: 2, app, version }
    }

    fn fault(result: Result<AppKeyPair, KeyFault>) -> Option<KeyFault> {
        result.err()
    }

    /// Frozen on disk: another library, fed with the layout as the comments have it, opens what is written.
    #[test]
    fn another_library_decrypts_wrapped_keys() {
        for curve in Curve::ALL {
            let mut fixture = fixture(curve);
            let wrapped = wrap(&fixture.root, &place(&fixture.app), &fixture.pair, &mut fixture.rng);
            let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&[0x5a; 32]).expect("any length");
            mac.update(b"leafseal-root-key-1 wrapping\x01");
            let cipher = Aes256Gcm::new(&mac.finalize().into_bytes());
            let mut aad = b"leafseal-private-key-1".to_vec();
            aad.extend([9; 16]);
            aad.extend([0, 0, 0, 3]);
            aad.extend(curve.short_name().as_bytes());
            aad.extend(fixture.pair.public().compressed());
            aad.extend(b"pay");
            assert_eq!((wrapped[0], wrapped.len()), (1, 1 + 12 + 32 + 16));
            let payload = Payload { msg: &wrapped[13..], aad: &aad };
            let nonce: [u8; 12] = wrapped[1..13].try_into().expect("12 bytes");
            let scalar = cipher.decrypt(&nonce.into(), payload).expect("opens");
            assert_eq!(scalar, fixture.pair.private().scalar().expose());
        }
    }

    #[test]
    fn a_wrapped_key_opens_in_its_place_only() {
        let mut fixture = fixture(Curve::P256);
        let (here, other) = (place(&fixture.app), AppName::parse("payx").expect("valid"));
        let wrapped = wrap(&fixture.root, &here, &fixture.pair, &mut fixture.rng);
        let open =
            |place: &KeyLocation<'_>| unwrap(&fixture.root, &fixture.context, place, fixture.pair.public(), &wrapped);
        assert!(open(&here).is_ok());
        let elsewhere = [
            KeyLocation { app: &other, ..here },
            KeyLocation { version: 4, ..here },
            KeyLocation { schema: 3, ..here },
            KeyLocation { store: StoreId([8; STORE_ID_SIZE]), ..here },
        ];
        for place in &elsewhere {
            assert_eq!(fault(open(place)), Some(KeyFault::Unopenable));
        }
    }

    #[test]
    fn a_scalar_of_another_public_key_is_a_mismatch() {
        let mut fixture = fixture(Curve::Secp256k1);
        let here = place(&fixture.app);
        let aad = associated_data(&here, fixture.pair.public());
        for scalar in [&[1; 32][..], &[0; 32], &[0xff; 32], &[1; 31], &[1; 33]] {
            let wrapped = fixture.root.seal(&aad, scalar, &mut fixture.rng);
            let opened = unwrap(&fixture.root, &fixture.context, &here, fixture.pair.public(), &wrapped);
            assert_eq!(fault(opened), Some(KeyFault::Mismatch), "{scalar:02x?}");
        }
    }

    #[test]
    fn nothing_in_the_place_of_a_key_is_told_from_damage() {
        let mut fixture = fixture(Curve::P256);
        let (here, public) = (place(&fixture.app), *fixture.pair.public());
        let nothing = wrap_nothing(&fixture.root, &here, &public, &mut fixture.rng);
        let open = |place: &KeyLocation<'_>, wrapped: &[u8]| {
            fault(unwrap(&fixture.root, &fixture.context, place, &public, wrapped))
        };
        assert_eq!(open(&here, &nothing), Some(KeyFault::LeftOut));
        assert_eq!(
            open(&KeyLocation { version: 4, ..here }, &nothing),
            Some(KeyFault::Unopenable),
            "of another version"
        );
        assert_eq!(open(&here, &[]), Some(KeyFault::Unopenable), "without the root key");
    }
}
