//! Checks that pages and files for deployments name settings that exist, with their defaults. Compiled only for its test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::KEYS;
use super::load::OTHER_VARIABLES;
use super::schema::{engine_schema, relay_schema};

/// Where people read of settings, or set them.
const PLACES: [&str; 8] =
    ["README.md", "ARCHITECTURE.md", "docs", "deploy", "examples", "bindings", "clients", "artillery-engine-e3"];
/// Folders with results, records of the past, and other people's files.
const SKIPPED: [&str; 5] = ["decisions", "schema", "node_modules", "target", "build"];
/// Endings of files that are read.
const ENDINGS: [&str; 9] = [".md", ".toml", ".yaml", ".yml", ".tpl", ".sh", ".service", "Containerfile", ".txt"];
/// Variables of tests, of the Compose file and of Kubernetes.
const VARIABLES: [&str; 5] = ["LEAFSEAL_COMMIT", "LEAFSEAL_PORT", "LEAFSEAL_SEED", "LEAFSEAL_SEEDS", "LEAFSEAL_TAG"];
/// Settings of Kafka Connect and attributes in Python that look like keys of `[engine]`.
const NOT_KEYS: [&str; 3] = ["engine.ca", "engine.key", "engine.decisions"];
/// Endings of file names that look like keys.
const FILES: [&str; 3] = [".toml", ".db", ".mjs"];

/// The keys of both programs with their defaults.
fn defaults() -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for schema in [engine_schema(), relay_schema()] {
        for (table, shape) in schema["properties"].as_object().expect("tables") {
            let keys = shape["properties"].as_object().or_else(|| shape["items"]["properties"].as_object());
            for (name, key) in keys.into_iter().flatten() {
                all.entry(format!("{table}.{name}")).or_default().push(key["default"].clone());
            }
        }
    }
    all
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() && !SKIPPED.contains(&&*name) {
        let entries = std::fs::read_dir(path).expect("a folder");
        entries.for_each(|entry| collect(&entry.expect("an entry").path(), files));
    } else if path.is_file() && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        files.push(path.to_owned());
    }
}

/// Code spans of Markdown, each with the text in parentheses after it. Fenced blocks are spans with line ends.
fn spans(text: &str) -> Vec<(&str, Option<&str>)> {
    fn in_parentheses(text: &str) -> Option<&str> {
        text.trim_start().strip_prefix('(')?.split_once(')').map(|(inner, _)| inner)
    }
    let parts: Vec<&str> = text.split('`').collect();
    let span = |index: usize| (parts[index], parts.get(index + 1).and_then(|after| in_parentheses(after)));
    (1..parts.len()).step_by(2).map(span).collect()
}

/// Whether a text such as `2 s` or `1 minute` is a value other than the default; other texts are none.
fn differs(claim: &str, default: &Value) -> bool {
    let claim = claim
        .replace(" minutes", "m")
        .replace(" minute", "m")
        .replace(" hours", "h")
        .replace(" hour", "h")
        .replace(' ', "");
    match default {
        Value::Number(number) => claim.parse::<u64>().is_ok_and(|claim| Some(claim) != number.as_u64()),
        Value::String(text) => {
            let time = leafseal_config::parse_duration(&claim)
                .is_some_and(|time| Some(time) != leafseal_config::parse_duration(text));
            time || leafseal_config::parse_size(&claim)
                .is_some_and(|size| Some(size) != leafseal_config::parse_size(text))
        }
        _ => false,
    }
}

#[test]
fn settings_in_pages_and_deployments_exist_and_have_their_defaults() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let (mut files, keys, mut wrong, mut claims) = (Vec::new(), defaults(), Vec::new(), 0);
    let tables: Vec<&str> = keys.keys().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let variables: Vec<String> = KEYS.iter().map(|key| key.variable()).collect();
    PLACES.iter().for_each(|place| collect(&root.join(place), &mut files));
    for file in &files {
        let (text, name) =
            (std::fs::read_to_string(file).expect("UTF-8"), file.strip_prefix(root).expect("below").display());
        let is_of_variable =
            |character: char| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_';
        for word in text
            .split(|character| !is_of_variable(character))
            .filter(|word| word.starts_with("LEAFSEAL_") && word.len() > 9)
        {
            let others = OTHER_VARIABLES.iter().chain(&VARIABLES).any(|other| *other == word);
            if !others && !variables.iter().any(|variable| variable == word) {
                wrong.push(format!("{name}: {word} is the variable of no setting"));
            }
        }
        for (key, claim) in spans(&text).into_iter().filter(|_| file.extension().is_some_and(|ending| ending == "md")) {
            let is_name = key.chars().all(|character| {
                character.is_ascii_lowercase() || character.is_ascii_digit() || "._".contains(character)
            });
            let has_table =
                key.split_once('.').is_some_and(|(table, name)| tables.contains(&table) && !name.contains('.'));
            if !is_name || !has_table || NOT_KEYS.contains(&key) || FILES.iter().any(|ending| key.ends_with(ending)) {
                continue;
            }
            match (keys.get(key), claim) {
                (None, _) => wrong.push(format!("{name}: there is no setting {key}")),
                (Some(defaults), Some(claim)) if defaults.iter().all(|default| differs(claim, default)) => {
                    wrong.push(format!("{name}: {key} ({claim}) has the default {}", defaults[0]));
                }
                (Some(_), claim) => claims += usize::from(claim.is_some()),
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(files.len() > 50 && claims > 5, "{} files, {claims} defaults", files.len());
}
