//! The store on PostgreSQL where it is on its own: who is trusted, what happens while the server is killed, stopped, promoted or
//! full, and when a change counts as made.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, SystemTime};

use crate::common::{Kind, Place, app, client, environment, grant, key};
use leafseal_config::KeyExchangeRule;
use leafseal_crypto::Curve;
use leafseal_keystore::{
    Keystore, NewKeys, OpenMode, PostgresKeystore, PostgresSettings, PostgresUrl, SslMode, StoreError, StoreLimits,
};
use leafseal_testkit::postgres::{CERTIFICATE_ROLE, Durability, PASSWORD, PLAIN_ROLE, PostgresServer, ROLE, Validity};

fn open(settings: &PostgresSettings) -> Result<PostgresKeystore, StoreError> {
    PostgresKeystore::open(settings, OpenMode::CreateIfMissing, environment(), StoreLimits::default())
}

/// The reason why a server is not used, with nothing secret in it.
fn refusal(settings: &PostgresSettings) -> String {
    match open(settings) {
        Err(StoreError::Unreachable { server, reason }) => {
            let shown = format!("{server} {reason}");
            assert!(!shown.contains(PASSWORD) && !shown.contains("wrong password"), "{shown}");
            reason
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn url(server: &PostgresServer, role: &str, host: &str, database: &str) -> PostgresUrl {
    PostgresUrl::parse(&format!("postgres://{role}@{host}:{}/{database}", server.port())).expect("a URL")
}

/// Repeats a call while the server is away.
fn patient<T>(mut call: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    loop {
        match call() {
            Err(StoreError::Unreachable { .. }) => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
}

/// The same for a call that must then succeed.
fn patiently<T>(mut call: impl FnMut() -> Result<T, StoreError>) -> T {
    patient(&mut call).expect("it is back")
}

#[test]
fn only_the_server_that_is_meant_is_used() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let database = server.database();
    let good = server.settings(&database);
    drop(open(&good).expect("opened"));

    let other_authority = PostgresSettings { authorities: Some(server.file("other-ca.pem")), ..good.clone() };
    assert!(refusal(&other_authority).contains("certificate is refused"), "{}", refusal(&other_authority));
    let other_name = PostgresSettings { url: url(&server, ROLE, "127.0.0.1", &database), ..good.clone() };
    assert!(refusal(&other_name).to_lowercase().contains("mismatch"), "{}", refusal(&other_name));
    let without = PostgresSettings { authorities: None, ..good.clone() };
    assert!(refusal(&without).contains("keystore.authorities"), "{}", refusal(&without));
    let missing = PostgresSettings { authorities: Some(server.file("none.pem")), ..good.clone() };
    assert!(refusal(&missing).contains("none.pem"));
    // Those who ask for less get less.
    drop(open(&PostgresSettings { sslmode: SslMode::VerifyCa, ..other_name.clone() }).expect("any name"));
    assert!(open(&PostgresSettings { sslmode: SslMode::VerifyCa, ..other_authority.clone() }).is_err());
    drop(open(&PostgresSettings { sslmode: SslMode::Require, ..other_authority }).expect("any certificate"));

    let now = SystemTime::now();
    let past = Validity { now: now - Duration::from_secs(10 * 86_400), days: 1 };
    server.write_server_certificate("localhost", past);
    server.reload();
    let expired = || refusal(&good);
    // A reload takes a moment.
    while open(&good).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(expired().contains("expired"), "{}", expired());
    server.write_server_certificate("localhost", Validity::of_leaf(now));
    server.configure(&["ssl = off"]);
    server.stop();
    server.start_again();
    assert!(refusal(&good).contains("does not offer TLS"), "{}", refusal(&good));
}

/// Its key exchange is on P-256 alone, PostgreSQL's old default.
#[test]
fn a_server_without_a_hybrid_key_exchange_is_refused_where_one_is_required() {
    let server = PostgresServer::start(Durability::Fast, &["ssl_ecdh_curve = 'prime256v1'"]);
    let hybrid = PostgresSettings { tls_require: KeyExchangeRule::Hybrid, ..server.settings(&server.database()) };
    assert!(refusal(&hybrid).contains("a server without X25519MLKEM768"), "{}", refusal(&hybrid));
    let plain = PostgresSettings { sslmode: SslMode::Disable, ..hybrid };
    assert!(plain.problems().concat().contains("keystore.tls_require"));
}

#[test]
fn logins_are_by_password_or_certificate() {
    let server = PostgresServer::shared();
    let database = server.database();
    let good = server.settings(&database);
    let folder = tempfile::tempdir().expect("folder");
    let password = |content: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join("password");
        std::fs::write(&path, content).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
        PostgresSettings { password_file: Some(path), ..good.clone() }
    };
    assert!(refusal(&password("wrong password\n", 0o600)).contains("password authentication failed"));
    assert!(refusal(&password("\nwrong password", 0o600)).contains("the first line of"));
    assert!(refusal(&password(&"wrong password".repeat(1000), 0o600)).contains("too large"));
    assert!(refusal(&password(PASSWORD, 0o644)).contains("lets others reach it"));
    drop(open(&password(&format!("{PASSWORD}\r\nmore"), 0o600)).expect("opened"));
    assert!(refusal(&PostgresSettings { password_file: None, ..good.clone() }).contains("keystore.password_file"));

    let certified = PostgresSettings {
        url: url(server, CERTIFICATE_ROLE, "localhost", &database),
        certificate: Some(server.file("client.pem")),
        private_key: Some(server.file("client.key")),
        password_file: None,
        ..good.clone()
    };
    drop(open(&certified).expect("opened"));
    let none = PostgresSettings { certificate: None, private_key: None, ..certified.clone() };
    assert!(refusal(&none).contains("client certificate"), "{}", refusal(&none));
    let of_other = PostgresSettings { private_key: Some(server.file("ca.key")), ..certified };
    assert!(refusal(&of_other).contains("does not belong to"), "{}", refusal(&of_other));

    let plain = url(server, PLAIN_ROLE, "127.0.0.1", &database);
    let plain = PostgresSettings { url: plain, sslmode: SslMode::Disable, authorities: None, ..good };
    drop(open(&plain).expect("opened"));
    let folder = server.socket_folder().replace('/', "%2F");
    let socket = PostgresSettings { url: url(server, ROLE, &folder, &database), ..PostgresSettings::new(plain.url) };
    drop(open(&socket).expect("opened"));
}

#[test]
fn other_content_of_a_database_is_left_alone() {
    let place = Place::new(Kind::Postgres);
    let (server, database) = (place.server(), place.database());
    let open = |mode| place.try_open(mode, environment(), StoreLimits::default()).err();
    assert!(matches!(open(OpenMode::Existing), Some(StoreError::NoStore(_))));
    server.sql(database, &format!("CREATE SCHEMA leafseal AUTHORIZATION {ROLE}"));
    assert!(matches!(open(OpenMode::Existing), Some(StoreError::NoStore(_))));
    server.sql(database, "CREATE TABLE leafseal.store (x int)");
    for mode in [OpenMode::Existing, OpenMode::CreateIfMissing] {
        assert!(matches!(open(mode), Some(StoreError::NotAStore(_))));
    }
    server.sql(database, "DROP TABLE leafseal.store");
    drop(place.open());
    // A store that is exchanged while it is open is noticed, as is one that is gone.
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    place.tamper("UPDATE store SET store_id = decode(repeat('ab', 16), 'hex')");
    assert!(matches!(store.generation(), Err(StoreError::OtherStore(_))));
    assert!(matches!(store.load_app(&app("a")), Err(StoreError::OtherStore(_))));
    assert!(matches!(store.rotate(&app("a")), Err(StoreError::OtherStore(_))));
    place.tamper("DELETE FROM store");
    assert!(matches!(store.rotate(&app("a")), Err(StoreError::NoStore(_))));
    server.sql(database, "DROP SCHEMA leafseal CASCADE");
    assert!(matches!(store.generation(), Err(StoreError::NoStore(_))));
    assert!(matches!(store.load_app(&app("a")), Err(StoreError::NoStore(_))));
}

#[test]
fn many_make_the_store_at_once_and_it_is_one() {
    let place = Place::new(Kind::Postgres);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let place = &place;
            scope.spawn(move || {
                place.open().create_app(&app(&format!("a{number}")), NewKeys::generated()).expect("made");
            });
        }
    });
    assert_eq!(place.open().list_apps().expect("read").len(), 4);
}

#[test]
fn changes_are_hinted_at_and_connections_made_again() {
    let place = Place::new(Kind::Postgres);
    let (writer, reader) = (place.open(), place.open());
    let (sender, hints) = mpsc::channel();
    reader.on_change(Box::new(move || {
        // The listener ends with the test.
        let _ = sender.send(());
    }));
    let wait = || hints.recv_timeout(Duration::from_secs(60)).expect("a hint");
    let before = reader.generation().expect("read");
    writer.create_app(&app("a"), NewKeys::generated()).expect("made");
    wait();
    let after = reader.generation().expect("read");
    assert!(
        after.changes == before.changes + 1 && after.replacements == before.replacements && after.mark != before.mark
    );
    for _ in 0..3 {
        while hints.try_recv().is_ok() {}
        let before = reader.generation().expect("read");
        place.server().end_connections(place.database());
        // Reads and the beginning of changes are repeated on another connection.
        assert!(reader.load_app(&app("a")).expect("repeated").is_some());
        wait();
        let after = reader.generation().expect("read");
        assert!(after.replacements > before.replacements, "changes made meanwhile are unknown");
        writer.rotate(&app("a")).expect("repeated");
        wait();
    }
    assert_eq!(reader.load_app(&app("a")).expect("read").expect("there").versions.len(), 4);
}

#[test]
fn reads_whose_connection_ends_are_repeated_once_and_changes_are_not() {
    let place = Place::new(Kind::Postgres);
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    // Ends the connection of any session that touches a key, if it is doomed.
    place.server().sql(
        place.database(),
        &format!(
            "CREATE TABLE public.doomed (pid int);
             GRANT SELECT ON public.doomed TO {ROLE};
             CREATE FUNCTION public.spare() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                 IF EXISTS (SELECT FROM public.doomed WHERE pid = pg_backend_pid() OR pid = 0) THEN
                     PERFORM pg_terminate_backend(pg_backend_pid());
                 END IF;
                 RETURN true;
             END $$;
             CREATE POLICY sparing ON leafseal.key_pair USING (public.spare());
             ALTER TABLE leafseal.key_pair ENABLE ROW LEVEL SECURITY;
             ALTER TABLE leafseal.key_pair FORCE ROW LEVEL SECURITY"
        ),
    );
    let doom = |pid: &str| place.server().sql(place.database(), &format!("INSERT INTO public.doomed {pid}"));
    let doom_current = || {
        let of_store = "application_name = 'leafseal' AND datname = current_database()";
        doom(&format!("SELECT pid FROM pg_stat_activity WHERE {of_store}"));
    };
    let before = store.generation().expect("read");
    doom_current();
    assert!(store.load_app(&app("a")).expect("repeated on another connection").is_some());
    let after = store.generation().expect("read");
    assert_eq!((after.changes, after.replacements), (before.changes, before.replacements + 1));

    doom_current();
    let refused = store.rotate(&app("a"));
    assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "{refused:?}");
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").versions.len(), 1, "nothing was changed");
    assert_eq!(store.rotate(&app("a")).expect("on another connection").version, 2);

    doom("VALUES (0)");
    let refused = store.load_app(&app("a"));
    assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "not repeated for ever: {refused:?}");
    place.server().sql(place.database(), "DELETE FROM public.doomed");
    assert_eq!(patiently(|| store.load_app(&app("a"))).expect("there").versions.len(), 2);
}

#[test]
fn a_lock_is_waited_for_and_then_reported_busy() {
    let place = Place::new(Kind::Postgres);
    let limits = StoreLimits { busy_timeout: Duration::from_millis(100), ..StoreLimits::default() };
    let store = place.open_with(limits);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let hold = "BEGIN; SELECT store_id FROM leafseal.store FOR UPDATE; SELECT pg_sleep(60)";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Ended below.
            assert!(!place.server().try_sql(place.database(), hold).status.success());
        });
        let holders = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND state = 'active'
                       AND pid <> pg_backend_pid()";
        place.server().wait_until(holders, "1");
        assert!(matches!(store.rotate(&app("a")), Err(StoreError::Busy)));
        assert!(store.load_app(&app("a")).expect("readers go on").is_some());
        store.generation().expect("and the poll");
        place.server().end_connections(place.database());
    });
    patiently(|| store.rotate(&app("a")));
}

#[test]
fn a_full_disk_is_reported_and_changes_nothing() {
    let place = Place::new(Kind::Postgres);
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let before = store.generation().expect("read");
    // The server's own error, at the statement and at the commit.
    place.server().sql(
        place.database(),
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$",
    );
    for timing in
        ["AFTER INSERT ON leafseal.key_pair", "AFTER INSERT ON leafseal.key_pair DEFERRABLE INITIALLY DEFERRED"]
    {
        place.server().sql(
            place.database(),
            &format!("CREATE CONSTRAINT TRIGGER full_disk {timing} FOR EACH ROW EXECUTE FUNCTION fill()"),
        );
        assert!(matches!(store.rotate(&app("a")), Err(StoreError::Full)), "{timing}");
        assert_eq!(store.generation().expect("read"), before);
        place.server().sql(place.database(), "DROP TRIGGER full_disk ON leafseal.key_pair");
    }
    assert_eq!(store.rotate(&app("a")).expect("room again").version, 2);
}

/// Rotates, reads and checks until it is stopped.
pub(crate) struct Load {
    acknowledged: Mutex<BTreeSet<u32>>,
    stop: AtomicBool,
    failures: AtomicU32,
}

impl Load {
    fn start() -> Self {
        Self { acknowledged: Mutex::default(), stop: AtomicBool::new(false), failures: AtomicU32::new(0) }
    }

    fn rotate(&self, store: &dyn Keystore) {
        while !self.stop.load(Ordering::Relaxed) {
            match store.rotate(&app("a")) {
                Ok(version) => {
                    assert!(self.acknowledged.lock().expect("no panic").insert(version.version), "given twice")
                }
                Err(StoreError::Unreachable { .. } | StoreError::Unconfirmed(_) | StoreError::Busy) => self.fail(),
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    fn fail(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    }

    /// A change that was acknowledged before a read is in it, with keys that open.
    fn read(&self, store: &dyn Keystore) {
        while !self.stop.load(Ordering::Relaxed) {
            let acknowledged = self.acknowledged.lock().expect("no panic").clone();
            match store.load_app(&app("a")) {
                Ok(keys) => {
                    let versions = keys.expect("there").versions.iter().map(|version| version.version).collect();
                    assert!(acknowledged.is_subset(&versions), "lost: {:?}", acknowledged.difference(&versions));
                }
                Err(StoreError::Unreachable { .. }) => self.fail(),
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no panic").len()
    }

    /// Waits until some more rotations were acknowledged.
    pub(crate) fn proceed(&self) {
        let wanted = self.count() + 5;
        while self.count() < wanted {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs `disturb` while two stores rotate and two read, and then opens every version.
pub(crate) fn under_load(settings: &PostgresSettings, disturb: impl FnOnce(&Load)) {
    let limits = StoreLimits { version_count_max: 1_000_000, ..StoreLimits::default() };
    let open = || PostgresKeystore::open(settings, OpenMode::CreateIfMissing, environment(), limits).expect("opened");
    let stores = [open(), open()];
    stores[0].create_app(&app("a"), NewKeys::generated()).expect("made");
    let load = &Load::start();
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| load.rotate(store));
            scope.spawn(|| load.read(store));
        }
        // The threads must stop also when this one panics, or the panic would wait for them.
        let disturbed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturb(load)));
        load.stop.store(true, Ordering::Relaxed);
        disturbed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let store = open();
    let keys = store.load_app(&app("a")).expect("every key opens").expect("there");
    let versions: BTreeSet<u32> = keys.versions.iter().map(|version| version.version).collect();
    let acknowledged = load.acknowledged.lock().expect("no panic");
    assert!(acknowledged.is_subset(&versions), "lost: {:?}", acknowledged.difference(&versions));
    assert_eq!(store.check().expect("checked").faults, []);
    let failures = load.failures.load(Ordering::Relaxed);
    println!("{} rotations acknowledged, {} there, {failures} failed calls", acknowledged.len(), versions.len() - 1);
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_was_acknowledged() {
    let server = PostgresServer::start(Durability::Full, &[]);
    let settings = server.settings(&server.database());
    under_load(&settings, |load| {
        for _ in 0..3 {
            load.proceed();
            server.kill();
            server.start_again();
        }
        load.proceed();
        server.stop();
        server.start_again();
        load.proceed();
    });
}

#[test]
fn connections_that_end_under_load_lose_nothing() {
    let server = PostgresServer::shared();
    let database = server.database();
    under_load(&server.settings(&database), |load| {
        for _ in 0..10 {
            load.proceed();
            server.end_connections(&database);
        }
        load.proceed();
    });
}

#[test]
fn a_failover_to_a_synchronous_standby_loses_nothing() {
    // The weakest setting, which a change overrides.
    let primary = PostgresServer::start(Durability::Full, &["synchronous_commit = off"]);
    let database = primary.database();
    let standby = PostgresServer::standby_of(&primary, &[]);
    primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.reload();
    primary.wait_until("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1");
    let settings = primary.settings(&database);
    let url = format!("postgres://{ROLE}@localhost:{},localhost:{}/{database}", primary.port(), standby.port());
    let settings = PostgresSettings { url: PostgresUrl::parse(&url).expect("a URL"), ..settings };
    let only = PostgresSettings { url: standby.settings(&database).url, ..settings.clone() };
    assert!(refusal(&only).contains("standby"), "{}", refusal(&only));
    under_load(&settings, |load| {
        load.proceed();
        primary.kill();
        standby.sql("postgres", "SELECT pg_promote()");
        load.proceed();
    });
}

#[test]
fn a_change_that_no_standby_confirms_is_not_reported_as_made() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let database = server.database();
    let settings = PostgresSettings { statement_timeout: Duration::from_millis(500), ..server.settings(&database) };
    let limits = StoreLimits { busy_timeout: Duration::from_millis(100), ..StoreLimits::default() };
    let store = PostgresKeystore::open(&settings, OpenMode::CreateIfMissing, environment(), limits).expect("opened");
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.reload();
    server.wait_until("SHOW synchronous_standby_names", "nobody");
    match store.rotate(&app("a")) {
        Err(StoreError::Unconfirmed(reason)) => assert!(reason.contains("in time"), "{reason}"),
        other => panic!("{other:?}"),
    }
    // Its lock is held until a standby confirms it.
    assert!(matches!(patient(|| store.rotate(&app("a"))), Err(StoreError::Busy)));
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    server.sql("postgres", &format!("SELECT pg_cancel_backend(pid) {waiting}"));
    // If the wait is cancelled, the server reports success.
    let cancelled = std::thread::scope(|scope| {
        let long = PostgresSettings { statement_timeout: Duration::from_secs(300), ..settings.clone() };
        let store =
            PostgresKeystore::open(&long, OpenMode::Existing, environment(), StoreLimits::default()).expect("opened");
        let rotation = scope.spawn(move || store.rotate(&app("a")));
        server.wait_until(&format!("SELECT count(*) {waiting}"), "1");
        server.sql("postgres", &format!("SELECT pg_cancel_backend(pid) {waiting}"));
        rotation.join().expect("no panic")
    });
    match cancelled {
        Err(StoreError::Unconfirmed(reason)) => assert!(reason.contains("stopped waiting"), "{reason}"),
        other => panic!("{other:?}"),
    }
    server.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    server.reload();
    server.wait_until("SHOW synchronous_standby_names", "");
    let last = patiently(|| store.rotate(&app("a")));
    assert_eq!(last.version, 4, "both were made after all");
    assert_eq!(store.check().expect("checked").faults, []);
}

#[test]
fn what_could_lose_a_change_is_reported() {
    let server = PostgresServer::start(Durability::Full, &[]);
    let database = server.database();
    let limits = || open(&server.settings(&database)).expect("opened").durability_limits();
    assert_eq!(limits(), [""; 0]);
    let _standby = PostgresServer::standby_of(&server, &[]);
    server.wait_until("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", "1");
    assert!(limits()[0].contains("asynchronous"), "{:?}", limits());
    let shared = PostgresServer::shared();
    let fast = open(&shared.settings(&shared.database())).expect("opened").durability_limits();
    assert!(fast[0].contains("fsync"), "{fast:?}");
}

#[test]
fn a_server_that_hangs_is_given_up_and_found_again() {
    let place = Place::new(Kind::Postgres);
    let settings = place.server().settings(place.database());
    let settings = PostgresSettings { statement_timeout: Duration::from_millis(200), ..settings };
    let limits = StoreLimits { busy_timeout: Duration::from_millis(200), ..StoreLimits::default() };
    let store = PostgresKeystore::open(&settings, OpenMode::CreateIfMissing, environment(), limits).expect("opened");
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let of_store = format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'leafseal'",
        place.database()
    );
    let pid = place.server().sql("postgres", &of_store);
    let signal = |name: &str| {
        let status = std::process::Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(status.success());
    };
    signal("-STOP");
    let refused = store.generation();
    signal("-CONT");
    assert!(
        matches!(&refused, Err(StoreError::Unreachable { reason, .. }) if reason.contains("not respond")),
        "{refused:?}"
    );
    patiently(|| store.rotate(&app("a")));
    patiently(|| store.generation());
}

#[test]
fn no_private_key_shows_in_a_dump_or_the_log_of_the_server() {
    let server = PostgresServer::start(Durability::Fast, &["log_statement = all", "log_min_duration_statement = 0"]);
    let database = server.database();
    let store = open(&server.settings(&database)).expect("opened");
    let secret = key(Curve::P256, 1);
    store.create_app(&app("a"), NewKeys::generated().with(secret.clone())).expect("made");
    store.put_client(&grant("c", &["a"])).expect("granted");
    store.disable_client(&client("c")).expect("disabled");
    let token = store.token_secret().expect("made");
    let keys = store.load_app(&app("a")).expect("read").expect("there");
    assert_eq!(keys.versions[0].r1.private().scalar(), secret.scalar());
    let (log, dump) = (server.log(), server.dump(&database));
    assert!(log.contains("INSERT INTO key_pair") && dump.contains("COPY leafseal.key_pair"));
    for secret in [secret.scalar().expose(), token.expose()] {
        let digits = hex::encode(&secret[..8]);
        for (what, text) in [("log", &log), ("dump", &dump)] {
            assert!(!text.to_lowercase().contains(&digits), "in the {what}");
        }
    }
    assert!(!log.contains(PASSWORD) || !log.contains("leafseal.store"), "logins are no statements");
    let shown = format!("{store:?} {:?}", server.settings(&database));
    assert!(!shown.contains(PASSWORD), "{shown}");
}

/// A copy of the store from a dump is the same store: it can take its place.
#[test]
fn a_dump_restores_a_store() {
    let place = Place::new(Kind::Postgres);
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.token_secret().expect("made");
    let copy = Place::new(Kind::Postgres);
    copy.server().restore(copy.database(), &place.server().dump(place.database()));
    let restored = copy.open();
    assert_eq!(restored.check().expect("checked").faults, []);
    assert_eq!(restored.list_apps().expect("read"), store.list_apps().expect("read"));
    restored.rotate(&app("a")).expect("rotated");
    store.rotate(&app("a")).expect("each on its own from then on");
}
