//! The symmetric keys of one request, by the id that an envelope has. An id that the request's app does not have is asked of the store: a
//! version that another engine has made seals at once. No worker waits for that, and what the store does not have is asked for once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafseal_crypto::symmetric::{SymmetricKey, SymmetricKeyId};
use leafseal_pool::finish_step;

use crate::bindings::RequestBinding;
use crate::engine::permit::Permit;
use crate::error::{Error, ErrorCode};
use crate::request_openings::{OpeningFault, RequestOpenings};
use crate::schemes::{Acceptance, AcceptedSchemes};

/// The keys that a request has used last, and the ids for which there is none.
#[derive(Default)]
pub(crate) struct SymmetricSearch {
    last: Option<FoundKey>,
    /// Shared by all workers of the request, which are bounded together.
    missing: Arc<Mutex<MissingIds>>,
}

/// The ids that the store did not have.
#[derive(Default)]
struct MissingIds {
    ids: HashSet<SymmetricKeyId>,
    /// How many it was asked for: not fewer when the app's keys change.
    asked: usize,
}

/// A key of the request's app.
#[derive(Clone)]
pub(crate) struct FoundKey {
    pub(crate) version: u32,
    pub(crate) key: Arc<SymmetricKey>,
}

/// Everything that a request opens envelopes with, and which ones it accepts.
pub(crate) struct Keyring {
    pub(crate) openings: RequestOpenings,
    pub(crate) symmetric: SymmetricSearch,
    pub(crate) binding: RequestBinding,
    pub(crate) accept: Acceptance,
}

impl Keyring {
    /// For values that are bound so. The request asks for those in `accept`.
    pub(crate) fn new(permit: &Permit, binding: RequestBinding, accept: AcceptedSchemes) -> Self {
        Self {
            openings: RequestOpenings::new(&permit.engine),
            symmetric: SymmetricSearch::default(),
            binding,
            accept: Acceptance::new(accept, permit),
        }
    }

    /// For another worker of the request.
    pub(crate) fn fork(&mut self) -> Self {
        Self {
            openings: self.openings.fork(),
            symmetric: self.symmetric.fork(),
            binding: self.binding.clone(),
            accept: self.accept,
        }
    }

    /// The error of a value without a key, with its place, or of the request.
    pub(crate) fn error(&self, unopened: OpeningFault, placed: impl FnOnce(Error) -> Error) -> Error {
        self.openings.error(unopened, placed)
    }

    /// Forgets all keys, because those of the app have changed, and accepts what the renewed permit does.
    pub(crate) fn renew(&mut self, permit: &Permit) {
        self.openings.clear();
        self.symmetric.clear();
        self.accept = self.accept.renewed(permit);
    }
}

/// The result of a look-up.
pub(crate) enum KeySearch {
    Found(FoundKey),
    /// No version of the app that may decrypt has it.
    Missing,
    /// The store is being asked: end the step, and ask again in the next one.
    Waiting,
}

impl SymmetricSearch {
    /// Forgets all, because the app's keys have changed.
    pub(crate) fn clear(&mut self) {
        self.last = None;
        self.missing().ids.clear();
    }

    /// For another worker of the request.
    pub(crate) fn fork(&self) -> Self {
        Self { last: self.last.clone(), missing: Arc::clone(&self.missing) }
    }

    fn missing(&self) -> MutexGuard<'_, MissingIds> {
        // Every change under the lock is one insertion or removal.
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key with this id.
    ///
    /// # Errors
    /// The store does not respond; too large: too many ids of the request have no key.
    pub(crate) fn find(&mut self, permit: &Permit, id: SymmetricKeyId) -> Result<KeySearch, Error> {
        if let Some(last) = self.last.as_ref().filter(|last| last.key.id() == id) {
            return Ok(KeySearch::Found(last.clone()));
        }
        let found = match permit.app.symmetric(id) {
            Some(found) => Some(found),
            None => {
                let searched_max = permit.engine.settings().request_key_lookups_max;
                let missing = self.missing();
                if missing.ids.contains(&id) {
                    return Ok(KeySearch::Missing);
                }
                if missing.asked >= searched_max {
                    return Err(too_many(searched_max));
                }
                drop(missing);
                match permit.engine.app_with_key(&permit.app.name, id) {
                    Ok(app) => app.and_then(|app| app.symmetric(id)),
                    Err(error) if error.awaits_store => {
                        finish_step();
                        return Ok(KeySearch::Waiting);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let Some((version, key)) = found else {
            let mut missing = self.missing();
            missing.asked += usize::from(missing.ids.insert(id));
            return Ok(KeySearch::Missing);
        };
        permit.engine.note_version(version);
        Ok(KeySearch::Found(self.last.insert(FoundKey { version, key }).clone()))
    }

    /// The version whose key has this id, as far as the request knows: the store is not asked.
    pub(crate) fn version(&self, permit: &Permit, id: SymmetricKeyId) -> Option<u32> {
        let last = self.last.as_ref().filter(|last| last.key.id() == id);
        last.map(|last| last.version).or_else(|| permit.app.symmetric(id).map(|(version, _)| version))
    }
}

fn too_many(searched_max: usize) -> Error {
    let message = format!(
        "more than {searched_max} key ids in the request belong to no key of the app: split the request, or raise \
         engine.request_key_lookups_max"
    );
    Error::new(ErrorCode::TooLarge, message)
}
