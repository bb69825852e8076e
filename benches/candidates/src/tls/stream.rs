//! A byte stream in memory between two ends of one thread: what one writes the other reads, and an empty stream
//! answers that reading would block. It costs every library the same.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    /// How many of them were read.
    read: usize,
}

/// One end.
#[derive(Clone)]
pub struct Stream {
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
}

impl Stream {
    /// Both ends of a new stream.
    pub fn pair() -> (Self, Self) {
        let (there, back) = (Rc::<RefCell<Pipe>>::default(), Rc::<RefCell<Pipe>>::default());
        (Self { incoming: back.clone(), outgoing: there.clone() }, Self { incoming: there, outgoing: back })
    }

    /// Returns the memory of the buffers, so that only that of the library is left to count.
    pub fn shrink(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            pipe.borrow_mut().bytes.shrink_to_fit();
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.incoming.borrow_mut();
        let waiting = &pipe.bytes[pipe.read..];
        let count = waiting.len().min(buffer.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[..count].copy_from_slice(&waiting[..count]);
        pipe.read += count;
        if pipe.read == pipe.bytes.len() {
            pipe.bytes.clear();
            pipe.read = 0;
        }
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.outgoing.borrow_mut().bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
