//! Bodies that are read as a whole, within a bound for each and one for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fieldseal_http::BodyError;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};

use crate::refusal::{Direction, Refusal};

/// Room for all bodies that are held at a time.
#[derive(Debug)]
pub(crate) struct Room {
    left: AtomicUsize,
}

/// A piece of the room; free again when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    size: usize,
}

impl Room {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Room { left: AtomicUsize::new(size) })
    }

    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { room: Arc::clone(self), size: 0 }
    }
}

impl Share {
    /// Takes more.
    ///
    /// # Errors
    /// Where there is not so much left.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), Refusal> {
        let take = |left: usize| left.checked_sub(size);
        match self.room.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => {
                self.size += size;
                Ok(())
            }
            Err(_) => Err(Refusal::unavailable("relay-overloaded", "the relay holds too many bodies at a time", None)),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.size, Ordering::Relaxed);
    }
}

/// Reads a body to its end. Trailers are dropped.
///
/// # Errors
/// It is too large, or breaks off.
pub(crate) async fn read_whole<B>(
    body: B,
    direction: Direction,
    size_max: usize,
    share: &mut Share,
) -> Result<Vec<u8>, Refusal>
where
    B: Body<Data = Bytes, Error = BodyError> + Unpin,
{
    let expected = body.size_hint().exact().map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if expected > size_max {
        return Err(Refusal::too_large(direction, size_max));
    }
    let mut body = body;
    // Room is taken as the bytes come, not by what somebody claims.
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::unreadable(direction, error))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > size_max {
            return Err(Refusal::too_large(direction, size_max));
        }
        share.grow(data.len())?;
        if whole.is_empty() {
            whole.reserve_exact(expected.min(1 << 20).max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole)
}
