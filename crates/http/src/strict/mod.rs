//! Validates HTTP/1.1 from clients before the HTTP library reads it.
//!
//! The library accepts what it can parse; a proxy must refuse what the next parser could delimit differently. The [`FramingScanner`]
//! follows the framing independently and stops at the first byte that deviates from RFC 9112. [`Strict`] is between socket and
//! library: unscanned bytes are not passed on.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod scanner;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use scanner::{FramingScanner, RefusedFraming, Scan, ScannerState};

/// Bytes read at a time.
const READ_SIZE: usize = 16 << 10;
/// Bytes that the library does not accept as a request: it answers 400 and closes.
const POISON: &[u8] = b"\0\r\n\r\n";

/// Whether a request for another protocol was granted: set by the handler, awaited by the reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpgradeDecision(Arc<Mutex<Decided>>);

#[derive(Debug, Default)]
struct Decided {
    is_taken: Option<bool>,
    waiting: Option<Waker>,
}

impl UpgradeDecision {
    fn lock(&self) -> MutexGuard<'_, Decided> {
        self.0.lock().expect("nothing panics while this is locked")
    }

    pub(crate) fn decide(&self, is_taken: bool) {
        let mut decided = self.lock();
        decided.is_taken = Some(is_taken);
        if let Some(waiting) = decided.waiting.take() {
            waiting.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<bool> {
        let mut decided = self.lock();
        match decided.is_taken.take() {
            Some(is_taken) => Poll::Ready(is_taken),
            None => {
                decided.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// An HTTP/1.1 connection of a client.
#[derive(Debug)]
pub(crate) struct Strict<S> {
    stream: S,
    scanner: FramingScanner,
    decision: UpgradeDecision,
    /// Bytes read but not passed on; the first `passed` of them may be.
    buffer: BytesMut,
    passed: usize,
    head_size_max: usize,
    refused: Option<RefusedFraming>,
    is_over: bool,
}

impl<S> Strict<S> {
    pub(crate) fn new(stream: S, decision: UpgradeDecision, head_size_max: usize) -> Self {
        Strict {
            stream,
            scanner: FramingScanner::new(),
            decision,
            buffer: BytesMut::new(),
            passed: 0,
            head_size_max,
            refused: None,
            is_over: false,
        }
    }

    fn scan(&mut self) {
        match self.scanner.scan(&self.buffer[self.passed..]) {
            Scan::Passed(size) => self.passed += size,
            Scan::Refused(size, reason) => {
                self.passed += size;
                self.buffer.truncate(self.passed);
                if self.scanner.state == ScannerState::Head {
                    self.buffer.extend_from_slice(POISON);
                    self.passed = self.buffer.len();
                }
                self.refused = Some(reason);
            }
        }
        let is_in_lines = matches!(self.scanner.state, ScannerState::Head | ScannerState::Trailers);
        if is_in_lines && self.buffer.len() - self.passed > self.head_size_max {
            // The library reports which limit was exceeded.
            self.passed = self.buffer.len();
        }
    }

    fn give(&mut self, out: &mut ReadBuf<'_>) {
        let size = self.passed.min(out.remaining());
        out.put_slice(&self.buffer[..size]);
        self.buffer.advance(size);
        self.passed -= size;
        if self.buffer.is_empty() && self.buffer.capacity() > 2 * READ_SIZE {
            self.buffer = BytesMut::new();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.passed > 0 {
                this.give(out);
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = this.refused {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
            }
            match this.scanner.state {
                ScannerState::Undecided => {
                    let is_taken = ready!(this.decision.poll(context));
                    this.scanner.decide(is_taken);
                    this.scan();
                    continue;
                }
                // Everything in the buffer has been passed on by now.
                ScannerState::Foreign => return Pin::new(&mut this.stream).poll_read(context, out),
                _ if this.is_over => return Poll::Ready(Ok(())),
                _ => {}
            }
            this.buffer.reserve(READ_SIZE);
            match ready!(poll_read_buf(Pin::new(&mut this.stream), context, &mut this.buffer))? {
                // An incomplete head gets no end.
                0 => this.is_over = true,
                _ => this.scan(),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
