//! Limits of the length and width of code.
//!
//! The limits are not targets: most functions stay far below. Tests may have long functions (tables of cases), but not long files. Data
//! may be long.

use super::{Finding, Repository};
use crate::{
    lexer::{closing, words},
    source::{Region, SourceFile, body},
};

/// Maximum lines of a function, from `fn` to its last brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Maximum characters of a line of Rust.
const LINE_WIDTH_MAX: usize = 140;

/// Maximum lines of a file of code or documentation.
const FILE_LINES_MAX: usize = 600;

/// Extensions of the files that [`FILE_LINES_MAX`] limits.
const LIMITED: [&str; 13] = ["rs", "sh", "py", "js", "mjs", "cjs", "ts", "java", "go", "php", "rb", "html", "md"];

/// Files that are tables of data in the form of code, with their content.
const TABLES: [(&str, &str); 1] =
    [("crates/cli/src/arguments.rs", "every command, flag and help text, in the order in which `--help` shows them")];

/// Folders of generated pages.
const GENERATED: [&str; 2] = ["docs/cli.md", "examples/load/reports/"];

/// Extensions of text that is written by hand; data, lock files and licences are exempt.
const WRITTEN: [&str; 9] = ["rs", "toml", "sh", "py", "js", "mjs", "ts", "java", "md"];

/// Checks lengths, widths and white space.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &repository.sources {
        if source.is_rust() {
            findings.extend(functions(source));
            findings.extend(widths(source));
        }
        findings.extend(file(source));
        findings.extend(white_space(source));
    }
    findings
}

fn functions(source: &SourceFile) -> Vec<Finding> {
    let code = &source.masked.code;
    let mut findings = Vec::new();
    for at in words(code, "fn") {
        let line = source.line_of(at);
        let is_named = code[at + 2..].starts_with(|letter: char| letter.is_whitespace());
        let (true, Ok(open)) = (is_named && source.region(line) == Region::Shipped, body(code, at)) else {
            continue;
        };
        let lines = source.line_of(closing(code, open) - 1) + 1 - line;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("a function of {lines} lines");
            let instead = format!("keep to {FUNCTION_LINES_MAX}: split out what is pure and can be named");
            findings.push(Finding::new(source, line, what, instead));
        }
    }
    findings
}

fn widths(source: &SourceFile) -> Vec<Finding> {
    let wide =
        source.lines().map(|(line, text)| (line, text.chars().count())).filter(|&(_, width)| width > LINE_WIDTH_MAX);
    let instead = format!("break it at {LINE_WIDTH_MAX} or before");
    wide.map(|(line, width)| Finding::new(source, line, format!("a line of {width} characters"), &instead)).collect()
}

fn file(source: &SourceFile) -> Option<Finding> {
    let ending = source.name().rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_exempt = TABLES.iter().any(|(path, _)| source.path == *path)
        || GENERATED.iter().any(|folder| source.path.starts_with(folder));
    let lines = source.text.lines().count();
    let instead = format!("keep to {FILE_LINES_MAX}: split it by subject");
    (LIMITED.contains(&ending) && !is_exempt && lines > FILE_LINES_MAX)
        .then(|| Finding::new(source, lines, format!("a file of {lines} lines"), instead))
}

fn white_space(source: &SourceFile) -> Vec<Finding> {
    let ending = source.name().rsplit_once('.').map_or("", |(_, ending)| ending);
    if !WRITTEN.contains(&ending) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, text) in source.lines() {
        if text.contains('\t') {
            findings.push(Finding::new(source, line, "a tab", "indent with spaces; write \\t in a literal"));
        }
        if text.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(source, line, "white space at the end of the line", "remove it"));
        }
    }
    if !source.text.is_empty() && (!source.text.ends_with('\n') || source.text.ends_with("\n\n")) {
        let line = source.text.lines().count();
        findings.push(Finding::new(source, line, "the file does not end with one line break", "end it with one"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn in_file(path: &str, text: &str) -> String {
        sample::findings(check, &[(path, text)])
    }

    /// A function of `lines` lines.
    fn function(lines: usize) -> String {
        format!("fn f(a: [u8; 4]) {{\n{}}}\n", "    a;\n".repeat(lines - 2))
    }

    #[test]
    fn functions_end_at_seventy_lines() {
        assert_eq!(in_file("crates/pool/src/a.rs", &function(FUNCTION_LINES_MAX)), "");
        let text = in_file("crates/pool/src/a.rs", &function(FUNCTION_LINES_MAX + 1));
        assert!(text.starts_with("crates/pool/src/a.rs:1: a function of 71 lines"), "{text}");
        assert_eq!(in_file("crates/pool/tests/a.rs", &function(FUNCTION_LINES_MAX + 1)), "");
        assert_eq!(
            in_file("crates/pool/src/a.rs", &format!("trait T {{ fn f(); }}\ntype F = fn(u8);\n{}", "x;\n".repeat(80))),
            ""
        );
    }

    #[test]
    fn lines_and_files_end_too() {
        let wide = |width| in_file("crates/pool/src/a.rs", &format!("//{}\n", "é".repeat(width - 2)));
        assert_eq!(wide(LINE_WIDTH_MAX), "");
        assert!(wide(LINE_WIDTH_MAX + 1).contains("a.rs:1: a line of 141 characters"));
        let long = |path, lines| in_file(path, &"a\n".repeat(lines));
        for path in ["crates/pool/tests/a.rs", "tests/a.py", "docs/a.md", "a/b.mjs"] {
            assert_eq!(long(path, FILE_LINES_MAX), "");
            assert!(long(path, FILE_LINES_MAX + 1).contains("a file of 601 lines"), "{path}");
        }
        for path in
            ["crates/cli/src/arguments.rs", "vectors/a.json", "tests/requirements.txt", "examples/load/reports/a.html"]
        {
            assert_eq!(long(path, FILE_LINES_MAX + 1), "", "{path}");
        }
    }

    #[test]
    fn white_space_is_tidy() {
        assert_eq!(in_file("docs/a.md", "a\n\nb\n"), "");
        assert_eq!(in_file("Makefile", "a:\n\tb\n"), "");
        assert_eq!(in_file("vectors/a.json", "{} \n\n"), "");
        assert!(in_file("scripts/a.sh", "a\tb\n").contains("a.sh:1: a tab"));
        assert!(in_file("docs/a.md", "a\nb \n").contains("a.md:2: white space at the end"));
        for end in ["a", "a\n\n"] {
            assert!(in_file("docs/a.md", end).contains("one line break"));
        }
    }
}
