//! A real engine over a real store, in a temporary folder.

use std::collections::BTreeSet;

use leafseal_engine::admin::{AcceptedSchemes, AppName, Apps, ClientName, Keystore, NewClient, Operation, Roles};
use leafseal_engine::{Engine, Settings};

use crate::ScratchStore;

/// An engine with its store.
pub struct EngineFixture {
    /// The engine.
    pub engine: Engine,
    _store: ScratchStore,
}

/// Creates the client `client`, which may encrypt and decrypt only for `acme`, and an engine over the store.
///
/// # Panics
/// On a disk that cannot be written, and on an invalid name.
pub fn engine(settings: Settings, client: &str, certificate_sha256: Option<[u8; 32]>) -> EngineFixture {
    let store = ScratchStore::new(&["acme", "other"]);
    let client = NewClient {
        name: ClientName::parse(client).expect("a name"),
        apps: Apps::Only(BTreeSet::from([AppName::parse("acme").expect("a name")])),
        operations: BTreeSet::from([Operation::Encrypt, Operation::Decrypt]),
        roles: Roles::Any,
        accept: AcceptedSchemes::ALL,
        certificate_sha256,
    };
    let keystore = store.open();
    keystore.put_client(&client).expect("stored");
    EngineFixture { engine: Engine::new(Box::new(keystore), settings), _store: store }
}
