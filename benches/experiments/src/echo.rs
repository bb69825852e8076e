//! An echo server with the structure of an engine: one thread for sockets, one worker thread, and a hand-over in each direction. It has
//! no TLS, keys or crypto. Work is a busy loop of the requested duration, in slices, and small messages have priority over large ones.
//! Its latency is the minimum that the operating system permits to a server that answers over TCP and computes on another thread.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use leafseal_load::LoadError;

/// The offset of an id below 128 in messages of either direction: after the array's head and the type.
const ID_PLACE: usize = 2;
/// Minimum bytes of an answer: its head, up to and including the length of its content.
const ANSWER_SIZE_MIN: usize = 9;
/// Work between two checks for other messages, equal to the engine's slices.
const SLICE: Duration = Duration::from_micros(50);

/// One kind of message and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Bytes of a request, including its id, which must be below 128.
    pub request_size: usize,
    /// Bytes of an answer, including its id.
    pub answer_size: usize,
    /// How long the worker thread computes for a message. Messages without work have priority.
    pub work: Duration,
}

/// A running server; its threads end with the process.
#[derive(Debug)]
pub(crate) struct Echo {
    /// The address for each kind of message, on 127.0.0.1.
    pub addresses: Vec<SocketAddr>,
}

/// A message that the worker thread processes.
struct Message {
    work: Duration,
    done: oneshot::Sender<()>,
}

impl Echo {
    /// Starts the server with one port for each of `exchanges`.
    ///
    /// # Errors
    /// Fails if a port cannot be bound or a thread cannot be started.
    pub(crate) fn start(exchanges: &[Exchange]) -> Result<Self, LoadError> {
        let system = |error| LoadError::system("the echo server", error);
        let (to_worker, messages) = channel();
        std::thread::Builder::new().name("echo-work".to_owned()).spawn(move || work(&messages)).map_err(system)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let mut addresses = Vec::new();
        for &exchange in exchanges {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(system)?;
            addresses.push(listener.local_addr().map_err(system)?);
            runtime.spawn(accept(listener, exchange, to_worker.clone()));
        }
        let sockets = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("echo-net".to_owned()).spawn(sockets).map_err(system)?;
        Ok(Echo { addresses })
    }
}

async fn accept(listener: TcpListener, exchange: Exchange, to_worker: Sender<Message>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // A broken connection ends without affecting others.
        tokio::spawn(serve(stream, exchange, to_worker.clone()));
    }
}

async fn serve(mut stream: TcpStream, exchange: Exchange, to_worker: Sender<Message>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answer = answer(exchange.answer_size);
    let mut request = vec![0; exchange.request_size.max(ID_PLACE + 1)];
    loop {
        stream.read_exact(&mut request).await?;
        let (done, is_done) = oneshot::channel();
        let message = Message { work: exchange.work, done };
        to_worker.send(message).map_err(|_| io::Error::other("the worker has ended"))?;
        is_done.await.map_err(io::Error::other)?;
        answer[ID_PLACE] = request[ID_PLACE];
        stream.write_all(&answer).await?;
    }
}

/// The worker thread: one slice of the next large message, then a check for new messages.
fn work(messages: &Receiver<Message>) {
    let mut large: VecDeque<Message> = VecDeque::new();
    loop {
        let next = if large.is_empty() { messages.recv().ok() } else { messages.try_recv().ok() };
        match next {
            Some(message) if message.work.is_zero() => end(message),
            Some(message) => large.push_back(message),
            None => {
                // No work is left and all senders are gone.
                let Some(mut message) = large.pop_front() else { return };
                spin(SLICE.min(message.work));
                message.work = message.work.saturating_sub(SLICE);
                if message.work.is_zero() { end(message) } else { large.push_back(message) }
            }
        }
    }
}

fn end(message: Message) {
    // Sending fails if the peer has closed its connection.
    let _ = message.done.send(());
}

fn spin(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// `[1, id, nil, binary]`, of `size` bytes in all.
fn answer(size: usize) -> Vec<u8> {
    let content = size.saturating_sub(ANSWER_SIZE_MIN);
    let mut answer = vec![0x94, 1, 0, 0xc0, 0xc6];
    answer.extend_from_slice(&u32::try_from(content).unwrap_or(u32::MAX).to_be_bytes());
    answer.resize(ANSWER_SIZE_MIN + content, 0);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafseal_client::FrameLimits;
    use leafseal_client::raw::{EncodedRequest, RawConnection, request};
    use leafseal_load::driver::ask;

    #[test]
    fn answers_have_their_size_and_the_id_of_their_request_and_take_their_time() {
        let request = EncodedRequest::new(request::health);
        let exchange = |answer_size, work| Exchange { request_size: request.size() + 3, answer_size, work };
        let work = Duration::from_millis(3);
        let echo = Echo::start(&[exchange(4108, Duration::ZERO), exchange(70_000, work)]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for (address, size, least) in [(echo.addresses[0], 4108, Duration::ZERO), (echo.addresses[1], 70_000, work)]
            {
                let stream = TcpStream::connect(address).await.unwrap();
                let mut connection = RawConnection::over(stream, FrameLimits::default());
                for _ in 0..3 {
                    let began = Instant::now();
                    let (answer, _) = ask(&mut connection, &request).await.unwrap();
                    assert_eq!(answer.len(), size);
                    assert!(began.elapsed() >= least);
                }
            }
        });
    }

    #[test]
    fn small_messages_go_before_large_ones() {
        let (sender, messages) = channel();
        let message = |work| {
            let (done, is_done) = oneshot::channel();
            sender.send(Message { work, done }).unwrap();
            is_done
        };
        let large = message(Duration::from_secs(3600));
        let small = message(Duration::ZERO);
        std::thread::spawn(move || work(&messages));
        small.blocking_recv().unwrap();
        assert!(large.is_empty(), "it is still being worked on");
    }
}
