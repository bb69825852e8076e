//! A core dump of a running engine contains none of its private keys, those of TLS included, whatever form they would have there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_engine::admin::{
    AppName, ChangeAuthor, Environment, Keystore, LocalRootKey, OpenMode, SqliteKeystore, StoreLimits, system_clock,
};
use leafseal_engine::{Curve, system_random};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Running, TestFolder, repository, until, with};

const APPS: [&str; 3] = ["acme", "north", "south"];

/// Files of private keys for TLS: of the server, of the authorities, and of a client whose certificate the engine made.
const TLS_KEYS: [&str; 4] = ["server.key", "ca.key", "relay-ca.key", "dev.key"];

/// The secrets by name, each in the forms that it may have in memory.
pub(crate) type Secrets = BTreeMap<String, Vec<Vec<u8>>>;

/// Every private key of the store, the root key, and the keys of TLS.
fn secrets(test_folder: &TestFolder) -> Secrets {
    let text = String::from_utf8(test_folder.read(".leafseal/root.key")).expect("text");
    let root_key = LocalRootKey::from_text(&text).expect("a root key");
    let environment = Environment {
        providers: vec![Box::new(root_key)],
        clock: Box::new(system_clock),
        rng: Box::new(system_random()),
        author: ChangeAuthor::default(),
    };
    let path = test_folder.path(".leafseal/keystore.db");
    let store = SqliteKeystore::open(&path, OpenMode::Existing, environment, StoreLimits::default()).expect("opened");
    let mut secrets = Secrets::new();
    for app in APPS {
        let keys = store.load_app(&AppName::parse(app).expect("valid")).expect("read").expect("there");
        for version in &keys.versions {
            for curve in Curve::ALL {
                let name = format!("{app} {} {}", version.version, curve.short_name());
                secrets.insert(name, forms(version.pair(curve).private().scalar().expose()));
            }
        }
    }
    let base64 = text.trim().split(':').nth(1).expect("base64");
    secrets.insert("root".to_owned(), forms(&STANDARD.decode(base64).expect("base64")));
    secrets.extend(TLS_KEYS.map(|file| (file.to_owned(), tls_key(test_folder, file))));
    secrets
}

/// The forms of a private key on P-256 in PKCS#8, those of its file included.
pub(crate) fn tls_key(test_folder: &TestFolder, file: &str) -> Vec<Vec<u8>> {
    let pem = String::from_utf8(test_folder.read(&format!(".leafseal/certs/{file}"))).expect("text");
    let [first, second] = [1, 2].map(|number| pem.lines().nth(number).expect("a line of base64"));
    let der = STANDARD.decode(first.to_owned() + second).expect("base64");
    // RFC 5208 and RFC 5915: the number is 32 bytes after the head of its octet string.
    let head = der.windows(2).position(|bytes| bytes == [4, 32]).expect("an octet string");
    let mut forms = forms(&der[head + 2..][..32]);
    forms.extend([first.as_bytes()[48..].to_vec(), second.as_bytes()[..24].to_vec()]);
    forms
}

/// Parts of a secret in every form: each half of the number, in both orders of bytes, and hexadecimal and base64 of the first half, the
/// latter at each of the three places that it may have in a longer text. DER contains these, and PEM unless a line ends within.
pub(crate) fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let reversed: Vec<u8> = secret.iter().rev().copied().collect();
    let mut forms: Vec<Vec<u8>> =
        [secret, &reversed].iter().flat_map(|order| order.chunks(16)).map(<[u8]>::to_vec).collect();
    let front = &secret[..16];
    forms.push(hex::encode(front).into_bytes());
    forms.push(hex::encode_upper(front).into_bytes());
    forms.extend((0..3).map(|skipped| STANDARD.encode(&front[skipped..skipped + 12]).into_bytes()));
    forms
}

/// The names of the secrets of which `core` contains a part.
pub(crate) fn found(core: &[u8], secrets: &Secrets) -> BTreeSet<String> {
    const START: usize = 8;
    let needles: Vec<(&str, &[u8])> =
        secrets.iter().flat_map(|(name, forms)| forms.iter().map(move |form| (&**name, &**form))).collect();
    let mut starts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut fronts = vec![false; 1 << 16];
    for (number, (_, needle)) in needles.iter().enumerate() {
        let start = needle.first_chunk::<START>().expect("longer");
        starts.entry(u64::from_le_bytes(*start)).or_default().push(number);
        fronts[usize::from(u16::from_le_bytes([start[0], start[1]]))] = true;
    }
    let mut found = BTreeSet::new();
    for (place, window) in core.windows(START).enumerate() {
        if !fronts[usize::from(u16::from_le_bytes([window[0], window[1]]))] {
            continue;
        }
        let start = u64::from_le_bytes(*window.first_chunk().expect("8 bytes"));
        for &number in starts.get(&start).into_iter().flatten() {
            let (name, needle) = &needles[number];
            if core[place..].starts_with(needle) {
                found.insert((*name).to_owned());
            }
        }
    }
    found
}

/// Encrypts and decrypts with every key.
fn use_every_key(test_folder: &TestFolder, flags: &[&str]) {
    for app in APPS {
        for curve in ["r1", "k1"] {
            let sealing = with(&["encrypt", "--app", app, "--curve", curve, "--keying", "field"], flags);
            let payment = repository("examples/payment.json");
            let sealed = test_folder.run_with(&sealing, &payment).ok();
            test_folder.run_with(&with(&["decrypt", "--app", app], flags), &sealed).ok();
        }
    }
}

/// Starts an engine in a folder with apps, lets it decrypt with every key, and returns its core and the secrets.
fn core_of_a_used_engine(dumps: &str) -> (Vec<u8>, Secrets) {
    let test_folder = TestFolder::new();
    APPS.iter().for_each(|app| drop(test_folder.run(&["keys", "create", app]).ok()));
    let mut command = test_folder.command(&["dev", "--json", "--port", "0", "--app", "acme"]);
    command.env("LEAFSEAL_CORE_DUMPS", dumps).stderr(Stdio::null());
    let mut engine = Running::start(&mut command);
    test_folder.run(&["certs", "issue", "all", "--all-apps", "--allow", "encrypt", "--allow", "decrypt"]).ok();
    let flags = ["--connect", engine.address(), "--client", "all"];
    // An engine forgets its keys when it notices a change, and it looks for one every second: the last round finds none.
    for _ in 0..3 {
        use_every_key(&test_folder, &flags);
        std::thread::sleep(Duration::from_secs(1));
    }
    use_every_key(&test_folder, &flags);
    (core_of(&mut engine, &test_folder), secrets(&test_folder))
}

/// Ends an engine that was started in a folder, and returns its core.
pub(crate) fn core_of(engine: &mut Running, test_folder: &TestFolder) -> Vec<u8> {
    let pid = Pid::from_child(&engine.child);
    let limit = rustix::process::Rlimit { current: None, maximum: None };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Core, limit).expect("raised");
    kill_process(pid, Signal::ABORT).expect("sent");
    engine.child.wait().expect("ended");
    std::fs::read(core_file(test_folder)).expect("read")
}

/// The core in the folder of the process, where `kernel.core_pattern` puts it.
fn core_file(test_folder: &TestFolder) -> PathBuf {
    let cores = || {
        let files = std::fs::read_dir(test_folder.0.path()).expect("a folder").flatten();
        files
            .map(|file| file.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")))
    };
    until("the kernel has written a core", || cores().is_some());
    cores().expect("there")
}

/// Whether the kernel writes cores into the folder of the process. Elsewhere the tests of this module have nothing to read.
pub(crate) fn writes_files() -> bool {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_file = pattern.starts_with("core");
    if !is_file {
        eprintln!("skipped: kernel.core_pattern is {pattern}");
    }
    is_file
}

#[test]
fn a_core_of_a_running_engine_contains_no_key() {
    if writes_files() {
        let (core, secrets) = core_of_a_used_engine("without-keys");
        assert_eq!(secrets.len(), 2 * APPS.len() + 1 + TLS_KEYS.len());
        assert_eq!(found(&core, &secrets), BTreeSet::new(), "in {} bytes", core.len());
    }
}

/// The search would find every key if its memory were an ordinary one; a key that was only made may be overwritten by then.
#[test]
fn a_core_of_an_engine_without_guarded_memory_contains_every_key() {
    if writes_files() {
        let (core, mut secrets) = core_of_a_used_engine("whole");
        let found = found(&core, &secrets);
        secrets.retain(|name, _| !name.ends_with("ca.key"));
        let missing: Vec<&String> = secrets.keys().filter(|name| !found.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?} in {} bytes", core.len());
    }
}
