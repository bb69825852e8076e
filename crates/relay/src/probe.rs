//! The probe: the same small request again and again, through the engine and through a relay, and an alarm when it takes too long.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fieldseal_client::{Client, ClientError, ClientSettings, EncryptOptions, Scalar};
use fieldseal_http::{OperatorPort, OperatorSettings, Report};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use thiserror::Error;
use tokio::time::timeout;

use crate::config::{Origin, UpstreamSettings};
use crate::upstream::{Connector, ConnectorError, Pool, Sent};

/// What is sent, where, and when that is too slow.
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
    /// A URL behind a relay, if one is probed: it takes a POST of a JSON object.
    pub relay: Option<String>,
    /// A URL that is told of an alarm and of its end, by a POST of JSON.
    pub webhook: Option<String>,
    /// Further authorities of relay and webhook, PEM.
    pub authorities: Option<std::path::PathBuf>,
}

/// Why there is no probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// A URL that is none.
    #[error("{0}: it takes https://HOST[:PORT]/PATH")]
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

/// What one round showed.
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

/// What is told at the operator port.
#[derive(Default)]
struct Told(Mutex<Counts>);

#[derive(Clone, Default)]
struct Counts {
    /// By way: the last time, successes, failures, and the sum of times.
    ways: [(Duration, u64, u64, Duration); 2],
    is_alarm: bool,
    alarms: u64,
}

/// Probes. It lives on the runtime of whoever calls it.
pub struct Probe {
    settings: ProbeSettings,
    engine: Option<Client>,
    relay: Option<Target>,
    webhook: Option<Target>,
    pool: Pool,
    values: Vec<String>,
    document: Vec<u8>,
    failures: u32,
    told: Arc<Told>,
    port: Option<OperatorPort>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("nothing panics while this is locked")
    }
}

impl Report for Told {
    async fn readiness(&self) -> Result<(), String> {
        if self.lock().is_alarm { Err("alarm".to_owned()) } else { Ok(()) }
    }

    fn metrics(&self) -> String {
        let counts = self.lock().clone();
        let mut out = String::new();
        let _ = writeln!(
            out,
            "# TYPE fieldseal_probe_seconds gauge\n# HELP fieldseal_probe_seconds Time of the last request."
        );
        let ways = || [Way::Engine, Way::Relay].into_iter().zip(counts.ways);
        for (way, (last, ..)) in ways() {
            let _ = writeln!(out, "fieldseal_probe_seconds{{way=\"{}\"}} {}", way.as_str(), last.as_secs_f64());
        }
        let _ = writeln!(
            out,
            "# TYPE fieldseal_probe_requests counter\n# HELP fieldseal_probe_requests Requests, by how they went."
        );
        for (way, (_, good, bad, _)) in ways() {
            let way = way.as_str();
            let _ = writeln!(out, "fieldseal_probe_requests_total{{way=\"{way}\",outcome=\"ok\"}} {good}");
            let _ = writeln!(out, "fieldseal_probe_requests_total{{way=\"{way}\",outcome=\"failed\"}} {bad}");
        }
        let _ = writeln!(
            out,
            "# TYPE fieldseal_probe_request_seconds counter\n# HELP fieldseal_probe_request_seconds Time of all requests together."
        );
        for (way, (.., sum)) in ways() {
            let _ = writeln!(
                out,
                "fieldseal_probe_request_seconds_total{{way=\"{}\"}} {}",
                way.as_str(),
                sum.as_secs_f64()
            );
        }
        let _ = writeln!(
            out,
            "# TYPE fieldseal_probe_alarm gauge\n# HELP fieldseal_probe_alarm 1 while there is an alarm."
        );
        let _ = writeln!(out, "fieldseal_probe_alarm {}", u8::from(counts.is_alarm));
        let _ = writeln!(
            out,
            "# TYPE fieldseal_probe_alarms counter\n# HELP fieldseal_probe_alarms Alarms since the start."
        );
        let _ = writeln!(out, "fieldseal_probe_alarms_total {}\n# EOF", counts.alarms);
        out
    }

    fn cannot_accept(&self, error: &io::Error) {
        tracing::error!(%error, "cannot accept connections at the operator port");
    }
}

impl Probe {
    /// A probe that has not sent anything yet.
    ///
    /// # Errors
    /// URLs, certificates or authorities that cannot be used.
    pub fn new(settings: ProbeSettings) -> Result<Probe, ProbeError> {
        let upstream = UpstreamSettings { authorities: settings.authorities.clone(), ..UpstreamSettings::default() };
        let connector = Connector::new(&upstream, Path::new(""))?;
        let values: Vec<String> =
            (0..settings.count).map(|number| format!("{number:0size$}", size = settings.size)).collect();
        let fields: Vec<String> =
            values.iter().enumerate().map(|(at, value)| format!("\"f{at}\":\"{value}\"")).collect();
        Ok(Probe {
            engine: settings.engine.clone().map(Client::new).transpose()?,
            relay: settings.relay.as_deref().map(target).transpose()?,
            webhook: settings.webhook.as_deref().map(target).transpose()?,
            pool: Pool::new(connector),
            document: format!("{{{}}}", fields.join(",")).into_bytes(),
            values,
            failures: 0,
            told: Arc::default(),
            port: None,
            settings,
        })
    }

    /// Tells metrics at `address` from now on; `/readyz` fails during an alarm. Gives where it listens.
    ///
    /// # Errors
    /// An address that is taken.
    pub fn tell(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let port = OperatorPort::start(address, &OperatorSettings::default(), Arc::clone(&self.told))?;
        let address = port.address();
        self.port = Some(port);
        Ok(address)
    }

    /// One request each way; tells the webhook where the alarm begins or ends.
    pub async fn round(&mut self) -> Round {
        let mut samples = Vec::new();
        if let Some(client) = &self.engine {
            samples.push(self.sample(Way::Engine, self.ask_engine(client)).await);
        }
        if let Some(target) = &self.relay {
            samples.push(self.sample(Way::Relay, self.post(target, self.document.clone())).await);
        }
        let has_failed = samples.iter().any(|sample| sample.failure.is_some());
        self.failures = if has_failed { self.failures.saturating_add(1) } else { 0 };
        let (is_alarm, has_changed) = self.count(&samples);
        let round = Round { samples, is_alarm, has_changed };
        if has_changed && let Some(webhook) = &self.webhook {
            let limit = self.settings.limit.max(Duration::from_secs(5));
            match timeout(limit, self.post(webhook, message(&round))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(error, "the webhook was not told"),
                Err(_) => tracing::error!("the webhook did not answer in time"),
            }
        }
        round
    }

    fn count(&self, samples: &[Sample]) -> (bool, bool) {
        let mut counts = self.told.lock();
        for sample in samples {
            let (last, good, bad, sum) = &mut counts.ways[sample.way as usize];
            *last = sample.time;
            *sum += sample.time;
            *(if sample.failure.is_some() { bad } else { good }) += 1;
        }
        // An alarm ends with the first round that goes well.
        let is_alarm = self.failures >= self.settings.failures_max || (counts.is_alarm && self.failures > 0);
        let has_changed = is_alarm != counts.is_alarm;
        counts.alarms += u64::from(is_alarm && has_changed);
        counts.is_alarm = is_alarm;
        (is_alarm, has_changed)
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

    async fn post(&self, target: &Target, body: Vec<u8>) -> Result<(), String> {
        let mut request = Request::new(Sent::Whole(Some(body.into())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.uri.clone();
        request.headers_mut().insert(HOST, target.host.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = self.pool.send(&target.origin, request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        answer.into_body().collect().await.map_err(|error| error.to_string())?;
        if status.is_success() { Ok(()) } else { Err(format!("it was answered with status {}", status.as_u16())) }
    }
}

fn target(url: &str) -> Result<Target, ProbeError> {
    let wrong = || ProbeError::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let is_tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(wrong()),
    };
    let authority = uri.authority().ok_or_else(wrong)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').into();
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let header = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).parse().map_err(|_| wrong())?;
    Ok(Target { origin: Arc::new(Origin { is_tls, host, port }), uri: path, host: header })
}

/// What the webhook is told.
fn message(round: &Round) -> Vec<u8> {
    let samples = round.samples.iter().map(|sample| {
        serde_json::json!({
            "way": sample.way.as_str(),
            "ms": sample.time.as_micros() as f64 / 1e3,
            "failure": sample.failure,
        })
    });
    serde_json::json!({ "alarm": round.is_alarm, "samples": samples.collect::<Vec<_>>() }).to_string().into_bytes()
}
