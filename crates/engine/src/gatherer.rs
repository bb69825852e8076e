//! Gathers key agreements of concurrent requests for the same key version, so that SIMD lanes compute them together: eight cost as much
//! as one.
//!
//! A request that needs an opening key while others wait for a turn announces it and ends its slice. When its turn comes again, or when
//! eight are announced, they are computed together. A lone request never waits. Announcements are weak, so that those of
//! requests that have ended are left out, and each request has at most one batch of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use leafseal_crypto::Curve;

use crate::app::App;
use crate::opening::{Agreements, EphemeralId, Opening};

/// An opening that a request needs.
pub(crate) struct Wanted {
    app: Arc<App>,
    /// The version that most likely fits.
    version: u32,
    ephemeral: EphemeralId,
    /// `None` for an ephemeral key that is no point.
    opening: OnceLock<Option<Arc<Opening>>>,
}

impl Wanted {
    /// Whether it is for the app as it is now: with the same versions.
    pub(crate) fn is_for(&self, app: &Arc<App>) -> bool {
        Arc::ptr_eq(&self.app, app)
    }

    /// The opening, if it has been computed.
    pub(crate) fn computed(&self) -> Option<&Arc<Opening>> {
        self.opening.get()?.as_ref()
    }

    fn key(&self) -> GatheredKey {
        key(&self.app, self.version, self.ephemeral.curve)
    }

    fn is_open(&self) -> bool {
        self.opening.get().is_none()
    }
}

/// An app by its address, a version of its keys, and a curve.
type GatheredKey = (usize, u32, Curve);

/// Announced keys that are not computed. An app's entry is removed when it is computed, and has less than a batch before.
#[derive(Default)]
pub(crate) struct Gatherer {
    waiting: Mutex<HashMap<GatheredKey, Vec<Weak<Wanted>>>>,
}

fn key(app: &Arc<App>, version: u32, curve: Curve) -> GatheredKey {
    (Arc::as_ptr(app).addr(), version, curve)
}

impl Gatherer {
    fn waiting(&self) -> MutexGuard<'_, HashMap<GatheredKey, Vec<Weak<Wanted>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces ephemeral keys of one curve, at least one, to agree with this version. True if they complete a batch.
    pub(crate) fn announce(
        &self,
        app: &Arc<App>,
        version: u32,
        ephemerals: &[EphemeralId],
        batch_size: usize,
    ) -> (Vec<Arc<Wanted>>, bool) {
        let announced = |ephemeral: &EphemeralId| {
            Arc::new(Wanted { app: Arc::clone(app), version, ephemeral: *ephemeral, opening: OnceLock::new() })
        };
        let wanted: Vec<Arc<Wanted>> = ephemerals.iter().map(announced).collect();
        let mut waiting = self.waiting();
        let others = waiting.entry(key(app, version, ephemerals[0].curve)).or_default();
        others.retain(|wanted| wanted.strong_count() > 0);
        others.extend(wanted.iter().map(Arc::downgrade));
        let is_complete = others.len() >= batch_size;
        (wanted, is_complete)
    }

    /// Drops what requests that have ended left behind.
    pub(crate) fn expire(&self) {
        self.waiting().retain(|_, waiting| waiting.iter().any(|wanted| wanted.strong_count() > 0));
    }

    /// Computes what of `own` has not been computed, with what others have announced for the same app and version, up to a batch. Returns
    /// whether there was anything.
    pub(crate) fn compute(&self, own: &[Arc<Wanted>], agreements: &Agreements, batch_size: usize) -> bool {
        let mut batch: Vec<Arc<Wanted>> = own.iter().filter(|wanted| wanted.is_open()).map(Arc::clone).collect();
        let Some(first) = batch.first().map(Arc::clone) else { return false };
        let others = self.waiting().remove(&first.key()).unwrap_or_default();
        for other in others.iter().filter_map(Weak::upgrade) {
            let is_own = own.iter().any(|own| Arc::ptr_eq(own, &other));
            if !is_own && other.is_for(&first.app) && other.is_open() {
                batch.push(other);
            }
        }
        for batch in batch.chunks(batch_size) {
            compute_batch(&first, batch, agreements);
        }
        true
    }
}

/// Computes a batch of what `first` is an example of. Several requests may want the same ephemeral key.
fn compute_batch(first: &Wanted, batch: &[Arc<Wanted>], agreements: &Agreements) {
    let mut ephemerals: Vec<EphemeralId> = Vec::with_capacity(batch.len());
    for wanted in batch {
        if !ephemerals.contains(&wanted.ephemeral) {
            ephemerals.push(wanted.ephemeral);
        }
    }
    let openings = Opening::prepare_many(&first.app, agreements, first.version, &ephemerals);
    for wanted in batch {
        let place = ephemerals.iter().position(|ephemeral| *ephemeral == wanted.ephemeral);
        let opening = place.and_then(|place| openings.get(place).cloned().flatten());
        let _ = wanted.opening.set(opening);
    }
}
