//! Asks the witnesses of a log to cosign its newest checkpoint, and cosigns those of other logs.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use leafseal_engine::audit::{
    LogReader, LogWitness, WITNESS_REQUEST_SIZE_MAX, WitnessAnswer, WitnessFault, WitnessRequest, WitnessTarget,
    write_cosigned_checkpoint,
};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::connection::{PostedMessage, post};
use super::delivery::{FollowedFolder, unix_s};

/// Connections that a witness serves at a time.
const CONNECTIONS_MAX: usize = 64;
/// Longest life of a connection to a witness.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);

/// A witness that is asked.
pub(super) struct AskedWitness {
    target: WitnessTarget,
    /// How much of the log it has signed, as far as is known.
    signed: u64,
    /// What was wrong last.
    fault: Option<String>,
}

/// Asks all witnesses once in an interval while there is a new checkpoint. It is written with their cosignatures if there are `min`.
pub(super) async fn ask_for_ever(
    log: FollowedFolder,
    mut witnesses: Vec<AskedWitness>,
    min: usize,
    interval: Duration,
    limit: Duration,
) {
    let mut last = 0;
    loop {
        if let Ok(reader) = LogReader::open(&log.folder, &log.key)
            && reader.size() > last
        {
            let mut lines = Vec::new();
            for witness in &mut witnesses {
                match witness.ask(&reader, limit).await {
                    Ok(line) => {
                        witness.fault = None;
                        lines.push(line);
                    }
                    Err(fault) => witness.report(fault.to_string()),
                }
            }
            if lines.len() == witnesses.len() {
                last = reader.size();
            }
            if lines.len() >= min.max(1)
                && let Err(error) = write_cosigned_checkpoint(&reader, &lines)
            {
                tracing::warn!(%error, "the checkpoint with the cosignatures of witnesses cannot be written");
            }
        }
        sleep(interval).await;
    }
}

impl AskedWitness {
    pub(super) fn new(target: WitnessTarget) -> Self {
        Self { target, signed: 0, fault: None }
    }

    /// The line of its cosignature.
    async fn ask(&mut self, reader: &LogReader, limit: Duration) -> Result<String, WitnessFault> {
        match self.ask_once(reader, limit).await {
            Err(WitnessFault::Conflict(signed)) => {
                self.signed = signed;
                self.ask_once(reader, limit).await
            }
            asked => asked,
        }
    }

    async fn ask_once(&mut self, reader: &LogReader, limit: Duration) -> Result<String, WitnessFault> {
        let request = WitnessRequest::new(reader, self.signed)?;
        let (url, authorities) = (&self.target.url, self.target.authorities.as_deref());
        let (content_type, headers, body) = ("text/plain", Vec::new(), request.body.clone().into_bytes());
        let answer = post(limit, PostedMessage { url, authorities, content_type, headers, body }).await;
        let (status, body) = answer.map_err(|why| WitnessFault::Refused { status: 0, why })?;
        let line = request.cosignature(&self.target.key, status, &body)?;
        self.signed = reader.size();
        Ok(line)
    }

    fn report(&mut self, fault: String) {
        if self.fault.as_ref() != Some(&fault) {
            tracing::warn!(witness = self.target.key.name(), error = fault, "a witness has not cosigned the audit log");
        }
        self.fault = Some(fault);
    }
}

/// Answers requests for cosignatures for ever.
pub(super) async fn serve_for_ever(listener: TcpListener, witness: LogWitness) {
    let (witness, slots) = (Rc::new(RefCell::new(witness)), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((socket, _)) = listener.accept().await else {
            // No descriptors are left, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let witness = Rc::clone(&witness);
        tokio::task::spawn_local(async move {
            let _slot = slot;
            let answer = service_fn(move |request| {
                let witness = Rc::clone(&witness);
                async move { Ok::<_, Infallible>(answer(&witness, request).await) }
            });
            let served = http1::Builder::new().max_buf_size(16 << 10).serve_connection(TokioIo::new(socket), answer);
            // The peer has no other way to learn what was wrong.
            let _ = timeout(CONNECTION_TIME_MAX, served).await;
        });
    }
}

async fn answer(witness: &RefCell<LogWitness>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let plain = |status, body: &str| WitnessAnswer { status, content_type: "text/plain", body: body.to_owned() };
    let answer = if !request.uri().path().ends_with("/add-checkpoint") {
        plain(404, "not found\n")
    } else if request.method() != Method::POST {
        plain(405, "use POST\n")
    } else {
        match Limited::new(request.into_body(), WITNESS_REQUEST_SIZE_MAX).collect().await {
            Ok(body) => witness.borrow_mut().add_checkpoint(&body.to_bytes(), unix_s()),
            Err(_) => plain(400, "not a request, or too long\n"),
        }
    };
    let built = Response::builder().status(answer.status).header(CONTENT_TYPE, answer.content_type);
    built.body(Full::new(Bytes::from(answer.body))).expect("a status and a header of ours")
}
