//! Calls that the project avoids in some folders or outside tests, each with its replacement. `clippy.toml` lists those that it avoids
//! everywhere.
//!
//! Pure crates only transform data: they use no clock, file, socket, thread or environment, so that the same input produces the same
//! output everywhere and tests do not depend on the machine.

use super::{Finding, Repository};
use crate::{
    lexer::{closing, words},
    source::{Region, SourceFile},
};

/// Pure crates.
const PURE: &[&str] = &["crypto", "envelope", "document", "protocol"];

/// Crates and files that may write to standard output and error.
const OUTER: &[&str] = &["cli", "xtask", "build.rs", "benches"];

/// The areas that a ban covers.
enum Where {
    Anywhere,
    In(&'static [&'static str]),
    Outside(&'static [&'static str]),
}

/// Whether a ban covers test code too.
#[derive(PartialEq, Eq)]
enum Tests {
    Checked,
    Exempt,
}

struct Ban {
    /// The text in the code, matched as a whole word; `std::NAME` also matches inside `use std::{…}`.
    pattern: &'static str,
    covers: Where,
    tests: Tests,
    instead: &'static str,
}

const fn ban(pattern: &'static str, covers: Where, tests: Tests, instead: &'static str) -> Ban {
    Ban { pattern, covers, tests, instead }
}

const BANS: [Ban; 16] = [
    ban(".unwrap()", Where::Anywhere, Tests::Exempt, "use `.expect(\"why it cannot fail\")`, or return the error"),
    ban(".unwrap_err()", Where::Anywhere, Tests::Exempt, "match on the result"),
    ban("println!", Where::Outside(OUTER), Tests::Exempt, "return the text; only cli and xtask print"),
    ban("print!", Where::Outside(OUTER), Tests::Exempt, "return the text; only cli and xtask print"),
    ban("eprintln!", Where::Outside(OUTER), Tests::Exempt, "return an error or log; only cli and xtask print"),
    ban("eprint!", Where::Outside(OUTER), Tests::Exempt, "return an error or log; only cli and xtask print"),
    ban("#[ignore", Where::Anywhere, Tests::Checked, "make the test quick enough to run, or delete it"),
    ban(
        "std::env",
        Where::Outside(&["cli", "xtask", "lanes", "build.rs", "benches"]),
        Tests::Exempt,
        "take it as a parameter; cli reads the environment",
    ),
    ban("SystemTime::now", Where::In(PURE), Tests::Exempt, "take the time as a parameter"),
    ban("Instant::now", Where::In(PURE), Tests::Exempt, "take the time as a parameter"),
    ban("std::fs", Where::In(PURE), Tests::Exempt, "take the bytes as a parameter: this crate is pure"),
    ban("std::net", Where::In(PURE), Tests::Exempt, "move it to server, client or relay: this crate is pure"),
    ban(
        ".store()",
        Where::In(&["service", "server"]),
        Tests::Exempt,
        "let the engine look it up: workers and network threads never wait for the store",
    ),
    ban("std::net", Where::In(&["service"]), Tests::Exempt, "move it to server: workers never touch a socket"),
    ban("std::thread", Where::In(PURE), Tests::Exempt, "leave threads to pool: this crate is pure"),
    ban(
        "thread::sleep",
        Where::In(&["pool", "engine", "service", "server", "client", "relay"]),
        Tests::Exempt,
        "wait on a condition or a timer, so that a stop or a cancel is seen",
    ),
];

/// All bans over all Rust files.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let banned = |source| BANS.iter().flat_map(move |ban| apply(ban, source));
    let others = repository.rust().flat_map(|source| [debug_fields, timings].map(|check| check(source)));
    repository.rust().flat_map(banned).chain(others.flatten()).collect()
}

fn apply(ban: &Ban, source: &SourceFile) -> Vec<Finding> {
    let area = source.area();
    let is_covered = match ban.covers {
        Where::Anywhere => true,
        Where::In(areas) => areas.contains(&area),
        Where::Outside(areas) => !areas.contains(&area),
    };
    if !is_covered {
        return Vec::new();
    }
    let code = &source.masked.code;
    // `std::env::consts` and the like are constants of the build.
    let is_constant = |at: &usize| code[at + ban.pattern.len()..].starts_with("::consts");
    let found = words(code, ban.pattern).filter(|at| !is_constant(at)).chain(grouped(code, ban.pattern));
    let lines = found.map(|at| source.line_of(at));
    let lines = lines.filter(|&line| ban.tests == Tests::Checked || source.region(line) == Region::Shipped);
    lines.map(|line| Finding::new(source, line, ban.pattern.trim_start_matches(['.', '#', '[']), ban.instead)).collect()
}

/// Offsets at which `use std::{…}` imports the module of `std::NAME` among others.
fn grouped<'a>(code: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    let module = pattern.strip_prefix("std::").filter(|module| !module.contains(':'));
    let groups = code.match_indices("std::{").map(|(at, prefix)| at + prefix.len() - 1);
    module.into_iter().flat_map(move |module| groups.clone().filter_map(move |open| top_level(code, open, module)))
}

/// Offset of `module` as a direct member of the group that opens at `open`.
fn top_level(code: &str, open: usize, module: &str) -> Option<usize> {
    let group = &code[open + 1..closing(code, open)];
    let is_direct = |at: usize| group[..at].matches('{').count() == group[..at].matches('}').count();
    let starts = |at: usize| !group[..at].trim_end().ends_with(':');
    words(group, module).find(|&at| is_direct(at) && starts(at)).map(|at| open + 1 + at)
}

/// Macros that log.
const LOGS: [&str; 5] = ["tracing::error!", "tracing::warn!", "tracing::info!", "tracing::debug!", "tracing::trace!"];

/// Fields given with `?`, which print Rust's `Debug` text.
fn debug_fields(source: &SourceFile) -> Vec<Finding> {
    let code = &source.masked.code;
    let instead = "log with `%`, or as a plain value: a log holds no Rust `Debug` text";
    let calls = LOGS.iter().flat_map(|name| words(code, name).map(|at| at + name.len()));
    let of_call = |open: usize| {
        let end = closing(code, open);
        let marks = code[open..end].match_indices('?').map(move |(at, _)| open + at);
        marks.filter(|&at| code[..at].trim_end().ends_with(['(', ',', '=']))
    };
    let shipped = |line: &usize| source.region(*line) == Region::Shipped;
    let lines = calls.flat_map(of_call).map(|at| source.line_of(at)).filter(shipped);
    lines.map(|line| Finding::new(source, line, "a log field in `Debug` form", instead)).collect()
}

/// No test asserts how long something takes: such a test fails on a busy machine. A loop that waits for a condition may time out after a
/// constant named `PATIENCE` or `WAIT`.
fn timings(source: &SourceFile) -> Vec<Finding> {
    let lines = source.masked.code.lines().zip(1..);
    let is_timing = |code: &str| {
        let compared = code.split_once("elapsed() <").map(|(before, bound)| (before.contains("assert"), bound));
        compared.is_some_and(|(is_asserted, bound)| {
            is_asserted && !["PATIENCE", "WAIT"].iter().any(|name| bound.contains(name))
        })
    };
    let found = lines.filter(|&(code, line)| source.region(line) == Region::Test && is_timing(code));
    let instead = "wait for a condition, or measure it in a benchmark; a wait gives up after PATIENCE";
    found.map(|(_, line)| Finding::new(source, line, "a test that asserts a time", instead)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn in_file(path: &str, code: &str) -> String {
        sample::findings(check, &[(path, &format!("//! Purpose.\n{code}\n"))])
    }

    #[test]
    fn every_ban_is_found_where_it_covers() {
        for ban in &BANS {
            let area = match ban.covers {
                Where::Anywhere | Where::Outside(_) => "pool",
                Where::In(areas) => areas[0],
            };
            let text =
                in_file(&format!("crates/{area}/src/a.rs"), &format!("fn f() {{ x{}(1) }}", at_word(ban.pattern)));
            assert!(
                text.starts_with(&format!("crates/{area}/src/a.rs:2: ")) && text.ends_with(ban.instead),
                "{}: {text}",
                ban.pattern
            );
        }
    }

    /// A pattern that begins with a letter needs a gap before it.
    fn at_word(pattern: &str) -> String {
        if pattern.starts_with('.') { pattern.to_owned() } else { format!("; {pattern}") }
    }

    #[test]
    fn tests_comments_strings_and_longer_names_are_ignored() {
        assert_eq!(in_file("crates/pool/src/a.rs", "fn f() { x.unwrap_or(1); g(\".unwrap()\"); } // .unwrap()"), "");
        assert_eq!(in_file("crates/pool/tests/a.rs", "fn f() { x.unwrap(); println!(); }"), "");
        assert_eq!(in_file("crates/pool/src/a.rs", "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }"), "");
        assert_eq!(in_file("crates/pool/src/a.rs", "fn f() { my_println!(); std::env_thing(); }"), "");
        assert_eq!(in_file("crates/pool/src/a.rs", "const A: &str = std::env::consts::ARCH;"), "");
        assert!(in_file("crates/pool/tests/a.rs", "#[ignore]\nfn f() {}").contains("quick enough"));
    }

    #[test]
    fn areas_decide() {
        assert_eq!(in_file("crates/cli/src/main.rs", "fn f() { println!(); std::env::args(); }"), "");
        assert_eq!(in_file("crates/lanes/src/a.rs", "use std::env;"), "");
        assert_eq!(in_file("crates/engine/src/a.rs", "fn f() { Instant::now(); }"), "");
        assert_eq!(in_file("crates/crypto/build.rs", "fn f() { std::env::var(\"A\"); println!(); }"), "");
    }

    #[test]
    fn debug_text_in_a_log_is_seen() {
        for field in ["?end, \"x\"", "a, end = ?f(b), \"x\"", "\n        ?end,\n \"x\""] {
            let text = in_file("crates/server/src/a.rs", &format!("fn f() {{ tracing::info!({field}); }}"));
            assert!(text.contains("holds no Rust `Debug` text"), "{field}: {text}");
        }
        assert_eq!(in_file("crates/server/src/a.rs", "fn f() { tracing::info!(%a, b = g()?, \"what?\"); h(?c) }"), "");
    }

    #[test]
    fn times_are_not_asserted() {
        let short = "fn f() { assert!(began.elapsed() < Duration::from_secs(5)); }";
        assert!(in_file("crates/pool/tests/a.rs", short).contains("a benchmark"));
        assert!(
            in_file("crates/pool/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{short}\n}}"))
                .contains("a benchmark")
        );
        assert_eq!(in_file("crates/pool/src/a.rs", short), "");
        for code in [
            "assert!(began.elapsed() < PATIENCE);",
            "assert!(began.elapsed() >= SHORT);",
            "while t.elapsed() < SHORT {}",
        ] {
            assert_eq!(in_file("crates/pool/tests/a.rs", &format!("fn f() {{ {code} }}")), "", "{code}");
        }
    }

    #[test]
    fn grouped_imports_are_seen() {
        let text = in_file("crates/document/src/a.rs", "use std::{\n    fmt,\n    fs::File,\n};");
        assert!(text.starts_with("crates/document/src/a.rs:4: std::fs"), "{text}");
        assert_eq!(in_file("crates/document/src/a.rs", "use std::{collections::{fs}, fmt};"), "");
        assert_eq!(in_file("crates/document/src/a.rs", "use std::{io::fs};"), "");
    }
}
