//! Where records are sent to, and the messages that carry them there. No sockets: those are the server's.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use leafseal_crypto::hash::{hmac_sha256, sha256};
use serde_json::{Value, json};

use crate::cursor::RecordBatch;
use crate::export::{ExportFormat, export_record};
use crate::note::VerifierKey;
use crate::time::{entry_time, time_of_record};

/// The kind that stands for checkpoints among the kinds of records.
const CHECKPOINT_KIND: &str = "checkpoint";
/// Facility "log audit" of RFC 5424.
const FACILITY: u32 = 13;
/// The identifier of structured data: 32473 is the enterprise number for examples (RFC 5612).
const STRUCTURED_DATA: &str = "leafseal@32473";
/// Characters of a host in the name of a sink.
const HOST_SIZE_MAX: usize = 60;
/// Longest message in a datagram.
const DATAGRAM_SIZE_MAX: usize = 60_000;

/// How a sink is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkTransport {
    /// Syslog over TCP, with TLS or without: RFC 5425, RFC 6587 (octet counting).
    SyslogStream {
        /// Host and port.
        address: String,
        /// Whether over TLS.
        is_tls: bool,
    },
    /// Syslog in UDP datagrams: RFC 5426.
    SyslogUdp(String),
    /// Syslog on a Unix socket of datagrams, such as `/dev/log`.
    SyslogUnix(PathBuf),
    /// OTLP over HTTP, as JSON.
    Otlp(SinkUrl),
    /// JSON by HTTP.
    Webhook(SinkUrl),
}

/// An address of HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct SinkUrl {
    /// Whether over TLS.
    pub is_tls: bool,
    /// Host and port.
    pub address: String,
    /// The path, with its query. It may have secrets, and is never shown.
    pub path: String,
}

impl fmt::Debug for SinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkUrl").field("address", &self.address).finish_non_exhaustive()
    }
}

impl SinkTransport {
    /// Its kind, where it is, and the rest of that, which may have secrets.
    fn parts(&self) -> (&'static str, &str, &str) {
        match self {
            Self::SyslogStream { address, is_tls: true } => ("syslog-tls", address, ""),
            Self::SyslogStream { address, is_tls: false } => ("syslog-tcp", address, ""),
            Self::SyslogUdp(address) => ("syslog-udp", address, ""),
            Self::SyslogUnix(path) => ("syslog-unix", path.to_str().unwrap_or_default(), ""),
            Self::Otlp(url) => (if url.is_tls { "otlp-https" } else { "otlp-http" }, &url.address, &url.path),
            Self::Webhook(url) => (if url.is_tls { "webhook-https" } else { "webhook-http" }, &url.address, &url.path),
        }
    }
}

/// A sink as a setting names it: `KIND+TRANSPORT://ADDRESS[;format=FORMAT][;kinds=KIND,…][;ca=FILE][;secret=FILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkTarget {
    /// How it is reached.
    pub transport: SinkTransport,
    /// The form of records.
    pub format: ExportFormat,
    /// Kinds of records that are sent; all if there are none.
    pub kinds: Vec<String>,
    /// Authorities of its certificate, in PEM.
    pub authorities: Option<PathBuf>,
    /// The file with the secret under which messages are signed.
    pub secret: Option<PathBuf>,
}

impl SinkTarget {
    /// Reads a sink; `None` if the text names none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(';').filter(|_| !text.contains(char::is_whitespace));
        let transport = transport(words.next()?)?;
        let format = ExportFormat::Json;
        let mut target = Self { transport, format, kinds: Vec::new(), authorities: None, secret: None };
        for word in words {
            let (name, value) = word.split_once('=').filter(|(_, value)| !value.is_empty())?;
            match name {
                "format" => {
                    target.format = match value {
                        "json" => ExportFormat::Json,
                        "ocsf" => ExportFormat::Ocsf,
                        "ecs" => ExportFormat::Ecs,
                        _ => return None,
                    };
                }
                "kinds" => target.kinds = value.split(',').map(str::to_owned).collect(),
                // A line in a list has no folder that it could be relative to.
                "ca" if value.starts_with('/') => target.authorities = Some(value.into()),
                "secret" if value.starts_with('/') => target.secret = Some(value.into()),
                _ => return None,
            }
        }
        let needs_authorities = match &target.transport {
            SinkTransport::SyslogStream { is_tls, .. } => *is_tls,
            SinkTransport::Otlp(url) | SinkTransport::Webhook(url) => url.is_tls,
            SinkTransport::SyslogUdp(_) | SinkTransport::SyslogUnix(_) => false,
        };
        (needs_authorities == target.authorities.is_some()).then_some(target)
    }

    /// What it is called in logs, metrics and the names of files: kind and host, and a hash of all that decides which records go where, so
    /// that two sinks with one name are one. Its path, which may have secrets, cannot be seen from it.
    pub fn name(&self) -> String {
        let (kind, place, path) = self.transport.parts();
        let mut kinds = self.kinds.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let whole =
            [kind, place, path, &format!("{:?}", self.format), &kinds.join(",")].map(|part| format!("{part}\n"));
        let hash = sha256(&[whole.concat().as_bytes()]);
        let host = place.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
        let host = host.take(HOST_SIZE_MAX).collect::<String>();
        hash[..16].iter().fold(format!("{kind}-{}-", host.trim_matches('-')), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        })
    }

    /// Whether records of this kind are sent.
    pub fn wants(&self, entry: &[u8]) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| *kind == kind_of(entry))
    }

    /// Whether new checkpoints are sent even if there are no records that are.
    pub fn wants_checkpoints(&self) -> bool {
        self.kinds.iter().any(|kind| kind == CHECKPOINT_KIND)
    }

    /// Messages of syslog for a batch: in a stream, with their sizes in front.
    pub fn syslog(&self, batch: &RecordBatch) -> Vec<Vec<u8>> {
        let is_stream = matches!(self.transport, SinkTransport::SyslogStream { .. });
        let message = |(index, entry): &(u64, Vec<u8>)| {
            let mut message = syslog_message(&batch.origin, *index, entry, self.format).into_bytes();
            if is_stream {
                return [message.len().to_string().as_bytes(), b" ", &message].concat();
            }
            message.truncate(DATAGRAM_SIZE_MAX);
            message
        };
        batch.records.iter().map(message).collect()
    }

    /// The body of a request of OTLP for a batch (`ExportLogsServiceRequest` in JSON).
    pub fn otlp(&self, batch: &RecordBatch) -> Vec<u8> {
        let text = |name: &str, value: &str| json!({ "key": name, "value": { "stringValue": value } });
        let record = |(index, entry): &(u64, Vec<u8>)| {
            let nanos = entry_time(entry).unwrap_or(0).saturating_mul(1000).to_string();
            let (number, severity) = match severity(entry) {
                1 => (21, "FATAL"),
                4 => (13, "WARN"),
                _ => (9, "INFO"),
            };
            json!({
                "timeUnixNano": nanos, "observedTimeUnixNano": nanos, "severityNumber": number, "severityText": severity,
                "body": { "stringValue": export_record(self.format, &batch.origin, *index, entry) },
                "attributes": [
                    text("leafseal.audit.origin", &batch.origin), text("leafseal.audit.index", &index.to_string()),
                    text("leafseal.audit.kind", &kind_of(entry)),
                ],
            })
        };
        let records: Vec<_> = batch.records.iter().map(record).collect();
        let resource = json!({ "attributes": [text("service.name", "leafseal")] });
        let scope = json!({ "scope": { "name": "leafseal.audit" }, "logRecords": records });
        json!({ "resourceLogs": [{ "resource": resource, "scopeLogs": [scope] }] }).to_string().into_bytes()
    }

    /// The body of a webhook for a batch, with the newest checkpoint.
    pub fn webhook(&self, batch: &RecordBatch) -> Vec<u8> {
        let records = batch.records.iter();
        let lines = records.map(|(index, entry)| export_record(self.format, &batch.origin, *index, entry));
        let lines: Vec<_> = lines.collect();
        let (origin, checkpoint) = (json!(batch.origin), json!(batch.checkpoint));
        format!("{{\"origin\":{origin},\"checkpoint\":{checkpoint},\"records\":[{}]}}", lines.join(",")).into_bytes()
    }
}

/// A witness as a setting names it: `URL;KEY[;ca=FILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessTarget {
    /// Where `add-checkpoint` is.
    pub url: SinkUrl,
    /// Its public key.
    pub key: VerifierKey,
    /// Authorities of its certificate, in PEM.
    pub authorities: Option<PathBuf>,
}

impl WitnessTarget {
    /// Reads a witness; `None` if the text names none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(';');
        let (url, key, authorities) = (words.next()?, words.next()?, words.next().unwrap_or_default());
        // The URL of a webhook is written as one of a witness is.
        let sink = SinkTarget::parse(format!("webhook+{url};{authorities}").trim_end_matches(';'));
        let sink = sink.filter(|sink| words.next().is_none() && sink.secret.is_none() && sink.kinds.is_empty())?;
        let SinkTransport::Webhook(SinkUrl { is_tls, address, path }) = sink.transport else { return None };
        let key = VerifierKey::parse(key).ok().filter(VerifierKey::is_of_witness)?;
        let path = format!("{}/add-checkpoint", path.trim_end_matches('/'));
        Some(Self { url: SinkUrl { is_tls, address, path }, key, authorities: sink.authorities })
    }
}

/// The value of the header `Leafseal-Signature`: HMAC-SHA-256 over time in seconds, path, `Idempotency-Key` and body, with
/// line ends between.
pub fn webhook_signature(secret: &[u8], unix_s: u64, path: &str, batch: &str, body: &[u8]) -> String {
    let mac = hmac_sha256(secret, &[format!("{unix_s}\n{path}\n{batch}\n").as_bytes(), body].concat());
    let mut text = format!("t={unix_s},v1=");
    for byte in mac {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn transport(address: &str) -> Option<SinkTransport> {
    let host = |text: &str| {
        let (name, port) = text.rsplit_once(':')?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        (!name.is_empty() && !name.contains(['/', '@']) && is_port).then(|| text.to_owned())
    };
    let url = |rest: &str, is_tls| {
        let (address, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let address = match address.rsplit_once(':') {
            Some(_) => address.to_owned(),
            None => format!("{address}:{}", if is_tls { 443 } else { 80 }),
        };
        Some(SinkUrl { is_tls, address: host(&address)?, path: path.to_owned() })
    };
    match address.split_once("://") {
        Some(("syslog+tcp", rest)) => Some(SinkTransport::SyslogStream { address: host(rest)?, is_tls: false }),
        Some(("syslog+tls", rest)) => Some(SinkTransport::SyslogStream { address: host(rest)?, is_tls: true }),
        Some(("syslog+udp", rest)) => host(rest).map(SinkTransport::SyslogUdp),
        Some(("syslog+unix", path)) => path.starts_with('/').then(|| SinkTransport::SyslogUnix(path.into())),
        Some(("otlp+http", rest)) => url(rest, false).map(SinkTransport::Otlp),
        Some(("otlp+https", rest)) => url(rest, true).map(SinkTransport::Otlp),
        Some(("webhook+http", rest)) => url(rest, false).map(SinkTransport::Webhook),
        Some(("webhook+https", rest)) => url(rest, true).map(SinkTransport::Webhook),
        _ => None,
    }
}

fn member(entry: &[u8], name: &str) -> Option<String> {
    let record: Value = serde_json::from_slice(entry).ok()?;
    record[name].as_str().map(str::to_owned)
}

fn kind_of(entry: &[u8]) -> String {
    member(entry, "kind").unwrap_or_else(|| "other".to_owned())
}

/// Severity of syslog: alert, warning or informational.
fn severity(entry: &[u8]) -> u32 {
    match (kind_of(entry).as_str(), member(entry, "outcome").as_deref()) {
        ("canary", _) => 1,
        ("gap" | "strangers" | "refusal", _) => 4,
        (_, Some(outcome)) if outcome != "ok" => 4,
        _ => 6,
    }
}

fn syslog_message(origin: &str, index: u64, entry: &[u8], format: ExportFormat) -> String {
    let priority = FACILITY * 8 + severity(entry);
    let time = Some(time_of_record(entry)).filter(|time| !time.is_empty()).unwrap_or("-");
    // MSGID: printable, and not long.
    let kind: String = kind_of(entry).chars().filter(char::is_ascii_graphic).take(32).collect();
    let kind = if kind.is_empty() { "-" } else { &kind };
    let line = export_record(format, origin, index, entry);
    format!("<{priority}>1 {time} - leafseal - {kind} [{STRUCTURED_DATA} origin=\"{origin}\" index=\"{index}\"] {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> RecordBatch {
        let records = [
            r#"{"time":"2026-11-28T09:00:00.123456Z","kind":"request","outcome":"ok"}"#,
            r#"{"time":"2026-11-28T09:00:01.000000Z","kind":"canary"}"#,
            r#"{"time":"2026-11-28T09:00:02.000000Z","kind":"refusal","outcome":"forbidden"}"#,
        ];
        RecordBatch {
            origin: "leafseal/a/b/0".to_owned(),
            checkpoint: "note\n".to_owned(),
            next: 10,
            records: (7..).zip(records.iter().map(|text| text.as_bytes().to_vec())).collect(),
        }
    }

    #[test]
    fn sinks_are_read() {
        let read = |text: &str| SinkTarget::parse(text).map(|sink| sink.transport);
        let url =
            |is_tls, address: &str, path: &str| SinkUrl { is_tls, address: address.to_owned(), path: path.to_owned() };
        assert_eq!(
            read(
                "webhook+https://hooks.example.com/audit?x=1;ca=/ca.pem;secret=/key;kinds=canary,checkpoint;format=ocsf"
            ),
            Some(SinkTransport::Webhook(url(true, "hooks.example.com:443", "/audit?x=1")))
        );
        assert_eq!(
            read("otlp+http://[::1]:4318/v1/logs"),
            Some(SinkTransport::Otlp(url(false, "[::1]:4318", "/v1/logs")))
        );
        assert_eq!(
            read("syslog+tcp://siem:601"),
            Some(SinkTransport::SyslogStream { address: "siem:601".to_owned(), is_tls: false })
        );
        assert_eq!(read("syslog+udp://siem:514"), Some(SinkTransport::SyslogUdp("siem:514".to_owned())));
        assert_eq!(read("syslog+unix:///dev/log"), Some(SinkTransport::SyslogUnix("/dev/log".into())));
        for wrong in [
            "",
            "siem:514",
            "syslog+tcp://siem",
            "syslog+tcp://siem:0",
            "syslog+tcp://siem:601;format=xml",
            "syslog+tcp://siem:601;ca=/ca.pem",
            "syslog+tls://siem:6514;ca=ca.pem",
            "syslog+tls://siem:6514",
            "syslog+unix://dev/log",
            "syslog+tcp://siem:601 format=ocsf",
            "syslog+tcp://siem:601;",
            "webhook+https://hooks.example.com/",
            "webhook+http://user@hooks.example.com/",
            "webhook+http://hooks.example.com/;kinds=",
            "webhook+http://hooks.example.com/;colour=red",
            "ftp://hooks.example.com/",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    /// Sinks that get other records, or elsewhere, have other names; nothing else changes a name, and none shows a secret.
    #[test]
    fn names_are_of_what_goes_where() {
        let sink = |text: &str| SinkTarget::parse(text).unwrap_or_else(|| panic!("{text}"));
        let name = |text: &str| sink(text).name();
        let different = [
            "webhook+http://a.example/x",
            "webhook+http://a.example/X",
            "webhook+http://a.example/x?token=hunter2",
            "webhook+http://a.example:81/x",
            "webhook+http://a-example/x",
            "webhook+http://a.example/x;format=ecs",
            "webhook+http://a.example/x;format=ocsf",
            "webhook+http://a.example/x;kinds=a-b",
            "webhook+http://a.example/x;kinds=a,b",
            "webhook+http://a.example/x;kinds=a",
            "otlp+http://a.example/x",
            "syslog+tcp://a.example:80",
            "syslog+udp://a.example:80",
            "syslog+unix:///dev/log",
            "syslog+unix:///dev-log",
        ];
        let names: std::collections::BTreeSet<_> = different.iter().map(|text| name(text)).collect();
        assert_eq!(names.len(), different.len(), "{names:?}");
        let same = [
            ("webhook+http://a.example/x", "webhook+http://a.example:80/x;format=json"),
            ("webhook+http://a.example/x;kinds=a,b", "webhook+http://a.example/x;kinds=b,a,b;secret=/key"),
            ("webhook+https://a.example/x;ca=/a.pem", "webhook+https://a.example/x;ca=/b.pem"),
        ];
        for (one, two) in same {
            assert_eq!(name(one), name(two));
        }
        let secret = sink("webhook+https://a.example/hunter2?token=hunter2;ca=/a.pem");
        assert!(secret.name().starts_with("webhook-https-a.example-443-"), "{}", secret.name());
        for shown in [secret.name(), format!("{secret:?}"), format!("{:?}", secret.transport)] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let long = name(&format!("syslog+udp://{}:514", "x".repeat(1000)));
        assert!(long.len() < 120 && long.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c)), "{long}");
    }

    #[test]
    fn witnesses_are_read() {
        let key = VerifierKey::of_witness("witness.example.com/w1", [7; 32]).expect("a name");
        let read = |rest: &str| WitnessTarget::parse(&format!("{rest};{}", key.to_text()));
        let witness = read("http://witness.example.com/some/").expect("a witness");
        let (address, path) = ("witness.example.com:80".to_owned(), "/some/add-checkpoint".to_owned());
        assert_eq!(
            witness,
            WitnessTarget { url: SinkUrl { is_tls: false, address, path }, key: key.clone(), authorities: None }
        );
        let log = VerifierKey::of_log("a/b", [7; 32]).expect("a name").to_text();
        assert!(read("https://a:1").is_none() && read("ftp://a").is_none() && read("").is_none());
        for wrong in [format!("http://a;{log}"), "http://a".to_owned(), format!("http://a;{};x", key.to_text())] {
            assert_eq!(WitnessTarget::parse(&wrong), None, "{wrong}");
        }
        assert!(WitnessTarget::parse(&format!("https://a;{};ca=/ca.pem", key.to_text())).is_some());
    }

    #[test]
    fn messages_of_syslog_have_their_form() {
        let sink = SinkTarget::parse("syslog+tcp://siem:601").expect("a sink");
        let messages = sink.syslog(&batch());
        let text = String::from_utf8(messages[0].clone()).expect("text");
        let (size, message) = text.split_once(' ').expect("a size");
        assert_eq!(size.parse(), Ok(message.len()));
        let start = "<110>1 2026-11-28T09:00:00.123456Z - leafseal - request [leafseal@32473 origin=\"leafseal/a/b/0\" index=\"7\"] {";
        assert!(message.starts_with(start), "{message}");
        let priorities: Vec<_> = messages.iter().map(|message| message.split(|byte| *byte == b' ').nth(1)).collect();
        assert_eq!(priorities[1..], [Some(&b"<105>1"[..]), Some(&b"<108>1"[..])]);
        let sink = SinkTarget::parse("syslog+udp://siem:514").expect("a sink");
        assert!(sink.syslog(&batch())[0].starts_with(b"<110>1 "));
    }

    #[test]
    fn bodies_have_origin_and_index() {
        let sink = SinkTarget::parse("otlp+http://a/v1/logs;kinds=request").expect("a sink");
        let body: Value = serde_json::from_slice(&sink.otlp(&batch())).expect("JSON");
        let records = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
        assert_eq!(
            (&records[1]["severityNumber"], &records[0]["timeUnixNano"]),
            (&json!(21), &json!("1795856400123456000"))
        );
        assert_eq!(records[2]["attributes"][1]["value"]["stringValue"], "9");
        assert!(sink.wants(&batch().records[0].1) && !sink.wants(&batch().records[1].1));
        let sink = SinkTarget::parse("webhook+http://a/;kinds=checkpoint").expect("a sink");
        let body = sink.webhook(&batch());
        let parsed: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!((&parsed["checkpoint"], &parsed["records"][2]["index"]), (&json!("note\n"), &json!(9)));
        assert!(sink.wants_checkpoints() && !sink.wants(&batch().records[0].1));
        // From Python's hmac.
        assert_eq!(
            webhook_signature(b"Jefe", 0, "/audit?x=1", "leafseal/a/b/0/7-10", b"what do ya want for nothing?"),
            "t=0,v1=de8a8058f3de784c9d39ffd5ace9a044e6f2ad861f91ff98331b43ca8198eca6"
        );
    }
}
