//! The JSON Schemas of both configuration files, for editors and other validators.

use leafseal_relay::Configuration;
use serde_json::{Value, json};

use super::KEYS;

/// The schema of `leafseal.toml`.
pub(crate) fn engine_schema() -> Value {
    published("The configuration of a Leafseal engine", KEYS.shape().schema())
}

/// The schema of `relay.toml`, as the relay declares it.
pub(crate) fn relay_schema() -> Value {
    published("The configuration of a Leafseal relay", Configuration::shape().schema())
}

/// The same for every machine, with a title.
fn published(title: &str, schema: Value) -> Value {
    let mut out = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title});
    let (Value::Object(out_fields), Value::Object(fields)) = (&mut out, schema) else {
        unreachable!("schemas are objects")
    };
    for (name, value) in fields {
        out_fields.entry(name).or_insert(value);
    }
    without_machine(&mut out);
    out
}

/// Removes defaults that depend on the machine.
fn without_machine(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("defaultText") {
                object.remove("default");
            }
            object.values_mut().for_each(without_machine);
        }
        Value::Array(list) => list.iter_mut().for_each(without_machine),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p leafseal-cli schema` regenerates the files.
    #[test]
    fn the_committed_schemas_are_those_of_the_code() {
        for (name, schema) in [("leafseal", engine_schema()), ("relay", relay_schema())] {
            let path = format!("{}/../../docs/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
            let expected = format!("{}\n", serde_json::to_string_pretty(&schema).expect("JSON"));
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &expected).expect("written");
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == expected, "{path} is not what the code says: run this test with UPDATE=1");
        }
    }
}
