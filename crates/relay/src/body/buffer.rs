//! Buffered bodies, limited in size per body, per client and in total, and in time. Memory is charged before it is allocated, while a body
//! grows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use leafseal_client::AnswerMemory;
use leafseal_errors::ErrorCode;
use leafseal_http::{BodyError, Pieces};
use leafseal_net::client_of;
use tokio::time::timeout;

use crate::body::offload::{Cost, Offload};
use crate::config::Limits;
use crate::refusal::{Direction, Refusal};

/// The memory budget of all bodies that are buffered at the same time.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    taken: Mutex<TakenBytes>,
}

#[derive(Debug)]
struct TakenBytes {
    size_max: usize,
    client_size_max: usize,
    all: usize,
    /// Clients with charged memory, in bytes.
    clients: HashMap<IpAddr, usize>,
    /// The peak of the buffered bytes.
    most: usize,
}

/// Bytes of the budget.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Taken now.
    pub(crate) held: usize,
    /// The most that was taken at a time.
    pub(crate) most: usize,
    pub(crate) max: usize,
}

/// A part of the budget; free again when dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<BodyBudget>,
    client: IpAddr,
    size: usize,
}

impl BodyBudget {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let Limits { bodies_size_max: size_max, client_bodies_size_max: client_size_max, .. } = *limits;
        Arc::new(BodyBudget {
            taken: Mutex::new(TakenBytes { size_max, client_size_max, all: 0, clients: HashMap::new(), most: 0 }),
        })
    }

    /// Sets new limits; shares that are held are kept.
    pub(crate) fn resize(&self, limits: &Limits) {
        let mut taken = self.lock();
        (taken.size_max, taken.client_size_max) = (limits.bodies_size_max, limits.client_bodies_size_max);
    }

    pub(crate) fn share(self: &Arc<Self>, client: IpAddr) -> BudgetShare {
        BudgetShare { budget: Arc::clone(self), client: client_of(client), size: 0 }
    }

    pub(crate) fn usage(&self) -> Usage {
        let taken = self.lock();
        Usage { held: taken.all, most: taken.most, max: taken.size_max }
    }

    fn lock(&self) -> MutexGuard<'_, TakenBytes> {
        self.taken.lock().expect("nothing panics while this is locked")
    }
}

impl BudgetShare {
    /// Charges `size` more bytes.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), Refusal> {
        let mut taken = self.budget.lock();
        let taken = &mut *taken;
        let of_client = taken.clients.get(&self.client).copied().unwrap_or_default();
        let full = |detail| Err(Refusal::unavailable(ErrorCode::RelayOverloaded, detail, None));
        if taken.all.saturating_add(size) > taken.size_max {
            return full("the relay holds too many bodies at a time");
        }
        if of_client.saturating_add(size) > taken.client_size_max {
            return full("the relay holds too many bodies of this client at a time");
        }
        if size > 0 {
            taken.all += size;
            taken.most = taken.most.max(taken.all);
            taken.clients.insert(self.client, of_client + size);
            self.size += size;
        }
        Ok(())
    }

    /// Releases `size` bytes.
    pub(crate) fn shrink(&mut self, size: usize) {
        debug_assert!(size <= self.size, "more is given back than was taken");
        let mut taken = self.budget.lock();
        taken.all -= size;
        self.size -= size;
        if let Some(of_client) = taken.clients.get_mut(&self.client) {
            *of_client -= size;
            if *of_client == 0 {
                taken.clients.remove(&self.client);
            }
        }
    }

    /// Grows or shrinks the share to `size` bytes.
    ///
    /// # Errors
    /// As [`BudgetShare::grow`].
    pub(crate) fn resize(&mut self, size: usize) -> Result<(), Refusal> {
        match size.checked_sub(self.size) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.size - size);
                Ok(())
            }
        }
    }

    /// Creates another share of `size` bytes for the same client.
    ///
    /// # Errors
    /// As [`BudgetShare::grow`].
    pub(crate) fn another(&self, size: usize) -> Result<BudgetShare, Refusal> {
        let mut share = BudgetShare { budget: Arc::clone(&self.budget), client: self.client, size: 0 };
        share.grow(size)?;
        Ok(share)
    }

    /// The size of the share in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.shrink(self.size);
    }
}

/// The memory of an engine's answer while it arrives, charged before it is allocated.
#[derive(Debug)]
pub(crate) struct AnswerShare {
    /// Bytes reserved at the start.
    reserved: usize,
    share: Mutex<Result<BudgetShare, Refusal>>,
}

impl AnswerShare {
    /// Creates an answer share that starts with what `share` holds.
    pub(crate) fn new(share: BudgetShare) -> Arc<Self> {
        Arc::new(AnswerShare { reserved: share.size(), share: Mutex::new(Ok(share)) })
    }

    /// Returns the share once the answer has arrived. Later requests for memory are refused.
    ///
    /// # Errors
    /// If the answer was refused its memory.
    pub(crate) fn take(&self) -> Result<BudgetShare, Refusal> {
        let taken = Refusal::unavailable(ErrorCode::RelayOverloaded, "the answer has arrived", None);
        std::mem::replace(&mut *self.lock(), Err(taken))
    }

    fn lock(&self) -> MutexGuard<'_, Result<BudgetShare, Refusal>> {
        self.share.lock().expect("nothing panics while this is locked")
    }
}

impl AnswerMemory for AnswerShare {
    fn resize(&self, size: usize) -> bool {
        let mut held = self.lock();
        let Ok(share) = &mut *held else { return false };
        let refusal = share.resize(size.max(self.reserved)).err();
        let is_granted = refusal.is_none();
        if let Some(refusal) = refusal {
            *held = Err(refusal);
        }
        is_granted
    }
}

/// Bytes and their share of the budget.
#[derive(Debug)]
pub(crate) struct BodyBuffer {
    bytes: Vec<u8>,
    share: BudgetShare,
}

impl BodyBuffer {
    /// Creates an empty buffer that grows within this share.
    pub(crate) fn new(share: BudgetShare) -> Self {
        BodyBuffer { bytes: Vec::new(), share }
    }

    /// Wraps bytes that are already charged to the share.
    pub(crate) fn of(bytes: Vec<u8>, share: BudgetShare) -> Self {
        BodyBuffer { bytes, share }
    }

    /// Creates an empty buffer with memory for `size` bytes.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub(crate) fn with_capacity(size: usize, share: &BudgetShare) -> Result<Self, Refusal> {
        let share = share.another(size)?;
        Ok(BodyBuffer { bytes: Vec::with_capacity(size), share })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn share(&self) -> &BudgetShare {
        &self.share
    }

    /// Appends bytes. Memory doubles as it grows and is charged before it is allocated, including both buffers while bytes are copied.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let (before, needed) = (self.bytes.capacity(), self.bytes.len() + bytes.len());
        if needed > before {
            let capacity = needed.max(2 * before);
            self.share.grow(capacity)?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
            self.share.shrink(before);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the bytes and their share.
    pub(crate) fn into_parts(self) -> (Vec<u8>, BudgetShare) {
        (self.bytes, self.share)
    }
}

impl AsRef<[u8]> for BodyBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body to its end. Trailers are dropped.
///
/// # Errors
/// If the body is too large, takes longer than `time_max` or breaks off, or if the budget is exhausted.
pub(crate) async fn read_whole<B>(
    body: B,
    direction: Direction,
    size_max: usize,
    time_max: Duration,
    share: BudgetShare,
    offload: &Offload,
) -> Result<BodyBuffer, Refusal>
where
    B: Body<Data = Bytes, Error = BodyError> + Unpin,
{
    let reading = timeout(time_max, read(body, direction, size_max, share));
    let (pieces, share) = reading.await.unwrap_or_else(|_| Err(Refusal::late(direction, time_max)))?;
    join(pieces, share, offload).await
}

async fn read<B>(
    body: B,
    direction: Direction,
    size_max: usize,
    mut share: BudgetShare,
) -> Result<(Pieces, BudgetShare), Refusal>
where
    B: Body<Data = Bytes, Error = BodyError> + Unpin,
{
    if body.size_hint().lower() > size_max as u64 {
        return Err(Refusal::too_large(direction, size_max));
    }
    let mut body = body;
    // Memory is charged as bytes arrive, not by the announced length.
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::of_body(direction, &error))?;
        let Ok(data) = frame.into_data() else { continue };
        if pieces.size() + data.len() > size_max {
            return Err(Refusal::too_large(direction, size_max));
        }
        share.resize(pieces.capacity_with(data.len(), size_max))?;
        pieces.push(&data, size_max);
    }
    Ok((pieces, share))
}

/// Joins the pieces of a body.
async fn join(pieces: Pieces, share: BudgetShare, offload: &Offload) -> Result<BodyBuffer, Refusal> {
    let size = pieces.size();
    let mut pieces = pieces.into_vec();
    if pieces.len() == 1 {
        return Ok(BodyBuffer::of(pieces.pop().unwrap_or_default(), share));
    }
    let joining = Joining::new(pieces, share, size)?;
    offload.run_in_slices(Cost::of_copy(size), joining, Joining::step).await
}

/// Pieces of a body that are being joined.
pub(crate) struct Joining {
    pieces: std::vec::IntoIter<Vec<u8>>,
    share: BudgetShare,
    joined: Vec<u8>,
    whole: BudgetShare,
}

impl Joining {
    /// `share`: the memory of the pieces. `size`: their bytes.
    ///
    /// # Errors
    /// If there is no memory for the whole body.
    pub(crate) fn new(pieces: Vec<Vec<u8>>, share: BudgetShare, size: usize) -> Result<Self, Refusal> {
        let whole = share.another(size)?;
        Ok(Joining { pieces: pieces.into_iter(), share, joined: Vec::with_capacity(size), whole })
    }

    /// Copies a piece, of at most 256 KiB.
    pub(crate) fn step(mut self) -> ControlFlow<Result<BodyBuffer, Refusal>, Self> {
        let Some(piece) = self.pieces.next() else {
            let charged = self.whole.resize(self.joined.capacity());
            return ControlFlow::Break(charged.map(|()| BodyBuffer::of(self.joined, self.whole)));
        };
        self.joined.extend_from_slice(&piece);
        self.share.shrink(piece.capacity().min(self.share.size()));
        ControlFlow::Continue(self)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body_util::Full;
    use hyper::StatusCode;
    use hyper::body::Frame;

    use super::*;
    use crate::body::offload::OffloadThreads;
    use leafseal_net::SchedulingClass;

    fn budget(size: usize, of_client: usize) -> Arc<BodyBudget> {
        BodyBudget::new(&Limits { bodies_size_max: size, client_bodies_size_max: of_client, ..Limits::default() })
    }

    fn client(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn no_client_takes_the_budget_of_all_others() {
        let budget = budget(100, 60);
        let mut greedy = budget.share(client("192.0.2.1"));
        let mut also_greedy = budget.share(client("::ffff:192.0.2.1"));
        greedy.grow(40).unwrap();
        also_greedy.grow(20).unwrap();
        assert!(also_greedy.grow(1).unwrap_err().detail.contains("of this client"));
        let mut other = budget.share(client("192.0.2.2"));
        other.grow(40).unwrap();
        assert!(!other.grow(1).unwrap_err().detail.contains("of this client"), "now all is taken");
        drop(greedy);
        other.grow(1).unwrap();
        drop((also_greedy, other));
        let taken = budget.lock();
        assert!(taken.all == 0 && taken.clients.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let budget = budget(100, 10);
        let mut shares: Vec<BudgetShare> =
            (0..4).map(|n| budget.share(client(&format!("2001:db8:0:{}::{n}", n / 3)))).collect();
        assert!(shares.iter_mut().take(3).map(|share| share.grow(4)).filter(Result::is_ok).count() == 2);
        shares[3].grow(10).unwrap();
    }

    #[test]
    fn other_bounds_hold_at_once() {
        let budget = budget(10, 10);
        let mut share = budget.share(client("::1"));
        share.grow(10).unwrap();
        assert!(share.grow(1).is_err());
        budget.resize(&Limits { bodies_size_max: 11, client_bodies_size_max: 11, ..Limits::default() });
        share.grow(1).unwrap();
        budget.resize(&Limits { bodies_size_max: 5, client_bodies_size_max: 5, ..Limits::default() });
        drop(share);
        assert!(budget.share(client("::1")).grow(6).is_err());
    }

    /// A body that sends one byte and never ends.
    struct Endless(bool);

    impl Body for Endless {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            match std::mem::replace(&mut self.0, true) {
                false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{"))))),
                true => Poll::Pending,
            }
        }
    }

    #[test]
    fn a_body_that_does_not_end_gives_its_memory_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let budget = budget(10, 10);
        let threads = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        let offload = &threads.way();
        let time = Duration::from_millis(20);
        for (direction, status) in
            [(Direction::Request, StatusCode::REQUEST_TIMEOUT), (Direction::Response, StatusCode::GATEWAY_TIMEOUT)]
        {
            let share = budget.share(client("::1"));
            let read = read_whole(Endless(false), direction, 10, time, share, offload);
            assert_eq!(runtime.block_on(read).unwrap_err().status, status);
            assert_eq!(budget.lock().all, 0);
        }
        let never = |never: Infallible| -> BodyError { match never {} };
        let body = Full::new(Bytes::from_static(b"{}")).map_err(never);
        let (share, patience) = (budget.share(client("::1")), Duration::from_secs(60));
        let read = read_whole(body, Direction::Request, 10, patience, share, offload);
        assert_eq!(runtime.block_on(read).unwrap().as_ref(), b"{}");
        assert_eq!(budget.lock().all, 0);
    }

    #[test]
    fn an_answer_is_charged_while_it_arrives() {
        let budget = budget(100, 100);
        let answer = AnswerShare::new(budget.share(client("::1")).another(40).unwrap());
        for (size, charged) in [(10, 40), (41, 41), (100, 100), (60, 60), (20, 40)] {
            assert!(answer.resize(size));
            assert_eq!(budget.usage().held, charged);
        }
        let share = answer.take().unwrap();
        assert_eq!((share.size(), answer.resize(1)), (40, false));
        drop(share);
        let refused = AnswerShare::new(budget.share(client("::1")));
        assert!(refused.resize(100) && !refused.resize(101));
        assert_eq!(budget.usage().held, 0, "what has arrived is dropped");
        assert!(!refused.resize(1), "the answer is given up");
        assert_eq!(refused.take().unwrap_err().code, ErrorCode::RelayOverloaded);
    }

    #[test]
    fn memory_is_charged_before_allocation() {
        let budget = budget(1000, 1000);
        let mut buffer = BodyBuffer::new(budget.share(client("::1")));
        for size in 1..=300 {
            buffer.extend(b"x").unwrap();
            assert!(buffer.bytes.capacity() <= budget.lock().all, "{size} bytes");
        }
        // Growing 512 bytes briefly needs three times as much.
        let more = vec![b'y'; 213];
        assert!(buffer.extend(&more).is_err());
        assert_eq!((buffer.len(), buffer.bytes.capacity(), budget.lock().all), (300, 512, 512));
        drop(buffer);
        assert_eq!(budget.lock().all, 0);
    }

    /// A body in small frames uses the memory of its own bytes, and a body of several pieces is joined off the network thread.
    #[test]
    fn a_body_is_charged_while_it_arrives() {
        const SIZE: usize = 600 << 10;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let threads = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
        let content: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        let frames = || {
            let frames = content.chunks(1000).map(|data| Ok(Frame::data(Bytes::copy_from_slice(data))));
            StreamOfFrames(frames.collect::<Vec<_>>().into_iter())
        };
        for (budget_size, is_enough) in [(2 << 20, true), (1 << 20, false), (500 << 10, false)] {
            let budget = budget(budget_size, budget_size);
            let (share, patience) = (budget.share(client("::1")), Duration::from_secs(60));
            let way = threads.way();
            let read = read_whole(frames(), Direction::Request, SIZE, patience, share, &way);
            match runtime.block_on(read) {
                Ok(buffer) => {
                    assert!(is_enough && buffer.as_ref() == content);
                    assert_eq!(budget.lock().all, buffer.bytes.capacity());
                }
                Err(refusal) => assert!(!is_enough && refusal.code == ErrorCode::RelayOverloaded, "{refusal:?}"),
            }
            assert_eq!(budget.lock().all, 0);
        }
    }

    struct StreamOfFrames(std::vec::IntoIter<Result<Frame<Bytes>, BodyError>>);

    impl Body for StreamOfFrames {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.next())
        }
    }
}
