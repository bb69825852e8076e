//! Rotation by age and deletion after a delay, with a simulated clock: at their time, once, and whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafseal_crypto::Curve;
use leafseal_keystore::{
    AcceptedSchemes, AppLife, DeletionPlan, Environment, KeyLife, NewApiKey, NewKeys, OpenMode, Operation, Roles,
    RotationRule, StoreError, StoreLimits, Upkeep,
};

use crate::common::{NOW, Place, Store, app, client, environment, grant, on_both_databases};

const DAY: u64 = 86_400;
const DAYS: fn(u64) -> Duration = |days| Duration::from_secs(days * DAY);

on_both_databases!(
    an_app_is_deleted_after_its_delay_and_not_before,
    a_deletion_is_reversible_until_the_delay_is_over,
    an_app_in_use_is_not_deleted,
    keys_are_rotated_at_their_age_by_one_of_two_engines,
    apps_have_rules_of_their_own,
    apps_that_fail_do_not_keep_others_from_rotation,
    planted_plans_neither_stop_nor_delay_what_is_due,
    an_edited_record_harms_no_other,
    a_change_that_writes_nothing_is_none,
    an_app_made_again_gets_nothing_that_was_hidden_from_its_deletion,
    a_use_is_recorded_once_in_an_interval,
    a_deletion_is_put_off_while_the_app_is_in_use_after_the_request,
);

/// A clock for several stores.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(NOW)))
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    fn open(&self, place: &Place) -> Store {
        let time = Arc::clone(&self.0);
        let clock = Box::new(move || time.load(Ordering::SeqCst));
        let environment = Environment { clock, ..environment() };
        place.try_open(OpenMode::CreateIfMissing, environment, StoreLimits::default()).expect("opened")
    }
}

fn life(store: &Store) -> &dyn KeyLife {
    store.life().expect("has one")
}

fn upkeep(store: &Store, rotate_after: Option<Duration>) -> Upkeep {
    let mut done = life(store).upkeep(rotate_after, DAYS(1)).expect("done");
    done.rotated.sort();
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    done
}

const PLAN: DeletionPlan =
    DeletionPlan { delay: Duration::from_secs(7 * DAY), unused_for: Duration::from_secs(7 * DAY) };

fn assert_sound(store: &Store) {
    assert_eq!(store.check().expect("checked").faults, []);
}

/// Two apps, both in a grant and with API keys; two versions of the first.
fn fill(store: &Store) {
    for name in ["a", "b"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
        let operations = [Operation::Decrypt].into();
        let key = NewApiKey {
            app: app(name),
            operations,
            roles: Roles::Any,
            accept: AcceptedSchemes::ALL,
            secret_sha256: [9; 32],
        };
        store.create_api_key(&key).expect("made");
    }
    store.rotate(&app("a")).expect("rotated");
    store.set_accepted(&app("a"), AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }).expect("set");
    store.put_client(&grant("c", &["a", "b"])).expect("granted");
}

fn an_app_is_deleted_after_its_delay_and_not_before(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    let public = store.public_keys(&app("a")).expect("read").expect("there");
    let at = life(&store).schedule_deletion(&app("a"), PLAN).expect("planned");
    assert_eq!(at, NOW + 7 * DAY);
    assert!(store.load_app(&app("a")).expect("read").expect("there").disabled, "at once");
    assert!(matches!(store.enable_app(&app("a")), Err(StoreError::DeletionPending { .. })));
    clock.advance(DAYS(7) - Duration::from_secs(1));
    assert_eq!(upkeep(&store, None).deleted, []);
    clock.advance(Duration::from_secs(1));
    assert_eq!(upkeep(&store, None).deleted, [app("a")]);
    assert_eq!(upkeep(&store, None).deleted, [], "once");
    assert!(store.app_summary(&app("a")).expect("read").is_none());
    let keys: Vec<_> = store.list_api_keys().expect("read").into_iter().map(|key| key.app).collect();
    assert_eq!(keys, [app("b")]);
    let grant = store.client(&client("c")).expect("read").expect("there");
    assert!(!grant.apps.cover(&app("a")) && grant.apps.cover(&app("b")));
    assert_sound(&store);
    // A new app of that name has nothing of the old one.
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert_ne!(store.public_keys(&app("a")).expect("read").expect("there").r1, public.r1);
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").accept, AcceptedSchemes::ALL);
    assert!(!store.client(&client("c")).expect("read").expect("there").apps.cover(&app("a")));
    assert_sound(&store);
}

fn a_deletion_is_put_off_while_the_app_is_in_use_after_the_request(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    let record = || life(&store).record_use(&[app("a")], DAYS(1)).expect("recorded");
    record();
    clock.advance(DAYS(8));
    life(&store).schedule_deletion(&app("a"), PLAN).expect("the use is old enough");
    clock.advance(DAYS(7));
    // By an engine that had not noticed, or had not recorded it yet.
    record();
    for round in 0..2 {
        let done = upkeep(&store, None);
        let until = NOW + (16 + round) * DAY;
        assert_eq!((done.deleted, done.put_off), (vec![], vec![(app("a"), until)]));
        assert_eq!(life(&store).lives().expect("read")[&app("a")].delete_at, Some(until));
        assert_eq!(upkeep(&store, None).put_off, [], "not yet again");
        if round == 0 {
            record();
        }
        clock.advance(DAYS(1));
    }
    assert_eq!(upkeep(&store, None).deleted, [app("a")], "unused since");
    assert_sound(&store);
}

/// Rows that are taken away for the time of the deletion, and put back for the next app of that name.
fn an_app_made_again_gets_nothing_that_was_hidden_from_its_deletion(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    life(&store).schedule_deletion(&app("a"), PLAN).expect("planned");
    clock.advance(DAYS(7));
    let hidden = [
        ("DELETE FROM client_app WHERE app = 'a'", "INSERT INTO client_app VALUES ('c', 'a')"),
        ("UPDATE client_app SET app = 'x' WHERE app = 'a'", "UPDATE client_app SET app = 'a' WHERE app = 'x'"),
        ("UPDATE client_app SET client = 'x' WHERE app = 'a'", "UPDATE client_app SET client = 'c' WHERE client = 'x'"),
        ("UPDATE api_key SET app = 'x' WHERE app = 'a'", "UPDATE api_key SET app = 'a' WHERE app = 'x'"),
    ];
    for (hide, put_back) in hidden {
        place.tamper(hide);
        let done = life(&store).upkeep(None, DAYS(1)).expect("done");
        assert!(matches!(&done.failed[..], [(name, StoreError::Edited(_))] if *name == app("a")), "{hide}: {done:?}");
        assert_eq!(done.deleted, [], "{hide}");
        place.tamper(put_back);
        assert_sound(&store);
    }
    assert_eq!(upkeep(&store, None).deleted, [app("a")]);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    place.tamper("INSERT INTO client_app VALUES ('c', 'a')");
    assert!(matches!(store.client(&client("c")), Err(StoreError::Edited(_))));
    assert_ne!(store.check().expect("checked").faults, []);
}

fn a_deletion_is_reversible_until_the_delay_is_over(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    store.disable_app(&app("b")).expect("disabled");
    let before = [app("a"), app("b")].map(|name| store.app_summary(&name).expect("read"));
    for name in ["a", "b"] {
        life(&store).schedule_deletion(&app(name), PLAN).expect("planned");
        let again = life(&store).schedule_deletion(&app(name), PLAN);
        assert!(matches!(again, Err(StoreError::DeletionPending { .. })));
    }
    clock.advance(DAYS(6));
    for name in ["a", "b"] {
        life(&store).cancel_deletion(&app(name)).expect("cancelled");
        assert!(matches!(life(&store).cancel_deletion(&app(name)), Err(StoreError::NoDeletion(_))));
    }
    clock.advance(DAYS(60));
    assert_eq!(upkeep(&store, None).deleted, []);
    assert_eq!([app("a"), app("b")].map(|name| store.app_summary(&name).expect("read")), before, "as they were");
    assert!(matches!(life(&store).schedule_deletion(&app("x"), PLAN), Err(StoreError::UnknownApp(_))));
    assert_sound(&store);
}

fn an_app_in_use_is_not_deleted(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    assert_eq!(life(&store).record_use(&[app("a"), app("gone")], DAYS(1)).expect("recorded").count, 1);
    clock.advance(DAYS(7) - Duration::from_secs(1));
    let refused = life(&store).schedule_deletion(&app("a"), PLAN);
    assert!(matches!(refused, Err(StoreError::UsedRecently { at: NOW, .. })), "{refused:?}");
    life(&store).schedule_deletion(&app("b"), PLAN).expect("never used");
    clock.advance(Duration::from_secs(1));
    life(&store).schedule_deletion(&app("a"), PLAN).expect("unused for long enough");
    assert_sound(&store);
}

fn a_use_is_recorded_once_in_an_interval(place: &Place) {
    let clock = Clock::new();
    let (store, other) = (clock.open(place), clock.open(place));
    fill(&store);
    let changes = || store.generation().expect("read").changes;
    let record = |store: &Store| life(store).record_use(&[app("a")], DAYS(1)).expect("recorded").count;
    assert_eq!(record(&store), 1);
    let before = changes();
    assert_eq!((record(&store), record(&other)), (0, 0));
    clock.advance(DAYS(1) - Duration::from_secs(1));
    assert_eq!((record(&store), record(&other), changes()), (0, 0, before), "nothing is written");
    clock.advance(Duration::from_secs(1));
    assert_eq!((record(&other), record(&store)), (1, 0));
    let lives = life(&store).lives().expect("read");
    let used_at = Some(NOW + DAY);
    assert_eq!(lives.into_iter().collect::<Vec<_>>(), [(app("a"), AppLife { used_at, ..AppLife::default() })]);
}

fn newest(store: &Store, name: &str) -> u32 {
    store.app_summary(&app(name)).expect("read").expect("there").versions[0].version
}

fn keys_are_rotated_at_their_age_by_one_of_two_engines(place: &Place) {
    let clock = Clock::new();
    let engines = [clock.open(place), clock.open(place)];
    for name in ["a", "b"] {
        engines[0].create_app(&app(name), NewKeys::generated()).expect("made");
    }
    engines[0].create_app(&app("off"), NewKeys::generated()).expect("made");
    engines[0].disable_app(&app("off")).expect("disabled");
    assert!(upkeep(&engines[0], None).rotated.is_empty(), "no rule");
    for round in 1..=5 {
        clock.advance(DAYS(30) - Duration::from_secs(1));
        assert!(engines.iter().all(|engine| upkeep(engine, Some(DAYS(30))).rotated.is_empty()), "not due");
        clock.advance(Duration::from_secs(1));
        let mut rotated: Vec<_> = std::thread::scope(|scope| {
            let runs = engines.each_ref().map(|engine| scope.spawn(|| upkeep(engine, Some(DAYS(30))).rotated));
            runs.into_iter().flat_map(|run| run.join().expect("no panic")).collect()
        });
        rotated.sort();
        assert_eq!(rotated, [(app("a"), round + 1), (app("b"), round + 1)], "each once");
        assert_eq!(["a", "b", "off"].map(|name| newest(&engines[1], name)), [round + 1, round + 1, 1]);
    }
    let keys = engines[0].load_app(&app("a")).expect("read").expect("there");
    assert_eq!(
        keys.versions
            .iter()
            .filter(|version| version.pair(Curve::P256).public() != keys.versions[0].r1.public())
            .count(),
        5
    );
    assert_sound(&engines[0]);
}

fn apps_have_rules_of_their_own(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    for (name, rule) in
        [("day", RotationRule::After(DAYS(1))), ("never", RotationRule::Never), ("other", RotationRule::Default)]
    {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
        life(&store).set_rotation(&app(name), rule).expect("set");
    }
    clock.advance(DAYS(1));
    assert_eq!(upkeep(&store, Some(DAYS(2))).rotated, [(app("day"), 2)]);
    clock.advance(DAYS(1));
    assert_eq!(upkeep(&store, Some(DAYS(2))).rotated, [(app("day"), 3), (app("other"), 2)]);
    clock.advance(DAYS(1));
    assert_eq!(upkeep(&store, None).rotated, [(app("day"), 4)]);
    life(&store).set_rotation(&app("day"), RotationRule::Never).expect("set");
    clock.advance(DAYS(100));
    assert!(upkeep(&store, None).rotated.is_empty());
    assert!(matches!(life(&store).set_rotation(&app("x"), RotationRule::Never), Err(StoreError::UnknownApp(_))));
    assert_sound(&store);
}

/// Calls until a pass is complete; each may fail at some apps.
fn pass(store: &Store, rotate_after: Option<Duration>) -> Upkeep {
    let mut all = Upkeep::default();
    while !all.is_complete {
        let done = life(store).upkeep(rotate_after, DAYS(1)).expect("done");
        assert!(done.rotated.len() + done.failed.len() <= 110, "{} in one call", done.rotated.len());
        all.rotated.extend(done.rotated);
        all.deleted.extend(done.deleted);
        all.failed.extend(done.failed);
        all.is_complete = done.is_complete;
    }
    all
}

fn apps_that_fail_do_not_keep_others_from_rotation(place: &Place) {
    const FULL: usize = 130;
    let clock = Clock::new();
    let store = clock.open(place);
    for number in 0..FULL {
        store.create_app(&app(&format!("a-{number}")), NewKeys::generated()).expect("made");
        life(&store).set_rotation(&app(&format!("a-{number}")), RotationRule::After(DAYS(1))).expect("set");
    }
    store.create_app(&app("z"), NewKeys::generated()).expect("made");
    life(&store).set_rotation(&app("z"), RotationRule::After(DAYS(1))).expect("set");
    store.create_app(&app("edited"), NewKeys::generated()).expect("made");
    place.tamper("UPDATE key_version SET created_at = 9223372036854775807 WHERE app = 'edited'");
    clock.advance(DAYS(1));
    let time = Arc::clone(&clock.0);
    let environment = Environment { clock: Box::new(move || time.load(Ordering::SeqCst)), ..environment() };
    let limits = StoreLimits { version_count_max: 1, ..StoreLimits::default() };
    let full = place.try_open(OpenMode::Existing, environment, limits).expect("opened");
    let done = pass(&full, Some(DAYS(1)));
    assert_eq!(done.failed.len(), FULL + 2, "{:?}", done.failed);
    let of_edited = done.failed.iter().filter(|(name, _)| *name == app("edited")).collect::<Vec<_>>();
    assert!(matches!(of_edited[..], [(_, StoreError::Edited(_))]), "{of_edited:?}");
    assert!(done.failed.iter().any(|(name, error)| *name == app("z") && matches!(error, StoreError::TooMany { .. })));
    assert_eq!(pass(&store, Some(DAYS(1))).rotated.len(), FULL + 1);
}

fn planted_plans_neither_stop_nor_delay_what_is_due(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    life(&store).schedule_deletion(&app("a"), PLAN).expect("planned");
    place.without_rules("app_life");
    let rows: Vec<String> = (0..300).map(|number| format!("('0-{number}', 0, FALSE)")).collect();
    place.tamper(&format!("INSERT INTO app_life (app, delete_at, was_disabled) VALUES {}", rows.join(", ")));
    place.tamper("INSERT INTO app_life (app, delete_at, was_disabled) VALUES ('No Name', 0, FALSE), (NULL, 0, FALSE)");
    let changes = || store.generation().expect("read").changes;
    let before = changes();
    assert_eq!((upkeep(&store, None).deleted, changes()), (vec![], before), "nothing is written");
    clock.advance(DAYS(7));
    assert_eq!((pass(&store, None).deleted, changes()), (vec![app("a")], before + 1));
}

fn an_edited_record_harms_no_other(place: &Place) {
    let clock = Clock::new();
    let store = clock.open(place);
    fill(&store);
    let record = || life(&store).record_use(&[app("a"), app("b")], DAYS(1)).expect("recorded");
    assert_eq!(record().count, 2);
    place.tamper("UPDATE app_life SET used_at = 0 WHERE app = 'a'");
    clock.advance(DAYS(1));
    let recorded = record();
    assert_eq!(recorded.count, 1);
    assert!(matches!(&recorded.failed[..], [(name, StoreError::Edited(_))] if *name == app("a")), "{recorded:?}");
    assert_eq!(record().count, 0);
}

fn a_change_that_writes_nothing_is_none(place: &Place) {
    let store = Clock::new().open(place);
    fill(&store);
    store.disable_app(&app("b")).expect("disabled");
    let before = store.generation().expect("read");
    store.disable_app(&app("b")).expect("nothing to do");
    store.put_client(&grant("c", &["a", "b"])).expect("the same");
    assert!(store.rotate(&app("x")).is_err());
    assert_eq!(store.generation().expect("read"), before);
    store.enable_app(&app("b")).expect("enabled");
    assert_eq!(store.generation().expect("read").changes, before.changes + 1);
    assert_sound(&store);
}

/// An older store has no plans, and says so.
#[test]
fn a_store_of_the_older_schema_needs_its_migration() {
    let place = Place::new(crate::common::Kind::Sqlite);
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let refused = life(&store).schedule_deletion(&app("a"), PLAN);
    assert!(matches!(refused, Err(StoreError::OldSchema { found: 2, needed: 3 })), "{refused:?}");
    assert_eq!(life(&store).record_use(&[app("a")], DAYS(1)).expect("nothing").count, 0);
    assert!(upkeep(&store, Some(Duration::from_secs(1))).rotated.is_empty());
    store.disable_app(&app("a")).expect("disabled");
    store.enable_app(&app("a")).expect("enabled");
    store.migrate(&mut |_, _| ()).expect("migrated");
    life(&store).schedule_deletion(&app("a"), PLAN).expect("planned");
}

/// An edit of a plan is no plan.
#[test]
fn a_deletion_that_was_written_into_the_database_is_refused() {
    for kind in [crate::common::Kind::Sqlite, crate::common::Kind::Postgres] {
        let place = Place::new(kind);
        let store = place.open();
        fill(&store);
        life(&store).set_rotation(&app("a"), RotationRule::Never).expect("set");
        place.tamper("UPDATE app_life SET delete_at = 1 WHERE app = 'a'");
        let done = life(&store).upkeep(None, DAYS(1)).expect("done");
        assert!(done.deleted.is_empty() && matches!(done.failed[..], [(_, StoreError::Edited(_))]), "{done:?}");
        place.tamper(match kind {
            crate::common::Kind::Sqlite => "INSERT INTO app_life VALUES ('b', 1, 0, NULL, NULL)",
            crate::common::Kind::Postgres => "INSERT INTO app_life VALUES ('b', 1, false, NULL, NULL)",
        });
        assert!(
            life(&store).upkeep(None, DAYS(1)).expect("done").deleted.is_empty(),
            "a row that no leaf names is not there"
        );
        assert!(store.load_app(&app("b")).expect("read").is_some());
    }
}
