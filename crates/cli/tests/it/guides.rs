//! Runs the guides: the shell blocks of each page of `docs/guides`, in their order, as one script in an empty folder. The metrics that
//! other blocks name are those of the reference.

use crate::common;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages, by name.
fn guides() -> Vec<(String, String)> {
    let mut guides = Vec::new();
    for entry in std::fs::read_dir(root().join("docs/guides")).expect("the folder of guides") {
        let path = entry.expect("an entry").path();
        guides.push((path.file_name().expect("a name").to_string_lossy().into_owned(), read(&path)));
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
