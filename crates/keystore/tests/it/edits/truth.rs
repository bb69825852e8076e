//! What is true of a store, and what must hold of it after an edit.

use std::collections::BTreeSet;

use leafseal_keystore::{
    ApiKeyId, EditedPart, HistoryEntry, OpenMode, StoreEdit, StoreError, StoreFault, StoreLimits, StoreScan,
};

use super::generator::{Dump, dump};
use super::{ADDED, filled};
use crate::common::{Kind, Place, Store, app, client, environment};

/// Longest history that is read.
const HISTORY_MAX: u32 = 1_000;

pub(super) fn history(store: &Store) -> Vec<HistoryEntry> {
    store.history().expect("has one").changes(0, HISTORY_MAX).expect("read").entries
}

/// What a store returns for each name: the answer as text, or the error.
pub(super) type View = Vec<(String, Result<String, StoreError>)>;

pub(super) fn view(store: &Store, ids: &[ApiKeyId]) -> View {
    let mut view = View::new();
    for name in ["a", "b", "c", "d"].into_iter().chain(ADDED) {
        let keys = store.load_app(&app(name)).map(|found| {
            let found = found.map(|keys| {
                let version = |it: &leafseal_keystore::KeyVersion| {
                    (it.version, it.created_at, it.state, *it.r1.public(), *it.k1.public())
                };
                (keys.disabled, keys.accept, keys.versions.iter().map(version).collect::<Vec<_>>())
            });
            format!("{found:?}")
        });
        view.push((format!("app {name}"), keys));
        let summary = store.app_summary(&app(name)).map(|found| format!("{found:?}"));
        view.push((format!("app {name}"), summary));
        let canaries = match store.canaries().expect("has some").canaries(&app(name)) {
            Err(StoreError::UnknownApp(_)) => Ok("no app".to_owned()),
            other => other.map(|found| format!("{found:?}")),
        };
        view.push((format!("app {name}"), canaries));
    }
    for name in ["one", "two", "three"].into_iter().chain(ADDED) {
        view.push((format!("client {name}"), store.client(&client(name)).map(|found| format!("{found:?}"))));
    }
    for id in ids {
        view.push((format!("API key {}", id.as_str()), store.api_key(id).map(|found| format!("{found:?}"))));
    }
    view.push(("secret".to_owned(), store.token_secret().map(|secret| hex::encode(secret.expose()))));
    view.push(("all apps".to_owned(), store.list_apps().map(|found| format!("{found:?}"))));
    view.push(("all clients".to_owned(), store.list_clients().map(|found| format!("{found:?}"))));
    view.push(("all API keys".to_owned(), store.list_api_keys().map(|found| format!("{found:?}"))));
    view
}

/// The entity that a row is about, as [`view`] names it; `None` for the rows that describe the store as a whole.
fn entity(table: &str, row: &[String]) -> Option<String> {
    Some(match table {
        "app" | "app_accept" | "app_canary" | "key_version" | "key_pair" => format!("app {}", row[0]),
        "client" | "client_app" | "client_role" | "client_certificate" | "client_accept" => {
            format!("client {}", row[0])
        }
        "api_key" | "api_key_role" | "api_key_accept" => format!("API key {}", row[0]),
        "secret" => "secret".to_owned(),
        _ => return None,
    })
}

pub(super) fn entity_of_part(part: &EditedPart) -> Option<String> {
    Some(match part {
        EditedPart::App(name) | EditedPart::KeyVersion { app: name, .. } => format!("app {name}"),
        EditedPart::Client(name) => format!("client {name}"),
        EditedPart::ApiKey(id) => format!("API key {id}"),
        EditedPart::Secret(_) => "secret".to_owned(),
        _ => return None,
    })
}

/// The truth about a store.
pub(super) struct Truth {
    pub(super) dump: Dump,
    pub(super) older: Dump,
    pub(super) ids: Vec<ApiKeyId>,
    pub(super) view: View,
    pub(super) history: Vec<HistoryEntry>,
    /// Has seen the store as it is.
    memory: tempfile::TempDir,
}

impl Truth {
    pub(super) fn of(place: &Place) -> Self {
        let older = Place::new(Kind::Sqlite);
        let store = filled(place, older.path());
        let ids: Vec<ApiKeyId> = store.list_api_keys().expect("read").into_iter().map(|key| key.id).collect();
        let view = view(&store, &ids);
        assert!(view.iter().all(|(_, answer)| answer.is_ok()), "{view:?}");
        let memory = tempfile::tempdir().expect("a folder");
        store.remember(memory.path()).expect("the newest");
        let history = history(&store);
        Self { memory, dump: dump(place.path()), older: dump(older.path()), ids, view, history }
    }

    /// Asserts what must hold of the store at `place` after an edit whose result is `edited`.
    pub(super) fn assert_refused(&self, place: &Place, edited: &Dump, edit: &[String]) {
        let Ok(store) = place.try_open(OpenMode::Existing, environment(), StoreLimits::default()) else {
            assert!(self.dump.row_of_store() != edited.row_of_store(), "{edit:#?}");
            return;
        };
        // The root of an older copy, with what belongs to it, is an older state of the store: only a memory of a newer one shows that.
        if edited.row_of_root() == self.older.row_of_root() {
            assert!(store.remember(self.memory.path()).is_err(), "{edit:#?}");
            return;
        }
        let touched = self.dump.differences(edited, entity);
        for ((name, expected), (_, found)) in self.view.iter().zip(view(&store, &self.ids)) {
            match found {
                Ok(answer) => assert_eq!(&answer, expected.as_ref().expect("an answer"), "{name}: {edit:#?}"),
                Err(error) => {
                    let is_of_whole = name.starts_with("all ") || touched.contains(&None);
                    // An app with canaries is not served without the secret that they need.
                    let needs_secret = name.starts_with("app ") && touched.contains(&Some("secret".to_owned()));
                    let is_touched = touched.contains(&Some(name.clone()));
                    assert!(is_of_whole || needs_secret || is_touched, "{name}: {error}: {edit:#?}");
                }
            }
        }
        if let Ok(page) = store.history().expect("has one").changes(0, HISTORY_MAX) {
            let is_true =
                |entry: &HistoryEntry| matches!(entry, HistoryEntry::Edited(_)) || self.history.contains(entry);
            assert!(page.entries.iter().all(is_true), "{page:?}: {edit:#?}");
        }
        self.assert_named(&store, &touched, edit);
    }

    fn assert_named(&self, store: &Store, touched: &BTreeSet<Option<String>>, edit: &[String]) {
        let mut faults = store.check().expect("checked").faults;
        // The rules that `drop_checks` took away.
        faults.retain(|fault| !matches!(fault, StoreFault::Schema(_)));
        assert_eq!(faults.is_empty(), touched.is_empty(), "{faults:?}: {edit:#?}");
        assert_scan_names(store, &faults, edit);
        let named = |fault: &StoreFault| match fault {
            StoreFault::Edited(edit) => entity_of_part(&edit.part),
            _ => None,
        };
        let named: BTreeSet<String> = faults.iter().filter_map(named).collect();
        for name in touched.iter().flatten() {
            // Of an entity whose leaf went with its rows no name is left: its bucket is named.
            let is_bucket = |fault: &StoreFault| match fault {
                StoreFault::Edited(edit) => matches!(edit.part, EditedPart::Bucket(_) | EditedPart::Node { .. }),
                fault => matches!(fault, StoreFault::Reference { .. }),
            };
            assert!(named.contains(name) || faults.iter().any(is_bucket), "{name}: {faults:?}: {edit:#?}");
        }
    }
}

/// What a whole scan finds, and the rows that each step has read.
pub(super) fn scan(store: &Store) -> (BTreeSet<StoreEdit>, Vec<u64>) {
    let (mut scan, mut edits, mut row_counts) = (StoreScan::default(), BTreeSet::new(), Vec::new());
    loop {
        let step = store.scan(&mut scan).expect("scanned");
        row_counts.push(step.row_count);
        edits.extend(step.edits);
        if step.is_last {
            return (edits, row_counts);
        }
    }
}

/// A scan names what a check does; of rows that refer to nothing, which a check names by their tables, the entries, and of a leaf in
/// another bucket the entry, too.
pub(super) fn assert_scan_names(store: &Store, faults: &[StoreFault], edit: &[String]) {
    let (scanned, _) = scan(store);
    let mut others = false;
    for fault in faults {
        match fault {
            StoreFault::Edited(named) => {
                assert!(scanned.contains(named), "{named}: {scanned:?}: {edit:#?}");
                others |= matches!(named.part, EditedPart::Bucket(_));
            }
            _ => others = true,
        }
    }
    let is_named = |found: &StoreEdit| faults.iter().any(|fault| *fault == StoreFault::Edited(found.clone()));
    assert!(others || scanned.iter().all(is_named), "{scanned:?}: {faults:?}: {edit:#?}");
}
