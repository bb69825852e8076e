//! Runs the reference and the guides: the shell blocks of each page of `docs` and `docs/guides`, in their order, as one script in an
//! empty folder. The metrics that other blocks and the alert rules name are those of the reference. tests/interop/test_pages.py runs the
//! pages that start an engine. This file also runs the program of docs/start/rust.md, and compares docs/errors.md with the code.
//! Blocks of kind `console` need an installed package, and the test of the packages runs them. No test runs a block after a comment that
//! gives the reason.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::{self, root};

#[path = "../../../client/examples/round_trip.rs"]
#[allow(dead_code, reason = "an example has a main function")]
mod round_trip;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of the reference and of the guides that start no engine, by path.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for folder in ["docs", "docs/guides"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder of pages") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                pages.push((format!("{folder}/{name}"), read(&path)));
            }
        }
    }
    pages.retain(|(_, page)| !page.contains("leafseal dev &"));
    pages.sort();
    assert!(pages.iter().any(|(path, _)| path == "docs/guides/operations.md"));
    pages
}

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    /// The text behind the fence: the language, and a name where it has one.
    kind: &'a str,
    text: String,
    /// The reason why no test runs it, if the comment before it gives one.
    not_run: Option<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    let mut before = "";
    for line in page.lines() {
        // A line that continues an item of a list follows no empty line.
        let indented = open.is_none() && before.is_empty() && line.starts_with("    ");
        assert!(!indented, "an indented block, which no test runs; fence it: {line}");
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                let not_run = before.strip_prefix("<!-- not run: ").and_then(|text| text.strip_suffix(" -->"));
                open = Some(Block { kind, text: String::new(), not_run });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
        before = line;
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Whether another test covers a block that is no script for an empty folder.
fn is_covered(path: &str, block: &Block<'_>) -> bool {
    if block.not_run.is_some() {
        return true;
    }
    match block.kind.split_once(' ').unwrap_or((block.kind, "")) {
        // The help of every command: a test of the program holds the page against it.
        ("text", "") => path == "docs/cli.md",
        // `alerts_name_metrics_that_there_are`.
        ("yaml" | "promql", "") => true,
        ("hex", name) => {
            let test = read(&root().join("crates/protocol/tests/it/protocol_doc.rs"));
            path == "docs/protocol.md" && test.contains(&format!("hex_block(\"{name}\")"))
        }
        // They need an OpenBao, moto, SoftHSM, or swtpm.
        ("sh", "transit") => read(&root().join("tests/interop/test_transit.py")).contains(path),
        ("sh", "aws-kms") => read(&root().join("tests/interop/test_kms.py")).contains(path),
        ("sh", "pkcs11") => read(&root().join("tests/interop/test_pkcs11.py")).contains(path),
        ("sh", "tpm2") => read(&root().join("tests/interop/test_tpm2.py")).contains(path),
        ("json", "") => read(&root().join("tests/interop/test_probe.py")).contains(path),
        // Commands of an administrator on a machine of its own.
        ("console", "") => read(&root().join("tests/packaging/run.sh")).contains(path),
        _ => false,
    }
}

#[test]
fn every_command_of_a_page_works() {
    for (name, page) in pages() {
        let mut script = String::new();
        let folder = tempfile::tempdir().expect("a folder");
        for block in blocks(&page) {
            match block.kind {
                _ if block.not_run.is_some() => {}
                "toml leafseal.toml" => {
                    std::fs::write(folder.path().join("leafseal.toml"), &block.text).expect("the file of the page");
                }
                "sh" => script.push_str(&block.text),
                kind => assert!(is_covered(&name, &block), "{name}: no test runs or reads this block of kind {kind:?}"),
            }
        }
        if script.is_empty() {
            continue;
        }
        let programs = Path::new(env!("CARGO_BIN_EXE_leafseal")).parent().expect("a folder").to_path_buf();
        let path = std::env::var_os("PATH").expect("a path");
        let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).expect("a path");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("set -euo pipefail\n{script}")]).current_dir(folder.path()).env("PATH", path);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("LEAFSEAL_")) {
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
    words.filter(|word| word.starts_with("leafseal_")).collect()
}

#[test]
fn a_block_that_is_not_run_has_a_reason() {
    let page = |before: &str| format!("{before}\n```console\n$ true\n```\n");
    let [without, with] = ["", "<!-- not run: it takes an hour -->"].map(page);
    assert!(!is_covered("docs/a.md", &blocks(&without)[0]));
    assert_eq!(blocks(&with)[0].not_run, Some("it takes an hour"));
    assert!(is_covered("docs/a.md", &blocks(&with)[0]));
}

#[test]
#[should_panic(expected = "an indented block")]
fn an_indented_block_is_refused() {
    blocks("Run this:\n\n    true\n");
}

#[test]
fn alerts_name_metrics_that_there_are() {
    let references = ["docs/metrics.md", "docs/relay.md"].map(|path| read(&root().join(path)));
    let rows = references.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("| `"));
    let known: BTreeSet<&str> = rows.flat_map(metrics).collect();
    let rules = ("deploy/prometheus/alerts.yml".to_owned(), read(&root().join("deploy/prometheus/alerts.yml")));
    let mut texts = vec![rules];
    for (name, page) in pages() {
        let shown = blocks(&page).into_iter().filter(|block| matches!(block.kind, "yaml" | "promql"));
        texts.extend(shown.map(|block| (name.clone(), block.text)));
    }
    let named: Vec<_> =
        texts.iter().flat_map(|(name, text)| metrics(text).into_iter().map(move |one| (name, one))).collect();
    assert!(named.len() > 5, "alerts name metrics");
    for (name, metric) in named {
        assert!(known.contains(metric), "{name}: there is no metric {metric}");
    }
}

#[test]
fn the_rust_page_shows_the_example_and_it_runs() {
    let [page, example] =
        ["docs/start/rust.md", "crates/client/examples/round_trip.rs"].map(|path| read(&root().join(path)));
    assert_eq!(
        blocks(&page),
        [Block { kind: "rust", text: example, not_run: None }],
        "docs/start/rust.md must show the example as it is"
    );
    let workplace = common::TestFolder::new();
    let engine = workplace.engine(&["--no-relay"]);
    let certs = Path::new(engine.ready["ca"].as_str().expect("a path")).parent().expect("a folder").to_path_buf();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(round_trip::round_trip(engine.address(), "acme", &certs)).expect("the example runs");
}
