//! Tests of reloading: all changed files, or none.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::x509::X509;

use super::*;

/// A temporary folder with certificates, and the relay that reads it.
struct Fixture {
    folder: PathBuf,
    relay: Option<Relay>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let left = self.relay.take().map(Relay::shutdown);
        let _ = fs::remove_dir_all(&self.folder);
        assert!(std::thread::panicking() || left.is_some_and(|left| left.unwrap() == 0));
    }
}

/// A configuration with two TLS listeners and `limits`.
fn configuration(limits: &str) -> Configuration {
    let listener = |name: &str| {
        format!(
            "[[inbound]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\n\
             certificate = \"{name}.pem\"\nprivate_key = \"{name}.key\"\n"
        )
    };
    let engine = "[engine]\naddresses = [\"127.0.0.1:1\"]\nauthorities = \"engine.pem\"\n\
        certificate = \"engine.pem\"\nprivate_key = \"engine.key\"\n";
    let rest = "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n[upstream]\nauthorities = \"upstream.pem\"\n";
    Configuration::parse(&format!("{engine}{rest}[limits]\n{limits}\n{}{}", listener("first"), listener("second")))
        .unwrap()
}

impl Fixture {
    fn start() -> Fixture {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("leafseal-relay-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut fixture = Fixture { folder, relay: None };
        for name in ["engine", "first", "second", "upstream"] {
            fixture.issue(name);
        }
        fixture.relay = Some(Relay::start(configuration(""), &fixture.folder, None).unwrap());
        fixture
    }

    /// Issues a certificate for this name, with its key.
    fn issue(&self, name: &str) {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        fs::write(self.folder.join(format!("{name}.pem")), builder.build().to_pem().unwrap()).unwrap();
        fs::write(self.folder.join(format!("{name}.key")), key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    }

    fn relay(&self) -> &Relay {
        self.relay.as_ref().unwrap()
    }

    fn reload(&self, limits: &str) -> Result<(), RelayError> {
        self.relay().reload(configuration(limits))
    }

    /// The certificates that the listeners present.
    fn presented(&self) -> Vec<Vec<u8>> {
        let presented =
            |acceptor: &Option<Acceptor>| acceptor.as_ref().unwrap().context().certificate().unwrap().to_pem().unwrap();
        self.relay().acceptors.iter().map(presented).collect()
    }

    fn written(&self) -> Vec<Vec<u8>> {
        ["first.pem", "second.pem"].map(|name| fs::read(self.folder.join(name)).unwrap()).to_vec()
    }

    fn worker(&self) -> Arc<WorkerContext> {
        self.relay().shared.boxes[0].load_full()
    }
}

#[test]
fn an_unusable_file_leaves_everything_unchanged() {
    let fixture = Fixture::start();
    let before = (fixture.presented(), fixture.worker());
    assert_eq!(before.0, fixture.written());
    fixture.issue("first");
    fixture.issue("second");
    fs::write(fixture.folder.join("second.key"), "no key").unwrap();
    let error = fixture.reload("").unwrap_err();
    assert!(matches!(&error, RelayError::Identity { listener, .. } if &**listener == "second"), "{error}");
    assert!(fixture.presented() == before.0, "the first listener shows what the second cannot");
    assert!(Arc::ptr_eq(&fixture.worker(), &before.1));
    fixture.issue("second");
    fixture.reload("").unwrap();
    assert!(fixture.presented() == fixture.written() && fixture.presented() != before.0);
}

#[test]
fn bounds_of_connections_take_a_restart_and_others_hold_at_once() {
    let fixture = Fixture::start();
    for fixed in [
        "connections_max = 7",
        "streams_max = 7",
        "header_size_max = \"9KiB\"",
        "headers_max = 7",
        "handshake_timeout = \"7s\"",
        "header_timeout = \"7s\"",
        "body_timeout = \"7s\"",
        "write_timeout = \"7s\"",
        "idle_timeout = \"7s\"",
    ] {
        let error = fixture.reload(fixed).expect_err(fixed);
        assert!(
            error.to_string().contains(fixed.split(' ').next().unwrap())
                && error.to_string().ends_with("takes effect only after a restart")
        );
    }
    let mut share = fixture.relay().shared.resources.budget.share([127, 0, 0, 1].into());
    fixture
        .reload("bodies_size_max = 10\nclient_bodies_size_max = 10\nbody_size_max = 10\ntunnel_timeout = \"7s\"")
        .unwrap();
    assert!(share.grow(11).is_err() && share.grow(10).is_ok());
    assert_eq!(fixture.worker().limits.tunnel_timeout, Duration::from_secs(7));
}

#[test]
fn new_authorities_under_the_same_path_are_loaded() {
    let fixture = Fixture::start();
    let believed = |worker: &WorkerContext| worker.authorities.as_ref().clone().unwrap();
    let before = fixture.worker();
    fixture.reload("").unwrap();
    assert!(
        Arc::ptr_eq(&fixture.worker().authorities, &before.authorities)
            || fixture.worker().authorities == before.authorities
    );
    fixture.issue("upstream");
    fixture.reload("").unwrap();
    assert_eq!(believed(&fixture.worker()), fs::read(fixture.folder.join("upstream.pem")).unwrap());
    assert_ne!(believed(&fixture.worker()), believed(&before));
    fs::write(fixture.folder.join("upstream.pem"), "no certificate").unwrap();
    assert!(matches!(fixture.reload(""), Err(RelayError::Upstream(_))));
}
