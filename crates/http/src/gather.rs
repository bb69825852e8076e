//! Combines the writes of an HTTP/2 connection.
//!
//! The library flushes after every frame of some size. Each flush would cause a TLS record, a system call and a packet, although the
//! answers of several streams are often ready at the same time. A flush therefore takes effect only when the connection has done everything
//! it can.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

/// Maximum bytes that are buffered before they are sent: the size of a TLS record.
const SIZE_MAX: usize = 16 << 10;

/// The stream that the HTTP library uses. Clones share it: the code that drives the connection sends what was gathered.
#[derive(Debug)]
pub(crate) struct GatheredStream<S>(Arc<Mutex<SharedStream<S>>>);

#[derive(Debug)]
struct SharedStream<S> {
    stream: BufWriter<S>,
    /// The error of a flush, to be returned to the library.
    failure: Option<io::Error>,
}

impl<S> Clone for GatheredStream<S> {
    fn clone(&self) -> Self {
        GatheredStream(Arc::clone(&self.0))
    }
}

impl<S: AsyncWrite> GatheredStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        let stream = BufWriter::with_capacity(SIZE_MAX, stream);
        GatheredStream(Arc::new(Mutex::new(SharedStream { stream, failure: None })))
    }

    fn lock(&self) -> MutexGuard<'_, SharedStream<S>> {
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
pub(crate) trait GatheredWriter {
    /// Sends the bytes; completes when none are left. If it fails, the connection is woken to handle the error.
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<()>;
}

/// For connections that buffer nothing.
impl GatheredWriter for () {
    fn poll_send(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl<S: AsyncWrite + Unpin> GatheredWriter for GatheredStream<S> {
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for GatheredStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, out))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GatheredStream<S> {
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

    /// Ignored, because the library flushes too often.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|_| Poll::Ready(Ok(())))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}
