//! Asks the other engines of a store for the newest state that they have seen of it, on a thread of its own, so that a machine that has
//! never seen the store notices an older copy that was put back.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use leafseal_service::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Addresses of one name that are asked: such a name may stand for all engines.
const ADDRESSES_MAX: usize = 64;
/// Longest answer in bytes, with its head: a state is one line of at most 512.
const ANSWER_SIZE_MAX: usize = 4096;
/// Longest message about a peer that is logged.
const REASON_SIZE_MAX: usize = 200;

/// Whom to ask, and how.
pub(crate) struct PeerSettings {
    pub(crate) peers: Vec<String>,
    /// For all answers of a round, which are waited for at the same time.
    pub(crate) timeout: Duration,
    pub(crate) interval: Duration,
    /// The port at which this engine itself answers: a name may stand for it, too.
    pub(crate) own_port: Option<u16>,
}

/// The thread that asks the peers; it ends on drop.
pub(crate) struct PeersThread {
    /// Dropped first, which ends the thread's pause.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PeersThread {
    /// Starts it, and waits for the first round. `None` if there is nobody to ask.
    pub(crate) fn start<S: Service>(service: Arc<S>, settings: PeerSettings) -> io::Result<Option<Self>> {
        if settings.peers.is_empty() {
            warn_if_unknown(&*service);
            return Ok(None);
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let ((stop, stopped), (first, is_asked)) = (channel(), channel());
        let thread = std::thread::Builder::new().name("leafseal-peers".to_owned()).spawn(move || {
            let mut silent = BTreeSet::new();
            ask_all(&runtime, &*service, &settings, &mut silent);
            warn_if_unknown(&*service);
            // The receiver waits for nothing else.
            let _ = first.send(());
            while stopped.recv_timeout(settings.interval) == Err(RecvTimeoutError::Timeout) {
                ask_all(&runtime, &*service, &settings, &mut silent);
            }
            // A look-up of a name may hang.
            runtime.shutdown_background();
        })?;
        // An error means that the thread has panicked: then the engine knows what it knew.
        let _ = is_asked.recv();
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for PeersThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Its result is of no interest.
            let _ = thread.join();
        }
    }
}

fn warn_if_unknown<S: Service>(service: &S) {
    let memory = service.counters().memory;
    if memory.generation.is_some() && !memory.is_from_before {
        tracing::info!(
            "no earlier state of the keystore is known, here or from peers: an older copy would not be noticed"
        );
    }
}

/// Asks everybody once. `silent` are those that had nothing to say, so that it is logged once.
fn ask_all<S: Service>(runtime: &Runtime, service: &S, settings: &PeerSettings, silent: &mut BTreeSet<String>) {
    let Some(engine) = service.engine() else { return };
    let answers = runtime.block_on(async {
        let mut asked = JoinSet::new();
        for peer in &settings.peers {
            let (peer, limit, own_port) = (peer.clone(), settings.timeout, settings.own_port);
            asked.spawn(async move {
                let answers = timeout(limit, ask_name(&peer, limit, own_port)).await;
                answers.unwrap_or_else(|_| vec![(peer, Err("its name is not found in time".to_owned()))])
            });
        }
        asked.join_all().await.concat()
    });
    let mut failed = BTreeSet::new();
    for (peer, answer) in answers {
        let learnt = answer.and_then(|line| engine.learn(&line));
        if let Err(reason) = learnt {
            if !silent.contains(&peer) {
                let reason: String = reason.chars().take(REASON_SIZE_MAX).collect();
                tracing::warn!(peer, reason, "a peer does not tell what it has seen of the keystore");
            }
            failed.insert(peer);
        }
    }
    *silent = failed;
}

type PeerAnswer = (String, Result<String, String>);

/// Asks all addresses of a name at once.
async fn ask_name(peer: &str, limit: Duration, own_port: Option<u16>) -> Vec<PeerAnswer> {
    let addresses: Vec<SocketAddr> = match lookup_host(peer).await {
        Ok(addresses) => addresses.take(ADDRESSES_MAX).collect(),
        Err(error) => return vec![(peer.to_owned(), Err(error.to_string()))],
    };
    let mut asked = JoinSet::new();
    for address in addresses {
        // Less than the limit on the whole, so that one address that hangs does not take away the answers of others.
        asked.spawn(async move {
            let answer = timeout(limit.mul_f32(0.8), ask(address, own_port)).await;
            let answer = answer.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
            answer.transpose().map(|answer| (address.to_string(), answer))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// The line of the engine at an address; `None` if it is this engine.
async fn ask(address: SocketAddr, own_port: Option<u16>) -> Result<Option<String>, String> {
    let mut socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    // What this engine itself says would confirm nothing.
    if own_port == Some(address.port()) && socket.local_addr().is_ok_and(|own| own.ip() == address.ip()) {
        return Ok(None);
    }
    let call = format!("GET /keystore HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(call.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let most = ANSWER_SIZE_MAX as u64 + 1;
    socket.take(most).read_to_end(&mut answer).await.map_err(|error| error.to_string())?;
    line_of(&answer).map(Some).ok_or_else(|| "its answer is no state of a keystore".to_owned())
}

/// The body of an answer.
fn line_of(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok().filter(|text| text.len() <= ANSWER_SIZE_MAX)?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200 ").then(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_answer_with_a_body_is_read() {
        assert_eq!(line_of(b"HTTP/1.1 200 OK\r\na: b\r\n\r\nline\n").as_deref(), Some("line\n"));
        let long = [b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; ANSWER_SIZE_MAX][..]].concat();
        for other in [&b""[..], b"\xff\r\n\r\n", b"HTTP/1.1 404 Not Found\r\n\r\nline", b"HTTP/1.1 200 OK\r\n", &long] {
            assert_eq!(line_of(other), None);
        }
    }
}
