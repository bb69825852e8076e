//! Joins a body or frame that arrived in pieces before its request begins: a worker joins a piece, or a part of a longer one, per step.

use std::mem;

use leafseal_protocol::{ErrorObject, FRAME_PIECE_SIZE, READ_SIZE};

use crate::interface::{PartStep, Planned, Request, Step, Written};

/// Bytes joined in a step: an ordinary piece.
const STEP_SIZE: usize = FRAME_PIECE_SIZE + READ_SIZE;

/// Creates the request that `make` returns for a complete body, from its pieces; they have `size` bytes in total.
pub fn gather(
    mut pieces: Vec<Vec<u8>>,
    size: usize,
    make: impl FnOnce(Vec<u8>) -> Box<dyn Request> + Send + 'static,
) -> Box<dyn Request> {
    if pieces.len() <= 1 {
        return make(pieces.pop().unwrap_or_default());
    }
    let body = Vec::with_capacity(size);
    Box::new(Gathering::Pieces { pieces: pieces.into_iter(), copied: 0, body, make: Some(Box::new(make)) })
}

type Make = Box<dyn FnOnce(Vec<u8>) -> Box<dyn Request> + Send>;

/// A request whose body is joined before it begins.
enum Gathering {
    /// `copied` counts the bytes of the first piece that are in the body already.
    Pieces {
        pieces: std::vec::IntoIter<Vec<u8>>,
        copied: usize,
        body: Vec<u8>,
        make: Option<Make>,
    },
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
        let (pieces, copied, body, make) = match self {
            Gathering::Whole(request) => return request.step(out),
            Gathering::Pieces { pieces, copied, body, make } => (pieces, copied, body, make),
        };
        match pieces.as_slice().first() {
            Some(piece) => {
                let end = piece.len().min(*copied + STEP_SIZE);
                body.extend_from_slice(&piece[*copied..end]);
                *copied = end;
                if end == piece.len() {
                    pieces.next();
                    *copied = 0;
                }
            }
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
        self.whole().map_or(FRAME_PIECE_SIZE, Request::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 1000;

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
    fn pieces_are_joined_one_per_step() {
        for size in [0, 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let pieces = content.chunks(PIECE).map(<[u8]>::to_vec).collect();
            let mut request = gather(pieces, size, |body| Box::new(Echo(body)));
            let (mut out, mut steps) = (Vec::new(), 0);
            while request.step(&mut out).expect("no fault") == Step::More {
                steps += 1;
                assert!(out.is_empty());
            }
            assert!(out == content, "{size} bytes");
            assert_eq!(request.fields(), 7);
            assert_eq!(steps, if size > PIECE { size.div_ceil(PIECE) + 1 } else { 0 });
        }
    }

    #[test]
    fn a_long_piece_takes_several_steps() {
        for size in [STEP_SIZE - 1, STEP_SIZE, STEP_SIZE + 1, 3 * STEP_SIZE] {
            let pieces = [vec![1; size], vec![2; 5]];
            let content = pieces.concat();
            let mut request = gather(pieces.to_vec(), content.len(), |body| Box::new(Echo(body)));
            let (mut out, mut steps) = (Vec::new(), 0);
            while request.step(&mut out).expect("no fault") == Step::More {
                steps += 1;
            }
            assert!(out == content, "{size} bytes");
            assert_eq!(steps, size.div_ceil(STEP_SIZE) + 2);
        }
    }
}
