//! The printed properties of one envelope.

use leafseal_client::{Curve as WireCurve, Inspection, Scheme as WireScheme, TextKind};
use leafseal_engine::{Curve, EnvelopeMetadata, Marking};
use leafseal_net::utc;
use serde_json::{Map, Value, json};

/// The fault of an envelope that is reported by what its text shows.
const UNOPENED: &str = "decrypt failed";

/// The printed properties of one envelope.
pub(super) struct Facts {
    version: String,
    pub(super) scheme: &'static str,
    pub(super) curve: Option<&'static str>,
    value_type: &'static str,
    debug: bool,
    ephemeral: Option<String>,
    pub(super) key_id: Option<String>,
    pub(super) from_public_key: bool,
    pub(super) role: Option<String>,
    origin: Option<u64>,
    pub(super) encrypted_at: Option<u64>,
    pub(super) key_version: Option<u64>,
    /// Whether it should have been opened and did not.
    pub(super) is_unopened: bool,
}

impl Facts {
    pub(super) fn of_engine(inspected: EnvelopeMetadata) -> Self {
        Self {
            scheme: inspected.scheme.name(),
            version: inspected.version.to_owned(),
            curve: inspected.curve.map(Curve::short_name),
            value_type: inspected.value_type.name(),
            debug: inspected.marking == Marking::Debug,
            ephemeral: inspected.ephemeral.map(hex::encode),
            key_id: inspected.key_id.map(|id| id.to_string()),
            from_public_key: inspected.is_from_public_key,
            role: inspected.role,
            origin: inspected.origin.map(u64::from),
            encrypted_at: inspected.encrypted_at.map(u64::from),
            key_version: inspected.key_version.map(u64::from),
            is_unopened: inspected.is_unopened,
        }
    }

    pub(super) fn of_client(inspection: Inspection) -> Self {
        Self {
            scheme: inspection.scheme.unwrap_or(WireScheme::PublicKey).as_str(),
            version: inspection.version,
            curve: inspection.curve.map(WireCurve::as_str),
            value_type: match inspection.kind {
                TextKind::String => "string",
                TextKind::Number => "number",
                TextKind::Boolean => "boolean",
            },
            debug: inspection.debug,
            ephemeral: inspection.ephemeral.map(hex::encode),
            key_id: inspection.symmetric_key_id.map(hex::encode),
            from_public_key: inspection.from_public_key.unwrap_or(false),
            role: inspection.role,
            origin: inspection.origin,
            encrypted_at: inspection.encrypted_at,
            key_version: inspection.key_version,
            is_unopened: inspection.unopened.unwrap_or(false),
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut facts = Map::new();
        let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
        put("scheme", json!(self.scheme));
        put("version", json!(self.version));
        if let Some(curve) = self.curve {
            put("curve", json!(curve));
        }
        put("type", json!(self.value_type));
        put("debug", json!(self.debug));
        if let Some(ephemeral) = &self.ephemeral {
            put("ephemeral", json!(ephemeral));
        }
        if let Some(id) = &self.key_id {
            put("key_id", json!(id));
        }
        if self.from_public_key {
            put("from_public_key", json!(true));
        }
        for (name, number) in
            [("origin", self.origin), ("encrypted_at", self.encrypted_at), ("key_version", self.key_version)]
        {
            if let Some(number) = number {
                put(name, json!(number));
            }
        }
        if let Some(role) = &self.role {
            put("role", json!(role));
        }
        if self.is_unopened {
            put("error", json!(UNOPENED));
        }
        Value::Object(facts)
    }

    pub(super) fn text(&self) -> String {
        let mut line = match (&self.ephemeral, self.curve, &self.key_id) {
            (Some(ephemeral), Some(curve), _) => {
                format!("{} {curve} {:7} ephemeral {ephemeral}", self.version, self.value_type)
            }
            (_, _, key_id) => {
                let key_id = key_id.as_deref().unwrap_or("unknown");
                format!("{} symmetric {:7} key {key_id}", self.version, self.value_type)
            }
        };
        if self.from_public_key {
            line.push_str("  from public-key");
        }
        if self.debug {
            line.push_str("  debug");
        }
        if let Some(version) = self.key_version {
            line.push_str(&format!("  key version {version}"));
        }
        if let Some(role) = &self.role {
            line.push_str(&format!("  role {role}"));
        }
        if let Some(origin) = self.origin {
            line.push_str(&format!("  origin {origin}"));
        }
        if let Some(at) = self.encrypted_at {
            line.push_str(&format!("  {}", utc(at)));
        }
        if self.is_unopened {
            line.push_str(&format!("  {UNOPENED}"));
        }
        line.push('\n');
        line
    }
}
