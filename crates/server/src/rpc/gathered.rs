//! Buffers a socket: one large read instead of many small ones, one large write instead of one per TLS record.
//!
//! BoringSSL reads a record in two parts, header and body, and writes each record immediately. This stream buffers both directions between
//! TLS and the socket, but only while a buffer has content: an idle connection has neither.

use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Bytes requested from the socket in one read: about four TLS records.
const READ_AHEAD: usize = 64 << 10;
/// Bytes buffered before they are written without a flush.
const WRITE_BEHIND: usize = 64 << 10;

pub(crate) struct GatheredSocket<S> {
    socket: S,
    read: Vec<u8>,
    /// Bytes of `read` that were returned.
    read_position: usize,
    write: Vec<u8>,
    /// Bytes of `write` that the socket has accepted.
    write_position: usize,
    bytes_taken: u64,
    bytes_given: u64,
}

impl<S> GatheredSocket<S> {
    pub(crate) fn new(socket: S) -> Self {
        GatheredSocket {
            socket,
            read: Vec::new(),
            read_position: 0,
            write: Vec::new(),
            write_position: 0,
            bytes_taken: 0,
            bytes_given: 0,
        }
    }

    pub(crate) fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Bytes that the socket has accepted since the start, including a part of the buffer.
    pub(crate) fn bytes_taken(&self) -> u64 {
        self.bytes_taken
    }

    /// Bytes read from the socket since the start, including a part of the buffer.
    pub(crate) fn bytes_given(&self) -> u64 {
        self.bytes_given
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> GatheredSocket<S> {
    /// Writes the buffer to the socket.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.write_position < self.write.len() {
            let rest = &self.write[self.write_position..];
            match ready!(Pin::new(&mut self.socket).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => {
                    self.write_position += written;
                    self.bytes_taken += written as u64;
                }
            }
        }
        self.write.clear();
        self.write_position = 0;
        Poll::Ready(Ok(()))
    }

    /// Fills the empty read buffer; it stays empty at the end of the stream.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.read.clear();
        self.read_position = 0;
        self.read.reserve_exact(READ_AHEAD);
        let read = pin!(self.socket.read_buf(&mut self.read)).poll(cx);
        if read.is_pending() {
            self.read = Vec::new();
        }
        self.bytes_given += self.read.len() as u64;
        read.map_ok(|_| ())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for GatheredSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read_position == self.read.len() {
            ready!(self.poll_read_ahead(cx))?;
        }
        let rest = &self.read[self.read_position..];
        let size = rest.len().min(out.remaining());
        out.put_slice(&rest[..size]);
        self.read_position += size;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for GatheredSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.write.len() >= WRITE_BEHIND {
            ready!(self.poll_write_out(cx))?;
        }
        self.write.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        self.write = Vec::new();
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Omits the buffers: they are ciphertext, but need not be logged.
impl<S> fmt::Debug for GatheredSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    #[tokio::test]
    async fn bytes_pass_in_order_and_buffers_go_when_empty() {
        let (near, mut far) = duplex(1000);
        let mut near = GatheredSocket::new(near);
        let sent: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
        let expected = sent.clone();
        let echo = tokio::spawn(async move {
            let mut got = vec![0; 300_000];
            far.read_exact(&mut got).await.unwrap();
            assert!(got == expected);
            far.write_all(&got).await.unwrap();
            far
        });
        for bytes in sent.chunks(777) {
            near.write_all(bytes).await.unwrap();
        }
        near.flush().await.unwrap();
        assert_eq!(near.write.capacity(), 0);
        let mut back = vec![0; 300_000];
        near.read_exact(&mut back).await.unwrap();
        assert!(back == sent);
        assert_eq!((near.bytes_taken(), near.bytes_given()), (300_000, 300_000));

        let mut one = [0];
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(10), near.read(&mut one));
        assert!(waiting.await.is_err());
        assert_eq!(near.read.capacity(), 0);
        drop(echo.await.unwrap());
        assert_eq!(near.read(&mut one).await.unwrap(), 0);
    }

    /// A peer that reads slowly makes visible progress long before the whole buffer is sent.
    #[tokio::test]
    async fn every_byte_that_the_socket_takes_counts_at_once() {
        let (near, mut far) = duplex(1000);
        let mut near = GatheredSocket::new(near);
        near.write_all(&[1; 50_000]).await.unwrap();
        assert_eq!(near.bytes_taken(), 0);
        let mut got = [0; 100];
        for round in 0..20 {
            let flushing = tokio::time::timeout(std::time::Duration::from_millis(2), near.flush());
            assert!(flushing.await.is_err());
            assert_eq!(near.bytes_taken(), 1000 + 100 * round);
            far.read_exact(&mut got).await.unwrap();
        }
    }

    #[tokio::test]
    async fn writes_wait_until_they_are_flushed() {
        let (near, mut far) = duplex(1 << 20);
        let mut near = GatheredSocket::new(near);
        near.write_all(&[1; 1000]).await.unwrap();
        let mut got = vec![0; 1000];
        let early = tokio::time::timeout(std::time::Duration::from_millis(10), far.read_exact(&mut got));
        assert!(early.await.is_err());
        near.shutdown().await.unwrap();
        far.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.iter().filter(|byte| **byte == 1).count(), 1000);
    }
}
