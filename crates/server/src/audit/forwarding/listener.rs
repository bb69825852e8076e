//! The witness that this engine is for other logs: HTTP for strangers, so everything that one of them may take is bounded.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use leafseal_engine::audit::{LogWitness, WITNESS_REQUEST_SIZE_MAX, WitnessAnswer};
use leafseal_net::FairPlaces;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::delivery::unix_s;
use super::progress::ForwardingProgress;

/// Connections that a witness serves at a time. A client with few displaces the newest of the one with most.
const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection, which has one request.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(20);
/// Most bytes of a head.
const HEAD_SIZE_MAX: usize = 16 << 10;

/// What each connection has.
struct ServedWitness {
    /// For one request at a time.
    witness: Arc<Mutex<LogWitness>>,
    progress: Arc<ForwardingProgress>,
}

/// Answers requests for cosignatures for ever.
pub(super) async fn serve_for_ever(listener: TcpListener, witness: LogWitness, progress: Arc<ForwardingProgress>) {
    let served = Arc::new(ServedWitness { witness: Arc::new(Mutex::new(witness)), progress });
    let places = Arc::new(FairPlaces::default());
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            // No descriptors are left, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(place) = places.take(peer.ip(), CONNECTIONS_MAX) else { continue };
        let served = Arc::clone(&served);
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = place.displaced() => {}
                // The peer has no other way to learn what was wrong.
                _ = timeout(CONNECTION_TIME_MAX, serve(socket, served)) => {}
            }
        });
    }
}

async fn serve(socket: TcpStream, served: Arc<ServedWitness>) -> hyper::Result<()> {
    let answer = service_fn(move |request| {
        let served = Arc::clone(&served);
        async move { Ok::<_, Infallible>(answer(&served, request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(false).max_buf_size(HEAD_SIZE_MAX);
    http.serve_connection(TokioIo::new(socket), answer).await
}

async fn answer(served: &ServedWitness, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = if !request.uri().path().ends_with("/add-checkpoint") {
        WitnessAnswer::refused(404, "not found")
    } else if request.method() != Method::POST {
        WitnessAnswer::refused(405, "use POST")
    } else {
        match Limited::new(request.into_body(), WITNESS_REQUEST_SIZE_MAX).collect().await {
            Ok(body) => served.cosign(body.to_bytes()).await,
            Err(_) => WitnessAnswer::refused(400, "not a request, or too long"),
        }
    };
    let built = Response::builder().status(answer.status).header(CONTENT_TYPE, answer.content_type);
    built.body(Full::new(Bytes::from(answer.body))).expect("a status and a header of ours")
}

impl ServedWitness {
    /// Cosigns on a thread that may wait for the disk.
    async fn cosign(&self, body: Bytes) -> WitnessAnswer {
        let mut witness = Arc::clone(&self.witness).lock_owned().await;
        let work = tokio::task::spawn_blocking(move || witness.add_checkpoint(&body, unix_s()));
        let Ok(answer) = work.await else { return WitnessAnswer::refused(500, "an internal error") };
        if let Some(fork) = &answer.fork {
            self.progress.count_fork();
            tracing::error!(
                fork,
                "a log that this engine witnesses has two histories: its host or its key is not what it was"
            );
        }
        answer
    }
}
