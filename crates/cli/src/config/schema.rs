//! The JSON Schemas of both configuration files, for editors and other validators.

use leafseal_relay::Configuration;
use serde_json::{Map, Value, json};

use super::{Config, KEYS, Key};

/// The purpose of each section of the engine's file.
pub(super) const SECTIONS: [(&str, &str); 9] = [
    ("engine", "Encryption, keys in memory, and how long a worker runs before it yields."),
    ("document", "Limits on JSON documents and selectors. A request that exceeds one is refused."),
    ("keystore", "Where keys are stored, and the limits of the store."),
    ("server", "The listener of `serve` and `dev`."),
    (
        "api",
        "The [HTTPS API](api.md) of `serve` and `dev`. It shares the queue, workers, memory and `admission_wait` of `[server]`.",
    ),
    ("operator", "The [operator port](metrics.md) of `serve` and `dev`: probes and metrics over plain HTTP."),
    ("client", "Connections of commands with `--connect`."),
    ("input", "Input of commands: files and standard input."),
    ("log", "The log of `serve`, `relay`, `probe` and `dev`, on standard error."),
];

/// The schema of `leafseal.toml`, made from the table of keys.
pub(crate) fn engine_schema() -> Value {
    let defaults = Config::default();
    let section = |(name, about): (&str, &str)| {
        let keys = KEYS.iter().filter(|key| key.parts().0 == name);
        let properties: Map<String, Value> =
            keys.map(|key| (key.parts().1.to_owned(), key_schema(key, &defaults))).collect();
        let schema =
            json!({"description": about, "type": "object", "properties": properties, "additionalProperties": false});
        (name.to_owned(), schema)
    };
    let properties: Map<String, Value> = SECTIONS.into_iter().map(section).collect();
    published(
        "The configuration of a Leafseal engine",
        json!({"type": "object", "properties": properties, "additionalProperties": false}),
    )
}

/// The schema of `relay.toml`, derived from the types of the relay.
pub(crate) fn relay_schema() -> Value {
    published("The configuration of a Leafseal relay", Configuration::schema().clone())
}

fn key_schema(key: &Key, defaults: &Config) -> Value {
    let mut schema = key.kind.schema();
    schema["description"] = json!(key.about);
    match key.default_text {
        Some(text) => schema["defaultText"] = json!(text),
        None => schema["default"] = key.json(&(key.get)(defaults)),
    }
    schema
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

    /// The engine's file is checked by its table of keys, editors go by the schema: both refuse the same.
    #[test]
    fn the_schema_accepts_what_the_table_accepts() {
        let schema = engine_schema();
        for key in KEYS {
            let (section, name) = key.parts();
            let read = |written: &str| {
                let text = format!("[{section}]\n{name} = {written}\n");
                let document = leafseal_config::Document::parse(&text).expect("TOML");
                let value = document.root()[section].get_ref().as_table().expect("a table")[name].get_ref();
                (key.kind.read(&leafseal_config::raw(value)).is_ok(), document.check(&schema).is_empty())
            };
            let default = key.kind.write(&(key.get)(&Config::default()));
            assert_eq!(read(&default), (true, true), "{} = {default}", key.name);
            let others = [
                "true",
                "0",
                "-1",
                "99999999999999",
                "\"15s\"",
                "\"64KiB\"",
                "\"9999h\"",
                "\"yes\"",
                "\"\"",
                "1.5",
                "{ a = 1 }",
            ];
            for written in others {
                let (by_table, by_schema) = read(written);
                assert_eq!(by_table, by_schema, "{} = {written}", key.name);
            }
        }
    }
}
