//! The report of a transformation: of a document, or of all lines together.

/// Counts, and the paths of the first envelopes that failed to decrypt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TransformReport {
    /// The number of replaced values.
    pub count: u64,
    /// The number of values that each selector matched, in the order of the selectors. Empty if unknown.
    pub matched: Vec<u64>,
    /// The number of encrypted values that were envelopes already.
    pub resealed: u64,
    /// Number of skipped envelopes.
    pub skipped: u64,
    /// Number of envelopes to a public key that were resealed.
    pub rewrapped: u64,
    /// Number of envelopes that failed to decrypt, if the work continues after them.
    pub failed: u64,
    /// The paths of the first of them, prefixed with the line's number.
    pub failures: Vec<String>,
}

impl TransformReport {
    /// A report with only a count.
    pub(crate) fn of_count(count: u64) -> Self {
        Self { count, ..Self::default() }
    }

    /// Prefixes the line's number to each path.
    pub(crate) fn at_line(mut self, number: u64) -> Self {
        self.failures.iter_mut().for_each(|path| *path = format!("line {number}: {path}"));
        self
    }

    /// Adds a later report; `failures_max` failures are kept.
    pub(crate) fn add(&mut self, next: TransformReport, failures_max: usize) {
        self.count += next.count;
        if self.matched.len() < next.matched.len() {
            self.matched.resize(next.matched.len(), 0);
        }
        self.matched.iter_mut().zip(next.matched).for_each(|(matched, next)| *matched += next);
        self.resealed += next.resealed;
        self.skipped += next.skipped;
        self.rewrapped += next.rewrapped;
        self.failed += next.failed;
        let room = failures_max.saturating_sub(self.failures.len());
        self.failures.extend(next.failures.into_iter().take(room));
    }

    /// The selectors of `select` that matched nothing.
    pub(crate) fn unmatched<'s>(&self, select: &'s [String]) -> Vec<&'s str> {
        let pairs = select.iter().zip(&self.matched);
        pairs.filter(|(_, matched)| **matched == 0).map(|(selector, _)| selector.as_str()).collect()
    }
}

impl From<leafseal_engine::RequestReport> for TransformReport {
    fn from(report: leafseal_engine::RequestReport) -> Self {
        let leafseal_engine::RequestReport { matched, resealed, skipped, rewrapped, failed, failures, symmetric: _ } =
            report;
        let failures = failures.into_iter().map(|failure| failure.path).collect();
        Self { count: 0, matched, resealed, skipped, rewrapped, failed, failures }
    }
}

impl From<&leafseal_client::Document> for TransformReport {
    fn from(document: &leafseal_client::Document) -> Self {
        let leafseal_client::Report { matched, resealed, skipped, rewrapped, failed, symmetric: _ } =
            document.report.clone();
        let (count, failures) = (document.count, document.failures.clone());
        Self { count, matched, resealed, skipped, rewrapped, failed, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_add_up() {
        let line = |number, matched: &[u64], failures: &[&str]| {
            let failures: Vec<String> = failures.iter().map(|path| (*path).to_owned()).collect();
            let failed = failures.len() as u64;
            TransformReport { count: 1, matched: matched.to_vec(), failed, failures, ..TransformReport::default() }
                .at_line(number)
        };
        let mut all = TransformReport::default();
        all.add(line(1, &[0, 1, 0], &["$[1]"]), 2);
        all.add(TransformReport::default(), 2);
        all.add(line(3, &[2, 0, 0], &["$[2]", "$[3]"]), 2);
        assert_eq!((all.count, all.failed, all.matched.clone()), (2, 3, vec![2, 1, 0]));
        assert_eq!(all.failures, ["line 1: $[1]", "line 3: $[2]"]);
        let select = ["$.a", "$.b", "$.c"].map(str::to_owned);
        assert_eq!(all.unmatched(&select), ["$.c"]);
        assert_eq!(TransformReport::of_count(0).unmatched(&select), [""; 0], "what is not known is no fault");
    }
}
