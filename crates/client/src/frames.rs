//! Cuts the answers out of the byte stream. Nothing is scanned twice, and a large answer leaves with its buffer.

use fieldseal_protocol::{FrameError, Limits, Scanner};

/// The room offered to one read: the largest TLS record (RFC 8446, section 5.1).
const READ_SIZE: usize = 16_384;

pub(crate) struct FrameBuffer {
    /// Begins with the frame that is looked for.
    bytes: Vec<u8>,
    scanner: Scanner,
}

impl FrameBuffer {
    pub(crate) fn new(limits: Limits) -> Self {
        FrameBuffer { bytes: Vec::new(), scanner: Scanner::new(limits) }
    }

    /// The buffer to append what is read to. It grows with what has arrived, never by what the peer claims.
    pub(crate) fn spare(&mut self) -> &mut Vec<u8> {
        let size = self.bytes.len();
        if self.bytes.capacity() - size < READ_SIZE {
            let missing = self.scanner.frame_size_min().saturating_sub(size);
            self.bytes.reserve_exact(missing.clamp(READ_SIZE, size.max(READ_SIZE)));
        }
        &mut self.bytes
    }

    /// Passes each whole frame among the bytes read so far to `take`, which says whether to go on.
    pub(crate) fn take_frames<E: From<FrameError>>(
        &mut self,
        mut take: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = 0;
        while let Some(size) = self.scanner.scan(&self.bytes[start..])? {
            if start == 0 && size >= READ_SIZE {
                let rest = self.bytes.split_off(size);
                take(std::mem::replace(&mut self.bytes, rest))?;
                continue;
            }
            let end = start + size;
            take(self.bytes[start..end].to_vec())?;
            start = end;
        }
        self.bytes.drain(..start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fieldseal_protocol::write;

    #[test]
    fn frames_come_out_however_they_arrive() {
        let frames: Vec<Vec<u8>> = [0, 1, 300, 70_000, 2, READ_SIZE]
            .into_iter()
            .map(|size| {
                let mut frame = Vec::new();
                write::binary(&vec![7; size], &mut frame);
                frame
            })
            .collect();
        let stream = frames.concat();
        for piece in [1, 2, 1000, READ_SIZE, stream.len()] {
            let mut buffer = FrameBuffer::new(Limits::default());
            let mut found = Vec::new();
            for bytes in stream.chunks(piece) {
                buffer.spare().extend_from_slice(bytes);
                let taken = buffer.take_frames(|frame| {
                    found.push(frame);
                    Ok::<_, FrameError>(())
                });
                taken.unwrap();
            }
            assert!(found == frames, "pieces of {piece}");
            assert!(buffer.bytes.is_empty());
        }
    }
}
