//! Messages that wait to be written.

use std::sync::Arc;

/// Small messages are combined up to about this size.
pub(crate) const WRITE_SIZE: usize = 64 << 10;

/// The bytes of a message, or of combined small ones.
pub(crate) struct Outgoing {
    head: Vec<u8>,
    /// The rest of a large message, which its sender keeps for retries: only the head differs each time.
    rest: Option<Arc<Vec<u8>>>,
}

impl Outgoing {
    /// Creates a message that `write` appends.
    pub(crate) fn new(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut head = Vec::new();
        write(&mut head);
        Outgoing { head, rest: None }
    }

    /// A copy of `message` whose first bytes are `start`; only the head is copied.
    pub(crate) fn sharing(message: &Arc<Vec<u8>>, start: &[u8]) -> Self {
        let size = message.len().min(WRITE_SIZE);
        let mut head = Vec::with_capacity(size);
        head.extend_from_slice(start);
        head.extend_from_slice(&message[start.len()..size]);
        Outgoing { head, rest: (message.len() > size).then(|| Arc::clone(message)) }
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        // Shared messages include the head, too.
        self.rest.as_ref().map_or(self.head.len(), |whole| whole.len())
    }

    /// The bytes in order, in pieces of at most `size_max`.
    pub(crate) fn pieces(&self, size_max: usize) -> impl Iterator<Item = &[u8]> {
        let rest = self.rest.as_ref().map_or(&[][..], |whole| &whole[self.head.len()..]);
        self.head.chunks(size_max).chain(rest.chunks(size_max))
    }

    /// Appends a small message to small ones: together they have at most [`WRITE_SIZE`].
    pub(crate) fn append(&mut self, small: &Outgoing) {
        debug_assert!(self.rest.is_none() && small.rest.is_none());
        self.head.extend_from_slice(&small.head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_size_are_written_whole() {
        for size in [7, 8, WRITE_SIZE - 1, WRITE_SIZE, WRITE_SIZE + 1, 3 * WRITE_SIZE + 5] {
            let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let shared = Arc::new(bytes.clone());
            let message = Outgoing::sharing(&shared, b"started");
            let mut expected = bytes;
            expected[..7].copy_from_slice(b"started");
            assert_eq!(message.size(), size);
            assert_eq!(message.pieces(1000).collect::<Vec<_>>().concat(), expected);
            assert!(message.pieces(1000).all(|piece| (1..=1000).contains(&piece.len())));
        }
    }

    #[test]
    fn small_messages_are_written_together() {
        let mut first = Outgoing::new(|out| out.extend_from_slice(b"one"));
        first.append(&Outgoing::sharing(&Arc::new(b"two".to_vec()), b"t"));
        assert_eq!(first.pieces(WRITE_SIZE).collect::<Vec<_>>(), [b"onetwo"]);
    }
}
