//! The public compliance cases of RFC 9535, if available: read from `../shared/vectors/jsonpath/cts.json` beside the repository, never
//! copied into it. Each valid selector is evaluated streaming (if possible) and on the tree.
//!
//! Results are compared as sets of normalized paths and multisets of values without repetition: a rewrite of a document meets each node
//! once, in document order, whereas the cases list a node as often as it is selected.

use std::collections::BTreeMap;
use std::path::PathBuf;

use leafseal_document::{
    DocumentLimits, Match, Purpose, Selection, Strategy, VISIT_BYTES, WalkProgress, Walker, select,
};
use serde_json::Value;

fn cases() -> Option<Vec<Value>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/jsonpath/cts.json");
    let Ok(text) = std::fs::read(&path) else {
        println!("SKIPPED: the compliance cases are not at {}", path.display());
        return None;
    };
    let suite: Value = serde_json::from_slice(&text).expect("the suite is JSON");
    Some(suite["tests"].as_array().expect("the suite has tests").clone())
}

/// The results that a case permits, each as a map from path to value; equal paths coincide.
fn allowed_results(case: &Value) -> Vec<BTreeMap<String, Value>> {
    let one = |values: &Value, paths: &Value| {
        let paths = paths.as_array().expect("paths").iter().map(|path| path.as_str().expect("a path").to_owned());
        paths.zip(values.as_array().expect("values").iter().cloned()).collect()
    };
    if let Some(values) = case.get("result") {
        return vec![one(values, &case["result_paths"])];
    }
    let (results, paths) = (case["results"].as_array().expect("results"), case["results_paths"].as_array());
    results.iter().zip(paths.expect("paths")).map(|(values, paths)| one(values, paths)).collect()
}

fn nodes(document: &[u8], selection: &Selection, strategy: Strategy) -> BTreeMap<String, Value> {
    let found = select(document, selection, &DocumentLimits::default(), strategy).expect("the document is well-formed");
    let value = |start, end| serde_json::from_slice(&document[start..end]).expect("a node is JSON");
    found.into_iter().map(|node| (node.path, value(node.start, node.end))).collect()
}

/// The scalars below a value that a walk for encryption matches.
fn scalars(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Array(elements) => elements.iter().for_each(|element| scalars(element, found)),
        Value::Object(members) => members.values().for_each(|member| scalars(member, found)),
        scalar => found.push(scalar.to_string()),
    }
}

fn walk(document: &[u8], selection: &Selection, bytes: usize) -> Vec<Match> {
    let mut walker =
        Walker::new(document, selection, Purpose::Encrypt, &DocumentLimits::default()).expect("it is small");
    let mut matches = Vec::new();
    while walker.next_batch(&mut matches, 2, bytes).expect("it is well-formed") == WalkProgress::More {}
    matches
}

/// The walker must match every scalar at or below a selected node, once.
fn check_walk(name: &str, document: &[u8], selection: &Selection, selected: &BTreeMap<String, Value>) {
    let below = |path: &str, other: &str| path.len() > other.len() && path.starts_with(other);
    let outermost = selected.iter().filter(|(path, _)| !selected.keys().any(|other| below(path, other)));
    let mut expected = Vec::new();
    outermost.for_each(|(_, value)| scalars(value, &mut expected));
    let text = |found: &Match| {
        serde_json::from_slice::<Value>(&document[found.start..found.end]).expect("a match is JSON").to_string()
    };
    let matches = walk(document, selection, 7);
    for bytes in [1, 5 * VISIT_BYTES, usize::MAX] {
        assert_eq!(walk(document, selection, bytes), matches, "{name}: {bytes} bytes at a time");
    }
    let mut found: Vec<_> = matches.iter().map(text).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{name}: walked");
}

#[test]
fn all_cases_hold_streaming_and_on_the_tree() {
    let Some(cases) = cases() else { return };
    let (mut refused, mut streamed, mut on_tree) = (0, 0, 0);
    let mut faults = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().expect("a case has a name");
        let selector = case["selector"].as_str().expect("a case has a selector");
        let selection = Selection::parse(&[selector], &DocumentLimits::default());
        let is_invalid = case.get("invalid_selector").is_some();
        let selection = match selection {
            Ok(_) if is_invalid => {
                faults.push(format!("{name}: {selector} must be refused"));
                continue;
            }
            Err(error) if !is_invalid => {
                faults.push(format!("{name}: {selector}: {error}"));
                continue;
            }
            Err(_) => {
                refused += 1;
                continue;
            }
            Ok(selection) => selection,
        };
        let document = serde_json::to_vec_pretty(&case["document"]).expect("a document is JSON");
        let allowed = allowed_results(case);
        for strategy in [Strategy::Automatic, Strategy::Tree] {
            let found = nodes(&document, &selection, strategy);
            if !allowed.contains(&found) {
                faults.push(format!("{name}: {selector} {strategy:?}: {found:?}, not {allowed:?}"));
            }
        }
        if faults.is_empty() {
            check_walk(name, &document, &selection, &nodes(&document, &selection, Strategy::Tree));
        }
        on_tree += 1;
        streamed += usize::from(selection.streams());
    }
    println!("{} cases: {refused} refused, {on_tree} on the tree, {streamed} of them streaming too", cases.len());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(refused + on_tree, cases.len());
    assert!(streamed > 100, "most cases without filters stream");
}
