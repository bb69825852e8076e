//! The root that a process uses, and how it goes to the next: by a link, or by asking what opens its slots again. The store under the
//! next one has to come from the one that was seen (`docs/decisions/0048-descent.md`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::session::{StoreSession, StoreState};
use super::slots::{OpenRoot, RootLink, RootWay};
use super::value::Sql;
use super::{SqlBackend, SqlKeystore, descent, schema};
use crate::StoreError;
use crate::edit::EditedPart;
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::slots::SlotProvider;

impl<B: SqlBackend> SqlKeystore<B> {
    /// The newest root that this process knows.
    pub(super) fn open_root(&self) -> Arc<OpenRoot> {
        Arc::clone(&self.open.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the store was seen before its migration only, when the root key of a provider was its root.
    pub(super) fn is_without_slots(&self) -> bool {
        self.open_root().epoch == 0
    }

    /// Uses a root from now on, unless a newer one is known.
    pub(super) fn adopt(&self, next: Arc<OpenRoot>) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if next.epoch > open.epoch {
            *open = next;
        }
    }

    /// Trusts nothing under the root that is held any more, which its own holders have ended.
    fn forget_root(&self) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        *open = Arc::new(open.without_root(self.rng().as_mut()));
    }

    /// The state that a transaction sees, verified, and its root, to which links may lead. `ahead` as in [`StoreState::verified`].
    pub(super) fn settle(&self, sql: &mut dyn Sql, ahead: i64) -> Result<(Arc<OpenRoot>, StoreState), StoreError> {
        let mut open = self.open_root();
        loop {
            let known = self.schema.load(Ordering::Acquire);
            let edit = match StoreState::verified(sql, &open.tree, known, ahead) {
                Ok(state) => {
                    self.follow(sql, &open, state)?;
                    return Ok((open, state));
                }
                Err(StoreError::Edited(edit)) if edit.part == EditedPart::Root => edit,
                Err(other) => return Err(other),
            };
            let named = match schema::identify(sql) {
                Ok(found) if found.schema() >= TREE_SCHEMA_VERSION => found.root,
                _ => return Err(StoreError::Edited(edit)),
            };
            match RootLink::follow(sql, &open, self.now())? {
                RootWay::Next(next) => open = Arc::new(next),
                RootWay::Ended => {
                    self.forget_root();
                    return Err(StoreError::RootReplaced);
                }
                RootWay::Unknown if named == open.root.id() => return Err(StoreError::Edited(edit)),
                // Anyone who can write to the database can name another root: the one that is held stays, until the store is right again.
                RootWay::Unknown => return Err(StoreError::RootReplaced),
            }
        }
    }

    /// The root to look for edits with, whatever is stored.
    pub(super) fn settled_root(&self, sql: &mut dyn Sql) -> Result<Arc<OpenRoot>, StoreError> {
        match self.settle(sql, 0) {
            Ok((open, _)) => Ok(open),
            Err(StoreError::RootReplaced) => Err(StoreError::RootReplaced),
            Err(_) => Ok(self.open_root()),
        }
    }

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
