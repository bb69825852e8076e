//! One connection: a task that reads and writes it, separate from its callers.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leafseal_protocol::{FrameBuffer, FrameError, FrameLimits, GoingAway, Message, READ_SIZE};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::error::{ClientError, RequestProgress};
use crate::places::DialTarget;
use crate::shared::{ConnectionShared, WriterAction};
use crate::tls::explain_read;

/// How long to wait for the reason of a broken connection: the engine sends it before it closes, while our writes fail at once.
const CLOSE_REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for an abandoned connection to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes read or written in one turn before other tasks of the thread run: some tens of microseconds of TLS.
const TURN_BYTES_MAX: usize = 64 << 10;

/// The transport of a connection: TLS on a socket, or the memory of a simulation.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for S {}

/// A connection in use. Its task ends when this is dropped, after it has written queued messages.
pub(crate) struct Connection {
    pub(crate) shared: Arc<ConnectionShared>,
    pub(crate) place: DialTarget,
}

impl Connection {
    /// Starts the task. Must be called within a tokio runtime, which drives the connection. No call begins on it once the time for which
    /// the engine's certificates are valid is over.
    pub(crate) fn spawn<S: Transport>(
        stream: S,
        place: DialTarget,
        shared: ConnectionShared,
        limits: FrameLimits,
        valid_for: Option<Duration>,
    ) -> Self {
        let shared = Arc::new(shared);
        tokio::spawn(drive(stream, Arc::clone(&shared), limits, valid_for));
        Connection { shared, place }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Fails the calls in flight however the task ends, including the end of its runtime.
struct FailOnDrop(Arc<ConnectionShared>);

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        self.0.fail(ClientError::lost(RequestProgress::Maybe, "the connection's task has ended"));
    }
}

async fn drive<S: Transport>(
    stream: S,
    shared: Arc<ConnectionShared>,
    limits: FrameLimits,
    valid_for: Option<Duration>,
) {
    let shared = FailOnDrop(shared);
    let (reader, writer) = tokio::io::split(stream);
    let mut reading = pin!(read(reader, &shared.0, limits));
    let writing = pin!(write(writer, &shared.0));
    // In a fixed order, so that a simulation can be replayed.
    let error = tokio::select! {
        biased;
        error = &mut reading => error,
        error = shared.0.watch() => error,
        error = drain_after(valid_for, &shared.0) => error,
        written = writing => match written {
            Ok(()) => ClientError::lost(RequestProgress::No, "the connection was closed"),
            Err(broken) => {
                let error = ClientError::lost(RequestProgress::Maybe, format!("the connection broke: {broken}"));
                timeout(CLOSE_REASON_TIMEOUT, reading).await.unwrap_or(error)
            }
        },
    };
    shared.0.fail(error);
}

/// Drains the connection after this time: calls in flight finish, none begins. Never returns.
async fn drain_after(valid_for: Option<Duration>, shared: &ConnectionShared) -> ClientError {
    if let Some(left) = valid_for {
        sleep(left).await;
        shared.drain(GoingAway::Age);
    }
    pending().await
}

/// Reads until the connection ends; returns why.
async fn read<S: Transport>(mut reader: ReadHalf<S>, shared: &ConnectionShared, limits: FrameLimits) -> ClientError {
    let mut frames = FrameBuffer::new(limits);
    let mut turn = TURN_BYTES_MAX;
    let mut discarded = None;
    loop {
        if discarded.is_none() {
            reserve_whole(&mut frames, shared);
            discarded = discard_unwanted(&mut frames, shared);
        }
        match reader.read_buf(frames.spare()).await {
            Ok(0) => return ClientError::lost(RequestProgress::Maybe, "the engine closed the connection"),
            Ok(size) => turn = turn.saturating_sub(size),
            Err(error) => return explain_read(error),
        }
        if turn == 0 {
            turn = TURN_BYTES_MAX;
            yield_now().await;
        }
        if let Err(error) = deliver_frames(&mut frames, &mut discarded, shared) {
            return error;
        }
    }
}

/// Reserves contiguous memory for a large answer, which saves copies, if its call is waiting and has no limit on memory.
fn reserve_whole(frames: &mut FrameBuffer, shared: &ConnectionShared) {
    if frames.capacity_for_whole().is_some()
        && let Ok(Message::Response { id, .. }) = Message::parse(frames.partial_head())
        && shared.is_unlimited(id)
    {
        frames.reserve_whole();
    }
}

/// Charges the memory of a large answer to its call before the answer grows. If the call refuses, or was dropped, the answer is discarded
/// while it arrives, and its id is returned.
fn discard_unwanted(frames: &mut FrameBuffer, shared: &ConnectionShared) -> Option<u32> {
    if frames.partial_size() < READ_SIZE {
        return None;
    }
    let Ok(Message::Response { id, .. }) = Message::parse(frames.partial_head()) else { return None };
    if shared.wants(id, frames.capacity_with_spare()) {
        return None;
    }
    frames.discard_partial();
    Some(id)
}

fn deliver_frames(
    frames: &mut FrameBuffer,
    discarded: &mut Option<u32>,
    shared: &ConnectionShared,
) -> Result<(), ClientError> {
    while let Some(frame) = frames.next_frame()? {
        match discarded.take() {
            Some(id) => shared.discarded(id),
            None => shared.deliver(frame)?,
        }
    }
    Ok(())
}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> Self {
        ClientError::protocol(format!("the engine sent an invalid frame: {error}"))
    }
}

/// Writes queued messages and flushes when there are no more, until the connection is closed.
async fn write<S: Transport>(mut writer: WriteHalf<S>, shared: &ConnectionShared) -> io::Result<()> {
    loop {
        match shared.next_write() {
            WriterAction::Write(message) => {
                for (turn, piece) in message.pieces(TURN_BYTES_MAX).enumerate() {
                    if turn > 0 {
                        yield_now().await;
                    }
                    writer.write_all(piece).await?;
                }
            }
            WriterAction::Wait => {
                writer.flush().await?;
                shared.wait_to_write().await;
            }
            WriterAction::Close => {
                // A peer that does not read must not delay us.
                let _ = timeout(CLOSE_TIMEOUT, writer.shutdown()).await;
                return Ok(());
            }
        }
    }
}
