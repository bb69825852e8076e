//! One connection without the features of [`Client`](crate::Client): requests are encoded once and sent often, answers are read in place.
//! For load generators, whose own cost must be small compared with the engine's.
//!
//! Nothing here runs by itself: no task, no timeout, no reconnection. The caller chooses ids, matches answers by them, and keeps calling
//! [`RawConnection::next`], which moves bytes in both directions.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use boring::ssl::SslConnector;
pub use leafseal_protocol::{DocumentResult, Message, RawValue, RemoteError, ValuesResult, request};
use leafseal_protocol::{FrameLimits, GOING_AWAY, GoingAway, Scanner, write};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::dial;
use crate::error::{ClientError, RequestProgress};
use crate::settings::ClientSettings;
use crate::tls::{self, explain_read};

/// Bytes buffered before encryption: the largest TLS record (RFC 8446, section 5.1).
const RECORD_SIZE: usize = 16_384;
/// The initial size of the buffer for answers.
const READ_SIZE: usize = 65_536;

/// A request without its id, encoded once. Clones share the bytes.
#[derive(Clone)]
pub struct EncodedRequest {
    tail: Arc<[u8]>,
}

/// Omits the content, which may be plaintext.
impl std::fmt::Debug for EncodedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a request of {} bytes", self.tail.len())
    }
}

impl EncodedRequest {
    /// Encodes the request that `encode`, a function of [`request`], appends.
    ///
    /// # Panics
    /// If what is appended is not a request with the given id.
    pub fn new(encode: impl FnOnce(u32, &mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        encode(0, &mut bytes);
        let tail = bytes.strip_prefix(RawHead::of_request(0).bytes()).expect("a request begins with its type and id");
        EncodedRequest { tail: tail.into() }
    }

    /// The size in bytes, without the id.
    pub fn size(&self) -> usize {
        self.tail.len()
    }
}

/// A message up to and including its id; `None` if the rest is the whole message.
#[derive(Default)]
struct RawHead {
    bytes: [u8; 7],
    size: usize,
}

impl RawHead {
    fn of_request(id: u32) -> Self {
        let mut head = Vec::with_capacity(8);
        write::array_header(4, &mut head);
        write::unsigned(0, &mut head);
        write::unsigned(u64::from(id), &mut head);
        let mut bytes = [0; 7];
        bytes[..head.len()].copy_from_slice(&head);
        RawHead { bytes, size: head.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// Opens connections to one address with one set of certificates.
pub struct RawConnector {
    settings: ClientSettings,
    connector: SslConnector,
}

impl std::fmt::Debug for RawConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawConnector").field("addresses", &self.settings.addresses).finish_non_exhaustive()
    }
}

impl RawConnector {
    /// Creates a connector. Of the settings, only the first address, the certificates, the groups, `connect_timeout` and `limits` are used.
    ///
    /// # Errors
    /// If the settings are unusable.
    pub fn new(settings: ClientSettings) -> Result<Self, ClientError> {
        settings.validate()?;
        let connector = tls::connector(&settings.tls, &settings.key_exchange)?;
        Ok(RawConnector { settings, connector })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the engine is unreachable, or this side refuses the certificate. If the engine refuses ours, the first answer fails.
    pub async fn connect(&self) -> Result<RawConnection, ClientError> {
        let stream = dial(&self.settings, &self.connector, &self.settings.addresses[0], 0.0, |_| false).await?.stream;
        Ok(RawConnection::over(stream, self.settings.limits))
    }
}

/// A message waiting to be sent.
struct QueuedMessage {
    head: RawHead,
    tail: Arc<[u8]>,
    /// Bytes of both that were sent.
    sent: usize,
}

impl QueuedMessage {
    fn size(&self) -> usize {
        self.head.size + self.tail.len()
    }

    /// The next bytes to send; empty at the end.
    fn rest(&self) -> &[u8] {
        match self.head.bytes().get(self.sent..) {
            Some(head) if !head.is_empty() => head,
            _ => &self.tail[self.sent - self.head.size..],
        }
    }
}

/// The reason in a `going_away` frame, if it is one.
fn going_away(frame: &[u8]) -> Option<GoingAway> {
    match Message::parse(frame) {
        Ok(Message::Notification { method: GOING_AWAY, params }) => Some(GoingAway::decode(params)),
        _ => None,
    }
}

/// Whether all written bytes were passed to the system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    Needed,
    Done,
}

/// The TLS stream of [`RawConnector`].
pub type TlsStream = tls::ClientStream;

/// A connection that its caller drives.
pub struct RawConnection<S = TlsStream> {
    stream: S,
    waiting: VecDeque<QueuedMessage>,
    /// Plaintext for TLS. It stays unchanged until all of it is accepted.
    outgoing: Vec<u8>,
    written: usize,
    flush: Flush,
    /// Never shrinks: a generator receives answers of the same sizes repeatedly.
    incoming: Vec<u8>,
    /// The number of bytes that were read into it.
    filled: usize,
    /// The number of those bytes that were returned.
    taken: usize,
    scanner: Scanner,
    /// Whether the connection drains: the engine has announced `going_away`.
    is_draining: bool,
}

impl<S> std::fmt::Debug for RawConnection<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawConnection").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawConnection<S> {
    /// Uses any stream, such as one without TLS for comparisons. `limits` apply to received messages.
    pub fn over(stream: S, limits: FrameLimits) -> Self {
        RawConnection {
            stream,
            waiting: VecDeque::new(),
            outgoing: Vec::with_capacity(RECORD_SIZE),
            written: 0,
            flush: Flush::Done,
            incoming: Vec::new(),
            filled: 0,
            taken: 0,
            scanner: Scanner::new(limits),
            is_draining: false,
        }
    }

    /// Whether the connection drains: the engine has announced `going_away`. Requests in flight are still answered; new ones belong on
    /// another connection.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Queues a request; [`RawConnection::next`] sends it. `id` must differ from those in flight.
    pub fn send(&mut self, id: u32, request: &EncodedRequest) {
        self.waiting.push_back(QueuedMessage {
            head: RawHead::of_request(id),
            tail: Arc::clone(&request.tail),
            sent: 0,
        });
    }

    /// Queues the notification `cancel` for the request `id`, which is still answered.
    pub fn cancel(&mut self, id: u32) {
        let mut message = Vec::new();
        request::cancel(id, &mut message);
        self.waiting.push_back(QueuedMessage { head: RawHead::default(), tail: message.into(), sent: 0 });
    }

    /// Queued bytes that TLS has not accepted yet.
    pub fn unsent(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(|message| message.size() - message.sent).sum();
        waiting + self.outgoing.len() - self.written
    }

    /// Returns the next complete message of the engine; `going_away` is skipped and reported by [`RawConnection::is_draining`]. Writes
    /// queued requests while it waits; with nothing in flight it waits for the connection's end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the connection has ended or the bytes violate the protocol; there is no next message then.
    pub async fn next(&mut self) -> Result<&[u8], ClientError> {
        let frame = poll_fn(|cx| self.poll_next(cx)).await?;
        Ok(&self.incoming[frame])
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Range<usize>, ClientError>> {
        if let Some(frame) = self.frame()? {
            return Poll::Ready(Ok(frame));
        }
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(ClientError::lost(
                RequestProgress::Maybe,
                format!("the connection broke: {error}"),
            )));
        }
        loop {
            ready!(self.poll_read(cx))?;
            if let Some(frame) = self.frame()? {
                return Poll::Ready(Ok(frame));
            }
        }
    }

    /// Returns a complete frame among the bytes read.
    fn frame(&mut self) -> Result<Option<Range<usize>>, ClientError> {
        loop {
            let start = self.taken;
            let Some(size) = self.scanner.scan(&self.incoming[start..self.filled])? else { return Ok(None) };
            self.taken = start + size;
            match going_away(&self.incoming[start..self.taken]) {
                None => return Ok(Some(start..self.taken)),
                Some(GoingAway::Closed) => return Err(ClientError::going_away()),
                Some(GoingAway::Shutdown | GoingAway::Age) => self.is_draining = true,
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.incoming.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        if self.incoming.len() - self.filled < RECORD_SIZE {
            let size = (self.incoming.len() * 2).max(READ_SIZE);
            self.incoming.resize(size, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.incoming[self.filled..]);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
        let count = buffer.filled().len();
        self.filled += count;
        Poll::Ready(match read {
            Ok(()) if count == 0 => Err(ClientError::lost(RequestProgress::Maybe, "the engine closed the connection")),
            Ok(()) => Ok(()),
            Err(error) => Err(explain_read(error)),
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.outgoing.len() {
                let rest = &self.outgoing[self.written..];
                self.flush = Flush::Needed;
                self.written += ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            }
            self.gather();
            if self.outgoing.is_empty() {
                break;
            }
        }
        if self.flush == Flush::Needed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.flush = Flush::Done;
        }
        Poll::Ready(Ok(()))
    }

    /// Fills the next record: short messages are combined.
    fn gather(&mut self) {
        self.outgoing.clear();
        self.written = 0;
        while let Some(message) = self.waiting.front_mut()
            && self.outgoing.len() < RECORD_SIZE
        {
            let rest = message.rest();
            let piece = &rest[..rest.len().min(RECORD_SIZE - self.outgoing.len())];
            self.outgoing.extend_from_slice(piece);
            message.sent += piece.len();
            if message.sent == message.size() {
                self.waiting.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    /// A request with `size` bytes of content.
    fn request_of(size: usize) -> EncodedRequest {
        let options = leafseal_protocol::EncryptFileOptions::new("app");
        EncodedRequest::new(|id, out| request::encrypt_file(id, &options, &vec![7; size], out))
    }

    /// Answers each request with as many bytes and its id, and ignores cancels; ends when its peer does.
    async fn answer(mut stream: DuplexStream) {
        let (mut bytes, mut scanner) = (Vec::new(), Scanner::new(FrameLimits::default()));
        while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
            while let Some(size) = scanner.scan(&bytes).expect("a frame") {
                let frame: Vec<u8> = bytes.drain(..size).collect();
                if let Ok(Message::Request { id, .. }) = Message::parse(&frame) {
                    let mut out = Vec::new();
                    leafseal_protocol::answer::begin(id, &mut out);
                    write::binary(&frame, &mut out);
                    stream.write_all(&out).await.expect("taken");
                }
            }
        }
    }

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    /// Both ends, with a buffer of this size between them, so that large messages pass in pieces.
    fn pair(room: usize) -> RawConnection<DuplexStream> {
        let (ours, theirs) = duplex(room);
        tokio::spawn(answer(theirs));
        RawConnection::over(ours, FrameLimits::default())
    }

    async fn next_id<S: AsyncRead + AsyncWrite + Unpin>(connection: &mut RawConnection<S>) -> (u32, usize) {
        let frame = connection.next().await.expect("an answer");
        match Message::parse(frame) {
            Ok(Message::Response { id, result: Ok(_) }) => (id, frame.len()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_of_any_size_pass_in_both_directions_at_once() {
        run(async {
            for room in [64, 1000, 100_000] {
                let mut connection = pair(room);
                let sizes = [0, 5, 20_000, 300_000, 1, RECORD_SIZE, 70_000, 2];
                for (id, size) in (0..).zip(sizes) {
                    connection.send(id * 1000, &request_of(size));
                }
                connection.cancel(5);
                for (id, size) in (0..).zip(sizes) {
                    let (found, answer) = next_id(&mut connection).await;
                    assert_eq!(found, id * 1000);
                    assert!(answer > size, "{answer} bytes for {size}");
                }
                assert_eq!(connection.unsent(), 0);
            }
        });
    }

    #[test]
    fn a_wait_that_is_dropped_loses_nothing() {
        run(async {
            let mut connection = pair(64);
            let request = request_of(5000);
            for id in 0..50 {
                connection.send(id, &request);
            }
            let mut answered = Vec::new();
            while answered.len() < 50 {
                // Each wait ends after one check of both directions, mostly in the middle of a message.
                let wait = timeout(std::time::Duration::ZERO, next_id(&mut connection)).await;
                answered.extend(wait.ok());
                tokio::task::yield_now().await;
            }
            assert!(answered.iter().map(|&(id, _)| id).eq(0..50));
        });
    }

    #[test]
    fn the_end_of_the_connection_is_reported() {
        run(async {
            let (ours, theirs) = duplex(64);
            let mut connection = RawConnection::over(ours, FrameLimits::default());
            drop(theirs);
            let error = connection.next().await.unwrap_err();
            assert!(matches!(error.kind, ErrorKind::ConnectionLost { .. }), "{error}");
        });
    }

    #[test]
    fn requests_differ_only_in_their_id() {
        let encoded = EncodedRequest::new(request::health);
        for id in [0, 1, 0x7f, 0x80, 0xffff, u32::MAX] {
            let mut expected = Vec::new();
            request::health(id, &mut expected);
            let message = QueuedMessage { head: RawHead::of_request(id), tail: Arc::clone(&encoded.tail), sent: 0 };
            assert_eq!([message.head.bytes(), &message.tail].concat(), expected);
            assert_eq!(message.size(), expected.len());
        }
    }
}
