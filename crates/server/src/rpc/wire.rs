//! The functions that a connection needs of its stream besides reading and writing, so that it runs over TLS on a socket as well as over
//! the memory of a simulation.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio_boring::SslStream;

use crate::rpc::gathered::GatheredSocket;

/// The size of the buffer for discarded bytes.
const DISCARD_SIZE: usize = 16 << 10;

/// The lowest layer: bytes without TLS.
#[cfg_attr(not(feature = "simulation"), expect(unreachable_pub, reason = "the simulation's sockets implement it"))]
pub trait PlainSocket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Completes when the peer has closed its side, without reading; fails if the connection failed.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl PlainSocket for TcpStream {
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match pin!(self.ready(Interest::READABLE)).poll(cx) {
            Poll::Ready(Ok(ready)) if ready.is_read_closed() => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    }
}

/// The stream that a connection reads and writes, over buffered bytes.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin {
    type Socket: PlainSocket;

    fn gathered(&self) -> &GatheredSocket<Self::Socket>;
    fn gathered_mut(&mut self) -> &mut GatheredSocket<Self::Socket>;
}

impl<S: PlainSocket> Wire for SslStream<GatheredSocket<S>> {
    type Socket = S;

    fn gathered(&self) -> &GatheredSocket<S> {
        self.get_ref()
    }

    fn gathered_mut(&mut self) -> &mut GatheredSocket<S> {
        self.get_mut()
    }
}

/// Without TLS.
#[cfg(feature = "simulation")]
impl<S: PlainSocket> Wire for GatheredSocket<S> {
    type Socket = S;

    fn gathered(&self) -> &GatheredSocket<S> {
        self
    }

    fn gathered_mut(&mut self) -> &mut GatheredSocket<S> {
        self
    }
}

/// Reads until the peer closes too. Closing a socket with unread bytes sends a reset, which can overtake the last bytes written: the peer
/// would not receive the reason. Yields after each read.
pub(crate) async fn discard(socket: &mut impl PlainSocket) -> io::Result<()> {
    let mut bytes = vec![0; DISCARD_SIZE];
    while socket.read(&mut bytes).await? > 0 {
        yield_now().await;
    }
    Ok(())
}
