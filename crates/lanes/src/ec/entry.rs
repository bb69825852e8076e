//! An entry of a fixed point's table. It depends on neither curve nor path, so that a path can select one without importing points.

/// x and y of a point, in the form that its curve keeps elements in. One line of a cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct TableEntry(pub(super) [u64; 8]);

impl TableEntry {
    /// All zeros, which is not a point: the initial value of a selection.
    pub(super) const ZERO: Self = Self([0; 8]);
}
