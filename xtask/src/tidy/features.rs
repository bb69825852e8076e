//! CPU features stand once: in the list of each token. A function that is compiled for others than its token proves could be called
//! by safe code on a CPU that lacks them.

use super::{Finding, Repository};
use crate::lexer::words;

/// The file that declares the tokens.
const TOKENS: &str = "crates/lanes/src/cpu.rs";

/// Each use of Rust's attribute outside [`TOKENS`].
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let others = repository.rust().filter(|source| source.path != TOKENS);
    let found = others.flat_map(|source| {
        words(&source.masked.code, "target_feature").map(|at| {
            let instead =
                format!("write `#[compiled_for(TOKEN)]`, or call it through `entry!`: the features stand in {TOKENS}");
            Finding::new(source, source.line_of(at), "CPU features beside those of a token", instead)
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    #[test]
    fn features_stand_in_the_list_of_tokens_alone() {
        let attribute = "#[target_feature(enable = \"avx2\")]\nfn f() {}\n";
        let find = |path, text| sample::findings(check, &[("crates/lanes/Cargo.toml", ""), (path, text)]);
        assert_eq!(find(TOKENS, attribute), "");
        assert_eq!(find("crates/lanes/src/a.rs", "// #[target_feature]\n#[compiled_for(Avx2)]\nfn f() {}\n"), "");
        for path in ["crates/lanes/src/text/avx2.rs", "crates/crypto/src/ffi/mod.rs"] {
            let text = find(path, attribute);
            assert!(text.starts_with(&format!("{path}:1: CPU features beside those of a token; write")), "{text}");
        }
    }
}
