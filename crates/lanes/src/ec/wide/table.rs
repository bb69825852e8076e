//! A fixed point's table for look-ups by eight lanes: for each window and each limb of x and y, the limbs of all entries side by side.

use super::super::curve::PrimeCurve;
use super::super::entry::TableEntry;
use super::super::scalar::{WINDOWS, window_entries};
use super::super::words::Words;
use super::field::{LIMBS, WideCurve, limbs};
use crate::u64x8::{SelectionTable, TABLE_LENGTH};

/// The entries of a window: the limbs of x, then those of y.
#[derive(Clone, Copy)]
pub(in crate::ec) struct Window(pub(super) [SelectionTable; 2 * LIMBS]);

/// Bytes of a table.
pub(in crate::ec) const SIZE: usize = WINDOWS * size_of::<Window>();

/// A table in progress.
pub(in crate::ec) struct WideTableDraft(Vec<Window>);

impl WideTableDraft {
    pub(in crate::ec) fn new() -> Self {
        Self(Vec::with_capacity(WINDOWS))
    }

    /// Appends the entries of further windows, which another path of the curve has computed.
    pub(in crate::ec) fn extend<C: WideCurve>(&mut self, mut entries: &[TableEntry]) {
        while !entries.is_empty() {
            let (window, rest) = entries.split_at(window_entries(self.0.len()));
            self.0.push(of_entries::<C>(window));
            entries = rest;
        }
    }

    /// The table, all of whose windows are filled.
    pub(in crate::ec) fn finish(self) -> Box<[Window; WINDOWS]> {
        self.0.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("all windows are filled"))
    }
}

fn of_entries<C: WideCurve>(entries: &[TableEntry]) -> Window {
    let mut window = Window([SelectionTable([0; TABLE_LENGTH]); 2 * LIMBS]);
    for (i, entry) in entries.iter().enumerate() {
        let [x0, x1, x2, x3, y0, y1, y2, y3] = entry.0;
        let (x, y) = (element::<C>([x0, x1, x2, x3]), element::<C>([y0, y1, y2, y3]));
        for (table, limb) in window.0.iter_mut().zip(x.into_iter().chain(y)) {
            table.0[i] = limb;
        }
    }
    window
}

/// The limbs of an element that a path of four words keeps: there, the factor of Montgomery's form is 2^256 and not 2^260.
fn element<C: WideCurve>(mut words: Words) -> [u64; LIMBS] {
    if C::MONTGOMERY.is_some() {
        for _ in 0..4 {
            words = <C as PrimeCurve>::add(&words, &words);
        }
    }
    limbs(&words)
}
