//! Runs the guides: the shell blocks of each page of `docs/guides`, in their order, as one script in an empty folder. The metrics
//! that other blocks name are those of the reference. tests/interop/test_pages.py runs the pages that start an engine. This file also
//! runs the program of docs/start/rust.md, and compares docs/errors.md with the code.
//! Blocks of kind `console` need an installed package; the test of the packages runs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;

#[path = "../../../client/examples/round_trip.rs"]
#[allow(dead_code, reason = "an example has a main function")]
mod round_trip;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages that start no engine, by name.
fn guides() -> Vec<(String, String)> {
    let mut guides = Vec::new();
    for entry in std::fs::read_dir(root().join("docs/guides")).expect("the folder of guides") {
        let path = entry.expect("an entry").path();
        let page = read(&path);
        if !page.contains("fieldseal dev &") {
            guides.push((path.file_name().expect("a name").to_string_lossy().into_owned(), page));
        }
    }
    guides.sort();
    assert!(!guides.is_empty());
    guides
}

/// The fenced blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language, String::new())),
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

#[test]
fn every_command_of_a_guide_works() {
    for (name, page) in guides() {
        let mut script = "set -euo pipefail\n".to_owned();
        for (language, text) in blocks(&page) {
            match language {
                "sh" => script.push_str(&text),
                "yaml" => {}
                // Commands of an administrator on a machine of its own.
                "console" => {
                    let runner = read(&root().join("tests/packaging/run.sh"));
                    assert!(
                        runner.contains(&format!("docs/guides/{name}")),
                        "{name}: the test of the packages does not run it"
                    );
                }
                other => panic!("{name}: a block of kind {other:?}: no test knows how to check it"),
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        let programs = Path::new(env!("CARGO_BIN_EXE_fieldseal")).parent().expect("a folder").to_path_buf();
        let path = std::env::var_os("PATH").expect("a path");
        let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).expect("a path");
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(folder.path()).env("PATH", path);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("FIELDSEAL_")) {
            command.env_remove(key);
        }
        println!("{name}");
        let run = common::finish(&mut command, b"");
        run.ok();
    }
}

/// Names of metrics in `text`, without the suffixes of histograms.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("fieldseal_")).collect()
}

#[test]
fn alerts_name_metrics_that_there_are() {
    let references = ["docs/metrics.md", "docs/relay.md"].map(|path| read(&root().join(path)));
    let known: BTreeSet<&str> = references.iter().flat_map(|text| metrics(text)).collect();
    let mut seen = 0;
    for (name, page) in guides() {
        for (_, text) in blocks(&page).iter().filter(|(language, _)| *language == "yaml") {
            for metric in metrics(text) {
                assert!(known.contains(metric), "{name}: there is no metric {metric}");
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "alerts name metrics");
}

#[test]
fn the_rust_page_shows_the_example_and_it_runs() {
    let [page, example] =
        ["docs/start/rust.md", "crates/client/examples/round_trip.rs"].map(|path| read(&root().join(path)));
    assert_eq!(blocks(&page), [("rust", example)], "docs/start/rust.md must show the example as it is");
    let workplace = common::Workplace::new();
    let engine = workplace.engine(&["--no-relay"]);
    let certs = Path::new(engine.ready["ca"].as_str().expect("a path")).parent().expect("a folder").to_path_buf();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(round_trip::round_trip(engine.address(), "acme", &certs)).expect("the example runs");
}

/// String literals in `source` that follow a status, as in `StatusCode::CONFLICT, "code"`.
fn codes_beside_statuses(source: &str) -> BTreeSet<String> {
    let after = source.split("StatusCode::").skip(1);
    let literals = after
        .filter_map(|text| text.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '_').strip_prefix(','));
    let codes = literals.filter_map(|text| text.trim_start().strip_prefix('"')?.split('"').next());
    codes.map(str::to_owned).collect()
}

/// The codes of RPC, the API and the relay, and the kinds of the client's errors, as the code has them.
fn codes_of_the_code() -> BTreeSet<String> {
    let mut codes: BTreeSet<String> =
        fieldseal_client::ErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    for entry in std::fs::read_dir(root().join("crates/server/src/api")).expect("the API") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            codes.extend(codes_beside_statuses(&read(&path)));
        }
    }
    assert!(codes.contains("method-not-allowed") && codes.contains("slow-body"), "{codes:?}");
    // A test of the relay compares this list with docs/relay.md.
    let refusal = read(&root().join("crates/relay/src/refusal.rs"));
    let (_, list) = refusal.split_once("const CODES").expect("the relay's codes");
    let (list, _) = list.split_once("];").expect("their end");
    codes.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
    let client = read(&root().join("crates/client/src/error.rs"));
    let (_, kinds) = client.split_once("pub enum ErrorKind {\n").expect("the client's kinds");
    let (kinds, _) = kinds.split_once("\n}\n").expect("their end");
    let lines = kinds.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    codes.extend(names.filter_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()).next()).map(str::to_owned));
    codes
}

#[test]
fn the_page_of_errors_has_every_code_and_no_other() {
    let page = read(&root().join("docs/errors.md"));
    let rows = page.split("\n## ").skip(1).flat_map(str::lines).filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split('|').next());
    let listed: BTreeSet<String> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    assert_eq!(listed, codes_of_the_code());
}
