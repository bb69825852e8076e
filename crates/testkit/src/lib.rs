//! Shared by tests and benchmarks of several crates: a real store in a temporary folder, an engine over it, and a store that can be
//! held up. Never shipped.

mod decision_cases;
mod decisions;
mod engine;
mod escrow_holder;
mod gated_store;
mod metrics_table;
pub mod pgbouncer;
mod ports;
pub mod postgres;

use std::path::PathBuf;

use leafseal_engine::admin::{
    AppName, ChangeAuthor, Environment, Keystore, LocalRootKey, NewKeys, OpenMode, SqliteKeystore, StoreLimits,
    system_clock,
};
use leafseal_engine::system_random;

pub use decision_cases::{
    CASE_APP, CaseCaller, CaseRequest, DISABLED_APP, DecisionCase, DecisionFixture, decision_cases, id_of,
};
pub use decisions::{RecordedDecisions, words_of};
pub use engine::{EngineFixture, engine};
pub use escrow_holder::EscrowHolder;
pub use gated_store::{Gate, GatedStore};
pub use metrics_table::check_metrics_table;

/// A store with apps, which can be opened more than once, and is gone when this is dropped.
#[derive(Debug)]
pub struct ScratchStore {
    folder: tempfile::TempDir,
    root_key: String,
}

impl ScratchStore {
    /// A store with these apps, each with fresh keys.
    ///
    /// # Panics
    /// On a disk that cannot be written, and on names that are none.
    pub fn new(apps: &[&str]) -> ScratchStore {
        let root_key = LocalRootKey::generate(&mut system_random()).to_text().as_str().to_owned();
        let store = ScratchStore { folder: tempfile::tempdir().expect("a folder"), root_key };
        let keystore = store.open();
        for name in apps {
            keystore.create_app(&AppName::parse(name).expect("a name"), NewKeys::generated()).expect("created");
        }
        store
    }

    /// Opens it, as one more process would.
    ///
    /// # Panics
    /// When it does not open.
    pub fn open(&self) -> SqliteKeystore {
        let environment = Environment {
            providers: vec![Box::new(LocalRootKey::from_text(&self.root_key).expect("a root key"))],
            clock: Box::new(system_clock),
            rng: Box::new(system_random()),
            author: ChangeAuthor::default(),
        };
        SqliteKeystore::open(&self.path(), OpenMode::CreateIfMissing, environment, StoreLimits::default())
            .expect("opens")
    }

    /// The path of its database.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("private").join("store.sqlite")
    }
}
