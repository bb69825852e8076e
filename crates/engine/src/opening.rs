//! Opening keys by ephemeral key. The format does not name the key version of an envelope: the app's versions are tried, first those that
//! decrypted last, and the one that fits is kept, so that an ephemeral key costs one search.
//!
//! A search continues in steps of one key agreement, or of one batch of them in SIMD lanes. Agreed secrets are kept as long as no version
//! has fitted, so that further values of a foreign ephemeral key cost no agreement.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use leafseal_crypto::ec::{COMPRESSED_SIZE, SCALAR_SIZE};
use leafseal_crypto::{Curve, EcContext, Peer, PeerWork, PublicKey, Secret};
use leafseal_envelope::{Malformed, OpeningKey, PublicKeyEnvelope};
use leafseal_keystore::AppKeyPair;

use crate::app::App;
use crate::cost::SearchBudget;

/// Versions left to try from which on a table of the ephemeral key's multiples pays off.
const TABLE_VERSIONS_MIN: usize = 20;
/// Of the versions that decrypted last, those that are agreed with one after the other, before all others side by side: as many as a table
/// costs, nearly.
const ALONE_COUNT_MAX: usize = 16;
/// Tables at a time, of about 100 KiB each; a search that gets none takes one version after the other.
const TABLE_COUNT_MAX: usize = 64;

/// An ephemeral key as envelopes contain it: compressed, so that a known key need not be decompressed and validated again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EphemeralId {
    pub(crate) curve: Curve,
    pub(crate) point: [u8; COMPRESSED_SIZE],
}

impl EphemeralId {
    pub(crate) fn of(envelope: &PublicKeyEnvelope<'_>) -> Self {
        Self { curve: envelope.version.curve(), point: envelope.ephemeral }
    }

    /// The validated key.
    fn key(&self) -> Result<PublicKey, Malformed> {
        PublicKey::from_sec1(self.curve, &self.point).map_err(|_| Malformed::EphemeralPoint)
    }
}

/// Counters of the work for decryption, since the engine's start.
#[derive(Debug, Default)]
pub(crate) struct OpeningWork {
    agreements: AtomicU64,
    trials: AtomicU64,
    /// Cloned for each table in use.
    tables: Arc<()>,
}

impl OpeningWork {
    /// Key agreements.
    pub(crate) fn agreements(&self) -> u64 {
        self.agreements.load(Ordering::Relaxed)
    }

    /// Versions tried on a value, or on a piece of a long one, without success.
    pub(crate) fn trials(&self) -> u64 {
        self.trials.load(Ordering::Relaxed)
    }

    pub(crate) fn note_trials(&self, count: u64) {
        self.trials.fetch_add(count, Ordering::Relaxed);
    }

    fn note_agreements(&self, count: usize) {
        self.agreements.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The place of another table, unless there are too many.
    fn table_place(&self) -> Option<TablePlace> {
        let tables = Arc::clone(&self.tables);
        (Arc::strong_count(&tables) <= TABLE_COUNT_MAX + 1).then_some(TablePlace { _tables: tables })
    }
}

/// The resources of key agreements for decryption.
pub(crate) struct Agreements {
    pub(crate) ec: Arc<EcContext>,
    pub(crate) work: Arc<OpeningWork>,
}

/// The state of one ephemeral key for one app: the opening key of the version that decrypted, once found, or the search for it.
pub(crate) struct Opening {
    app: Arc<App>,
    id: EphemeralId,
    ephemeral: PublicKey,
    winner: OnceLock<VersionKey>,
    search: Mutex<VersionSearch>,
}

/// The opening key of one version.
pub(crate) struct VersionKey {
    version: u32,
    /// How many candidates come before it.
    pub(crate) place: usize,
    /// A kilobyte, which would otherwise be moved several times.
    pub(crate) key: Box<OpeningKey>,
}

/// The next step on a value.
pub(crate) enum OpeningAttempt<'o> {
    /// The key of the version that has decrypted a value of this ephemeral key.
    Known(&'o OpeningKey),
    /// The key of another version.
    Candidate(VersionKey),
    /// Nothing yet: the search continues in the next step.
    Later,
    /// Every version has been tried.
    Nothing,
}

/// The versions agreed with so far, none of which has decrypted a value.
#[derive(Default)]
struct VersionSearch {
    /// In the order of the agreements.
    agreed: Vec<Agreed>,
    /// Their versions in ascending order.
    versions: Vec<u32>,
    table: PointTable,
}

/// The shared secret of one version and the ephemeral key: a fraction of the size of an opening key.
struct Agreed {
    version: u32,
    shared: Secret<SCALAR_SIZE>,
}

/// The table of the ephemeral key's multiples.
#[derive(Default)]
enum PointTable {
    #[default]
    None,
    Working(Box<PeerWork>, TablePlace),
    Ready {
        peer: Box<Peer>,
        _place: TablePlace,
    },
}

/// The place of one of [`TABLE_COUNT_MAX`] tables, until it is dropped.
struct TablePlace {
    _tables: Arc<()>,
}

impl Opening {
    pub(crate) fn new(app: Arc<App>, id: EphemeralId) -> Result<Self, Malformed> {
        let (ephemeral, winner) = (id.key()?, OnceLock::new());
        Ok(Self { app, id, ephemeral, winner, search: Mutex::default() })
    }

    /// The openings of several ephemeral keys of one curve, which have agreed with the same version: in SIMD lanes, for little more than
    /// the cost of one. None for ephemeral keys that are no points, and none at all if the app does not have the version.
    pub(crate) fn prepare_many(
        app: &Arc<App>,
        agreements: &Agreements,
        version: u32,
        ephemerals: &[EphemeralId],
    ) -> Vec<Option<Arc<Self>>> {
        let Some(pair) = ephemerals.first().and_then(|first| app.pair(first.curve, version)) else { return Vec::new() };
        let points: Vec<[u8; COMPRESSED_SIZE]> = ephemerals.iter().map(|ephemeral| ephemeral.point).collect();
        let agreed = agreements.ec.agree_many(pair.private(), &points);
        agreements.work.note_agreements(agreed.iter().flatten().count());
        let opening = |(id, (ephemeral, shared))| {
            let mut search = VersionSearch::default();
            search.add(version, shared);
            let (app, search) = (Arc::clone(app), Mutex::new(search));
            Arc::new(Self { app, id, ephemeral, winner: OnceLock::new(), search })
        };
        ephemerals.iter().zip(agreed).map(|(id, agreed)| Some(opening((*id, agreed.ok()?)))).collect()
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }

    pub(crate) fn id(&self) -> EphemeralId {
        self.id
    }

    /// The version that decrypted, once one has.
    pub(crate) fn version(&self) -> Option<u32> {
        self.winner.get().map(|winner| winner.version)
    }

    /// Whether the newest version decrypted.
    pub(crate) fn by_newest(&self) -> bool {
        self.version().is_some_and(|version| self.app.newest_version(self.id.curve) == Some(version))
    }

    /// The key that decrypts, once one has.
    pub(crate) fn known(&self) -> Option<&OpeningKey> {
        self.winner.get().map(|winner| &*winner.key)
    }

    /// The next step on a value for which `tried` candidates have failed. Agrees with further versions if the budget permits, first with
    /// `likely`.
    pub(crate) fn next(
        &self,
        tried: usize,
        likely: Option<u32>,
        agreements: &Agreements,
        budget: &mut SearchBudget,
    ) -> OpeningAttempt<'_> {
        // Another worker of the request may be at the same search: waiting for its step takes no longer than doing it again.
        let mut search = self.search();
        if let Some(known) = self.known() {
            return OpeningAttempt::Known(known);
        }
        // No more than there are, if the opening was dropped in between and made again.
        let place = tried.min(search.agreed.len());
        if place == search.agreed.len() {
            match search.agree(&self.app, &self.ephemeral, likely, agreements, budget) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(next) => return next,
            }
        }
        let Agreed { version, shared } = &search.agreed[place];
        let app = self.app.pair(self.id.curve, *version).expect("agreed with a key of the app").public();
        let key = Box::new(OpeningKey::of_shared(app, &self.ephemeral, shared.clone()));
        OpeningAttempt::Candidate(VersionKey { version: *version, place, key })
    }

    /// Stores a key that has decrypted, and ends the search.
    pub(crate) fn settle(&self, candidate: VersionKey) -> &OpeningKey {
        let winner = self.winner.get_or_init(|| candidate);
        self.app.recent().note(winner.version);
        *self.search() = VersionSearch::default();
        &winner.key
    }

    fn search(&self) -> MutexGuard<'_, VersionSearch> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions in the order in which they decrypted values last, those that have decrypted none behind.
fn latest_first<'a>(app: &App, rest: Vec<(u32, &'a AppKeyPair)>) -> Vec<(u32, &'a AppKeyPair)> {
    let versions: Vec<u32> = rest.iter().map(|(version, _)| *version).collect();
    let mut placed: Vec<_> = app.recent().places(&versions).into_iter().zip(rest).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, one)| one).collect()
}

impl VersionSearch {
    fn add(&mut self, version: u32, shared: Secret<SCALAR_SIZE>) {
        self.agreed.push(Agreed { version, shared });
        let place = self.versions.partition_point(|known| *known < version);
        self.versions.insert(place, version);
    }

    fn is_new(&self, version: u32) -> bool {
        self.versions.binary_search(&version).is_err()
    }

    /// Agrees with one version more, or with a batch of them, or computes a piece of the table for that.
    fn agree<'o>(
        &mut self,
        app: &App,
        ephemeral: &PublicKey,
        likely: Option<u32>,
        agreements: &Agreements,
        budget: &mut SearchBudget,
    ) -> ControlFlow<OpeningAttempt<'o>> {
        let curve = ephemeral.curve();
        let latest = app.recent().versions(ALONE_COUNT_MAX);
        let mut latest = likely.into_iter().chain(latest).filter(|version| self.is_new(*version));
        let likely = latest.find_map(|version| Some((version, app.pair(curve, version)?)));
        let rest: Vec<(u32, &AppKeyPair)> = app.versions(curve).filter(|(version, _)| self.is_new(*version)).collect();
        let Some(next) = likely.or_else(|| rest.first().copied()) else {
            self.table = PointTable::None;
            return ControlFlow::Break(OpeningAttempt::Nothing);
        };
        if !budget.take_agreement() {
            return ControlFlow::Break(OpeningAttempt::Later);
        }
        let is_first = self.agreed.is_empty();
        if likely.is_none() && !is_first {
            self.go_on_with_table(ephemeral, rest.len(), &agreements.work);
            match &self.table {
                PointTable::None => {}
                PointTable::Working(..) => return ControlFlow::Break(OpeningAttempt::Later),
                PointTable::Ready { peer, .. } => {
                    let rest = latest_first(app, rest);
                    let batch = &rest[..peer.batch_size().min(rest.len())];
                    let privates: Vec<_> = batch.iter().map(|(_, pair)| pair.private()).collect();
                    let shared = peer.agree_each(&privates);
                    agreements.work.note_agreements(shared.len());
                    batch.iter().zip(shared).for_each(|((version, _), shared)| self.add(*version, shared));
                    return ControlFlow::Continue(());
                }
            }
        }
        let (version, pair) = next;
        agreements.work.note_agreements(1);
        self.add(version, agreements.ec.agree(pair.private(), ephemeral));
        ControlFlow::Continue(())
    }

    /// Begins a table if so many versions are left that it pays off, or computes the next piece of one.
    fn go_on_with_table(&mut self, ephemeral: &PublicKey, left: usize, work: &OpeningWork) {
        let (table, place) = match std::mem::take(&mut self.table) {
            PointTable::Working(table, place) => (*table, place),
            PointTable::None if left >= TABLE_VERSIONS_MIN => {
                match work.table_place().and_then(|place| Some((PeerWork::new(*ephemeral)?, place))) {
                    Some(begun) => begun,
                    None => return,
                }
            }
            table => {
                self.table = table;
                return;
            }
        };
        self.table = match table.go_on() {
            ControlFlow::Continue(table) => PointTable::Working(Box::new(table), place),
            ControlFlow::Break(peer) => PointTable::Ready { peer: Box::new(peer), _place: place },
        };
    }
}
