//! Decision records follow the template; vectors, corpora and fuzz targets are used by tests.

use super::{Finding, Repository};
use crate::source::{Region, SourceFile};

const RECORDS: &str = "docs/decisions/";
const TEMPLATE: &str = "docs/decisions/0000-template.md";

/// Files below `vectors/` that document or generate the others.
const BESIDE_VECTORS: [&str; 6] = ["README.md", "LICENSE", ".gitattributes", ".py", ".sh", ".rs"];

/// Extensions of files that may contain tests.
const TESTS: [&str; 7] = [".rs", ".py", ".js", ".mjs", ".ts", ".java", ".sh"];

/// Decision records, vectors and fuzz targets.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = records(repository);
    findings.extend(vectors(repository));
    findings.extend(fuzz_targets(repository));
    findings
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("## ")).map(str::trim_end)
}

fn records(repository: &Repository) -> Vec<Finding> {
    let Some(template) = repository.find(TEMPLATE) else {
        return Vec::new();
    };
    let records: Vec<&SourceFile> = repository.sources.iter().filter(|source| is_record(source)).collect();
    let mut findings = Vec::new();
    for (index, record) in records.iter().enumerate() {
        for heading in headings(&template.text).filter(|heading| headings(&record.text).all(|own| own != *heading)) {
            findings.push(Finding::new(record, 1, format!("no heading `{heading}`"), format!("follow {TEMPLATE}")));
        }
        let number = number(record);
        if !record.text.starts_with(&format!("# {number}. ")) {
            findings.push(Finding::new(
                record,
                1,
                "the title lacks the file's number",
                format!("begin with `# {number}. `"),
            ));
        }
        if records[..index].iter().any(|other| self::number(other) == number) {
            findings.push(Finding::new(record, 1, format!("the number {number} is taken"), "take the next free one"));
        }
    }
    findings
}

fn is_record(source: &SourceFile) -> bool {
    source.path.starts_with(RECORDS) && source.path.ends_with(".md") && source.name() != "README.md"
}

fn number(record: &SourceFile) -> &str {
    record.name().split('-').next().unwrap_or_default()
}

/// Checks that a test refers to every file of vectors, directly or through its folder.
fn vectors(repository: &Repository) -> Vec<Finding> {
    let is_data = |source: &&SourceFile| !BESIDE_VECTORS.iter().any(|end| source.name().ends_with(end));
    let files = repository.sources.iter().filter(|source| source.path.starts_with("vectors/")).filter(is_data);
    let unused = files.filter(|file| {
        let folder = file.path.rsplit('/').nth(1).unwrap_or_default();
        let names_it = |text: &str| {
            text.contains("vectors") && (text.contains(file.name()) || (folder != "vectors" && text.contains(folder)))
        };
        !tests(repository).any(|test| names_it(&test.text))
    });
    unused
        .map(|file| Finding::new(file, 1, "no test names this file or its folder", "read it in a test, or delete it"))
        .collect()
}

/// Files that contain tests.
fn tests(repository: &Repository) -> impl Iterator<Item = &SourceFile> {
    let may_test = |source: &&SourceFile| {
        TESTS.iter().any(|end| source.name().ends_with(end)) && !source.path.starts_with("vectors/")
    };
    let tests =
        |source: &&SourceFile| !source.is_rust() || source.lines().any(|(line, _)| source.region(line) == Region::Test);
    repository.sources.iter().filter(may_test).filter(tests)
}

/// Checks that every fuzz target has a test that replays its corpus.
fn fuzz_targets(repository: &Repository) -> Vec<Finding> {
    let targets = repository.rust().filter(|source| source.path.starts_with("fuzz/fuzz_targets/"));
    let lonely = targets.filter(|target| {
        let name = target.name().trim_end_matches(".rs");
        let (in_path, in_list) = (format!("corpus/{name}"), format!("\"{name}\""));
        let replays = |text: &str| text.contains(&in_path) || (text.contains("corpus") && text.contains(&in_list));
        !tests(repository).any(|test| !test.path.starts_with("fuzz/") && replays(&test.text))
    });
    let instead = "let an ordinary test replay fuzz/corpus/NAME through the target's function";
    lonely.map(|target| Finding::new(target, 1, "no test replays this target's corpus", instead)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    const TEMPLATE_FILE: (&str, &str) = (TEMPLATE, "# 0000. Title\n## Motivation\n## Choice\n");

    #[test]
    fn records_follow_the_template() {
        let good = "# 0001. A\n\n## Motivation\n\n## More\n\n## Choice\n";
        assert_eq!(findings(check, &[TEMPLATE_FILE, ("docs/decisions/0001-a.md", good)]), "");
        let text = findings(check, &[TEMPLATE_FILE, ("docs/decisions/0001-a.md", "# A\n## Motivation\n")]);
        assert!(
            text.contains("0001-a.md:1: no heading `## Choice`") && text.contains("begin with `# 0001. `"),
            "{text}"
        );
        let twice = [TEMPLATE_FILE, ("docs/decisions/0001-a.md", good), ("docs/decisions/0001-b.md", good)];
        assert_eq!(
            findings(check, &twice),
            "docs/decisions/0001-b.md:1: the number 0001 is taken; take the next free one"
        );
    }

    #[test]
    fn vectors_are_read_by_a_test() {
        let vector = ("vectors/selectors/slices.json", "[]");
        let unused =
            "vectors/selectors/slices.json:1: no test names this file or its folder; read it in a test, or delete it";
        assert_eq!(findings(check, &[vector]), unused);
        let named = "const A: &str = \"vectors/selectors\";";
        assert_eq!(findings(check, &[vector, ("crates/document/src/a.rs", named)]), unused, "it is no test");
        assert_eq!(findings(check, &[vector, ("crates/document/tests/a.rs", named)]), "");
        assert_eq!(findings(check, &[vector, ("bindings/node/wire/test/a.mjs", "read('vectors', 'slices.json')")]), "");
        assert_eq!(findings(check, &[("vectors/README.md", "a")]), "");
    }

    #[test]
    fn corpora_are_replayed() {
        let target = ("fuzz/fuzz_targets/frames.rs", "//! Frames.");
        assert!(findings(check, &[target]).contains("frames.rs:1: no test replays"));
        assert_eq!(findings(check, &[target, ("crates/protocol/tests/corpus.rs", "\"fuzz/corpus/frames\"")]), "");
    }
}
