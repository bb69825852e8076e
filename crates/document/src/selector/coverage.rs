//! Which queries have selected something in the current one of several documents, at a cost that does not grow with the documents before.

/// The queries of an automaton, and the documents in which they have selected something.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// The number of the document.
    document: u64,
    /// The number of the document in which each query last selected something.
    seen: Vec<u64>,
    /// How many queries have selected nothing in the current document.
    lacking: usize,
    /// The number of the set that was counted last: adjacent scalars mostly have the same.
    last: Option<u32>,
}

impl Coverage {
    /// Begins the next document.
    pub(super) fn begin(&mut self, queries: usize) {
        self.seen.resize(queries, 0);
        self.document += 1;
        (self.lacking, self.last) = (queries, None);
    }

    /// The first query that has selected nothing in this document.
    pub(super) fn uncovered(&self) -> Option<usize> {
        if self.lacking == 0 {
            return None;
        }
        self.seen.iter().position(|&document| document != self.document)
    }

    /// Whether a value with this set may be selected by queries that have selected nothing yet.
    #[inline]
    pub(super) fn is_new(&mut self, set: u32) -> bool {
        self.lacking > 0 && self.last.replace(set) != Some(set)
    }

    /// These queries have selected something.
    pub(super) fn cover(&mut self, queries: impl Iterator<Item = u32>) {
        for query in queries {
            let seen = &mut self.seen[query as usize];
            if *seen != self.document {
                (*seen, self.lacking) = (self.document, self.lacking - 1);
            }
        }
    }

    /// Sets have other numbers from now on.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}
