//! The project's own selector cases, `vectors/selectors/*.json`, one or more for every rule of RFC 9535.
//!
//! A file contains groups, a group a document and its cases. A case has one selector or several and the expected result: `paths`,
//! the normalized paths of the selected nodes; `encrypt` or `decrypt`, the tokens that a walk returns, in order; or `refused`, the
//! byte of the error in the selector.

use std::path::PathBuf;

use leafseal_document::fuzzing::walk;
use leafseal_document::{DocumentLimits, Purpose, Selection, Strategy, select};
use serde_json::Value;

fn strings(value: &Value) -> Vec<String> {
    let strings = value.as_array().expect("a list").iter();
    strings.map(|text| text.as_str().expect("a string").to_owned()).collect()
}

fn selectors(case: &Value) -> Vec<String> {
    match case.get("selector") {
        Some(selector) => vec![selector.as_str().expect("a string").to_owned()],
        None => strings(&case["selectors"]),
    }
}

fn document(group: &Value) -> Vec<u8> {
    match group.get("text") {
        Some(text) => text.as_str().expect("a document's text").as_bytes().to_vec(),
        None => serde_json::to_vec_pretty(&group["document"]).expect("a value can be written"),
    }
}

/// The failure of a case; `None` if it passes.
fn check(case: &Value, document: &[u8]) -> Result<(), String> {
    let limits = DocumentLimits::default();
    let selection = Selection::parse(&selectors(case), &limits);
    if let Some(position) = case.get("refused") {
        let expected = position.as_u64().expect("a position") as usize;
        return match selection {
            Ok(_) => Err("must be refused".to_owned()),
            Err(error) if error.position == expected => Ok(()),
            Err(error) => Err(format!("{error}; expected at byte {expected}")),
        };
    }
    let selection = selection.map_err(|error| error.to_string())?;
    if let Some(paths) = case.get("paths") {
        let mut expected = strings(paths);
        expected.sort();
        for strategy in [Strategy::Automatic, Strategy::Tree] {
            let nodes = select(document, &selection, &limits, strategy).map_err(|error| error.to_string())?;
            let mut found: Vec<_> = nodes.into_iter().map(|node| node.path).collect();
            found.sort();
            if found != expected {
                return Err(format!("{strategy:?}: {found:?}; expected {expected:?}"));
            }
        }
        return Ok(());
    }
    let (key, purpose) = match case.get("encrypt") {
        Some(_) => ("encrypt", Purpose::Encrypt),
        None => ("decrypt", Purpose::Decrypt),
    };
    let matches = walk(document, &selection, purpose, &limits, (2, 9)).map_err(|error| error.to_string())?;
    let token = |start, end| String::from_utf8_lossy(&document[start..end]).into_owned();
    let found: Vec<_> = matches.iter().map(|found| token(found.start, found.end)).collect();
    if found != strings(&case[key]) {
        return Err(format!("{found:?}; expected {}", case[key]));
    }
    Ok(())
}

#[test]
fn the_projects_own_cases_hold() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/selectors");
    let (mut count, mut faults) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("the folder is part of the project") {
        let path = entry.expect("an entry can be read").path();
        let text = std::fs::read(&path).expect("a file can be read");
        let file: Value = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for group in file["groups"].as_array().expect("a file has groups") {
            let document = document(group);
            for case in group["cases"].as_array().expect("a group has cases") {
                count += 1;
                if let Err(fault) = check(case, &document) {
                    faults.push(format!(
                        "{} {}: {fault}",
                        group["rule"],
                        case.get("selector").unwrap_or(&case["selectors"])
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {count} cases:\n{}", faults.len(), faults.join("\n"));
    assert!(count > 500, "only {count} cases were found");
}
