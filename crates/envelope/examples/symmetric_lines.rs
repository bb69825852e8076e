//! Seals and opens symmetric envelopes, a JSON object on each line, so that other implementations can be compared with this one.
//!
//! ```text
//! {"root": hex, "nonce": hex, "text", "type", "debug", "metadata", "binding": [[kind, text], …]}  becomes  {"envelope"}
//! {"root": hex, "envelope", "binding"}  becomes  {"type", "debug", "metadata", "text"} or {"refused": true}
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};
use std::sync::Arc;

use leafseal_crypto::symmetric::{SymmetricKey, SymmetricRoot};
use leafseal_envelope::{
    Binding, BindingPart, Envelope, Marking, Metadata, NoncePrefixes, OpenScratch, OpenedMetadata, Role, SealScratch,
    SealedInput, SymmetricOpening, SymmetricProfile, SymmetricSealing, SymmetricVersion, ValueType,
};
use rand::rand_core::{TryCryptoRng, TryRng};
use serde_json::{Map, Value, json};

/// A generator that gives the bytes of a nonce, and then no more.
struct Given(Vec<u8>);

impl TryRng for Given {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("nonces are taken as bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("nonces are taken as bytes")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0);
        self.0.clear();
        Ok(())
    }
}

impl TryCryptoRng for Given {}

fn main() {
    let mut keys = HashMap::new();
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let root = text(&request, "root");
        let key = keys.entry(root.to_owned()).or_insert_with(|| key(root));
        let answer = if request.get("envelope").is_some() { opened(&request, key) } else { sealed(&request, key) };
        writeln!(out, "{answer}").expect("written");
    }
}

fn key(root: &str) -> Arc<SymmetricKey> {
    let root = SymmetricRoot::from_slice(&hex::decode(root).expect("hex")).expect("32 bytes");
    Arc::new(SymmetricKey::new(&root))
}

fn text<'r>(request: &'r Value, name: &str) -> &'r str {
    request[name].as_str().expect(name)
}

fn binding(request: &Value) -> Binding {
    request["binding"].as_array().expect("a list").iter().fold(Binding::default(), |binding, part| {
        let text = part[1].as_str().expect("text");
        match part[0].as_u64() {
            Some(1) => binding.with_context(text).expect("a context"),
            Some(2) => binding.with_path(BindingPart::Path, text).expect("a path"),
            _ => binding.with_path(BindingPart::IndexedPath, text).expect("a path"),
        }
    })
}

fn sealed(request: &Value, key: &Arc<SymmetricKey>) -> Value {
    let metadata = request["metadata"].as_object().map(|map| {
        let role = map.get("dr").map(|role| Role::parse(role.as_str().expect("text")).expect("a role"));
        let number = |name: &str| map[name].as_u64().expect("a number");
        let is_from_public_key = map.contains_key("pk");
        Metadata::marked(role.as_ref(), number("eo") as u8, number("et") as u32, is_from_public_key)
    });
    let marking = if request["debug"] == true { Marking::Debug } else { Marking::Live };
    let profile = SymmetricProfile { version: SymmetricVersion::of(metadata.is_some()), marking };
    let mut nonce = Given(hex::decode(text(request, "nonce")).expect("hex"));
    let sealing = SymmetricSealing::new(Arc::clone(key), profile, &binding(request), NoncePrefixes::One, &mut nonce);
    let kind = text(request, "type");
    let value_type = ValueType::ALL.into_iter().find(|one| one.name() == kind).expect("a type");
    let values = [SealedInput { value_type, text: text(request, "text").as_bytes() }];
    let mut out = Vec::new();
    sealing.seal_many(metadata.as_ref(), &mut nonce, &values, &mut SealScratch::default(), &mut out, |_, _, _| ());
    json!({"envelope": String::from_utf8(out).expect("ASCII")})
}

fn opened(request: &Value, key: &SymmetricKey) -> Value {
    let refused = json!({"refused": true});
    let Ok(Envelope::Symmetric(envelope)) = Envelope::parse(text(request, "envelope").as_bytes()) else {
        return refused;
    };
    if envelope.key_id != key.id() {
        return refused;
    }
    let (binding, mut scratch) = (binding(request), OpenScratch::default());
    match SymmetricOpening::new(key, &binding).open(&envelope, &mut scratch) {
        Ok(opened) => json!({
            "type": envelope.value_type.name(),
            "debug": envelope.marking == Marking::Debug,
            "metadata": opened.metadata.map(entries),
            "text": opened.text,
        }),
        Err(_) => refused,
    }
}

fn entries(metadata: OpenedMetadata<'_>) -> Map<String, Value> {
    let mut map = Map::new();
    metadata.role.map(|role| map.insert("dr".to_owned(), json!(role)));
    metadata.origin.map(|origin| map.insert("eo".to_owned(), json!(origin)));
    metadata.encrypted_at.map(|time| map.insert("et".to_owned(), json!(time)));
    metadata.is_from_public_key.then(|| map.insert("pk".to_owned(), json!(true)));
    map
}
