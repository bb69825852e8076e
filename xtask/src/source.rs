//! The files that the rules read: every text file that git would track, with the properties that rules need.
//!
//! Files are found through `.gitignore` and not through git itself, so that an unpacked archive is checked like a clone.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use crate::lexer::{self, Masked};

/// Whether a line is shipped or belongs to tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// Built into the product.
    Shipped,
    /// In `tests/`, `benches/`, `fuzz/`, a `#[cfg(test)]` item or a module that only tests declare.
    Test,
}

/// One text file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Path relative to the repository's root, with `/` between its parts.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// Code and comments, for Rust files only (both empty for others).
    pub masked: Masked,
    /// The region of each line.
    regions: Vec<Region>,
}

impl SourceFile {
    /// Analyses a file. `path` is relative to the repository's root.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs");
        let masked = if rust { lexer::mask(text) } else { Masked { code: String::new(), comments: String::new() } };
        let regions = regions(path, text, &masked.code);
        Self { path: path.to_owned(), text: text.to_owned(), masked, regions }
    }

    /// Whether this is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the crate or folder that a file belongs to: `document` for `crates/document/src/x.rs`, `build.rs` for build scripts,
    /// otherwise the first part of the path.
    pub(crate) fn area(&self) -> &str {
        if self.name() == "build.rs" {
            return "build.rs";
        }
        let mut parts = self.path.split('/');
        let first = parts.next().unwrap_or_default();
        if first == "crates" { parts.next().unwrap_or_default() } else { first }
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the line, from 1, that contains byte `offset`.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// The region of line `line`, counted from 1.
    pub(crate) fn region(&self, line: usize) -> Region {
        self.regions.get(line - 1).copied().unwrap_or(Region::Shipped)
    }

    /// Marks the whole file as test code: another file declares it below `#[cfg(test)]`.
    pub(crate) fn make_test(&mut self) {
        self.regions.fill(Region::Test);
    }

    /// The lines of the file with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Returns the region of each line. A test folder marks whole files; `#[cfg(test)]` and `#[test]` mark the following item.
fn regions(path: &str, text: &str, code: &str) -> Vec<Region> {
    let line_count = text.split('\n').count();
    let mut parts = path.split('/');
    let file_is_test =
        parts.any(|part| matches!(part, "tests" | "benches" | "fuzz" | "testkit")) || code.contains("#![cfg(test)]");
    if file_is_test {
        return vec![Region::Test; line_count];
    }
    let mut regions = vec![Region::Shipped; line_count];
    let line_of = |offset: usize| code.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test,", "#[cfg(any(test,", "#[test]"] {
        for (start, _) in code.match_indices(attribute) {
            let end = item_end(code, lexer::closing(code, start + 1));
            regions[line_of(start)..=line_of(end.saturating_sub(1))].fill(Region::Test);
        }
    }
    regions
}

/// Returns the end of the item at `start`: after its body, or after its semicolon if it has none.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    body(code, start).map_or_else(|end| end, |open| lexer::closing(code, open))
}

/// Returns the offset of the `{` that opens the body of the item at `start`, or the end of an item without a body.
pub(crate) fn body(code: &str, start: usize) -> Result<usize, usize> {
    let mut depth = 0_usize;
    for (index, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Ok(index),
            b';' if depth == 0 => return Err(index + 1),
            _ => {}
        }
    }
    Err(code.len())
}

/// Reads every text file below `root` that `.gitignore` does not exclude; skips files that are not UTF-8.
pub(crate) fn load(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut walk = ignore::WalkBuilder::new(root);
    walk.hidden(false).require_git(false).parents(false).git_global(false).git_exclude(true);
    walk.sort_by_file_path(Path::cmp).filter_entry(|entry| entry.file_name() != ".git");
    let mut sources = Vec::new();
    for entry in walk.build() {
        let entry = entry.map_err(io::Error::other)?;
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        match fs::read_to_string(entry.path()) {
            Ok(text) => sources.push(SourceFile::new(&relative(root, entry.path()), &text)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sources)
}

/// `path` below `root`, with `/` between its parts.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Returns the repository's root: the folder above this package. The path that cargo sets at run time takes precedence over the one from
/// compile time, because two clones that share a target folder may share the program.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("the package stands below the root").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_test_lines_from_shipped_ones() {
        let text =
            "fn a() {\n}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}\n";
        let source = SourceFile::new("crates/x/src/lib.rs", text);
        let test_lines: Vec<_> = (1..=10).filter(|&line| source.region(line) == Region::Test).collect();
        assert_eq!(test_lines, [3, 4, 5, 6, 8, 9]);
        let test = SourceFile::new("crates/x/tests/all.rs", text);
        assert!((1..=10).all(|line| test.region(line) == Region::Test));
    }

    #[test]
    fn a_body_is_found_after_arrays_and_bounds() {
        let code = "fn f(a: [u8; 4]) -> [u8; 2] where u8: Copy { x; }";
        assert_eq!(body(code, 0), Ok(43));
        assert_eq!(body("fn f(a: [u8; 4]);", 0), Err(17));
        assert_eq!(item_end(code, 0), code.len());
    }

    #[test]
    fn names_the_area() {
        let area = |path| SourceFile::new(path, "").area().to_owned();
        assert_eq!(area("crates/document/src/a/b.rs"), "document");
        assert_eq!(area("crates/crypto/build.rs"), "build.rs");
        assert_eq!(area("xtask/src/main.rs"), "xtask");
        assert_eq!(area("benches/candidates/src/main.rs"), "benches");
    }

    #[test]
    fn loads_tracked_files() {
        let sources = load(&root()).expect("the repository can be read");
        let has = |path: &str| sources.iter().any(|source| source.path == path);
        assert!(has("xtask/src/source.rs") && has(".gitignore"));
        assert!(!sources.iter().any(|source| source.path.starts_with("target/") || source.path.starts_with(".git/")));
    }
}
