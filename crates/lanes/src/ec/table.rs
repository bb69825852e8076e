//! A fixed point's table: for each window, the odd multiples of the point times 2 to the window's start.

use super::curve::Curve;
use super::element::{Element, invert_all};
use super::path::Path;
use super::point::{Affine, Jacobian};
use super::scalar::{WINDOWS, window_entries, window_start};

/// x and y of a point, in the form that its curve keeps elements in. One line of a cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Entry(pub(super) [u64; 8]);

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

impl Entry {
    pub(super) const ZERO: Self = Self([0; 8]);

    fn new<C: Curve, P: Path>(point: Affine<Element<C, P>>) -> Self {
        let ([x0, x1, x2, x3], [y0, y1, y2, y3]) = (point.x.words(), point.y.words());
        Self([x0, x1, x2, x3, y0, y1, y2, y3])
    }

    #[inline(always)]
    pub(super) fn point<C: Curve, P: Path>(&self, path: P) -> Affine<Element<C, P>> {
        let [x0, x1, x2, x3, y0, y1, y2, y3] = self.0;
        Affine { x: Element::new(path, [x0, x1, x2, x3]), y: Element::new(path, [y0, y1, y2, y3]) }
    }
}

/// The entries of a window.
#[inline(always)]
pub(super) fn window(table: &[Entry; ENTRIES], window: usize) -> &[Entry] {
    &table[OFFSETS[window]..OFFSETS[window + 1]]
}

/// Fills a table. Not constant time: points are public. No exceptional addition: the sums are of different small multiples of one point.
#[inline(always)]
pub(super) fn build<C: Curve, P: Path>(path: P, point: Affine<Element<C, P>>) -> Box<[Entry; ENTRIES]> {
    let (a, one) = (Element::from_number(path, &C::A), Element::one(path));
    // The base of each window and its double, which is the step between entries.
    let mut bases = Vec::with_capacity(2 * WINDOWS);
    let mut power = Jacobian { x: point.x, y: point.y, z: one };
    for window in 0..WINDOWS {
        bases.push(power);
        power = power.double(a);
        bases.push(power);
        let next = if window + 1 < WINDOWS { window_start(window + 1) } else { 256 };
        for _ in window_start(window) + 1..next {
            power = power.double(a);
        }
    }
    let bases = to_affine(&bases);
    let mut multiples = Vec::with_capacity(ENTRIES);
    for (window, pair) in bases.chunks_exact(2).enumerate() {
        let mut multiple = Jacobian { x: pair[0].x, y: pair[0].y, z: one };
        multiples.push(multiple);
        // The first sum is a base and its double, and no other sum has an equal part either.
        for _ in 1..window_entries(window) {
            multiple = multiple.add(pair[1]);
            multiples.push(multiple);
        }
    }
    let entries: Vec<Entry> = to_affine(&multiples).into_iter().map(Entry::new).collect();
    entries.into_boxed_slice().try_into().expect("as many as the windows have")
}

fn to_affine<C: Curve, P: Path>(points: &[Jacobian<Element<C, P>>]) -> Vec<Affine<Element<C, P>>> {
    let mut inverses: Vec<Element<C, P>> = points.iter().map(|point| point.z).collect();
    let mut products = inverses.clone();
    invert_all(&mut inverses, &mut products);
    points.iter().zip(inverses).map(|(point, inverse)| point.to_affine(inverse)).collect()
}
