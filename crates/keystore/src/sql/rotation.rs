//! Key slots of an open store, and a new root for it.

use std::time::Duration;

use super::bounds;
use super::descent;
use super::resealing::{self, Resealing, SealingProgress};
use super::session::StoreSession;
use super::slots::{self, OpenRoot, RootLink};
use super::table::EntryKind;
use super::value::FOREVER;
use super::{SqlBackend, SqlKeystore, api_keys};
use crate::StoreError;
use crate::error::LimitedEntries;
use crate::history::{ChangeKind, ChangeNote};
use crate::model::RootRotation;
use crate::root_key::StoreRoot;
use crate::schema_version::TREE_SCHEMA_VERSION;
use crate::slots::{MadeSlot, ProviderError, RemainingSlots, Slot, SlotId, SlotProvider, SlotSummary};

/// The slots, oldest first.
pub(super) fn all(session: &mut StoreSession<'_>) -> Result<Vec<SlotSummary>, StoreError> {
    let mut summaries: Vec<SlotSummary> = stored(session)?.into_iter().map(|slot| slot.summary).collect();
    summaries.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
    Ok(summaries)
}

fn stored(session: &mut StoreSession<'_>) -> Result<Vec<Slot>, StoreError> {
    session.all(EntryKind::Slot)?.values().map(|rows| slots::slot(rows.head()?)).collect()
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// Makes a slot outside of any transaction: a provider may take its time.
    pub(super) fn new_slot(&self, provider: &dyn SlotProvider) -> Result<MadeSlot, StoreError> {
        // Brings this process to the newest root.
        self.read(require_slots)?;
        let open = self.open_root();
        let failed = |error| StoreError::Provider { kind: provider.kind(), error };
        Slot::make(provider, open.numbered(), self.now(), self.rng().as_mut()).map(MadeSlot).map_err(failed)
    }

    /// Stores a slot, and removes another in the same change.
    pub(super) fn put_slot_now(&self, made: &MadeSlot, instead_of: Option<&SlotId>) -> Result<(), StoreError> {
        let MadeSlot(slot) = made;
        let kind = if instead_of.is_some() { ChangeKind::ReplaceSlot } else { ChangeKind::AddSlot };
        let note = ChangeNote::of(kind).list([Some(&slot.summary.id), instead_of].into_iter().flatten());
        self.change(note, |session| {
            // The root was replaced meanwhile.
            if session.open.epoch != slot.epoch {
                return Err(StoreError::Busy);
            }
            let limit = self.limits.slot_count_max;
            if instead_of.is_none() && bounds::slot_count(session.sql)? >= limit {
                return Err(StoreError::TooMany { what: LimitedEntries::Slots, limit });
            }
            if let Some(id) = instead_of {
                remove(session, id)?;
            }
            session.put(&slots::entry_key(&slot.summary.id), false, &slots::rows(slot))
        })
    }

    pub(super) fn remove_slot_now(&self, id: &SlotId, remaining: RemainingSlots<'_>) -> Result<(), StoreError> {
        let opened = match remaining {
            RemainingSlots::Untested => None,
            RemainingSlots::OpenWith(providers) => Some(self.open_another(id, providers)?),
        };
        self.change(ChangeNote::of(ChangeKind::RemoveSlot).detail(&id.to_string()), |session| {
            require_slots(session)?;
            refuse_last(&all(session)?, id)?;
            // Somebody else may have removed it meanwhile, for which this one was to remain.
            if let Some(opened) = &opened {
                session.entry(&slots::entry_key(opened))?.ok_or(StoreError::Busy)?;
            }
            remove(session, id)
        })
    }

    /// Opens a slot other than this, outside of any transaction; returns its id.
    fn open_another(&self, id: &SlotId, providers: &[Box<dyn SlotProvider>]) -> Result<SlotId, StoreError> {
        let (open, mut others) = self.read_open(|session| {
            require_slots(session)?;
            stored(session)
        })?;
        let before = others.len();
        others.retain(|slot| slot.summary.id != *id);
        match others.len() {
            same if same == before => return Err(StoreError::UnknownSlot(id.clone())),
            0 => return Err(StoreError::LastSlot(id.clone())),
            _ => {}
        }
        match slots::open_one((self.id, open.root.id()), &others, providers) {
            Ok((opened, found)) if found.root.id() == open.root.id() => Ok(opened.id.clone()),
            Ok(_) | Err(StoreError::Sealed { .. } | StoreError::WrongRootKey { .. }) => {
                Err(StoreError::UntestedSlots(id.clone()))
            }
            Err(other) => Err(other),
        }
    }

    /// Removes the links that nobody follows any more, if there are any.
    pub(super) fn remove_ended_links(&self) -> Result<(), StoreError> {
        let is_due = self.read(|session| {
            Ok(session.schema >= TREE_SCHEMA_VERSION && RootLink::count_ended(session.sql, self.now())? > 0)
        })?;
        // Every change removes them.
        if is_due { self.change(ChangeNote::of(ChangeKind::RemoveRootLinks), |_| Ok(())) } else { Ok(()) }
    }

    /// Puts the store under a new root. `link`: for how long running engines may follow from the former one.
    pub(super) fn rotate_root_now(
        &self,
        link: Option<Duration>,
        progress: SealingProgress<'_>,
    ) -> Result<RootRotation, StoreError> {
        let (next, sealed_count) = self.change(ChangeNote::of(ChangeKind::RotateRoot), |session| {
            require_slots(session)?;
            let root = StoreRoot::generate(self.rng().as_mut());
            let next = OpenRoot::new(root, session.open.epoch + 1, self.id);
            let former = if link.is_none() { FormerRoot::Compromised } else { FormerRoot::Trusted };
            let sealed_count = self.write_under(session, &next, former, progress)?;
            let links_until = link.map_or(0, |link| self.now().saturating_add(link.as_secs()));
            if link.is_none() {
                RootLink::remove(session.sql, FOREVER)?;
            } else {
                RootLink::make((session.open, &next), links_until, self.rng().as_mut()).write(session.sql)?;
            }
            RootLink::write_end(session.sql, (session.open, next.epoch), links_until, self.rng().as_mut())?;
            Ok((next, sealed_count))
        })?;
        let rotation = RootRotation { root: next.root.id(), epoch: next.epoch, sealed_count };
        self.adopt(next.into());
        Ok(rotation)
    }

    fn write_under(
        &self,
        session: &mut StoreSession<'_>,
        next: &OpenRoot,
        former: FormerRoot,
        progress: SealingProgress<'_>,
    ) -> Result<usize, StoreError> {
        let mut entries = session.all_entries()?;
        let before = &session.open.root;
        let resealing = Resealing { store: self.id, from: (before, session.schema), to: &next.root };
        let count = resealing.all(&mut entries, self.rng().as_mut(), progress)?;
        for (_, rows) in entries.iter_mut().filter(|(key, _)| key.kind == EntryKind::Slot) {
            let mut slot = slots::slot(rows.head()?)?;
            let kind = slot.summary.kind;
            let replaced = slot.replace_root(before, next.numbered(), self.rng().as_mut());
            replaced.map_err(|error: ProviderError| StoreError::Provider { kind, error })?;
            *rows = slots::rows(&slot);
        }
        if former == FormerRoot::Compromised {
            api_keys::renew_token_secret(&mut entries, next, self.rng().as_mut());
            descent::record_compromised(&mut entries, (session.open, next), self.rng().as_mut());
        }
        descent::record(&mut entries, (session.open, next), self.rng().as_mut());
        resealing::write(session, next, entries)?;
        Ok(count)
    }
}

/// What is known of the root that is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormerRoot {
    Trusted,
    /// Others may have it, and could sign tokens and key versions in escrow.
    Compromised,
}

pub(super) fn remove_links(session: &mut StoreSession<'_>) -> Result<(), StoreError> {
    require_slots(session)?;
    RootLink::remove(session.sql, FOREVER)
}

fn require_slots(session: &mut StoreSession<'_>) -> Result<(), StoreError> {
    if session.schema >= TREE_SCHEMA_VERSION { Ok(()) } else { Err(StoreError::NoSlots) }
}

fn refuse_last(slots: &[SlotSummary], id: &SlotId) -> Result<(), StoreError> {
    if let [last] = slots
        && last.id == *id
    {
        return Err(StoreError::LastSlot(id.clone()));
    }
    Ok(())
}

fn remove(session: &mut StoreSession<'_>, id: &SlotId) -> Result<(), StoreError> {
    let key = slots::entry_key(id);
    session.entry(&key)?.ok_or_else(|| StoreError::UnknownSlot(id.clone()))?;
    session.remove(&key)
}
