//! A real engine over a real store, in a folder that goes with it.

use std::collections::BTreeSet;

use fieldseal_engine::admin::{
    AppName, Apps, ClientName, Environment, Keystore, Limits, LocalRootKey, NewClient, NewKeys, OpenMode, Operation,
    Roles, SqliteKeystore, system_clock,
};
use fieldseal_engine::{Engine, Settings, system_random};

pub struct EngineFixture {
    pub engine: Engine,
    _store: Store,
}

/// The client `client`, who may encrypt and decrypt for `acme` alone, and an engine over the store.
pub fn engine(settings: Settings, client: &str, certificate_sha256: Option<[u8; 32]>) -> EngineFixture {
    let store = Store::new();
    let client = NewClient {
        name: ClientName::parse(client).expect("a name"),
        apps: Apps::Only(BTreeSet::from([AppName::parse("acme").expect("a name")])),
        operations: BTreeSet::from([Operation::Encrypt, Operation::Decrypt]),
        roles: Roles::Any,
        certificate_sha256,
    };
    let keystore = store.open();
    keystore.put_client(&client).expect("stored");
    EngineFixture { engine: Engine::new(Box::new(keystore), settings), _store: store }
}

/// A store with the apps `acme` and `other`, which can be opened more than once.
pub struct Store {
    folder: tempfile::TempDir,
    root_key: String,
}

impl Store {
    pub fn new() -> Store {
        let root_key = LocalRootKey::generate(&mut system_random()).to_text().as_str().to_owned();
        let store = Store { folder: tempfile::tempdir().expect("a folder"), root_key };
        let keystore = store.open();
        for name in ["acme", "other"] {
            keystore.create_app(&AppName::parse(name).expect("a name"), NewKeys::generated()).expect("created");
        }
        store
    }

    pub fn open(&self) -> SqliteKeystore {
        let environment = Environment {
            root_key: Box::new(LocalRootKey::from_text(&self.root_key).expect("a root key")),
            clock: Box::new(system_clock),
            rng: Box::new(system_random()),
        };
        let path = self.folder.path().join("private").join("store.sqlite");
        SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment, Limits::default()).expect("opens")
    }
}
