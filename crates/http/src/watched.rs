//! The stream under a connection, which notes what comes and fails when the peer takes too little of what waits for it.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::Place;
use crate::progress::Progress;

/// A stream and the place of its connection, which it keeps also where it has left HTTP.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    writing: Progress,
    place: Place,
    /// Whether what is written waits for the peer, and the bytes that were written since it last did.
    is_waiting: bool,
    written: u64,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, writing: Progress, place: Place) -> Self {
        Watched { stream, writing, place, is_waiting: false, written: 0 }
    }

    /// What waits is an error once the peer has taken too little for too long.
    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>, bytes: u64) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending if self.writing.poll_overdue(cx).is_ready() => Poll::Ready(Err(ErrorKind::TimedOut.into())),
            Poll::Pending => {
                if !self.is_waiting {
                    self.is_waiting = true;
                    self.place.activity.write_waits(std::mem::take(&mut self.written));
                }
                Poll::Pending
            }
            ready => {
                self.writing.moved(bytes);
                self.written += bytes;
                if std::mem::take(&mut self.is_waiting) {
                    self.place.activity.write_goes_on();
                }
                ready
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, out);
        if out.filled().len() > before {
            self.place.activity.bytes_came();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        let written = match &polled {
            Poll::Ready(Ok(written)) => *written as u64,
            _ => 0,
        };
        self.watch(cx, polled, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, polled, 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, polled, 0)
    }
}
