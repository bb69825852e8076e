//! Writes the tables of `docs/configuration.md`. Compiled only for its test, which compares the file with them.

use super::KEYS;

/// The line before the tables.
const BEGIN: &str =
    "<!-- The tables below are generated: UPDATE=1 cargo test --profile checked -p leafseal-cli configuration -->\n";

/// `UPDATE=1 cargo test -p leafseal-cli configuration` writes the tables.
#[test]
fn the_documentation_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let found = std::fs::read_to_string(path).expect("the page");
    let (head, _) = found.split_once(BEGIN).expect("the line before the tables");
    let expected = format!("{head}{BEGIN}{}", KEYS.shape().sections());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).expect("written");
    } else {
        assert!(found == expected, "docs/configuration.md is not what the code says: run this test with UPDATE=1");
    }
}
