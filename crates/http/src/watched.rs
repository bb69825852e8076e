//! The stream under a connection: records its traffic, yields to other connections, and fails when the peer reads too slowly.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use leafseal_net::BulkMember;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::{ActivitySlot, TurnOwner};
use crate::slow_peer::PeerProgress;

/// Bytes read or written before other connections are served: some tens of microseconds of TLS. The HTTP library and the runtime limit a
/// turn by the number of reads and writes, so a connection that is always ready could move megabytes in one turn.
const TURN_BYTES_MAX: usize = 64 << 10;

/// A stream with the slot of its connection, which it keeps after a switch to another protocol.
#[derive(Debug)]
pub(crate) struct WatchedStream<S> {
    stream: S,
    writing: PeerProgress,
    slot: ActivitySlot,
    /// Whether written output waits for the peer, and the bytes written since it last did.
    is_waiting: bool,
    written: u64,
    reads: StreamDirection,
    writes: StreamDirection,
}

/// One direction of a stream. Each has its own turns, because different tasks may wait for them.
#[derive(Debug)]
struct StreamDirection {
    turns: BulkMember<TurnOwner>,
    /// Bytes moved in this turn.
    moved: usize,
}

impl StreamDirection {
    fn new(slot: &ActivitySlot) -> Self {
        StreamDirection { turns: slot.turns(), moved: 0 }
    }

    /// Ready during this turn. Once enough bytes were moved in it, the connection is served again after all others that are ready.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.turns.poll_turn(cx));
        if self.moved < TURN_BYTES_MAX {
            return Poll::Ready(());
        }
        self.moved = 0;
        self.turns.end_turn(cx);
        Poll::Pending
    }

    /// Records what was moved. A stream that is not ready ends the turn by itself.
    fn note<T>(&mut self, polled: &Poll<T>, bytes: usize) {
        self.moved = if polled.is_pending() { 0 } else { self.moved + bytes };
    }
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S, writing: PeerProgress, slot: ActivitySlot) -> Self {
        let (reads, writes) = (StreamDirection::new(&slot), StreamDirection::new(&slot));
        WatchedStream { stream, writing, slot, is_waiting: false, written: 0, reads, writes }
    }

    /// Turns a pending operation into an error once the peer has been too slow for too long.
    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>, bytes: u64) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending if self.writing.poll_overdue(cx).is_ready() => Poll::Ready(Err(ErrorKind::TimedOut.into())),
            Poll::Pending => {
                if !self.is_waiting {
                    self.is_waiting = true;
                    self.slot.activity.write_waits(std::mem::take(&mut self.written));
                }
                Poll::Pending
            }
            ready => {
                self.writing.moved(bytes);
                self.written += bytes;
                if std::mem::take(&mut self.is_waiting) {
                    self.slot.activity.write_progressed();
                }
                ready
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.reads.poll_turn(cx));
        let before = out.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, out);
        let came = out.filled().len() - before;
        self.reads.note(&polled, came);
        if came > 0 {
            self.slot.activity.bytes_received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.writes.poll_turn(cx));
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        let written = match &polled {
            Poll::Ready(Ok(written)) => *written,
            _ => 0,
        };
        self.writes.note(&polled, written);
        self.watch(cx, polled, written as u64)
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};
    use std::time::Duration;

    use leafseal_net::ClientBound;
    use tokio::io::AsyncWriteExt;
    use tokio::task::yield_now;

    use super::*;
    use crate::activity::Registry;

    const PIECE: usize = 16 << 10;

    /// A stream that is always ready.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            out.put_slice(&[7; PIECE][..out.remaining().min(PIECE)]);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len().min(PIECE)))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn watched<S>(stream: S) -> WatchedStream<S> {
        let registry = Arc::new(Registry::new(1, ClientBound { connections_max: 1, trusted_balancers: Vec::new() }));
        let slot = registry.take_inner().expect("the only connection");
        WatchedStream::new(stream, PeerProgress::new(Duration::from_secs(1), 1), slot)
    }

    /// Bytes moved before each pause, of four turns.
    async fn turns(mut step: impl FnMut(&mut Context<'_>) -> Poll<usize>) -> Vec<usize> {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut turns = Vec::new();
        for turn in 1..=4 {
            let mut moved = 0;
            while let Poll::Ready(bytes) = step(&mut Context::from_waker(&waker)) {
                moved += bytes;
                assert!(moved <= 1 << 30, "the turn ends");
            }
            assert!(step(&mut Context::from_waker(&waker)).is_pending(), "others come first");
            while woken.0.load(Ordering::Relaxed) < turn {
                yield_now().await;
            }
            turns.push(moved);
        }
        turns
    }

    #[tokio::test]
    async fn a_stream_that_is_always_ready_lets_others_have_their_turn() {
        let mut stream = watched(Endless);
        let read = turns(|cx| {
            let mut bytes = [0; PIECE];
            let mut out = ReadBuf::new(&mut bytes);
            Pin::new(&mut stream).poll_read(cx, &mut out).map(|read| {
                read.expect("it is endless");
                out.filled().len()
            })
        })
        .await;
        assert_eq!(read, [TURN_BYTES_MAX; 4]);
        let written = turns(|cx| Pin::new(&mut stream).poll_write(cx, &[0; 3 * PIECE]).map(Result::unwrap)).await;
        assert_eq!(written, [TURN_BYTES_MAX; 4]);
    }

    #[tokio::test]
    async fn a_stream_that_was_waited_for_starts_a_new_turn() {
        let (near, mut far) = tokio::io::duplex(PIECE);
        let mut stream = watched(near);
        for _ in 0..2 * TURN_BYTES_MAX / PIECE {
            far.write_all(&[0; PIECE]).await.expect("there is room");
            let mut bytes = [0; PIECE];
            let mut out = ReadBuf::new(&mut bytes);
            let mut poll = async |out: &mut ReadBuf<'_>| {
                poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_read(cx, out).is_ready())).await
            };
            assert!(poll(&mut out).await, "no turn ends here");
            out.clear();
            assert!(!poll(&mut out).await, "nothing is left");
        }
    }
}
