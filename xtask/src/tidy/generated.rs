//! Generated files match what they are generated from.

use super::{Finding, Repository};
use crate::generate::{COMMAND, stale};

/// The table without which there is nothing to generate, as in the samples of other rules.
const TABLE: &str = "crates/errors/src/codes.rs";

/// Reports generated files that are missing or stale.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let Some(table) = repository.find(TABLE) else { return Vec::new() };
    let instead = format!("run `{COMMAND}`");
    match stale(&repository.sources) {
        Err(error) => vec![Finding::new(table, 1, error, instead)],
        Ok(outputs) => {
            let finding = |path: &str| Finding {
                path: path.to_owned(),
                line: 1,
                what: "stale".to_owned(),
                instead: instead.clone(),
            };
            outputs.iter().map(|output| finding(&output.path)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::findings;

    #[test]
    fn what_cannot_be_generated_is_reported_with_the_command() {
        let reported = findings(check, &[(TABLE, "")]);
        assert!(
            reported
                .contains("docs/protocol.md: the marks <!-- codes: written by cargo xtask generate --> are missing"),
            "{reported}"
        );
        assert!(reported.contains("run `cargo xtask generate`"), "{reported}");
        assert_eq!(findings(check, &[]), "");
    }
}
