//! A probe: sends the same small request repeatedly to the engine and through a relay, and raises an alarm if requests fail or are slow.

mod metrics;
mod webhook;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use leafseal_client::{Client, ClientError, ClientSettings, EncryptOptions, Scalar};
use leafseal_net::{OperatorPort, OperatorSettings};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout;

use crate::config::UpstreamSettings;
use crate::cut::cut;
use crate::policy::Origin;
use crate::upstream::{Connector, ConnectorError, Sent, Sockets, UpstreamPool};
use metrics::ProbeMetrics;
use webhook::Webhook;

/// Maximum bytes of an answer besides its values, each of which may take several times its size.
const ANSWER_SIZE_MAX: usize = 1 << 20;
/// Maximum size in bytes of the reason for a failure.
const FAILURE_SIZE_MAX: usize = 1 << 10;

/// The probe's requests, destinations and limits.
#[derive(Clone, Debug)]
pub struct ProbeSettings {
    /// The app for which the engine encrypts.
    pub app: String,
    /// Values per request; 100 is common for alarms of this kind.
    pub count: usize,
    /// Size of a value in bytes.
    pub size: usize,
    /// Time after which a request counts as failed.
    pub limit: Duration,
    /// Consecutive failures that raise the alarm, at least 1.
    pub failures_max: u32,
    /// The engine, if it is to be probed.
    pub engine: Option<ClientSettings>,
    /// The URL of an endpoint behind a relay, if one is to be probed: it must accept a POST of a JSON object and echo what the upstream
    /// received.
    pub relay: Option<String>,
    /// Whether the status of the relay's answer suffices; otherwise the answer must contain an envelope for each value, and no value in the
    /// clear.
    pub is_status_enough: bool,
    /// A URL that receives the start and the end of an alarm as a POST of JSON.
    pub webhook: Option<String>,
    /// Maximum duration of a call to the webhook; also the pause before a retry.
    pub webhook_timeout: Duration,
    /// Additional authorities for the relay and the webhook, PEM.
    pub authorities: Option<std::path::PathBuf>,
}

/// Why a probe could not be created.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// An invalid URL.
    #[error("{0}: write https://HOST[:PORT]/PATH")]
    Url(String),
    /// The engine's certificates cannot be used.
    #[error("{0}")]
    Engine(#[from] ClientError),
    /// The authorities cannot be used.
    #[error("{0}")]
    Authorities(#[from] ConnectorError),
}

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTarget {
    /// The engine.
    Engine,
    /// A relay.
    Relay,
}

impl ProbeTarget {
    /// The name in metrics and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeTarget::Engine => "engine",
            ProbeTarget::Relay => "relay",
        }
    }
}

/// The result of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its target.
    pub target: ProbeTarget,
    /// Its duration, until its failure if it failed.
    pub time: Duration,
    /// Why it failed; exceeding the time limit is a failure.
    pub failure: Option<String>,
}

/// The result of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// One sample per target.
    pub samples: Vec<Sample>,
    /// Whether an alarm is raised.
    pub is_alarm: bool,
    /// Whether this round raised or cleared the alarm.
    pub has_changed: bool,
}

struct Target {
    origin: Arc<Origin>,
    uri: Uri,
    host: HeaderValue,
}

/// A probe that runs on the caller's runtime.
pub struct Probe {
    settings: ProbeSettings,
    engine: Option<Client>,
    relay: Option<Target>,
    webhook: Option<Webhook>,
    pool: UpstreamPool,
    values: Vec<String>,
    document: Vec<u8>,
    failures: u32,
    metrics: Arc<ProbeMetrics>,
    port: Option<OperatorPort>,
}

impl Round {
    /// Formats the round for scripts and the webhook.
    pub fn json(&self) -> Value {
        let samples = self.samples.iter().map(|sample| {
            json!({
                "way": sample.target.as_str(),
                "ms": sample.time.as_micros() as f64 / 1e3,
                "failure": sample.failure,
            })
        });
        json!({ "alarm": self.is_alarm, "samples": samples.collect::<Vec<_>>() })
    }
}

impl Probe {
    /// Creates a probe; it sends nothing yet.
    ///
    /// # Errors
    /// If URLs, certificates or authorities cannot be used.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(settings: ProbeSettings) -> Result<Probe, ProbeError> {
        let upstream = UpstreamSettings { authorities: settings.authorities.clone(), ..UpstreamSettings::default() };
        let connector = Connector::new(&upstream, Path::new(""))?;
        let values: Vec<String> =
            (0..settings.count).map(|number| format!("{number:0size$}", size = settings.size)).collect();
        let fields: Vec<String> =
            values.iter().enumerate().map(|(at, value)| format!("\"f{at}\":\"{value}\"")).collect();
        let metrics = Arc::<ProbeMetrics>::default();
        let pool = UpstreamPool::new(connector, Sockets::new(upstream.sockets_max), None);
        let webhook = settings.webhook.as_deref().map(target).transpose()?;
        Ok(Probe {
            engine: settings.engine.clone().map(Client::new).transpose()?,
            relay: settings.relay.as_deref().map(target).transpose()?,
            webhook: webhook
                .map(|target| Webhook::start(pool.clone(), target, settings.webhook_timeout, Arc::clone(&metrics))),
            pool,
            document: format!("{{{}}}", fields.join(",")).into_bytes(),
            values,
            failures: 0,
            metrics,
            port: None,
            settings,
        })
    }

    /// Serves metrics at `address`; `/readyz` fails during an alarm. Returns the bound address.
    ///
    /// # Errors
    /// If the address is in use.
    pub fn serve_metrics(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let port = OperatorPort::start(address, &OperatorSettings::default(), Arc::clone(&self.metrics))?;
        let address = port.address();
        self.port = Some(port);
        Ok(address)
    }

    /// Sends one request to each target. If the alarm changes, the webhook is called in the background.
    pub async fn round(&mut self) -> Round {
        let mut samples = Vec::new();
        if let Some(client) = &self.engine {
            samples.push(self.sample(ProbeTarget::Engine, self.probe_engine(client)).await);
        }
        if let Some(target) = &self.relay {
            samples.push(self.sample(ProbeTarget::Relay, self.probe_relay(target)).await);
        }
        let has_failed = samples.iter().any(|sample| sample.failure.is_some());
        self.failures = if has_failed { self.failures.saturating_add(1) } else { 0 };
        let was_alarm = self.metrics.is_alarm();
        // An alarm is cleared by the first round without a failure.
        let is_alarm = self.failures >= self.settings.failures_max || (was_alarm && self.failures > 0);
        self.metrics.count(&samples, is_alarm);
        let round = Round { samples, is_alarm, has_changed: is_alarm != was_alarm };
        if round.has_changed
            && let Some(webhook) = &self.webhook
        {
            webhook.send(round.json().to_string());
        }
        round
    }

    /// Waits until the webhook has received all messages, within its time limit.
    pub async fn finish(self) {
        if let Some(webhook) = self.webhook {
            webhook.finish().await;
        }
    }

    async fn sample(&self, target: ProbeTarget, request: impl Future<Output = Result<(), String>>) -> Sample {
        let limit = self.settings.limit;
        let began = Instant::now();
        let outcome = timeout(limit, request).await;
        let failure = match outcome {
            Ok(Ok(())) => None,
            // It waits for the webhook, and may contain what another program answered.
            Ok(Err(error)) => Some(cut(&error, FAILURE_SIZE_MAX).into_owned()),
            Err(_) => Some(format!("it took longer than {} ms", limit.as_millis())),
        };
        Sample { target, time: began.elapsed(), failure }
    }

    async fn probe_engine(&self, client: &Client) -> Result<(), String> {
        let values: Vec<Scalar<'_>> = self.values.iter().map(|value| Scalar::from(value.as_str())).collect();
        let answer = client.encrypt(&EncryptOptions::new(&self.settings.app), &values).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.len() == values.len() {
            Ok(())
        } else {
            Err("the engine answered with another number of values".to_owned())
        }
    }

    async fn probe_relay(&self, target: &Target) -> Result<(), String> {
        let answer_max = self.document.len().saturating_mul(4).saturating_add(ANSWER_SIZE_MAX);
        let (status, body) = post(&self.pool, target, self.document.clone(), answer_max).await?;
        if !status.is_success() {
            return Err(format!("it was answered with status {}", status.as_u16()));
        }
        if self.settings.is_status_enough { Ok(()) } else { self.check_sealed(&body) }
    }

    /// Checks what the upstream received, as its answer reports it.
    fn check_sealed(&self, answer: &[u8]) -> Result<(), String> {
        let answer: Value = serde_json::from_slice(answer)
            .map_err(|_| "the upstream did not answer with the JSON that came to it".to_owned())?;
        let (mut envelopes, mut is_plain) = (0, false);
        let mut left = vec![&answer];
        while let Some(value) = left.pop() {
            match value {
                Value::String(text) if text.starts_with("ev:") && text.ends_with(":$") => envelopes += 1,
                Value::String(text) => is_plain |= self.values.contains(text),
                Value::Array(values) => left.extend(values),
                Value::Object(members) => left.extend(members.values()),
                _ => {}
            }
        }
        if is_plain {
            return Err("values came to the upstream in the clear".to_owned());
        }
        let wanted = self.values.len();
        if envelopes < wanted {
            return Err(format!("{envelopes} envelopes came to the upstream, and not {wanted}"));
        }
        Ok(())
    }
}

/// Posts JSON; returns the status and body of the answer.
async fn post(
    pool: &UpstreamPool,
    target: &Target,
    body: Vec<u8>,
    answer_max: usize,
) -> Result<(StatusCode, Vec<u8>), String> {
    let mut request = Request::new(Sent::whole(body.into()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.uri.clone();
    request.headers_mut().insert(HOST, target.host.clone());
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer = pool.send(&target.origin, Box::new(request)).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), answer_max).collect().await;
    let body = body.map_err(|error| format!("the answer broke off: {error}"))?;
    Ok((status, body.to_bytes().into()))
}

fn target(url: &str) -> Result<Target, ProbeError> {
    let wrong = || ProbeError::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(wrong)?;
    let origin = Origin::parse(&format!("{scheme}://{authority}")).ok_or_else(wrong)?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).parse().map_err(|_| wrong())?;
    Ok(Target { origin: Arc::new(origin), uri: path, host })
}
