//! Nothing of a value, a selector, a context or the name of a member is in a record, a log line, a metric or an error, whatever is asked
//! for over RPC, the API and the relay.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use leafseal_client::{Client, ClientError, DecryptOptions, EncryptOptions, OnFailure, Scalar, Scheme};

use crate::common::{Running, TestFolder};
use crate::relay::echoing_upstream;

/// Requests in an ordinary run; `LEAFSEAL_CANARY_REQUESTS` says another number.
const REQUESTS: u64 = 1_000;
/// In every text that a caller chooses.
const CANARY: &str = "kanarie";

/// Numbers from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn pick<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[usize::try_from(self.below(texts.len() as u64)).expect("small")]
    }

    fn word(&mut self) -> String {
        format!("{CANARY}{}", self.below(1000))
    }

    /// A document, sometimes broken or with what looks like an envelope, or one that was sealed before.
    fn document(&mut self, sealed: &str) -> String {
        let (name, value, other) = (self.word(), self.word(), self.word());
        match self.below(8) {
            0 => sealed.to_owned(),
            1 => sealed.replacen("\"id\":\"", "\"id\":\"x", 1),
            2 => format!("{{\"{name}\":\"ev:{value}:$\",\"id\":\"{other}\"}}"),
            3 => format!("{{\"{name}\":\"{value}\""),
            4 => format!("{{\"{name}\":\"{value}\",\"{name}\":\"\\u{other}\"}}"),
            5 => format!("[\"{value}\",\"{other}"),
            6 => damaged(sealed, self),
            _ => format!("{{\"{name}\":\"{value}\",\"id\":\"{other}\",\"list\":[1,\"{value}\",null]}}"),
        }
    }

    fn selector(&mut self) -> String {
        let word = self.word();
        match self.below(6) {
            0 => "$..*".to_owned(),
            1 => format!("$['{word}']"),
            2 => format!("$.list[?@ == '{word}']"),
            3 => format!("$['{word}"),
            4 => format!("$.{word}[?{word}]"),
            _ => format!("$..{word}"),
        }
    }
}

/// A sealed document with one character of an envelope changed.
fn damaged(sealed: &str, numbers: &mut Numbers) -> String {
    let mut bytes = sealed.as_bytes().to_vec();
    let begin = sealed.find("ev:").map_or(0, |at| at + 12);
    let at = begin + usize::try_from(numbers.below(20)).expect("small");
    if let Some(byte) = bytes.get_mut(at).filter(|byte| byte.is_ascii_alphanumeric()) {
        *byte = if *byte == b'a' { b'b' } else { b'a' };
    }
    String::from_utf8(bytes).expect("ASCII for ASCII")
}

/// A connection that is kept, to a listener of the relay.
struct Link {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Link {
    fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None }
    }

    fn post(&mut self, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream =
            self.stream.take().unwrap_or_else(|| BufReader::new(TcpStream::connect(&self.address).expect("connected")));
        let size = body.len();
        let kind = "Host: localhost\r\nContent-Type: application/json\r\n";
        let head = format!("POST {path} HTTP/1.1\r\n{kind}Content-Length: {size}\r\n{headers}\r\n");
        stream.get_mut().write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("written");
        let (mut status, mut length, mut is_chunked, mut is_last) = (0, 0, false, false);
        loop {
            let line = line(&mut stream);
            let lower = line.to_ascii_lowercase();
            if line.is_empty() {
                break;
            } else if lower.starts_with("http/") {
                status = line.split(' ').nth(1).expect("a status").parse().expect("a number");
            } else if let Some(size) = lower.strip_prefix("content-length: ") {
                length = size.parse().expect("a number");
            }
            is_chunked |= lower == "transfer-encoding: chunked";
            is_last |= lower == "connection: close";
        }
        let mut content = piece(&mut stream, length);
        while is_chunked {
            let size = usize::from_str_radix(&line(&mut stream), 16).expect("a size");
            content.extend(piece(&mut stream, size));
            line(&mut stream);
            is_chunked = size > 0;
        }
        self.stream = (!is_last).then_some(stream);
        (status, String::from_utf8_lossy(&content).into_owned())
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

fn piece(stream: &mut BufReader<TcpStream>, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    stream.read_exact(&mut bytes).expect("all of it");
    bytes
}

const ROUTES: &str = r#"
[[inbound.route]]
path = "/seal"
app = "acme"
request = [{ action = "encrypt", json = ["$..*"], scheme = "symmetric" }]
[[inbound.route]]
path = "/open"
app = "acme"
request = [{ action = "decrypt", json = ["$..*"] }]
[[inbound.route]]
path = "/keep"
app = "acme"
request = [{ action = "decrypt", json = ["$..*"], on_failure = "leave" }]
[[inbound.route]]
path = "/bound"
app = "acme"
request = [{ action = "encrypt", json = ["$.list[*]"], scheme = "symmetric", context_select = "id" }]
"#;

/// A relay in front of the engine's API, and of an upstream that echoes.
fn start_relay(folder: &TestFolder, engine: &Running) -> Running {
    folder.run(&["certs", "issue", "relay", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
    let api = engine.ready["api"].as_str().expect("an API");
    let port = api.rsplit(':').next().expect("a port").trim_end_matches('/');
    let file = format!(
        "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n\
         [engine]\naddresses = [\"{}\"]\nserver_name = \"localhost\"\nauthorities = \"certs/ca.pem\"\n\
         certificate = \"certs/relay.pem\"\nprivate_key = \"certs/relay.key\"\n\
         [upstream]\nauthorities = \"certs/ca.pem\"\n\
         [[inbound]]\nname = \"calls\"\naddress = \"127.0.0.1:0\"\nupstream = \"https://127.0.0.1:{port}\"\n\
         [[inbound]]\nname = \"echo\"\naddress = \"127.0.0.1:0\"\nupstream = \"{}\"\n{ROUTES}",
        engine.address(),
        echoing_upstream(),
    );
    folder.write("relay.toml", file);
    let mut command = folder.command(&["relay", "--json", "--file", "relay.toml", "--access-log", "access.log"]);
    Running::start(command.stderr(File::create(folder.path("relay.log")).expect("a file")))
}

fn start_engine(folder: &TestFolder) -> Running {
    let settings = [
        "audit.folder=audit",
        "audit.wait=all",
        "audit.checkpoint_interval=10ms",
        "server.name=one",
        "api.access_log=true",
        "server.refusal_lines_max=1000000",
    ];
    let fixed = ["dev", "--json", "--port", "0", "--app", "acme", "--no-relay"];
    let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut command = folder.command(&[&fixed[..], &set].concat());
    Running::start(command.stderr(File::create(folder.path("engine.log")).expect("a file")))
}

/// A random call over RPC: the text of its error, if it fails.
async fn call(client: &Client, numbers: &mut Numbers, sealed: &str) -> Option<String> {
    let (document, context, selector) = (numbers.document(sealed), numbers.word(), numbers.selector());
    let select = [selector.as_str()];
    let symmetric = EncryptOptions { scheme: Some(Scheme::Symmetric), ..EncryptOptions::new("acme") };
    let failed: Result<(), ClientError> = match numbers.below(6) {
        0 => {
            let options = EncryptOptions { context: Some(&context), role: Some("pci"), ..symmetric };
            client.encrypt_document(&options, Some(&select), document.as_bytes()).await.map(drop)
        }
        1 => {
            let options = EncryptOptions { context_select: Some(&context), strict: true, ..symmetric };
            client.encrypt_document(&options, Some(&select), document.as_bytes()).await.map(drop)
        }
        2 => {
            let options = DecryptOptions { context_select: Some("id"), ..DecryptOptions::new("acme") };
            client.decrypt_document(&options, None, document.as_bytes()).await.map(drop)
        }
        3 => {
            let on_failure = Some(if numbers.below(2) == 0 { OnFailure::Null } else { OnFailure::Leave });
            let options = DecryptOptions { on_failure, role: Some("phi"), ..DecryptOptions::new("acme") };
            client.decrypt_document(&options, Some(&select), document.as_bytes()).await.map(drop)
        }
        4 => client.encrypt(&symmetric, &[Scalar::from(context.as_str())]).await.map(drop),
        _ => {
            let envelope = format!("ev:{context}:$");
            client.decrypt(&DecryptOptions::new("acme"), &[Scalar::from(envelope.as_str())]).await.map(drop)
        }
    };
    failed.err().map(|error| error.to_string())
}

/// A random call of the API or through a rule of the relay: the body of its error, if it fails.
fn post(links: &mut [Link; 2], numbers: &mut Numbers, key: &str, sealed: &str) -> Option<String> {
    let (body, context, selector) = (numbers.document(sealed), numbers.word(), numbers.word());
    let trace = format!("traceparent: 00-{:032x}-{:016x}-01\r\n", numbers.below(u64::MAX) + 1, 1);
    let (status, answer) = if numbers.below(2) == 0 {
        let path = numbers.pick(&["/seal", "/open", "/keep", "/bound"]);
        links[1].post(path, &format!("{trace}x-word: {context}\r\n"), &body)
    } else {
        let call = numbers.pick(&["/encrypt", "/decrypt", "/inspect", "/client-side-tokens"]);
        let option = numbers.pick(&["context", "context_select", "select", "on_failure", "role"]);
        let value = match option {
            "select" => format!("$.{selector}"),
            "on_failure" => "null".to_owned(),
            "role" => "pci".to_owned(),
            _ => context,
        };
        let key = if numbers.below(20) == 0 { "lsk_0011223344556677_wrong" } else { key };
        links[0].post(&format!("{call}?{option}={value}"), &format!("{trace}Api-Key: {key}\r\n"), &body)
    };
    (status >= 400).then_some(answer)
}

/// Files below a folder that have the canary.
fn files_with_canary(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_with_canary(&path, found);
        } else if fs::read(&path).expect("a file").windows(CANARY.len()).any(|text| text == CANARY.as_bytes()) {
            found.push(path);
        }
    }
}

#[test]
fn nothing_that_callers_send_is_in_a_record_a_log_a_metric_or_an_error() {
    let requests = std::env::var("LEAFSEAL_CANARY_REQUESTS").map_or(REQUESTS, |many| many.parse().expect("a number"));
    let folder = TestFolder::with_app();
    let engine = start_engine(&folder);
    let relay = start_relay(&folder, &engine);
    let made = folder.run(&["api-keys", "create", "acme", "--allow", "encrypt,decrypt,inspect,client-side-tokens"]);
    let key = made.text().trim().to_owned();
    let address = |listener: &str| Link::new(relay.ready[listener].as_str().expect("an address"));
    let mut links = [address("calls"), address("echo")];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = runtime.block_on(async { Client::new(engine.client_settings()).expect("a client") });
    let mut numbers = Numbers(52);
    let plain = format!("{{\"{CANARY}1\":\"{CANARY}2\",\"id\":\"{CANARY}3\"}}");
    let options = EncryptOptions {
        scheme: Some(Scheme::Symmetric),
        context_select: Some("id"),
        role: Some("pci"),
        ..EncryptOptions::new("acme")
    };
    let name = format!("$.{CANARY}1");
    let select = [name.as_str()];
    let sealed = client.encrypt_document(&options, Some(&select), plain.as_bytes());
    let sealed = String::from_utf8(runtime.block_on(sealed).expect("sealed").json).expect("text");
    let mut failed = 0;
    for number in 0..requests {
        let error = match number % 2 {
            0 => runtime.block_on(call(&client, &mut numbers, &sealed)),
            _ => post(&mut links, &mut numbers, &key, &sealed),
        };
        if let Some(error) = error {
            assert!(!error.contains(CANARY), "request {number}: {error}");
            failed += 1;
        }
    }
    assert!(failed > requests / 10 && failed < requests, "{failed} of {requests} failed");
    for running in [&engine, &relay] {
        let metrics = running.probe("/metrics");
        assert!(metrics.len() > 1000 && !metrics.contains(CANARY));
    }
    drop((relay, engine));
    let logs = ["engine.log", "access.log"].map(|name| folder.path(name));
    assert!(logs.iter().all(|log| fs::metadata(log).is_ok_and(|log| log.len() > 1000)), "{logs:?}");
    let mut found = Vec::new();
    files_with_canary(folder.0.path(), &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
    let audit: u64 = files_size(&folder.path(".leafseal/audit"));
    assert!(audit > requests * 50, "{audit} bytes of records");
    println!("{requests} requests, {failed} failed, {audit} bytes of records and their tree");
}

fn files_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.map(|path| if path.is_dir() { files_size(&path) } else { fs::metadata(&path).expect("there").len() }).sum()
}
