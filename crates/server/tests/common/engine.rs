//! A real engine over a real store, in a folder that goes with it.

use std::collections::BTreeSet;

use fieldseal_engine::admin::{
    AppName, Apps, ClientName, Environment, Keystore, Limits, LocalRootKey, NewClient, NewKeys, OpenMode, Operation,
    Roles, SqliteKeystore, system_clock,
};
use fieldseal_engine::{Engine, Settings, system_random};

pub struct EngineFixture {
    pub engine: Engine,
    _folder: tempfile::TempDir,
}

/// The apps `acme` and `other`, and the client `client`, who may encrypt and decrypt for `acme` alone.
pub fn engine(settings: Settings, client: &str, certificate_sha256: Option<[u8; 32]>) -> EngineFixture {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = Environment {
        root_key: Box::new(LocalRootKey::generate(&mut system_random())),
        clock: Box::new(system_clock),
        rng: Box::new(system_random()),
    };
    let path = folder.path().join("private").join("store.sqlite");
    let store = SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment, Limits::default()).expect("opens");
    for name in ["acme", "other"] {
        store.create_app(&AppName::parse(name).expect("a name"), NewKeys::generated()).expect("created");
    }
    let client = NewClient {
        name: ClientName::parse(client).expect("a name"),
        apps: Apps::Only(BTreeSet::from([AppName::parse("acme").expect("a name")])),
        operations: BTreeSet::from([Operation::Encrypt, Operation::Decrypt]),
        roles: Roles::Any,
        certificate_sha256,
    };
    store.put_client(&client).expect("stored");
    EngineFixture { engine: Engine::new(Box::new(store), settings), _folder: folder }
}
