//! A fixed point's table: for each window, the odd multiples of the point times 2 to the window's start. It is computed in pieces,
//! so that callers can do other work in between.
//!
//! ```text
//! piece, of three windows:
//!   for each window:  base = power; step = 2 · power; double power for each bit of the window
//!   make bases and steps affine                with one inversion
//!   for each window:  multiples = base, base + step, base + 2 · step, …
//!   make the multiples affine                  with one inversion
//! ```

use super::curve::PrimeCurve;
use super::element::{FieldElement, invert_all};
use super::entry::TableEntry;
use super::path::InstructionPath;
use super::point::{Affine, Jacobian};
use super::scalar::{WINDOWS, window_entries, window_start};
use super::words::Words;

/// Entries of all windows before each, and of all.
const OFFSETS: [usize; WINDOWS + 1] = {
    let mut offsets = [0; WINDOWS + 1];
    let mut window = 0;
    while window < WINDOWS {
        offsets[window + 1] = offsets[window] + window_entries(window);
        window += 1;
    }
    offsets
};

/// Entries of a table.
pub(super) const ENTRIES: usize = OFFSETS[WINDOWS];

/// The entries of a window.
#[inline(always)]
pub(super) fn window(table: &[TableEntry; ENTRIES], window: usize) -> &[TableEntry] {
    &table[OFFSETS[window]..OFFSETS[window + 1]]
}

/// Windows of a piece of a table: some 96 of its 1,344 entries, in 30 to 60 µs. The two inversions of a piece are a sixth of its cost.
const PIECE_WINDOWS: usize = 3;
/// Pieces of a table.
pub(super) const PIECES: usize = WINDOWS.div_ceil(PIECE_WINDOWS);

/// A table in progress, in a form that depends on neither curve nor path.
pub(super) struct TableDraft {
    /// The base of the next window: a Jacobian point.
    base: [Words; 3],
    /// The next window.
    window: usize,
    /// Those of the windows before.
    entries: Vec<TableEntry>,
}

impl TableDraft {
    #[inline(always)]
    pub(super) fn new<C: PrimeCurve, P: InstructionPath>(path: P, point: Affine<FieldElement<C, P>>) -> Self {
        let one = FieldElement::<C, P>::one(path);
        Self { base: [point.x.words(), point.y.words(), one.words()], window: 0, entries: Vec::with_capacity(ENTRIES) }
    }

    /// Fills some windows more; whether all are filled now. Not constant time: points are public. No exceptional addition: the sums are
    /// of different small multiples of one point.
    #[inline(always)]
    pub(super) fn go_on<C: PrimeCurve, P: InstructionPath>(&mut self, path: P) -> bool {
        let (a, one) = (FieldElement::<C, P>::from_number(path, &C::A), FieldElement::one(path));
        let windows = self.window..(self.window + PIECE_WINDOWS).min(WINDOWS);
        let [x, y, z] = self.base.map(|words| FieldElement::new(path, words));
        let mut power = Jacobian { x, y, z };
        // The base of each window and its double, which is the step between entries.
        let mut bases = Vec::with_capacity(2 * PIECE_WINDOWS);
        for window in windows.clone() {
            bases.push(power);
            power = power.double(a);
            bases.push(power);
            for _ in window_start(window) + 1..window_start(window + 1) {
                power = power.double(a);
            }
        }
        let bases = to_affine(&bases);
        let mut multiples = Vec::with_capacity(PIECE_WINDOWS * window_entries(1));
        for (window, pair) in windows.zip(bases.chunks_exact(2)) {
            let mut multiple = Jacobian { x: pair[0].x, y: pair[0].y, z: one };
            multiples.push(multiple);
            // The first sum is a base and its double, and no other sum has an equal part either.
            for _ in 1..window_entries(window) {
                multiple = multiple.add(pair[1]);
                multiples.push(multiple);
            }
        }
        self.entries.extend(to_affine(&multiples).into_iter().map(Affine::to_entry));
        self.base = [power.x.words(), power.y.words(), power.z.words()];
        self.window += bases.len() / 2;
        self.window == WINDOWS
    }

    /// Takes the entries of the windows that were filled since the last call.
    pub(super) fn take_entries(&mut self) -> Vec<TableEntry> {
        std::mem::take(&mut self.entries)
    }

    /// The table, all of whose windows are filled.
    pub(super) fn finish(self) -> Box<[TableEntry; ENTRIES]> {
        self.entries.into_boxed_slice().try_into().expect("an entry for each of the windows' digits")
    }
}

fn to_affine<C: PrimeCurve, P: InstructionPath>(
    points: &[Jacobian<FieldElement<C, P>>],
) -> Vec<Affine<FieldElement<C, P>>> {
    let mut inverses: Vec<FieldElement<C, P>> = points.iter().map(|point| point.z).collect();
    let mut products = inverses.clone();
    invert_all(&mut inverses, &mut products);
    points.iter().zip(inverses).map(|(point, inverse)| point.to_affine(inverse)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::p256::P256;
    use super::super::portable::Portable;
    use super::super::secp256k1::Secp256k1;
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::cpu::Adx;

    /// Entries as numbers: the forms that paths keep elements in may differ by a multiple of the prime.
    fn numbers<C: PrimeCurve, P: InstructionPath>(path: P, entries: &[TableEntry]) -> Vec<[Words; 2]> {
        entries
            .iter()
            .map(|entry| {
                let point = Affine::<FieldElement<C, P>>::from_entry(path, entry);
                [point.x.to_number(), point.y.to_number()]
            })
            .collect()
    }

    /// Each entry by its definition: the odd multiples of the point at the beginning of a window, computed by doubling and adding
    /// alone, with an inversion each.
    fn by_definition<C: PrimeCurve>(point: [Words; 2]) -> Vec<[Words; 2]> {
        let affine = |point: Jacobian<FieldElement<C, Portable>>| point.to_affine(point.z.invert());
        let (a, one) = (FieldElement::from_number(Portable, &C::A), FieldElement::one(Portable));
        let start =
            Affine::<FieldElement<C, Portable>>::from_numbers(Portable, &point[0], &point[1]).expect("on the curve");
        let mut base = Jacobian { x: start.x, y: start.y, z: one };
        let mut entries = Vec::new();
        for window in 0..WINDOWS {
            let step = affine(base.double(a));
            let mut multiple = base;
            for _ in 0..window_entries(window) {
                let point = affine(multiple);
                entries.push([point.x.to_number(), point.y.to_number()]);
                multiple = multiple.add(step);
            }
            let bits = window_start(window + 1) - window_start(window);
            base = (0..bits).fold(base, |base, _| base.double(a));
        }
        entries
    }

    fn pieces_make_the_table<C: PrimeCurve, P: InstructionPath>(path: P) {
        let expected = by_definition::<C>(C::GENERATOR);
        let [x, y] = &C::GENERATOR;
        let mut work =
            TableDraft::new(path, Affine::<FieldElement<C, P>>::from_numbers(path, x, y).expect("on the curve"));
        for piece in 1..=PIECES {
            let before = work.entries.len();
            assert_eq!(work.go_on::<C, P>(path), piece == PIECES);
            let grown = work.entries.len() - before;
            assert!((1..=PIECE_WINDOWS * window_entries(1)).contains(&grown), "a piece is bounded: {grown}");
            assert_eq!(numbers::<C, P>(path, &work.entries), expected[..work.entries.len()], "piece {piece}");
        }
        assert_eq!(numbers::<C, P>(path, &*work.finish()), expected);
    }

    #[test]
    fn pieces_make_every_entry_on_every_path() {
        pieces_make_the_table::<P256, _>(Portable);
        pieces_make_the_table::<Secp256k1, _>(Portable);
        #[cfg(target_arch = "x86_64")]
        if let Some(path) = Adx::detect() {
            pieces_make_the_table::<P256, _>(path);
            pieces_make_the_table::<Secp256k1, _>(path);
        }
    }
}
