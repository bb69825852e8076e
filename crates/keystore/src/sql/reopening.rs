//! Another way to a store whose root was replaced: what opens its slots is asked again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::session::{StoreSession, StoreState};
use super::slots::OpenRoot;
use super::value::Sql;
use super::{SqlBackend, SqlKeystore, descent, schema};
use crate::StoreError;
use crate::slots::SlotProvider;

impl<B: SqlBackend> SqlKeystore<B> {
    /// Asks the providers for a root that replaced the known one, where no link leads to it.
    pub(super) fn unlock_again(&self) -> Result<(), StoreError> {
        self.unlock_with(&self.providers).map_err(|error| match error {
            StoreError::Sealed { .. } | StoreError::WrongRootKey { .. } => StoreError::RootReplaced,
            other => other,
        })
    }

    /// Goes to the root that these open, which replaced the known one.
    pub(super) fn unlock_with(&self, providers: &[Box<dyn SlotProvider>]) -> Result<(), StoreError> {
        let found = self.backend.read(schema::identify)?;
        let next = found.unlock(providers)?;
        if next.epoch <= self.open_root().epoch {
            return Err(StoreError::RootReplaced);
        }
        let (known, next) = (self.schema.load(Ordering::Acquire), Arc::new(next));
        self.backend.read(|sql| {
            let state = StoreState::verified(sql, &next.tree, known, 0)?;
            self.follow(sql, &next, state)
        })
    }

    /// Uses the root of a verified state from now on, if that comes from the one before.
    pub(super) fn follow(&self, sql: &mut dyn Sql, next: &Arc<OpenRoot>, state: StoreState) -> Result<(), StoreError> {
        let known = self.open_root();
        if next.epoch > known.epoch {
            let mut session = StoreSession::new(sql, next, state);
            if !descent::is_from(&mut session, &known.sighting)? {
                return Err(StoreError::OtherDescent);
            }
            self.adopt(Arc::clone(next));
        }
        self.schema.fetch_max(state.schema, Ordering::AcqRel);
        Ok(())
    }

    /// Asks the providers for a root that replaced the known one, once: a store that they do not open is sealed until somebody else looks.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        if self.is_sealed.load(Ordering::Acquire) {
            return Err(StoreError::RootReplaced);
        }
        let opened = self.unlock_again();
        self.is_sealed.store(matches!(opened, Err(StoreError::RootReplaced)), Ordering::Release);
        opened
    }
}
