//! How a private key lies in a store: its scalar sealed under the root key and bound to its place.
//!
//! Frozen on disk. The associated data names the store, the app, the version, the curve and the public key, so that a sealed key
//! moved to another row, another store or beside another public key does not open.

use fieldseal_crypto::{CryptoRng, Curve, EcContext, PrivateKey, PublicKey, Secret};

use crate::AppName;
use crate::error::KeyFault;
use crate::model::KeyPair;
use crate::root_key::{RootKey, RootKeyError};

/// Bytes of a store's id.
pub(crate) const STORE_ID_SIZE: usize = 16;

/// First bytes of the associated data.
const AAD_LABEL: &[u8] = b"fieldseal-private-key-1";

/// A random id of a store, made with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreId(pub(crate) [u8; STORE_ID_SIZE]);

/// Where a private key belongs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) store: StoreId,
    pub(crate) app: &'a AppName,
    pub(crate) version: u32,
}

/// Label ‖ store id (16) ‖ version (4, big endian) ‖ curve (2) ‖ compressed public key (33) ‖ app: each part but the last has a fixed
/// length, so no two places share their bytes.
fn associated_data(place: &Place<'_>, public: &PublicKey) -> Vec<u8> {
    [
        AAD_LABEL,
        &place.store.0,
        &place.version.to_be_bytes(),
        public.curve().short_name().as_bytes(),
        &public.compressed(),
        place.app.as_str().as_bytes(),
    ]
    .concat()
}

/// Seals the private half of `pair` for its place.
pub(crate) fn wrap(
    root_key: &dyn RootKey,
    place: &Place<'_>,
    pair: &KeyPair,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, RootKeyError> {
    let aad = associated_data(place, pair.public());
    root_key.seal(&aad, pair.private().scalar().expose(), rng)
}

/// Why a wrapped key gives no pair.
pub(crate) enum UnwrapError {
    /// The stored key is at fault.
    Key(KeyFault),
    /// The root key is.
    RootKey(RootKeyError),
}

/// Opens the private half of `public` and proves that the two belong together.
pub(crate) fn unwrap(
    root_key: &dyn RootKey,
    context: &EcContext,
    place: &Place<'_>,
    public: &PublicKey,
    wrapped: &[u8],
) -> Result<KeyPair, UnwrapError> {
    let aad = associated_data(place, public);
    let scalar = root_key.open(&aad, wrapped).map_err(|error| match error {
        RootKeyError::DecryptFailed => UnwrapError::Key(KeyFault::Unopenable),
        other => UnwrapError::RootKey(other),
    })?;
    let curve: Curve = public.curve();
    let private = Secret::from_slice(&scalar)
        .and_then(|scalar| PrivateKey::from_scalar(curve, scalar).ok())
        .ok_or(UnwrapError::Key(KeyFault::Mismatch))?;
    let pair = KeyPair::new(private, context);
    if pair.public() == public {
        Ok(pair)
    } else {
        Err(UnwrapError::Key(KeyFault::Mismatch))
    }
}
