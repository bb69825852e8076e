//! Asks the other engines of a store for the newest state that they have seen of it, on a thread of its own, so that a machine that has
//! never seen the store notices an older copy that was put back.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use leafseal_engine::PeerFault;
use leafseal_engine::admin::{PeerSighting, new_challenge};
use leafseal_service::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::start_error::StartError;

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
    /// Starts it, and waits for the first round. `None` if there is nobody to ask. `set_problem`: takes why the engine is not ready, after
    /// each round. An engine that knows nothing of the store from before does not start against a peer that has another one.
    pub(crate) fn start<S: Service>(
        service: Arc<S>,
        settings: PeerSettings,
        set_problem: impl Fn(Option<String>) + Send + 'static,
    ) -> Result<Option<Self>, StartError> {
        if settings.peers.is_empty() {
            warn_if_unknown(&*service);
            set_problem(None);
            return Ok(None);
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Threads)?;
        let ((stop, stopped), (first, is_asked)) = (channel(), channel());
        let asking = std::thread::Builder::new().name("leafseal-peers".to_owned()).spawn(move || {
            let mut silent = BTreeSet::new();
            let mut ask = || ask_all(&runtime, &*service, &settings, &mut silent);
            let dispute = ask();
            set_problem(dispute.clone());
            warn_if_unknown(&*service);
            // The receiver waits for nothing else.
            let _ = first.send(dispute.filter(|_| !service.counters().memory.is_from_before));
            while stopped.recv_timeout(settings.interval) == Err(RecvTimeoutError::Timeout) {
                set_problem(ask());
            }
            // A look-up of a name may hang.
            runtime.shutdown_background();
        });
        let started = Self { stop: Some(stop), thread: Some(asking.map_err(StartError::Threads)?) };
        // An error means that the thread has panicked: then the engine knows what it knew.
        match is_asked.recv() {
            Ok(Some(dispute)) => Err(StartError::Peer(dispute)),
            _ => Ok(Some(started)),
        }
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

/// Asks everybody once. `silent` are those that had nothing to say, so that it is logged once. Returns a dispute with a peer.
fn ask_all<S: Service>(
    runtime: &Runtime,
    service: &S,
    settings: &PeerSettings,
    silent: &mut BTreeSet<String>,
) -> Option<String> {
    let engine = service.engine()?;
    let challenge = new_challenge();
    let answers = runtime.block_on(async {
        let mut asked = JoinSet::new();
        for peer in &settings.peers {
            let (peer, limit) = (peer.clone(), settings.timeout);
            let question = Question { challenge: challenge.clone(), own_port: settings.own_port };
            asked.spawn(async move {
                let answers = timeout(limit, ask_name(&peer, limit, question)).await;
                answers.unwrap_or_else(|_| vec![(peer, Err("its name is not found in time".to_owned()))])
            });
        }
        asked.join_all().await.concat()
    });
    let (mut failed, mut dispute) = (BTreeSet::new(), None);
    for (peer, answer) in answers {
        let learnt = answer
            .map_err(PeerFault::Useless)
            .and_then(|line| engine.learn(&PeerSighting { peer: peer.clone(), challenge: challenge.clone(), line }));
        let Err(fault) = learnt else { continue };
        let reason: String = fault.to_string().chars().take(REASON_SIZE_MAX).collect();
        let is_new = !silent.contains(&peer);
        if let PeerFault::Dispute(_) = fault {
            if is_new {
                tracing::error!(peer, reason, "a peer has another keystore: this engine is not ready");
            }
            dispute.get_or_insert(reason);
        } else if is_new {
            tracing::warn!(peer, reason, "a peer does not tell what it has seen of the keystore");
        }
        failed.insert(peer);
    }
    *silent = failed;
    dispute
}

/// What is asked, and by whom.
#[derive(Debug, Clone)]
struct Question {
    challenge: String,
    own_port: Option<u16>,
}

type PeerAnswer = (String, Result<String, String>);

/// Asks all addresses of a name at once.
async fn ask_name(peer: &str, limit: Duration, question: Question) -> Vec<PeerAnswer> {
    let addresses: Vec<SocketAddr> = match lookup_host(peer).await {
        Ok(addresses) => addresses.take(ADDRESSES_MAX).collect(),
        Err(error) => return vec![(peer.to_owned(), Err(error.to_string()))],
    };
    let mut asked = JoinSet::new();
    for address in addresses {
        let question = question.clone();
        // Less than the limit on the whole, so that one address that hangs does not take away the answers of others.
        asked.spawn(async move {
            let answer = timeout(limit.mul_f32(0.8), ask(address, &question)).await;
            let answer = answer.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
            answer.transpose().map(|answer| (address.to_string(), answer))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// The line of the engine at an address; `None` if it is this engine.
async fn ask(address: SocketAddr, question: &Question) -> Result<Option<String>, String> {
    let mut socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    // What this engine itself says would confirm nothing.
    if question.own_port == Some(address.port()) && socket.local_addr().is_ok_and(|own| own.ip() == address.ip()) {
        return Ok(None);
    }
    let challenge = &question.challenge;
    let call = format!("GET /keystore?challenge={challenge} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
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
