//! The probe: the same small request again and again, through the engine and through a relay, and an alarm when it takes too long.

mod metrics;
mod webhook;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fieldseal_client::{Client, ClientError, ClientSettings, EncryptOptions, Scalar};
use fieldseal_net::{OperatorPort, OperatorSettings};
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout;

use crate::config::{Origin, UpstreamSettings};
use crate::upstream::{Connector, ConnectorError, Pool, Sent, Sockets};
use metrics::ProbeMetrics;
use webhook::Webhook;

/// Maximum bytes of an answer besides the values themselves, each of which may take a few times its size.
const ANSWER_SIZE_MAX: usize = 1 << 20;

/// The requests of the probe, their destinations, and the time limit.
#[derive(Clone, Debug)]
pub struct ProbeSettings {
    /// The app for which the engine encrypts.
    pub app: String,
    /// Values of a request. 100 is what alarms of this kind commonly send.
    pub count: usize,
    /// Bytes of a value.
    pub size: usize,
    /// A request that takes longer counts as failed.
    pub limit: Duration,
    /// Failures one after the other that raise the alarm, at least 1.
    pub failures_max: u32,
    /// The engine, if it is probed.
    pub engine: Option<ClientSettings>,
    /// A URL behind a relay, if one is probed: it must accept a POST of a JSON object, and answer with what the upstream received.
    pub relay: Option<String>,
    /// Whether the status of the relay's answer suffices; else it must contain an envelope for each value, and no value in the
    /// clear.
    pub is_status_enough: bool,
    /// A URL that receives the start and the end of an alarm, by a POST of JSON.
    pub webhook: Option<String>,
    /// How long the webhook may take to answer; also the pause before a message that failed is sent again.
    pub webhook_timeout: Duration,
    /// Further authorities of relay and webhook, PEM.
    pub authorities: Option<std::path::PathBuf>,
}

/// Why there is no probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// A URL that is none.
    #[error("{0}: write https://HOST[:PORT]/PATH")]
    Url(String),
    /// Certificates of the engine.
    #[error("{0}")]
    Engine(#[from] ClientError),
    /// The authorities.
    #[error("{0}")]
    Authorities(#[from] ConnectorError),
}

/// Where a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the engine.
    Engine,
    /// Through a relay.
    Relay,
}

impl Way {
    /// The word in metrics and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Way::Engine => "engine",
            Way::Relay => "relay",
        }
    }
}

/// How one request went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Where it went.
    pub way: Way,
    /// How long it took, up to its failure where it failed.
    pub time: Duration,
    /// Why it failed; too slow counts.
    pub failure: Option<String>,
}

/// The result of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Each way.
    pub samples: Vec<Sample>,
    /// Whether there is an alarm now.
    pub is_alarm: bool,
    /// Whether that has changed with this round.
    pub has_changed: bool,
}

struct Target {
    origin: Arc<Origin>,
    uri: Uri,
    host: HeaderValue,
}

/// Runs the probe on the caller's runtime.
pub struct Probe {
    settings: ProbeSettings,
    engine: Option<Client>,
    relay: Option<Target>,
    webhook: Option<Webhook>,
    pool: Pool,
    values: Vec<String>,
    document: Vec<u8>,
    failures: u32,
    metrics: Arc<ProbeMetrics>,
    port: Option<OperatorPort>,
}

impl Round {
    /// As scripts and the webhook read it.
    pub fn json(&self) -> Value {
        let samples = self.samples.iter().map(|sample| {
            json!({
                "way": sample.way.as_str(),
                "ms": sample.time.as_micros() as f64 / 1e3,
                "failure": sample.failure,
            })
        });
        json!({ "alarm": self.is_alarm, "samples": samples.collect::<Vec<_>>() })
    }
}

impl Probe {
    /// A probe that has not sent anything yet.
    ///
    /// # Errors
    /// URLs, certificates or authorities that cannot be used.
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
        let pool = Pool::new(connector, Sockets::new(upstream.sockets_max), None);
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

    /// Tells metrics at `address` from now on; `/readyz` fails during an alarm. Gives where it listens.
    ///
    /// # Errors
    /// An address that is taken.
    pub fn tell(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let port = OperatorPort::start(address, &OperatorSettings::default(), Arc::clone(&self.metrics))?;
        let address = port.address();
        self.port = Some(port);
        Ok(address)
    }

    /// One request each way. Where the alarm begins or ends the webhook is metrics, for which nothing waits.
    pub async fn round(&mut self) -> Round {
        let mut samples = Vec::new();
        if let Some(client) = &self.engine {
            samples.push(self.sample(Way::Engine, self.ask_engine(client)).await);
        }
        if let Some(target) = &self.relay {
            samples.push(self.sample(Way::Relay, self.ask_relay(target)).await);
        }
        let has_failed = samples.iter().any(|sample| sample.failure.is_some());
        self.failures = if has_failed { self.failures.saturating_add(1) } else { 0 };
        let was_alarm = self.metrics.is_alarm();
        // An alarm ends with the first round that goes well.
        let is_alarm = self.failures >= self.settings.failures_max || (was_alarm && self.failures > 0);
        self.metrics.count(&samples, is_alarm);
        let round = Round { samples, is_alarm, has_changed: is_alarm != was_alarm };
        if round.has_changed
            && let Some(webhook) = &self.webhook
        {
            webhook.tell(round.json().to_string());
        }
        round
    }

    /// Waits until the webhook has received all messages, for as long as it may take to answer.
    pub async fn finish(self) {
        if let Some(webhook) = self.webhook {
            webhook.finish().await;
        }
    }

    async fn sample(&self, way: Way, request: impl Future<Output = Result<(), String>>) -> Sample {
        let limit = self.settings.limit;
        let began = Instant::now();
        let outcome = timeout(limit, request).await;
        let failure = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(format!("it took longer than {} ms", limit.as_millis())),
        };
        Sample { way, time: began.elapsed(), failure }
    }

    async fn ask_engine(&self, client: &Client) -> Result<(), String> {
        let values: Vec<Scalar<'_>> = self.values.iter().map(|value| Scalar::from(value.as_str())).collect();
        let answer = client.encrypt(&EncryptOptions::new(&self.settings.app), &values).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.len() == values.len() {
            Ok(())
        } else {
            Err("the engine answered with another number of values".to_owned())
        }
    }

    async fn ask_relay(&self, target: &Target) -> Result<(), String> {
        let answer_max = self.document.len().saturating_mul(4).saturating_add(ANSWER_SIZE_MAX);
        let (status, body) = post(&self.pool, target, self.document.clone(), answer_max).await?;
        if !status.is_success() {
            return Err(format!("it was answered with status {}", status.as_u16()));
        }
        if self.settings.is_status_enough { Ok(()) } else { self.check_sealed(&body) }
    }

    /// Checks what the upstream received, by its own report.
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

/// A POST of JSON; status and body of the answer.
async fn post(pool: &Pool, target: &Target, body: Vec<u8>, answer_max: usize) -> Result<(StatusCode, Vec<u8>), String> {
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
