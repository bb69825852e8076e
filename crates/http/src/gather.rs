//! Gathers the writes of an HTTP/2 connection in one turn and sends them together.
//!
//! The library flushes after every frame of some size. Each would be a TLS record, a system call and a packet of its own, though the
//! answers of several streams are mostly ready at the same time. So a flush only counts once the connection has done all it can.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

/// Bytes that are gathered at most before they go out: the most that a TLS record holds.
const SIZE_MAX: usize = 16 << 10;

/// The stream that the HTTP library uses. Clones share it: the code that drives the connection sends what was gathered.
#[derive(Debug)]
pub(crate) struct Gathered<S>(Arc<Mutex<Shared<S>>>);

#[derive(Debug)]
struct Shared<S> {
    stream: BufWriter<S>,
    /// The error of a flush, to be returned to the library.
    failure: Option<io::Error>,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Gathered(Arc::clone(&self.0))
    }
}

impl<S: AsyncWrite> Gathered<S> {
    pub(crate) fn new(stream: S) -> Self {
        let stream = BufWriter::with_capacity(SIZE_MAX, stream);
        Gathered(Arc::new(Mutex::new(Shared { stream, failure: None })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared<S>> {
        self.0.lock().expect("nothing panics while this is locked")
    }

    fn with<T>(&self, then: impl FnOnce(Pin<&mut BufWriter<S>>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>>
    where
        S: Unpin,
    {
        let mut shared = self.lock();
        match shared.failure.take() {
            Some(failure) => Poll::Ready(Err(failure)),
            None => then(Pin::new(&mut shared.stream)),
        }
    }
}

/// Sends the bytes that a connection has gathered.
pub(crate) trait Outbox {
    /// Sends them: ready when there are none left. Where that fails the connection is woken to find out.
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<()>;
}

/// For connections that gather nothing.
impl Outbox for () {
    fn poll_send(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl<S: AsyncWrite + Unpin> Outbox for Gathered<S> {
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.lock();
        if shared.failure.is_some() {
            return Poll::Ready(());
        }
        Pin::new(&mut shared.stream).poll_flush(cx).map(|sent| {
            if let Err(failure) = sent {
                shared.failure = Some(failure);
                cx.waker().wake_by_ref();
            }
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, out))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Of the library's flushes there are too many.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|_| Poll::Ready(Ok(())))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}
