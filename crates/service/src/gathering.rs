//! Joins a body or frame that arrived in pieces before its request begins: a worker joins a piece, or a part of a longer one, per step.

use std::mem;

use leafseal_protocol::{ErrorObject, FRAME_PIECE_SIZE, READ_SIZE};

use crate::work::{BegunRequest, Request, RequestStage};

/// Bytes joined in a step: an ordinary piece.
const STEP_SIZE: usize = FRAME_PIECE_SIZE + READ_SIZE;

/// Creates the request that `make` returns for a complete body, from its pieces; they have `size` bytes in total.
pub fn gather(
    mut pieces: Vec<Vec<u8>>,
    size: usize,
    make: impl FnOnce(Vec<u8>) -> RequestStage + Send + 'static,
) -> RequestStage {
    if pieces.len() <= 1 {
        return make(pieces.pop().unwrap_or_default());
    }
    let body = Vec::with_capacity(size);
    RequestStage::beginning(Gathering { pieces: pieces.into_iter(), copied: 0, body, make: Some(Box::new(make)) })
}

type Make = Box<dyn FnOnce(Vec<u8>) -> RequestStage + Send>;

/// A request whose body is joined before it begins.
struct Gathering {
    pieces: std::vec::IntoIter<Vec<u8>>,
    /// The number of bytes of the first piece that are in the body already.
    copied: usize,
    body: Vec<u8>,
    make: Option<Make>,
}

impl Request for Gathering {
    fn begin(&mut self, _out: &mut Vec<u8>) -> Result<BegunRequest, ErrorObject> {
        let Some(piece) = self.pieces.as_slice().first() else {
            let make = self.make.take().expect("it is made once");
            return Ok(BegunRequest::Next(make(mem::take(&mut self.body))));
        };
        let end = piece.len().min(self.copied + STEP_SIZE);
        self.body.extend_from_slice(&piece[self.copied..end]);
        self.copied = end;
        if end == piece.len() {
            self.pieces.next();
            self.copied = 0;
        }
        Ok(BegunRequest::More)
    }

    fn memory(&self) -> usize {
        FRAME_PIECE_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{RequestStep, RequestWork};

    const PIECE: usize = 1000;

    /// Answers with its body.
    struct Echo(Vec<u8>);

    impl RequestWork for Echo {
        fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
            out.extend_from_slice(&self.0);
            Ok(RequestStep::Done)
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
            let mut request = gather(pieces, size, |body| RequestStage::working(Echo(body)));
            let (mut out, mut steps) = (Vec::new(), 0);
            while request.step(&mut out).expect("no fault") == RequestStep::More {
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
            let mut request = gather(pieces.to_vec(), content.len(), |body| RequestStage::working(Echo(body)));
            let (mut out, mut steps) = (Vec::new(), 0);
            while request.step(&mut out).expect("no fault") == RequestStep::More {
                steps += 1;
            }
            assert!(out == content, "{size} bytes");
            assert_eq!(steps, size.div_ceil(STEP_SIZE) + 2);
        }
    }
}
