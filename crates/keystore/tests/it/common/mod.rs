//! Shared by the store's tests: folders, environments, keys that a child process can generate again.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};

use fieldseal_crypto::hash::sha256;
use fieldseal_crypto::{CryptoRng, Curve, EcContext, PrivateKey, Secret};
use fieldseal_keystore::{AppName, Environment, Keystore, Limits, LocalRootKey, OpenMode, SqliteKeystore};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;

/// The root key of every test store. It protects nothing.
pub(crate) const ROOT_KEY: &str = "fieldseal-root-key-1:WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=";

/// Unix seconds that the clock of [`environment`] shows.
pub(crate) const NOW: u64 = 1_750_000_000;

pub(crate) fn rng() -> impl CryptoRng + Send {
    UnwrapErr(SysRng)
}

pub(crate) fn environment() -> Environment {
    Environment {
        root_key: Box::new(LocalRootKey::from_text(ROOT_KEY).expect("valid")),
        clock: Box::new(|| NOW),
        rng: Box::new(rng()),
    }
}

pub(crate) fn open(path: &Path) -> SqliteKeystore {
    open_with(path, Limits::default())
}

pub(crate) fn open_with(path: &Path, limits: Limits) -> SqliteKeystore {
    SqliteKeystore::open(path, OpenMode::CreateIfMissing, environment(), limits).expect("opened")
}

/// A folder of the test's own and the path of a store in it.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("store.db");
    (folder, path)
}

pub(crate) fn app(name: &str) -> AppName {
    AppName::parse(name).expect("valid")
}

pub(crate) fn context() -> EcContext {
    EcContext::new(&mut rng())
}

/// A key that depends on `curve` and `number` only.
pub(crate) fn key(curve: Curve, number: u32) -> PrivateKey {
    let mut scalar = sha256(&[b"keystore test key", &number.to_be_bytes()]);
    // Below both group orders.
    scalar[0] &= 0x7f;
    PrivateKey::from_scalar(curve, Secret::from_bytes(&scalar)).expect("in range")
}

/// Asserts that nothing is wrong with `store`.
pub(crate) fn assert_sound(store: &dyn Keystore) {
    assert_eq!(store.check().expect("checked").faults, []);
}
