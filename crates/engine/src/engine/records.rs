//! What an engine reads of its store for its audit log. Every call waits for the store.

use leafseal_keystore::{AppName, ChangePage, EngineLog, Generation, RecordKey, StoreError};

use super::Engine;

impl Engine {
    /// The key with which this engine, by its name, signs its records, on a thread that may wait.
    ///
    /// # Errors
    /// As [`Keystore::record_key`].
    pub fn record_key(&self, signer: &str) -> Result<Option<RecordKey>, StoreError> {
        self.store().record_key(signer, None)
    }

    /// The same under the root of an epoch; `None` for a root from which the store does not come.
    ///
    /// # Errors
    /// As [`Keystore::record_key`].
    pub fn record_key_of(&self, signer: &str, epoch: u32) -> Result<Option<RecordKey>, StoreError> {
        self.store().record_key(signer, Some(epoch))
    }

    /// Differs whenever the store may have changed.
    ///
    /// # Errors
    /// Those of the store.
    pub fn store_generation(&self) -> Result<Generation, StoreError> {
        self.store().generation()
    }

    /// Changes of the store after a generation, at most `limit`; `None` of a store without a history.
    ///
    /// # Errors
    /// Those of the store.
    pub fn store_changes(&self, after: u64, limit: u32) -> Result<Option<ChangePage>, StoreError> {
        self.store().history().map(|history| history.changes(after, limit)).transpose()
    }

    /// Records in the history of the store that canaries of an app were opened, if any were: for programs that have no audit log.
    ///
    /// # Errors
    /// Those of the store.
    pub fn record_opened_canaries(&self, app: &AppName) -> Result<(), StoreError> {
        match self.store().history() {
            Some(history) if self.counters().canaries > 0 => history.record_canary(app),
            _ => Ok(()),
        }
    }

    /// Which audit log an engine of this name writes, as the store has it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn audit_log(&self, engine: &str) -> Result<Option<EngineLog>, StoreError> {
        Ok(self.store().history().map(|history| history.engine_log(engine)).transpose()?.flatten())
    }

    /// Gives an engine of this name a new log, in the place of the `known` one; `None` of a store without a history.
    ///
    /// # Errors
    /// Those of the store; [`StoreError::Busy`] if the engine has another log by now.
    pub fn begin_audit_log(&self, engine: &str, known: Option<&str>) -> Result<Option<EngineLog>, StoreError> {
        self.store().history().map(|history| history.begin_engine_log(engine, known)).transpose()
    }
}
