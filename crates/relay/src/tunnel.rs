//! Joins two streams until either ends or both are silent for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::time::sleep;

/// A stream that records when data last arrived.
struct Active<S> {
    stream: S,
    clock: Arc<TunnelClock>,
}

struct TunnelClock {
    began: Instant,
    /// Milliseconds since `began`.
    last: AtomicU64,
}

impl TunnelClock {
    fn silence(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Active<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, out))?;
        self.clock.last.store(self.clock.began.elapsed().as_millis() as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Active<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Joins two streams; returns the bytes transferred in each direction.
pub(crate) async fn join(
    one: impl AsyncRead + AsyncWrite + Unpin,
    other: impl AsyncRead + AsyncWrite + Unpin,
    silence_max: Duration,
) -> io::Result<(u64, u64)> {
    let clock = Arc::new(TunnelClock { began: Instant::now(), last: AtomicU64::new(0) });
    let mut one = Active { stream: one, clock: Arc::clone(&clock) };
    let mut other = Active { stream: other, clock: Arc::clone(&clock) };
    let silent = async {
        loop {
            let left = silence_max.saturating_sub(clock.silence());
            if left.is_zero() {
                return;
            }
            sleep(left.max(Duration::from_millis(1))).await;
        }
    };
    tokio::select! {
        copied = copy_bidirectional(&mut one, &mut other) => copied,
        () = silent => Err(io::ErrorKind::TimedOut.into()),
    }
}
