//! The page of measurements matches the stored results.

use super::{Finding, Repository};
use crate::measurements::{PAGE, page};

/// Reports a page that was not generated from the results, and invalid results.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let Some(found) = repository.sources.iter().find(|source| source.path == PAGE) else { return Vec::new() };
    let again = "run `cargo xtask measurements`";
    match page(&repository.sources) {
        Err(error) => vec![Finding::new(found, 1, error, again)],
        Ok(expected) if expected == found.text => Vec::new(),
        Ok(expected) => {
            let same = expected.lines().zip(found.text.lines()).take_while(|(a, b)| a == b).count();
            vec![Finding::new(found, same + 1, "not what benches/results says", again)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::findings;

    #[test]
    fn the_page_is_that_of_the_results() {
        let index = ("benches/results/index.json", r#"{"machines": {}, "areas": ["Walking"]}"#);
        let good = page(&[crate::source::SourceFile::new(index.0, index.1)]).unwrap();
        assert_eq!(findings(check, &[index, (PAGE, &good)]), "");
        let stale = good.replace("Machines", "Devices");
        let reported = findings(check, &[index, (PAGE, &stale)]);
        assert!(reported.contains("not what benches/results says; run `cargo xtask measurements`"), "{reported}");
        assert!(findings(check, &[(PAGE, &good)]).contains("index.json is missing"));
    }
}
