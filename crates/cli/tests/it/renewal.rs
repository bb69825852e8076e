//! Renewal of certificates while an engine, a relay and clients run: names and permissions stay, and everybody loads the new files.

use std::path::Path;
use std::process::Stdio;

use leafseal_client::{Client, ClientSettings, ClientTls, EncryptOptions};
use leafseal_net::tls::inspect;
use serde_json::Value;

use crate::common::{Running, TestFolder, until};
use crate::reload::Log;

/// A folder with an authority, a server's certificate with names of its own, and the client `billing`.
fn folder() -> TestFolder {
    let folder = TestFolder::with_app();
    folder.run(&["certs", "init", "--name", "localhost", "--name", "engine.internal", "--ip", "127.0.0.1"]).ok();
    folder.run(&["certs", "issue", "billing", "--app", "acme", "--allow", "encrypt", "--days", "20"]).ok();
    folder
}

fn engine(folder: &TestFolder) -> (Running, Log) {
    let arguments = ["serve", "--json", "--address", "127.0.0.1:0", "--set", "server.drain_delay=0s"];
    let settings = ["--set", "server.reload_check=20ms", "--set", "log.format=json"];
    let mut engine = Running::start(folder.command(&[&arguments[..], &settings].concat()).stderr(Stdio::piped()));
    let log = Log::of(&mut engine);
    (engine, log)
}

fn certificate(folder: &TestFolder, name: &str) -> leafseal_net::tls::CertificateInspection {
    inspect(&folder.read(&format!(".leafseal/certs/{name}.pem"))).expect("a certificate").remove(0)
}

fn settings(engine: &Running, folder: &Path, client: &str) -> ClientSettings {
    let path = |name: &str| folder.join(name);
    let tls = ClientTls::from_files(&path("ca.pem"), &path(&format!("{client}.pem")), &path(&format!("{client}.key")));
    ClientSettings { server_name: Some("localhost".to_owned()), ..ClientSettings::new(engine.address(), tls.unwrap()) }
}

async fn works(client: &Client) -> bool {
    client.encrypt_document(&EncryptOptions::new("acme"), None, b"1").await.is_ok()
}

#[test]
fn a_renewal_keeps_names_and_grants_and_is_loaded_by_itself() {
    let folder = folder();
    let (engine, log) = engine(&folder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let certs = folder.path(".leafseal/certs");
    let of_files = settings(&engine, &certs, "billing");
    let mut of_memory = of_files.clone();
    of_memory.tls.files = None;
    let before_renewal = of_files.clone();
    let of_files = Client::new(of_files).unwrap();
    assert!(runtime.block_on(works(&of_files)));
    let before = ["server", "billing"].map(|name| certificate(&folder, name));
    let grant = |folder: &TestFolder| -> Value {
        let listed: Value = serde_json::from_slice(&folder.run(&["certs", "list", "--json"]).ok()).unwrap();
        let mut grant =
            listed["clients"].as_array().unwrap().iter().find(|it| it["client"] == "billing").unwrap().clone();
        for key in ["certificate_sha256", "replaced_certificates"] {
            grant.as_object_mut().unwrap().remove(key);
        }
        grant
    };
    let granted = grant(&folder);

    folder.run(&["certs", "renew", "server", "billing"]).ok();
    log.wait_for("engine reloaded: certificates", 1);
    let after = ["server", "billing"].map(|name| certificate(&folder, name));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&after.common_name, &after.names), (&before.common_name, &before.names));
        assert!(after.sha256 != before.sha256 && after.not_after > before.not_after - 60);
    }
    assert_eq!(grant(&folder), granted);
    // Both certificates are accepted, on the open connection and on new ones.
    assert!(runtime.block_on(works(&of_files)));
    assert!(runtime.block_on(works(&Client::new(of_memory.clone()).unwrap())));
    assert!(runtime.block_on(works(&Client::new(settings(&engine, &certs, "billing")).unwrap())));

    // A new grant ends the old certificates: a client with files uses what is in them now, any other is refused.
    folder.run(&["certs", "issue", "billing", "--app", "acme", "--allow", "encrypt"]).ok();
    let of_memory = Client::new(of_memory).unwrap();
    until("the old certificates are refused", || !runtime.block_on(works(&of_memory)));
    assert!(runtime.block_on(works(&Client::new(before_renewal).unwrap())));
    drop(engine);
}

#[test]
fn a_relay_loads_renewed_files_and_no_half_edited_configuration() {
    let folder = folder();
    let (engine, _) = engine(&folder);
    let address = engine.address();
    let file = format!(
        "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\nreload_check = \"20ms\"\n\
         [engine]\naddresses = [\"{address}\"]\nserver_name = \"localhost\"\nauthorities = \"certs/ca.pem\"\n\
         certificate = \"certs/billing.pem\"\nprivate_key = \"certs/billing.key\"\n\
         [[inbound]]\nname = \"api\"\naddress = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\nunmatched = \"pass\"\n\
         certificate = \"certs/server.pem\"\nprivate_key = \"certs/server.key\"\n"
    );
    folder.write("relay.toml", &file);
    let arguments = ["relay", "--json", "--file", "relay.toml", "--set", "log.format=json"];
    let mut relay = Running::start(folder.command(&arguments).stderr(Stdio::piped()));
    let log = Log::of(&mut relay);
    log.wait_for("relay started", 1);
    let presented = || {
        let expiries = relay.probe("/metrics");
        let is_own = |line: &&str| line.starts_with("leafseal_relay_certificate_expiry_timestamp_seconds{use=\"api\"");
        expiries.lines().find(is_own).expect("the listener's").to_owned()
    };
    let before = presented();
    folder.write("relay.toml", file.replace("upstream = \"http://127.0.0.1:1\"", "upstream = "));
    folder.run(&["certs", "renew", "server", "--days", "100"]).ok();
    until("the relay presents the new certificate", || presented() != before);
    log.wait_for("relay reloaded: certificates", 1);
}

/// The fingerprints that the grant of billing accepts.
fn accepted(folder: &TestFolder) -> (String, usize) {
    let listed: Value = serde_json::from_slice(&folder.run(&["certs", "list", "--json"]).ok()).unwrap();
    let grant = listed["clients"].as_array().unwrap().iter().find(|it| it["client"] == "billing").unwrap();
    let newest = grant["certificate_sha256"].as_str().unwrap().to_owned();
    (newest, grant["replaced_certificates"].as_array().unwrap().len())
}

#[test]
fn a_renewal_whose_files_cannot_be_written_leaves_one_certificate_and_goes_on_with_it() {
    let folder = folder();
    let (certificate, key) = (folder.path(".leafseal/certs/billing.pem"), folder.path(".leafseal/certs/billing.key"));
    std::fs::rename(&key, folder.path("kept.key")).unwrap();
    std::fs::create_dir_all(key.join("in the way")).unwrap();
    let before = std::fs::read(&certificate).unwrap();
    let mut newest = String::new();
    for round in 0..6 {
        folder.run(&["certs", "renew", "billing"]).fails(4);
        let (sha256, replaced) = accepted(&folder);
        assert_eq!(replaced, 1, "the one in use");
        assert!(round == 0 || sha256 == newest, "the same draft");
        newest = sha256;
        assert_eq!(std::fs::read(&certificate).unwrap(), before);
    }
    std::fs::remove_dir_all(&key).unwrap();
    std::fs::rename(folder.path("kept.key"), &key).unwrap();
    folder.run(&["certs", "renew", "billing"]).ok();
    assert_eq!(hex::encode(self::certificate(&folder, "billing").sha256), newest);
    assert!(!folder.path(".leafseal/certs/.billing.next").exists());
}

#[test]
fn a_timer_renews_once_whatever_days_it_is_given_and_names_what_it_cannot_renew() {
    let folder = folder();
    folder.run(&["certs", "renew", "billing", "--days", "20"]).ok();
    let (newest, _) = accepted(&folder);
    let again = folder.run(&["certs", "renew", "--days", "20"]).text();
    assert!(again.contains("nothing to renew"), "{again}");
    assert_eq!(accepted(&folder).0, newest);

    // A new authority in the place of the one that issued.
    for name in ["ca.pem", "ca.key"] {
        std::fs::remove_file(folder.path(&format!(".leafseal/certs/{name}"))).unwrap();
    }
    folder.run(&["certs", "init", "--name", "localhost"]).ok();
    let failed = folder.run(&["certs", "renew", "--days", "90"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("billing.pem: it was not issued by"), "{}", failed.stderr);
}
