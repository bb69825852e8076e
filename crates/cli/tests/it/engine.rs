//! The program against a running engine and on the local store: both give the same result.

use crate::common;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Running, TestFolder, finish, repository, with};
use leafseal_engine::admin::{Readers, replace_file};
use leafseal_engine::system_random;
use leafseal_net::tls::{CertificateAuthority, Validity};
use leafseal_server::issue_client;
use serde_json::Value;

/// The flags of both backends: the local store and the running engine.
fn backends(engine: &Running) -> [Vec<&str>; 2] {
    [vec![], engine.flags()]
}

/// Encrypts, checks that something was encrypted, decrypts; returns the result.
#[track_caller]
fn round_trip(test_folder: &TestFolder, backend: &[&str], encrypt: &[&str], decrypt: &[&str], input: &[u8]) -> Vec<u8> {
    let arguments = with(&with(&["encrypt", "--app", "acme"], backend), encrypt);
    let sealed = test_folder.run_with(&arguments, input).ok();
    assert!(sealed.windows(3).any(|part| part == b"ev:"), "nothing was encrypted");
    let arguments = with(&with(&["decrypt", "--app", "acme"], backend), decrypt);
    test_folder.run_with(&arguments, &sealed).ok()
}

#[test]
fn examples_round_trip_locally_and_remotely() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    for backend in backends(&engine) {
        let payment = repository("examples/payment.json");
        let select = ["--select", "$.card", "--select", "$..email", "--select", "$.fx", "--select", "$.items[*].price"];
        assert!(round_trip(&test_folder, &backend, &select, &[], &payment) == payment);
        let customer = repository("examples/customer.json");
        let select = ["--select", "$.national_id", "--select", "$.bank", "--select", "$.contact..number"];
        assert!(round_trip(&test_folder, &backend, &select, &[], &customer) == customer);
        let lines = repository("examples/customers.jsonl");
        let select =
            ["--format", "jsonl", "--select", "$.card", "--select", "$.contact.email", "--select", "$.balance"];
        assert!(round_trip(&test_folder, &backend, &select, &["--format", "jsonl"], &lines) == lines);
        // White space, order, duplicate names and the text of numbers.
        let odd = concat!(
            " {\"b\" :\t1.50,\"a\":[ 1E+2 , -0,{ }],\"b\":\r\n\"😀\", ",
            "\"\":null , \"c\": 123456789012345678901234567890 }\n"
        );
        assert!(round_trip(&test_folder, &backend, &[], &[], odd.as_bytes()) == odd.as_bytes());
        for scalar in ["\"x\"", "1", "true", " -1.0e-3 "] {
            assert_eq!(round_trip(&test_folder, &backend, &[], &[], scalar.as_bytes()), scalar.as_bytes());
        }
        // Everything: escapes are restored as the characters they represent.
        let back = round_trip(&test_folder, &backend, &[], &[], &payment);
        let value = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("JSON");
        assert_eq!(value(&back), value(&payment));
    }
}

#[test]
fn values_encrypted_locally_decrypt_remotely_and_vice_versa() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let document = br#"{"a": "one", "b": [2, true, null], "c": ""}"#;
    for curve in ["r1", "k1"] {
        for keying in ["field", "request", "session"] {
            for role in [&[][..], &["--role", "pci"]] {
                let options = with(&["--curve", curve, "--keying", keying], role);
                let (local, remote) = (vec![], engine.flags());
                for (sealing, opening) in [(&local, &remote), (&remote, &local)] {
                    let sealed =
                        test_folder.run_with(&with(&with(&["encrypt", "--app", "acme"], sealing), &options), document);
                    let sealed = sealed.ok();
                    let opened =
                        test_folder.run_with(&with(&with(&["decrypt", "--app", "acme"], opening), role), &sealed).ok();
                    assert_eq!(opened, document, "{curve} {keying} {role:?}");
                    let facts = test_folder.run_with(&["inspect", "--json", "--app", "acme"], &sealed).text();
                    let facts: Vec<Value> =
                        facts.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
                    assert_eq!(facts.len(), 4);
                    assert!(
                        facts.iter().all(|one| one["curve"] == curve && one.get("role").is_some() != role.is_empty())
                    );
                    let keys: std::collections::HashSet<_> =
                        facts.iter().map(|one| one["ephemeral"].as_str()).collect();
                    assert_eq!(keys.len(), if keying == "field" { 4 } else { 1 }, "{keying}");
                }
            }
        }
    }
}

#[test]
fn files_round_trip_locally_and_remotely() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let big: Vec<u8> = (0..1_000_003_u32).map(|i| (i % 251) as u8).collect();
    for (backend, other) in [(vec![], engine.flags()), (engine.flags(), vec![])] {
        for content in [&b""[..], b"x", b"\xff\xfe\0", &big] {
            let sealed = test_folder.run_with(&with(&["encrypt", "--app", "acme", "--file"], &backend), content).ok();
            let opened = test_folder.run_with(&with(&["decrypt", "--app", "acme", "--file"], &other), &sealed).ok();
            assert!(opened == content, "{} bytes", content.len());
            let mut torn = sealed.clone();
            torn.truncate(sealed.len() - 1);
            test_folder.run_with(&with(&["decrypt", "--app", "acme", "--file"], &other), &torn).fails(1);
        }
    }
}

#[test]
fn rotation_and_disabling_reach_a_running_engine() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let flags = engine.flags();
    let lines = repository("examples/customers.jsonl");
    let arguments = with(&["encrypt", "--app", "acme", "--format", "jsonl", "--select", "$.card"], &flags);
    let old = test_folder.run_with(&arguments, &lines).ok();
    test_folder.run(&["keys", "rotate", "acme"]).ok();
    // The engine checks the store once per second.
    let versions = |sealed: &[u8]| {
        let facts = test_folder.run_with(&["inspect", "--json", "--app", "acme"], sealed).text();
        let version = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["key_version"].as_u64();
        facts.lines().map(version).collect::<std::collections::HashSet<_>>()
    };
    let rewrap = with(&["rewrap", "--app", "acme", "--format", "jsonl"], &flags);
    // A run during which the engine detects the change leaves some lines unchanged.
    let new = wait_for(|| {
        let new = test_folder.run_with(&rewrap, &old).ok();
        (versions(&new) == [Some(2)].into()).then_some(new)
    });
    assert_eq!(versions(&old), [Some(1)].into());
    let opened = test_folder.run_with(&with(&["decrypt", "--app", "acme", "--format", "jsonl"], &flags), &new).ok();
    assert!(opened == lines);
    // Also as one document, with text in it that is not an envelope.
    let document = br#"{"ev:n:$": "ev: not one $", "k": 1, "e\/": ["x"]}"#;
    let rewrapped = test_folder.run_with(&with(&["rewrap", "--app", "acme"], &flags), document);
    assert_eq!(rewrapped.ok(), document);
    // The engine gets envelopes, not the document that shows where they are.
    for place in [["--context-select", "id"], ["--bind", "path"], ["--select", "$.k"], ["--other-case", "same"]] {
        let refused =
            test_folder.run_with(&with(&with(&["rewrap", "--app", "acme"], &place), &flags), document).fails(2);
        assert!(refused.contains(place[0]) && refused.contains("with --connect"), "{refused}");
    }

    test_folder.run(&["keys", "disable", "acme"]).ok();
    let decrypt = with(&["decrypt", "--app", "acme", "--format", "jsonl"], &flags);
    // A run during which the engine detects the change fails after some lines.
    let message = wait_for(|| {
        let ran = test_folder.run_with(&decrypt, &new);
        (ran.code != 0 && ran.stdout.is_empty()).then(|| ran.fails(1))
    });
    assert!(message.contains("line 1: app_disabled: app acme is disabled"), "{message}");
}

/// Waits for a change that the engine detects within seconds.
fn wait_for<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "the engine has not noticed");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn clients_have_exactly_their_granted_permissions() {
    let test_folder = TestFolder::new();
    test_folder.run(&["keys", "create", "other"]).ok();
    let engine = test_folder.engine(&[]);
    let address = engine.address();
    let issue = |client: &str, more: &[&str]| test_folder.run(&with(&["certs", "issue", client], more)).ok();
    issue("sealer", &["--app", "acme", "--allow", "encrypt"]);
    issue("reader", &["--app", "acme", "--allow", "decrypt", "--role", "pci"]);
    issue("stranger", &["--app", "other", "--allow", "encrypt,decrypt"]);
    let as_client = |client: &'static str, arguments: &[&str], input: &[u8]| {
        test_folder.run_with(&with(arguments, &["--app", "acme", "--connect", address, "--client", client]), input)
    };
    let (encrypt, decrypt) = (["encrypt"], ["decrypt"]);
    let plain = as_client("sealer", &encrypt, b"[1]").ok();
    let pci = as_client("sealer", &["encrypt", "--role", "pci"], b"[1]").ok();
    let pii = as_client("sealer", &["encrypt", "--role", "pii"], b"[1]").ok();
    let refused = |ran: common::CommandResult, part: &str| {
        let message = ran.fails(1);
        assert!(message.contains(part), "{message}");
    };
    refused(as_client("sealer", &decrypt, &plain), "client sealer may not decrypt for app acme");
    assert_eq!(as_client("reader", &decrypt, &plain).ok(), b"[1]");
    assert_eq!(as_client("reader", &decrypt, &pci).ok(), b"[1]");
    refused(as_client("reader", &decrypt, &pii), "role is not granted");
    refused(as_client("reader", &encrypt, b"[1]"), "client reader may not encrypt for app acme");
    refused(as_client("stranger", &decrypt, &plain), "client stranger may not decrypt for app acme");
    refused(as_client("reader", &["rewrap"], &plain), "may not encrypt");
    // A certificate that was replaced is refused, as is one that was revoked.
    for ending in ["pem", "key"] {
        let from = format!(".leafseal/certs/sealer.{ending}");
        std::fs::copy(test_folder.path(&from), test_folder.path(&format!("old.{ending}"))).expect("copied");
    }
    issue("sealer", &["--app", "acme", "--allow", "encrypt"]);
    let old = ["encrypt", "--app", "acme", "--connect", address, "--cert", "old.pem", "--key", "old.key"];
    wait_for(|| test_folder.run_with(&old, b"[1]").stderr.contains("another certificate").then_some(()));
    assert!(as_client("sealer", &encrypt, b"[1]").code == 0);
    test_folder.run(&["certs", "revoke", "sealer"]).ok();
    wait_for(|| as_client("sealer", &encrypt, b"[1]").stderr.contains("client sealer is disabled").then_some(()));
    // The engine still works.
    assert_eq!(as_client("reader", &decrypt, &plain).ok(), b"[1]");
}

#[test]
fn invalid_certificates_are_reported() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let address = engine.address();
    let encrypt =
        |more: &[&str]| test_folder.run_with(&with(&["encrypt", "--app", "acme", "--connect", address], more), b"[1]");
    // Of another authority.
    let elsewhere = TestFolder::new();
    elsewhere.run(&["keys", "create", "acme"]).ok();
    elsewhere.run(&["certs", "init"]).ok();
    elsewhere.run(&["certs", "issue", "dev", "--app", "acme", "--allow", "encrypt"]).ok();
    let theirs = |name: &str| elsewhere.path(&format!(".leafseal/certs/{name}")).to_string_lossy().into_owned();
    let (certificate, key, authority) = (theirs("dev.pem"), theirs("dev.key"), theirs("ca.pem"));
    let message = encrypt(&["--cert", &certificate, "--key", &key]).fails(3);
    assert!(message.contains("certificate"), "{message}");
    let message = encrypt(&["--client", "dev", "--ca", &authority]).fails(3);
    assert!(message.contains("certificate"), "{message}");
    // A key of another certificate, files that are missing or have other content.
    let message = encrypt(&["--cert", ".leafseal/certs/dev.pem", "--key", &key]).fails(2);
    assert!(message.contains("does not belong"), "{message}");
    let message = encrypt(&["--cert", "missing.pem", "--key", &key]).fails(2);
    assert!(message.contains("missing.pem"), "{message}");
    test_folder.write("junk.pem", "junk");
    encrypt(&["--cert", "junk.pem", "--key", &key]).fails(2);
    // Expired yesterday.
    let folder = test_folder.path(".leafseal/certs");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("read");
    let ours = CertificateAuthority::from_pem(&read("ca.pem"), &read("ca.key")).expect("the authority");
    let now = SystemTime::now() - Duration::from_secs(2 * 86_400);
    let expired = issue_client(&ours, "dev", Validity { now, days: 1 }).expect("issued");
    let write = |name: &str, pem: &[u8], readers| {
        replace_file(&folder.join(name), pem, readers, &mut system_random()).expect("written");
    };
    write("late.pem", &expired.certificate_pem, Readers::All);
    write("late.key", &expired.private_key_pem, Readers::Owner);
    let message = encrypt(&["--client", "late"]).fails(3);
    assert!(message.contains("expired"), "{message}");
    // A name that is not in the engine's certificate.
    let message = encrypt(&["--client", "dev", "--server-name", "engine.example"]).fails(3);
    assert!(message.contains("engine.example") || message.contains("name"), "{message}");
    // Nothing listens there, and an unknown host.
    let nobody = ["encrypt", "--app", "acme", "--connect", "127.0.0.1:1", "--client", "dev"];
    assert!(test_folder.run_with(&nobody, b"[1]").fails(3).contains("is the engine running there?"));
    // The right certificate still works.
    encrypt(&["--client", "dev"]).ok();
}

#[test]
fn failures_are_the_same_in_process_and_over_mtls() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    test_folder.run(&["keys", "create", "beta"]).ok();
    let theirs = test_folder.run_with(&["encrypt", "--app", "beta"], br#"{"a": "secret-value"}"#).ok();
    let select = ["--select", "$["];
    // Command, flags, input; the exit code, and a part of the message.
    type Case<'a> = (&'a str, &'a [&'a str], &'a [u8], i32, &'a str);
    let cases: [Case<'_>; 6] = [
        ("decrypt", &[], &theirs, 1, "(at byte 6)"),
        ("encrypt", &[], b"{\"a\": secret-value}", 1, "byte 6"),
        ("encrypt", &[], b"{}\n{}", 1, "--format jsonl"),
        ("encrypt", &select, b"{}", 2, "byte 2"),
        ("encrypt", &["--format", "jsonl"], b"{\"a\":1}\n\nsecret-value\n", 1, "line 3: "),
        ("decrypt", &["--file"], b"secret-value", 1, "file"),
    ];
    for (command, more, input, code, part) in cases {
        for backend in backends(&engine) {
            let ran = test_folder.run_with(&with(&with(&[command, "--app", "acme"], more), &backend), input);
            assert_eq!(ran.code, code, "{command} {more:?} {backend:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(part), "{command} {more:?} {backend:?}: {}", ran.stderr);
            assert!(!ran.stderr.contains("secret-value"), "a value is shown: {}", ran.stderr);
        }
    }
    let message = test_folder.run_with(&with(&["rewrap", "--app", "acme"], &engine.flags()), &theirs).fails(1);
    assert!(message.contains("decrypt failed") && message.contains("byte 6"), "{message}");
}

#[test]
fn an_engine_that_dies_midway_is_reported_and_nothing_is_written() {
    let test_folder = TestFolder::new();
    let mut engine = test_folder.engine(&[]);
    let address = engine.address().to_owned();
    let document = test_folder.write("doc.json", common::document(60_000, 0));
    let document = document.to_string_lossy();
    let arguments =
        ["encrypt", "--app", "acme", "--keying", "field", "--connect", &address, "--client", "dev", "-o", "out.json"];
    let mut command = test_folder.command(&with(&arguments, &[&document]));
    let client = std::thread::spawn(move || finish(&mut command, b""));
    std::thread::sleep(Duration::from_millis(400));
    assert!(!client.is_finished(), "the work was done before the engine died");
    engine.child.kill().expect("killed");
    let message = client.join().expect("ended").fails(3);
    assert!(message.contains("run the command again"), "{message}");
    assert!(!test_folder.path("out.json").exists());
}

#[test]
fn a_signal_ends_the_engine_in_good_order() {
    let test_folder = TestFolder::new();
    let mut engine = test_folder.engine(&["--set", "log.level=debug", "--set", "log.format=json"]);
    let flags: Vec<String> = engine.flags().iter().map(|&flag| flag.to_owned()).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    test_folder.run_with(&with(&["encrypt", "--app", "acme"], &flags), br#"["secret-value"]"#).ok();
    let pid = engine.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("run").success());
    let status = engine.child.wait().expect("ended");
    let mut log = String::new();
    engine.child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(status.success(), "{log}");
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{log}");
    assert!(log.contains("engine started") && log.contains("engine stopped"), "{log}");
    assert!(!log.contains("secret-value") && !log.contains("PRIVATE KEY") && !log.contains("root-key-1:"));
}

#[test]
fn a_running_engine_leaves_no_core_dump() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", engine.child.id())).expect("readable");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("the limit");
    // Soft, hard, unit.
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"]);
}

/// The first message of the program's own TLS client on the wire: one record.
fn client_hello(test_folder: &TestFolder) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let mut command = test_folder.command(&["info", "--connect", &address, "--client", "dev"]);
    let client = std::thread::spawn(move || finish(&mut command, b""));
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut hello = vec![0; 5];
    stream.read_exact(&mut hello).expect("a record's header");
    assert_eq!(hello[0], 22, "a handshake record (RFC 8446, section 5.1)");
    hello.resize(5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])), 0);
    stream.read_exact(&mut hello[5..]).expect("the record");
    drop((stream, listener));
    client.join().expect("ended").fails(3);
    hello
}

/// Sends only `bytes`; returns what the engine sends until it closes the connection.
fn answer_to(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    // The engine may have closed it before all is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("not closed: {error}"),
        _ => answer,
    }
}

#[test]
fn hostile_bytes_at_the_port_affect_nobody_else() {
    let test_folder = TestFolder::new();
    let mut engine = test_folder.engine(&[]);
    let address = engine.address().to_owned();
    let hello = client_hello(&test_folder);
    let half = hello.len() / 2;
    let noise: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let plain: [&[u8]; 8] = [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x94\x00\x01\xa6health\x80",
        b"\xdd\xff\xff\xff\xff",
        b"\x16\x03\x01\xff\xff\x01",
        &[0; 70_000],
        &noise,
    ];
    // A real handshake that stops or turns into noise: after half its first message, and where the certificate is expected.
    let hellos =
        [hello[..half].to_vec(), [&hello[..half], &noise].concat(), hello.clone(), [&hello[..], &noise].concat()];
    // Held open during everything that follows.
    let mut held: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&address).expect("connected")).collect();
    for (stream, sent) in held.iter_mut().zip([0, 1, 5, half, half, hello.len() - 1, hello.len(), hello.len()]) {
        stream.write_all(&hello[..sent]).expect("sent");
    }
    for bytes in plain.into_iter().chain(hellos.iter().map(Vec::as_slice)) {
        let answer = answer_to(&address, bytes);
        // Only a complete hello gets more than an alert (RFC 8446, section 6): seven bytes.
        assert!(answer.len() <= 7 || bytes.starts_with(&hello), "{} bytes for {}", answer.len(), bytes.len());
        assert_eq!(round_trip(&test_folder, &engine.flags(), &[], &[], b"[1.0]"), b"[1.0]");
    }
    drop(held);
    assert_eq!(engine.child.try_wait().expect("waited"), None, "the engine has ended");
    engine.child.kill().expect("killed");
    let mut log = String::new();
    engine.child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(!log.contains("panic") && !log.contains("internal error"), "{log}");
}

#[test]
fn serve_runs_with_files_created_by_hand() {
    let test_folder = TestFolder::with_app();
    test_folder.run(&["certs", "init"]).ok();
    test_folder.run(&["certs", "issue", "billing", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
    let mut command = test_folder.command(&["serve", "--address", "127.0.0.1:0", "--json"]);
    let running = Running::start(&mut command);
    // The only client in the folder need not be named.
    let backend = ["--connect", running.address()];
    assert_eq!(round_trip(&test_folder, &backend, &[], &[], b"[1.0]"), b"[1.0]");
    let info = test_folder.run(&with(&["info", "--json"], &backend)).text();
    assert_eq!(serde_json::from_str::<Value>(&info).expect("JSON")["protocol"], "1");
    let keys = |backend: &[&str]| test_folder.run(&with(&["keys", "public", "acme", "--json"], backend)).text();
    assert_eq!(keys(&backend), keys(&[]));
    // Probes are answered meanwhile.
    let operator = running.ready["operator"].as_str().expect("an operator port");
    let mut probe = TcpStream::connect(operator).expect("connected");
    probe.write_all(b"GET /readyz HTTP/1.1\r\nHost: operator\r\n\r\n").expect("written");
    let mut answer = String::new();
    probe.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let taken = format!("operator.address={operator}");
    let message = test_folder.run(&["serve", "--address", "127.0.0.1:0", "--set", &taken]).fails(3);
    assert!(message.contains("choose another with operator.address"), "{message}");
    // The port is in use.
    let message = test_folder.run(&["serve", "--address", running.address()]).fails(3);
    assert!(message.contains("another program uses that port"), "{message}");
}

#[test]
fn dev_twice_in_one_folder_keeps_existing_files() {
    let test_folder = TestFolder::new();
    let (sealed, files) = {
        let engine = test_folder.engine(&[]);
        let sealed = test_folder.run_with(&with(&["encrypt", "--app", "acme"], &engine.flags()), b"[\"x\"]").ok();
        (sealed, ["ca.pem", "server.pem", "dev.pem"].map(|name| test_folder.read(&format!(".leafseal/certs/{name}"))))
    };
    let engine = test_folder.engine(&[]);
    assert_eq!(
        files,
        ["ca.pem", "server.pem", "dev.pem"].map(|name| test_folder.read(&format!(".leafseal/certs/{name}")))
    );
    assert_eq!(test_folder.run_with(&with(&["decrypt", "--app", "acme"], &engine.flags()), &sealed).ok(), b"[\"x\"]");
    for field in ["ca", "certificate", "key"] {
        assert!(std::path::Path::new(engine.ready[field].as_str().expect("a path")).is_absolute());
    }
}

#[test]
fn an_engine_whose_log_cannot_be_written_serves_on() {
    let test_folder = TestFolder::with_app();
    test_folder.run(&["certs", "init"]).ok();
    test_folder.run(&["certs", "issue", "billing", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    let mut command = test_folder.command(&["serve", "--address", "127.0.0.1:0", "--json", "--set", "log.level=trace"]);
    let running = Running::start(command.stderr(full));
    let backend = ["--connect", running.address()];
    for _ in 0..3 {
        assert_eq!(round_trip(&test_folder, &backend, &[], &[], b"[1.0]"), b"[1.0]");
    }
}
