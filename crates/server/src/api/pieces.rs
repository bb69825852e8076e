//! A body as it arrives: in pieces, so that a network thread copies each byte once, and never much at a time. What needs the body in one
//! piece gets it from a worker, which puts the pieces together, one in each step.

use std::mem;

use fieldseal_protocol::ErrorObject;

use crate::interface::{PartStep, Planned, Request, Step, Written};

/// Most bytes of a piece: what is copied at a time where a body grows, or is put together.
const PIECE_SIZE: usize = 256 << 10;

/// The pieces of a body; all but the last are full.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
    size: usize,
}

impl Pieces {
    /// Bytes of the body so far.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory that it would take with `more` bytes behind it, of a body of up to `size_max` bytes.
    pub(super) fn capacity_with(&self, more: usize, size_max: usize) -> usize {
        let room = self.last.capacity() - self.last.len();
        let kept = self.full.len() * PIECE_SIZE + self.last.capacity();
        match more.checked_sub(room) {
            None | Some(0) => kept,
            Some(_) if self.full.is_empty() && self.last.len() + more <= PIECE_SIZE => {
                self.grown(self.last.len() + more, size_max)
            }
            Some(_) => (self.size + more).div_ceil(PIECE_SIZE) * PIECE_SIZE,
        }
    }

    /// Nothing is reserved for a length that was only claimed: the first piece doubles, like every buffer.
    fn grown(&self, needed: usize, size_max: usize) -> usize {
        needed.max(2 * self.last.capacity()).min(PIECE_SIZE).min(size_max.max(needed))
    }

    /// Appends, within what [`Pieces::capacity_with`] told.
    pub(super) fn push(&mut self, mut data: &[u8], size_max: usize) {
        self.size += data.len();
        while !data.is_empty() {
            if self.last.len() == PIECE_SIZE {
                self.full.push(mem::take(&mut self.last));
            }
            let needed = (self.last.len() + data.len()).min(PIECE_SIZE);
            if needed > self.last.capacity() {
                let capacity = if self.full.is_empty() { self.grown(needed, size_max) } else { PIECE_SIZE };
                self.last.reserve_exact(capacity - self.last.len());
            }
            let (now, later) = data.split_at(needed - self.last.len());
            self.last.extend_from_slice(now);
            data = later;
        }
    }

    /// The request that `make` makes of the whole body.
    pub(super) fn into_request(
        self,
        make: impl FnOnce(Vec<u8>) -> Box<dyn Request> + Send + 'static,
    ) -> Box<dyn Request> {
        if self.full.is_empty() {
            return make(self.last);
        }
        let body = Vec::with_capacity(self.size);
        let mut pieces = self.full;
        pieces.push(self.last);
        Box::new(Gathering::Pieces { pieces: pieces.into_iter(), body, make: Some(Box::new(make)) })
    }
}

type Make = Box<dyn FnOnce(Vec<u8>) -> Box<dyn Request> + Send>;

/// A request whose body is put together before it begins.
enum Gathering {
    Pieces { pieces: std::vec::IntoIter<Vec<u8>>, body: Vec<u8>, make: Option<Make> },
    Whole(Box<dyn Request>),
}

impl Gathering {
    fn whole(&self) -> Option<&dyn Request> {
        match self {
            Gathering::Pieces { .. } => None,
            Gathering::Whole(request) => Some(&**request),
        }
    }

    fn whole_mut(&mut self) -> &mut dyn Request {
        match self {
            Gathering::Pieces { .. } => unreachable!("only what is whole spreads"),
            Gathering::Whole(request) => &mut **request,
        }
    }
}

impl Request for Gathering {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        let (pieces, body, make) = match self {
            Gathering::Whole(request) => return request.step(out),
            Gathering::Pieces { pieces, body, make } => (pieces, body, make),
        };
        match pieces.next() {
            Some(piece) => body.extend_from_slice(&piece),
            None => {
                let make = make.take().expect("it is made once");
                *self = Gathering::Whole(make(mem::take(body)));
            }
        }
        Ok(Step::More)
    }

    fn next_part(&mut self) -> Result<Planned, ErrorObject> {
        self.whole_mut().next_part()
    }

    fn step_unplanned(&mut self, out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        self.whole_mut().step_unplanned(out)
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: Written, tail: &mut Vec<u8>) {
        self.whole_mut().finish(head, written, tail);
    }

    fn too_large(&self) -> ErrorObject {
        self.whole().expect("only what is whole spreads").too_large()
    }

    fn fields(&self) -> u64 {
        self.whole().map_or(0, Request::fields)
    }

    fn memory(&self) -> usize {
        self.whole().map_or(PIECE_SIZE, Request::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with its body.
    struct Echo(Vec<u8>);

    impl Request for Echo {
        fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
            out.extend_from_slice(&self.0);
            Ok(Step::Done)
        }

        fn fields(&self) -> u64 {
            7
        }
    }

    #[test]
    fn pieces_come_together_as_they_came_and_none_is_larger_than_a_piece() {
        let size_max = 3 * PIECE_SIZE + 5;
        for (size, frame) in
            [(0, 1), (1, 1), (1000, 7), (PIECE_SIZE, 16 << 10), (PIECE_SIZE + 1, 1000), (size_max, 700_001)]
        {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut pieces = Pieces::default();
            for data in content.chunks(frame) {
                let told = pieces.capacity_with(data.len(), size_max);
                let before = pieces.full.len();
                pieces.push(data, size_max);
                let taken = pieces.full.iter().map(Vec::capacity).sum::<usize>() + pieces.last.capacity();
                assert!(taken <= told, "{taken} bytes, and told were {told}");
                assert!(told <= 2 * pieces.size() + PIECE_SIZE, "{told} for {} bytes", pieces.size());
                assert!(pieces.full[before..].iter().all(|piece| piece.len() == PIECE_SIZE));
            }
            assert_eq!(pieces.size(), size);
            let mut request = pieces.into_request(|body| Box::new(Echo(body)));
            let (mut out, mut steps) = (Vec::new(), 0);
            while request.step(&mut out).expect("no fault") == Step::More {
                steps += 1;
                assert!(out.is_empty());
            }
            assert!(out == content, "{size} bytes in frames of {frame}");
            assert_eq!(request.fields(), 7);
            assert_eq!(steps, if size > PIECE_SIZE { size.div_ceil(PIECE_SIZE) + 1 } else { 0 });
        }
    }
}
