//! Records in the forms of others: the Open Cybersecurity Schema Framework and the Elastic Common Schema.
//!
//! Each line has the log's origin, the record's number and its exact bytes, so that the record can be proved from the line and the log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::change_export::NamedChange;
use crate::merkle::leaf_hash;
use crate::time::{entry_time, unix_time_text};

/// The version of OCSF that is written.
const OCSF_VERSION: &str = "1.8.0";
/// The version of ECS that is written.
const ECS_VERSION: &str = "9.1.0";

/// The kind of records of the keystore's changes.
const CHANGE: &str = "change";

/// The form of an exported record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Origin, number, hash, and the record as it is.
    Json,
    /// Open Cybersecurity Schema Framework 1.8.0.
    Ocsf,
    /// Elastic Common Schema 9.1.0.
    Ecs,
}

/// A record of a log, as a JSON object in one line without its end.
pub fn export_record(format: ExportFormat, origin: &str, index: u64, entry: &[u8]) -> String {
    let exported = ExportedRecord {
        origin,
        index,
        original: String::from_utf8_lossy(entry),
        hash: STANDARD.encode(leaf_hash(entry)),
        unix_us: entry_time(entry).unwrap_or(0),
        record: serde_json::from_slice(entry).unwrap_or_default(),
    };
    match format {
        ExportFormat::Json => exported.plain(),
        ExportFormat::Ocsf => exported.ocsf().to_string(),
        ExportFormat::Ecs => exported.ecs().to_string(),
    }
}

struct ExportedRecord<'r> {
    origin: &'r str,
    index: u64,
    original: std::borrow::Cow<'r, str>,
    hash: String,
    unix_us: u64,
    record: Map<String, Value>,
}

/// What a method does with data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MethodEffect {
    Seals,
    Opens,
    Reseals,
    Other,
}

impl ExportedRecord<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.record.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.record.get(name)?.as_u64()
    }

    fn kind(&self) -> &str {
        self.text("kind").unwrap_or("other")
    }

    fn uid(&self) -> String {
        format!("{}/{}", self.origin, self.index)
    }

    /// The record stays as it was written: another writer of JSON may change numbers, or the order of members.
    fn plain(&self) -> String {
        let Self { origin, index, hash, original, .. } = self;
        let record = if self.record.is_empty() { json!(original).to_string() } else { original.to_string() };
        format!("{{\"origin\":{},\"index\":{index},\"hash\":\"{hash}\",\"record\":{record}}}", json!(origin))
    }

    fn effect(&self) -> MethodEffect {
        let operation = self.record.get("operations").and_then(|operations| operations.get(0)).and_then(Value::as_str);
        match operation.or(self.text("method")).unwrap_or_default() {
            name if name.starts_with("encrypt") => MethodEffect::Seals,
            name if name.starts_with("decrypt") || name.starts_with("inspect") => MethodEffect::Opens,
            name if name.starts_with("rewrap") || name.starts_with("reseal") => MethodEffect::Reseals,
            _ => MethodEffect::Other,
        }
    }

    /// Whether what the record is about has succeeded, if it says so.
    fn has_succeeded(&self) -> Option<bool> {
        match self.text("outcome") {
            Some(outcome) => Some(outcome == "ok"),
            // A change that fails leaves no row.
            None if self.is_change() => Some(true),
            None => ["strangers", "gap"].contains(&self.kind()).then_some(false),
        }
    }

    /// Whether it is of a change of the keystore: also a canary that a command has opened.
    fn is_change(&self) -> bool {
        self.kind() == CHANGE || self.text("change").is_some()
    }

    fn change(&self) -> NamedChange {
        NamedChange::of(self.text("change"))
    }

    /// What was done.
    fn action(&self) -> &str {
        self.text("method").or(self.text("change")).unwrap_or(self.kind())
    }

    /// What the caller is known by: its API key, its token, or its certificate.
    fn credential(&self) -> Option<&str> {
        ["key", "token", "certificate"].into_iter().find_map(|name| self.text(name))
    }

    /// Members that a form has no field for.
    fn rest(&self, mapped: &[&str]) -> Map<String, Value> {
        let rest = self.record.iter().filter(|(name, _)| !mapped.contains(&name.as_str()));
        rest.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Class and activity.
    fn ocsf_type(&self) -> (u64, u64) {
        match self.kind() {
            _ if self.is_change() => self.change().ocsf_type(),
            "request" | "refusal" | "strangers" | "canary" => match self.effect() {
                MethodEffect::Seals => (6003, 1),
                MethodEffect::Opens => (6003, 2),
                MethodEffect::Reseals => (6003, 3),
                MethodEffect::Other => (6003, 99),
            },
            "start" => (6002, 3),
            "pruned" => (1008, 2),
            "gap" | "clock" => (1008, 99),
            _ => (0, 99),
        }
    }

    fn ocsf(&self) -> Value {
        let (class, activity) = self.ocsf_type();
        let product = json!({ "name": "Leafseal", "vendor_name": "Leafseal" });
        let mut event = json!({
            "class_uid": class, "category_uid": class / 1000, "activity_id": activity, "type_uid": class * 100 + activity,
            "severity_id": match (self.kind(), self.text("outcome")) {
                ("canary", _) | (CHANGE, Some(_)) => 4,
                ("gap", _) => 3,
                _ => 1,
            },
            "time": self.number("changed_at").map_or(self.unix_us / 1000, |at| at.saturating_mul(1000)),
            "metadata": {
                "version": OCSF_VERSION, "product": product, "uid": self.uid(), "sequence": self.index, "log_name": self.origin,
                "event_code": self.kind(), "original_time": self.text("time").unwrap_or_default(), "logged_time": self.unix_us / 1000,
            },
            "raw_data": self.original,
        });
        let mut mapped = vec!["time", "kind"];
        if activity == 99 {
            event["activity_name"] = json!(self.action());
        }
        if let Some(is_success) = self.has_succeeded() {
            event["status_id"] = json!(if is_success { 1 } else { 2 });
            event["status"] = json!(if is_success { "Success" } else { "Failure" });
        }
        if let Some(outcome) = self.text("outcome") {
            mapped.push("outcome");
            event["status_code"] = json!(outcome);
        }
        match class {
            6003 => self.ocsf_call(&mut event, &mut mapped),
            6002 => {
                mapped.push("version");
                event["app"] = product;
                event["app"]["version"] = json!(self.text("version").unwrap_or_default());
            }
            1008 => event["log_name"] = json!(self.origin),
            3001 | 3004 => self.ocsf_change(class, &mut event, &mut mapped),
            _ => {}
        }
        let unmapped = self.rest(&mapped);
        if !unmapped.is_empty() {
            event["unmapped"] = unmapped.into();
        }
        event
    }

    fn ocsf_call(&self, event: &mut Value, mapped: &mut Vec<&str>) {
        mapped.extend(["client", "method", "address", "duration_us", "app", "request"]);
        event["actor"] = self.ocsf_actor();
        event["api"] = self.ocsf_api();
        event["src_endpoint"] = match self.text("address") {
            Some(address) => json!({ "ip": address }),
            None => json!({ "name": "unknown" }),
        };
        if let Some(app) = self.text("app") {
            event["resources"] = json!([{ "name": app, "type": "app" }]);
        }
        if let Some(duration) = self.number("duration_us") {
            event["duration"] = json!(duration / 1000);
        }
        if let Some(requests) = self.number("requests") {
            mapped.push("requests");
            event["count"] = json!(requests);
        }
    }

    fn ocsf_change(&self, class: u64, event: &mut Value, mapped: &mut Vec<&str>) {
        mapped.extend(["user", "uid", "host", "changed_at"]);
        let (client, other) = (self.text("client"), self.text("detail").unwrap_or_default());
        let thing = self.change().ocsf_thing(self.text("app"), self.number("version"), client, other);
        event[if class == 3001 { "user" } else { "entity" }] = thing;
        let (name, uid) = (self.text("user"), self.number("uid").map(|uid| uid.to_string()));
        if name.is_some() || uid.is_some() {
            let members = [("name", name.map(str::to_owned)), ("uid", uid)];
            let user = members.into_iter().filter_map(|(member, text)| Some((member.to_owned(), json!(text?))));
            event["actor"] = json!({ "user": user.collect::<Map<_, _>>() });
        }
        if let Some(host) = self.text("host") {
            event["src_endpoint"] = json!({ "hostname": host });
        }
    }

    fn ocsf_actor(&self) -> Value {
        let name = self.text("client").or(self.text("caller")).unwrap_or("anonymous");
        let mut user = json!({ "name": name });
        if let Some(credential) = self.credential() {
            user["credential_uid"] = json!(credential);
        }
        json!({ "user": user })
    }

    fn ocsf_api(&self) -> Value {
        let mut api =
            json!({ "operation": self.text("method").unwrap_or(self.kind()), "service": { "name": "leafseal" } });
        if let Some(request) = self.number("request") {
            api["request"] = json!({ "uid": request.to_string() });
        }
        if let Some(outcome) = self.text("outcome").filter(|outcome| *outcome != "ok") {
            api["response"] = json!({ "error": outcome });
        }
        api
    }

    fn ecs(&self) -> Value {
        let denied = ["forbidden", "unauthenticated"];
        let (category, kinds) = match (self.kind(), self.text("outcome")) {
            ("request", Some("ok")) => ("api", vec!["access", "allowed"]),
            ("request", Some(outcome)) if !denied.contains(&outcome) => ("api", vec!["access", "error"]),
            ("request" | "refusal" | "strangers", _) => ("api", vec!["access", "denied"]),
            _ if self.is_change() => self.change().ecs_type(),
            ("canary", _) => ("api", vec!["access"]),
            ("start", _) => ("process", vec!["start"]),
            ("pruned", _) => ("configuration", vec!["deletion"]),
            _ => ("configuration", vec!["info"]),
        };
        let outcome = match self.has_succeeded() {
            Some(true) => "success",
            Some(false) => "failure",
            None => "unknown",
        };
        let recorded = self.text("time").unwrap_or_default();
        let at = self.number("changed_at").map_or_else(|| recorded.to_owned(), unix_time_text);
        let mut event = json!({
            "@timestamp": at,
            "ecs": { "version": ECS_VERSION },
            "event": {
                "kind": if self.kind() == "canary" { "alert" } else { "event" }, "category": [category], "type": kinds,
                "action": self.action(), "outcome": outcome, "created": recorded, "dataset": "leafseal.audit",
                "module": "leafseal", "provider": "leafseal", "id": self.uid(), "sequence": self.index, "hash": self.hash,
                "original": self.original,
            },
            "service": { "name": "leafseal", "type": "leafseal" },
        });
        let mut mapped = vec!["time", "method", "client", "address", "certificate", "outcome", "duration_us"];
        if let Some(code) = self.text("outcome").filter(|outcome| *outcome != "ok") {
            event["event"]["reason"] = json!(code);
        }
        if let Some(duration) = self.number("duration_us") {
            event["event"]["duration"] = json!(duration.saturating_mul(1000));
        }
        match self.text("client") {
            Some(client) if !self.is_change() => event["user"] = json!({ "name": client }),
            client => self.ecs_change(client, &mut event, &mut mapped),
        }
        if let Some(address) = self.text("address") {
            event["source"] = json!({ "ip": address, "address": address });
        }
        if let Some(certificate) = self.text("certificate") {
            // ECS has hashes of certificates in upper case.
            event["tls"] = json!({ "client": { "hash": { "sha256": certificate.to_uppercase() } } });
        }
        if let Some(version) = self.text("version") {
            mapped.push("version");
            event["service"]["version"] = json!(version);
        }
        let mut own = self.rest(&mapped);
        own.insert("origin".to_owned(), json!(self.origin));
        own.insert("index".to_owned(), json!(self.index));
        event["leafseal"] = own.into();
        event
    }

    /// The user who has changed the keystore, on which machine, and the client that was changed.
    fn ecs_change(&self, client: Option<&str>, event: &mut Value, mapped: &mut Vec<&str>) {
        if !self.is_change() {
            return;
        }
        mapped.extend(["user", "uid", "host", "changed_at"]);
        if let Some(user) = self.text("user") {
            event["user"]["name"] = json!(user);
        }
        if let Some(uid) = self.number("uid") {
            event["user"]["id"] = json!(uid.to_string());
        }
        if let Some(client) = client {
            event["user"]["target"] = json!({ "name": client });
        }
        if let Some(host) = self.text("host") {
            event["host"] = json!({ "hostname": host });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: [&str; 11] = [
        concat!(
            r#"{"time":"2026-11-28T09:00:00.123456Z","kind":"request","entry_point":"rpc","caller":"certificate","client":"shop","#,
            r#""certificate":"00ab","address":"10.0.0.7","operations":["decrypt"],"method":"decrypt","app":"acme","outcome":"ok","#,
            r#""opened":2,"versions":[1],"bytes_in":10,"duration_us":1500,"request":7}"#
        ),
        concat!(
            r#"{"time":"2026-11-28T09:00:01.000000Z","kind":"request","caller":"key","key":"k1","method":"encrypt","#,
            r#""operations":["encrypt"],"outcome":"forbidden"}"#
        ),
        r#"{"time":"2026-11-28T09:00:02.000000Z","kind":"refusal","caller":"certificate","client":"shop","outcome":"forbidden"}"#,
        r#"{"time":"2026-11-28T09:00:03.000000Z","kind":"strangers","address":"::1","requests":12}"#,
        r#"{"time":"2026-11-28T09:00:04.000000Z","kind":"start","version":"0.1.0"}"#,
        r#"{"time":"2026-11-28T09:00:05.000000Z","kind":"gap","records":3,"since":"2026-11-28T09:00:04.000000Z"}"#,
        r#"{"time":"2026-11-28T09:00:06.000000Z","kind":"pruned","minimum":512}"#,
        r#"{"time":"2026-11-28T09:00:07.000000Z","kind":"something else","x":1.50}"#,
        concat!(
            r#"{"time":"2026-11-28T09:00:08.000000Z","kind":"change","change":"put-client","client":"billing","command":"certs issue","#,
            r#""user":"alice","uid":1000,"host":"admin-1","changed_at":1795856000,"generation":7,"number":3}"#
        ),
        concat!(
            r#"{"time":"2026-11-28T09:00:08.000000Z","kind":"change","change":"disable-version","app":"acme","version":2,"#,
            r#""command":"keys disable","uid":0,"changed_at":1795856000,"generation":8,"number":4}"#
        ),
        r#"{"time":"2026-11-28T09:00:08.000000Z","kind":"change","outcome":"missing","generation":9,"missing":2,"number":6}"#,
    ];

    fn exported(format: ExportFormat) -> Vec<Value> {
        let line = |(index, entry): (usize, &&str)| {
            let line = export_record(format, "leafseal/a/b/0", index as u64, entry.as_bytes());
            assert!(!line.contains('\n'));
            serde_json::from_str(&line).expect("JSON")
        };
        RECORDS.iter().enumerate().map(line).collect()
    }

    /// Required attributes of the classes in OCSF 1.8.0 (https://schema.ocsf.io/1.8.0/classes/api_activity and the others), without those
    /// of profiles that are not used; tests/interop validates what an engine has exported against the definitions themselves.
    #[test]
    fn lines_have_what_ocsf_requires() {
        let always = ["activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"];
        for (event, record) in exported(ExportFormat::Ocsf).iter().zip(RECORDS) {
            let class = event["class_uid"].as_u64().expect("a class");
            let more: &[&str] = match class {
                6003 => &["actor", "api", "src_endpoint"],
                6002 => &["app"],
                1008 => &["log_name"],
                3001 => &["user"],
                3004 => &["entity"],
                _ => &[],
            };
            for name in always.iter().chain(more) {
                assert!(!event[*name].is_null(), "{name} in {event}");
            }
            assert_eq!(event["type_uid"], class * 100 + event["activity_id"].as_u64().expect("a number"));
            assert_eq!((&event["category_uid"], &event["raw_data"]), (&json!(class / 1000), &json!(record)));
        }
        let first = &exported(ExportFormat::Ocsf)[0];
        assert_eq!(first["type_uid"], 600_302, "a read");
        assert_eq!(first["time"], 1_795_856_400_123_u64);
        assert_eq!(first["actor"], json!({ "user": { "name": "shop", "credential_uid": "00ab" } }));
        assert_eq!(first["metadata"]["uid"], "leafseal/a/b/0/0");
        assert_eq!(first["unmapped"]["versions"], json!([1]));
        assert_eq!(exported(ExportFormat::Ocsf)[3]["count"], 12);
        let [.., granted, disabled, missing] = &exported(ExportFormat::Ocsf)[..] else { unreachable!() };
        assert_eq!((&granted["type_uid"], &granted["user"]), (&json!(300_107), &json!({ "name": "billing" })));
        assert_eq!(granted["actor"], json!({ "user": { "name": "alice", "uid": "1000" } }));
        assert_eq!((&granted["time"], &granted["status_id"]), (&json!(1_795_856_000_000_u64), &json!(1)));
        assert_eq!(granted["src_endpoint"], json!({ "hostname": "admin-1" }));
        assert_eq!((&disabled["type_uid"], &disabled["entity"]["version"]), (&json!(300_409), &json!("2")));
        assert_eq!((&missing["status_id"], &missing["severity_id"]), (&json!(2), &json!(4)));
    }

    /// Allowed values of ECS 9.1 (https://www.elastic.co/docs/reference/ecs/ecs-allowed-values-event-category and -event-type).
    #[test]
    fn lines_have_what_ecs_allows() {
        let kinds = ["access", "allowed", "denied", "error", "start", "deletion", "info", "change", "user"];
        for (event, record) in exported(ExportFormat::Ecs).iter().zip(RECORDS) {
            let all = |name: &str| event["event"][name].as_array().expect("a list").clone();
            assert!(
                all("category")
                    .iter()
                    .all(|it| ["api", "process", "configuration", "iam"].contains(&it.as_str().expect("text")))
            );
            assert!(all("type").iter().all(|it| kinds.contains(&it.as_str().expect("text"))));
            assert!(["success", "failure", "unknown"].contains(&event["event"]["outcome"].as_str().expect("text")));
            assert_eq!(event["event"]["original"], record);
            assert!(event["@timestamp"].as_str().expect("text").ends_with('Z'));
        }
        let first = &exported(ExportFormat::Ecs)[0];
        assert_eq!(first["event"]["duration"], 1_500_000);
        assert_eq!(first["tls"]["client"]["hash"]["sha256"], "00AB");
        assert_eq!((&first["source"]["ip"], &first["leafseal"]["app"]), (&json!("10.0.0.7"), &json!("acme")));
        let granted = &exported(ExportFormat::Ecs)[8];
        assert_eq!(granted["user"], json!({ "name": "alice", "id": "1000", "target": { "name": "billing" } }));
        assert_eq!(
            (&granted["event"]["category"], &granted["event"]["type"]),
            (&json!(["iam"]), &json!(["user", "change"]))
        );
        assert_eq!(
            (&granted["event"]["action"], &granted["host"]["hostname"]),
            (&json!("put-client"), &json!("admin-1"))
        );
    }

    #[test]
    fn plain_lines_have_the_record_as_it_is() {
        let line = export_record(ExportFormat::Json, "leafseal/a/b/0", 7, RECORDS[7].as_bytes());
        assert!(line.ends_with(&format!("\"record\":{}}}", RECORDS[7])), "{line}");
        let parsed: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(parsed["hash"], STANDARD.encode(leaf_hash(RECORDS[7].as_bytes())));
        let odd = export_record(ExportFormat::Json, "o", 7, b"\xffno JSON\n");
        assert_eq!(serde_json::from_str::<Value>(&odd).expect("JSON")["record"], "\u{fffd}no JSON\n");
    }
}
