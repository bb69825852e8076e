//! Statements on rows of a store stand in a few files: the rest reads entries, which the authenticated tree verifies. A change that chose
//! what to touch from rows as they are could be led past what an attacker has taken away for a while.

use super::{Finding, Repository};
use crate::source::Region;

/// The files of stores in tables.
const FOLDER: &str = "crates/keystore/src/sql/";

/// Those that may read or write rows: they verify what they read, or their heads say why they need not.
const STATEMENTS: &[&str] = &[
    "bounds.rs",
    "migration.rs",
    "pages.rs",
    "resealing.rs",
    "schema.rs",
    "seen.rs",
    "session.rs",
    "slots.rs",
    "stored.rs",
    "table.rs",
    "tree.rs",
    "tree/change.rs",
    "tree/survey.rs",
    "value.rs",
];

/// Methods that run a statement.
const CALLS: [&str; 5] = ["sql.rows(", "sql.first(", "sql.count(", "sql.execute(", "sql.batch("];

/// Each call outside of [`STATEMENTS`].
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let is_free = |path: &str| path.strip_prefix(FOLDER).is_none_or(|file| STATEMENTS.contains(&file));
    let found = repository.rust().filter(|source| !is_free(&source.path)).flat_map(|source| {
        let calls = CALLS.iter().flat_map(|call| source.masked.code.match_indices(call));
        let lines = calls.map(|(at, _)| source.line_of(at)).filter(|line| source.region(*line) == Region::Shipped);
        let instead = "read entries (`StoreSession::entry`, `all`), or count in `bounds.rs`: rows that nobody has verified say nothing";
        lines.map(|line| Finding::new(source, line, "a statement on rows of a store", instead)).collect::<Vec<_>>()
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    #[test]
    fn statements_stand_in_their_files() {
        let find = |path: &str, code: &str| {
            sample::findings(check, &[("crates/keystore/Cargo.toml", ""), (path, &format!("//! Purpose.\n{code}\n"))])
        };
        for call in CALLS {
            let code = format!("fn f() {{ session.{call}\"SELECT 1\", &[]) }}");
            assert!(
                find("crates/keystore/src/sql/life.rs", &code).contains("life.rs:2: a statement on rows"),
                "{call}"
            );
            assert_eq!(find("crates/keystore/src/sql/tree/survey.rs", &code), "");
            assert_eq!(find("crates/keystore/src/sqlite/mod.rs", &code), "");
        }
    }
}
