//! A body as it arrives: in pieces, so that a network thread copies each byte once, and never many at a time. Code that needs the body in
//! one buffer joins the pieces elsewhere.

use std::mem;

/// Maximum size of a piece, and thus of what is copied at once when a body grows or is joined.
pub const BODY_PIECE_SIZE: usize = 256 << 10;

/// The pieces of a body; all but the last are full.
#[derive(Debug, Default)]
pub struct Pieces {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
    size: usize,
}

impl Pieces {
    /// The size of the body so far.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The memory of the body with `more` bytes appended, for a body of up to `size_max` bytes.
    pub fn capacity_with(&self, more: usize, size_max: usize) -> usize {
        let room = self.last.capacity() - self.last.len();
        let kept = self.full.len() * BODY_PIECE_SIZE + self.last.capacity();
        match more.checked_sub(room) {
            None | Some(0) => kept,
            Some(_) if self.full.is_empty() && self.last.len() + more <= BODY_PIECE_SIZE => {
                self.grown(self.last.len() + more, size_max)
            }
            Some(_) => (self.size + more).div_ceil(BODY_PIECE_SIZE) * BODY_PIECE_SIZE,
        }
    }

    /// Nothing is reserved for an announced length: the first piece doubles, like any buffer.
    fn grown(&self, needed: usize, size_max: usize) -> usize {
        needed.max(2 * self.last.capacity()).min(BODY_PIECE_SIZE).min(size_max.max(needed))
    }

    /// Appends, within the memory that [`Pieces::capacity_with`] returned.
    pub fn push(&mut self, mut data: &[u8], size_max: usize) {
        self.size += data.len();
        while !data.is_empty() {
            if self.last.len() == BODY_PIECE_SIZE {
                self.full.push(mem::take(&mut self.last));
            }
            let needed = (self.last.len() + data.len()).min(BODY_PIECE_SIZE);
            if needed > self.last.capacity() {
                let capacity = if self.full.is_empty() { self.grown(needed, size_max) } else { BODY_PIECE_SIZE };
                self.last.reserve_exact(capacity - self.last.len());
            }
            let (now, later) = data.split_at(needed - self.last.len());
            self.last.extend_from_slice(now);
            data = later;
        }
    }

    /// The pieces in order. A body of one piece is that piece.
    pub fn into_vec(self) -> Vec<Vec<u8>> {
        let mut pieces = self.full;
        pieces.push(self.last);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_the_order_and_none_is_larger_than_a_piece() {
        let size_max = 3 * BODY_PIECE_SIZE + 5;
        for (size, frame) in
            [(0, 1), (1, 1), (1000, 7), (BODY_PIECE_SIZE, 16 << 10), (BODY_PIECE_SIZE + 1, 1000), (size_max, 700_001)]
        {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut pieces = Pieces::default();
            for data in content.chunks(frame) {
                let reported = pieces.capacity_with(data.len(), size_max);
                let before = pieces.full.len();
                pieces.push(data, size_max);
                let taken = pieces.full.iter().map(Vec::capacity).sum::<usize>() + pieces.last.capacity();
                assert!(taken <= reported, "{taken} bytes, but {reported} were reported");
                assert!(reported <= 2 * pieces.size() + BODY_PIECE_SIZE, "{reported} for {} bytes", pieces.size());
                assert!(pieces.full[before..].iter().all(|piece| piece.len() == BODY_PIECE_SIZE));
            }
            assert_eq!(pieces.size(), size);
            let pieces = pieces.into_vec();
            assert_eq!(pieces.len(), size.div_ceil(BODY_PIECE_SIZE).max(1));
            assert!(pieces.concat() == content, "{size} bytes in frames of {frame}");
        }
    }
}
