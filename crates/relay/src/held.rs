//! Bodies that are read as a whole, within a bound for each, one for each client and one for all, and within a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fieldseal_http::{BodyError, client_of};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use tokio::time::timeout;

use crate::config::Limits;
use crate::refusal::{Direction, Refusal};

/// Room for all bodies that are held at a time.
#[derive(Debug)]
pub(crate) struct Room {
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    size_max: usize,
    client_size_max: usize,
    all: usize,
    /// Whoever holds something.
    clients: HashMap<IpAddr, usize>,
}

/// A piece of the room; free again when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    client: IpAddr,
    size: usize,
}

impl Room {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let Limits { bodies_size_max: size_max, client_bodies_size_max: client_size_max, .. } = *limits;
        Arc::new(Room { taken: Mutex::new(Taken { size_max, client_size_max, all: 0, clients: HashMap::new() }) })
    }

    /// Takes up other bounds; what is held stays held.
    pub(crate) fn resize(&self, limits: &Limits) {
        let mut taken = self.lock();
        (taken.size_max, taken.client_size_max) = (limits.bodies_size_max, limits.client_bodies_size_max);
    }

    pub(crate) fn share(self: &Arc<Self>, client: IpAddr) -> Share {
        Share { room: Arc::clone(self), client: client_of(client), size: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("nothing panics while this is locked")
    }
}

impl Share {
    /// Takes more.
    ///
    /// # Errors
    /// Where there is not so much left.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), Refusal> {
        let mut taken = self.room.lock();
        let taken = &mut *taken;
        let of_client = taken.clients.get(&self.client).copied().unwrap_or_default();
        let full = |detail| Err(Refusal::unavailable("relay-overloaded", detail, None));
        if taken.all.saturating_add(size) > taken.size_max {
            return full("the relay holds too many bodies at a time");
        }
        if of_client.saturating_add(size) > taken.client_size_max {
            return full("the relay holds too many bodies of this client at a time");
        }
        if size > 0 {
            taken.all += size;
            taken.clients.insert(self.client, of_client + size);
            self.size += size;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        taken.all -= self.size;
        if let Some(of_client) = taken.clients.get_mut(&self.client) {
            *of_client -= self.size;
            if *of_client == 0 {
                taken.clients.remove(&self.client);
            }
        }
    }
}

/// Reads a body to its end. Trailers are dropped.
///
/// # Errors
/// It is too large, takes longer than `time_max`, or breaks off.
pub(crate) async fn read_whole<B>(
    body: B,
    direction: Direction,
    size_max: usize,
    time_max: Duration,
    share: &mut Share,
) -> Result<Vec<u8>, Refusal>
where
    B: Body<Data = Bytes, Error = BodyError> + Unpin,
{
    let reading = timeout(time_max, read(body, direction, size_max, share));
    reading.await.unwrap_or_else(|_| Err(Refusal::late(direction, time_max)))
}

async fn read<B>(body: B, direction: Direction, size_max: usize, share: &mut Share) -> Result<Vec<u8>, Refusal>
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
        let frame = frame.map_err(|error| Refusal::of_body(direction, &error))?;
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body_util::Full;
    use hyper::StatusCode;
    use hyper::body::Frame;

    use super::*;

    fn room(size: usize, of_client: usize) -> Arc<Room> {
        Room::new(&Limits { bodies_size_max: size, client_bodies_size_max: of_client, ..Limits::default() })
    }

    fn client(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn no_client_takes_the_room_of_all_others() {
        let room = room(100, 60);
        let mut greedy = room.share(client("192.0.2.1"));
        let mut also_greedy = room.share(client("::ffff:192.0.2.1"));
        greedy.grow(40).unwrap();
        also_greedy.grow(20).unwrap();
        assert!(also_greedy.grow(1).unwrap_err().detail.contains("of this client"));
        let mut other = room.share(client("192.0.2.2"));
        other.grow(40).unwrap();
        assert!(!other.grow(1).unwrap_err().detail.contains("of this client"), "now all is taken");
        drop(greedy);
        other.grow(1).unwrap();
        drop((also_greedy, other));
        let taken = room.lock();
        assert!(taken.all == 0 && taken.clients.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let room = room(100, 10);
        let mut shares: Vec<Share> =
            (0..4).map(|n| room.share(client(&format!("2001:db8:0:{}::{n}", n / 3)))).collect();
        assert!(shares.iter_mut().take(3).map(|share| share.grow(4)).filter(Result::is_ok).count() == 2);
        shares[3].grow(10).unwrap();
    }

    #[test]
    fn other_bounds_hold_at_once() {
        let room = room(10, 10);
        let mut share = room.share(client("::1"));
        share.grow(10).unwrap();
        assert!(share.grow(1).is_err());
        room.resize(&Limits { bodies_size_max: 11, client_bodies_size_max: 11, ..Limits::default() });
        share.grow(1).unwrap();
        room.resize(&Limits { bodies_size_max: 5, client_bodies_size_max: 5, ..Limits::default() });
        drop(share);
        assert!(room.share(client("::1")).grow(6).is_err());
    }

    /// A body of which a byte comes, and never another.
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
    fn a_body_that_does_not_end_gives_its_room_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let room = room(10, 10);
        let time = Duration::from_millis(20);
        for (direction, status) in
            [(Direction::Request, StatusCode::REQUEST_TIMEOUT), (Direction::Response, StatusCode::GATEWAY_TIMEOUT)]
        {
            let mut share = room.share(client("::1"));
            let read = runtime.block_on(async { read_whole(Endless(false), direction, 10, time, &mut share).await });
            assert_eq!(read.unwrap_err().status, status);
            assert_eq!(room.lock().all, 1);
            drop(share);
            assert_eq!(room.lock().all, 0);
        }
        let never = |never: Infallible| -> BodyError { match never {} };
        let body = Full::new(Bytes::from_static(b"{}")).map_err(never);
        let (mut share, patience) = (room.share(client("::1")), Duration::from_secs(60));
        let read = runtime.block_on(async { read_whole(body, Direction::Request, 10, patience, &mut share).await });
        assert_eq!(read.unwrap(), b"{}");
    }
}
