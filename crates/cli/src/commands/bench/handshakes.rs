//! `bench handshakes`: a new TLS connection for each request: with private-key operations one by one, in batches, with sessions that are
//! resumed, and with a hybrid key exchange, in turn. The others agree on X25519.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use boring::asn1::Asn1Time;
use boring::bn::{BigNum, MsbOption};
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::ssl::{SslConnector, SslFiletype, SslMethod, SslSession, SslSessionCacheMode};
use boring::x509::extension::SubjectAlternativeName;
use boring::x509::{X509, X509NameBuilder};
use leafseal_config::TlsGroup;
use leafseal_load::latencies::Latencies;
use leafseal_load::report::Provenance;
use leafseal_net::tls::offer_session;
use serde_json::{Value, json};

use super::engine::BenchTarget;
use crate::arguments::{CertificateKey, GlobalArguments, HandshakesArguments};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::{print, print_json};
use crate::progress::TerminalProgress;

/// The protocol of the RPC listener, as in ALPN.
const RPC: &[u8] = b"\x0aleafseal/1";
/// A request for the engine's health, in MessagePack: `[0, 1, "health", [{}]]`.
const HEALTH: &[u8] = b"\x94\x00\x01\xa6health\x91\x80";
/// How long a connection may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The request of a connection to the API; its answer is of no interest.
const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Measures and prints the table.
pub(super) fn run(global: &GlobalArguments, arguments: &HandshakesArguments) -> CommandOutcome {
    let keys = if arguments.key.is_empty() { &CertificateKey::ALL[..] } else { &arguments.key };
    let steps = keys.len() * arguments.open.len() * 2 * HandshakeMode::ALL.len() * arguments.rounds as usize;
    let progress = TerminalProgress::steps("measuring", steps);
    let mut groups = Vec::new();
    for key in keys {
        groups.extend(measure(global, arguments, *key, &progress)?);
    }
    drop(progress);
    let provenance = Provenance::new(global.set.clone());
    if arguments.form.json { print_json(&as_json(&groups, &provenance)) } else { print(&as_text(&groups, &provenance)) }
}

/// How handshakes are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeMode {
    /// Full, with private-key operations one by one: what the others are compared with.
    Plain,
    /// Full, with private-key operations in batches.
    Batched,
    /// With the session of the connection before.
    Resumed,
    /// Full, with private-key operations one by one and a hybrid key exchange.
    Hybrid,
}

impl HandshakeMode {
    const ALL: [Self; 4] = [Self::Plain, Self::Batched, Self::Resumed, Self::Hybrid];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "one by one",
            Self::Batched => "in batches",
            Self::Resumed => "resumed",
            Self::Hybrid => "hybrid",
        }
    }

    /// The value of `private_key_batching`.
    fn batching(self) -> &'static str {
        if matches!(self, Self::Plain | Self::Hybrid) { "off" } else { "auto" }
    }
}

/// A listener of the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BenchListener {
    /// HTTPS, without client certificates.
    Api,
    /// RPC, with client certificates.
    Rpc,
}

/// The result of one configuration.
#[derive(Clone, Default)]
struct HandshakeFigures {
    latencies: Latencies,
    failed: u64,
    cpu: Duration,
    elapsed: Duration,
}

impl HandshakeFigures {
    fn add(&mut self, other: &HandshakeFigures) {
        self.latencies.add(&other.latencies);
        self.failed += other.failed;
        self.cpu += other.cpu;
        self.elapsed += other.elapsed;
    }

    fn rate(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds of the engine's CPU time.
    fn cpu_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.latencies.count().max(1) as f64
    }

    fn quantile(&self, share: f64) -> f64 {
        self.latencies.quantile(share).as_secs_f64() * 1e6
    }
}

/// Measurements that are compared: one for each mode.
struct ComparedModes {
    key: CertificateKey,
    listener: BenchListener,
    open: u16,
    figures: [HandshakeFigures; HandshakeMode::ALL.len()],
}

fn measure(
    global: &GlobalArguments,
    arguments: &HandshakesArguments,
    key: CertificateKey,
    progress: &TerminalProgress,
) -> CommandOutcome<Vec<ComparedModes>> {
    let [plain, batched] =
        [HandshakeMode::Plain, HandshakeMode::Batched].map(|mode| start(global, key, mode.batching()));
    let (plain, batched) = (plain?, batched?);
    let mut groups = Vec::new();
    for listener in [BenchListener::Api, BenchListener::Rpc] {
        let group = |open: &u16| ComparedModes { key, listener, open: *open, figures: Default::default() };
        groups.extend(arguments.open.iter().map(group));
    }
    for _ in 0..arguments.rounds {
        for group in &mut groups {
            for (figures, mode) in group.figures.iter_mut().zip(HandshakeMode::ALL) {
                let server = if mode.batching() == "off" { &plain } else { &batched };
                let duration = arguments.duration / arguments.rounds;
                figures.add(&drive(server, group.listener, mode, group.open, duration)?);
                progress.add(1);
            }
        }
    }
    Ok(groups)
}

/// An engine, and what a client needs for its listeners.
struct HandshakeServer {
    target: BenchTarget,
    api: HandshakeClient,
    rpc: HandshakeClient,
}

/// A client of one listener.
#[derive(Clone)]
struct HandshakeClient {
    address: SocketAddr,
    listener: BenchListener,
    connector: SslConnector,
    /// The same with a hybrid key exchange.
    hybrid: SslConnector,
    /// The newest session, for connections that resume one.
    session: Arc<Mutex<Option<SslSession>>>,
}

fn start(global: &GlobalArguments, key: CertificateKey, batching: &str) -> CommandOutcome<HandshakeServer> {
    let settings = [
        "api.address=127.0.0.1:0".to_owned(),
        format!("server.private_key_batching={batching}"),
        format!("api.private_key_batching={batching}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut files = None;
    let target = BenchTarget::start_with(global, &settings, |context, client| {
        write_certificate(context, key)?;
        let authority = context.certificates().join("server.pem");
        files = Some((authority, client.0.to_owned(), client.1.to_owned()));
        Ok(())
    })?;
    let (authority, certificate, key) = files.expect("made before the engine starts");
    let [rpc_address, api_address] =
        target.addresses.ok_or_else(|| CommandFailure::internal("no address of the API"))?;
    let api = HandshakeClient::new(api_address, BenchListener::Api, &authority, None).map_err(library)?;
    let rpc = HandshakeClient::new(rpc_address, BenchListener::Rpc, &authority, Some((&certificate, &key)))
        .map_err(library)?;
    Ok(HandshakeServer { target, api, rpc })
}

fn library(error: ErrorStack) -> CommandFailure {
    CommandFailure::internal(format!("the TLS library failed: {error}"))
}

/// Replaces the engine's certificate by one with this key, which signs itself.
fn write_certificate(context: &RunContext, key: CertificateKey) -> CommandOutcome {
    let key = generate(key).map_err(library)?;
    let certificate = certificate(&key).map_err(library)?;
    let folder = context.certificates();
    let write = |name: &str, pem: Vec<u8>| {
        std::fs::write(folder.join(name), pem).map_err(|error| CommandFailure::writing("a certificate", &error))
    };
    write("server.pem", certificate.to_pem().map_err(library)?)?;
    write("server.key", key.private_key_to_pem_pkcs8().map_err(library)?)
}

fn generate(key: CertificateKey) -> Result<PKey<Private>, ErrorStack> {
    let rsa = |bits| PKey::from_rsa(Rsa::generate(bits)?);
    match key {
        CertificateKey::Rsa2048 => rsa(2048),
        CertificateKey::Rsa3072 => rsa(3072),
        CertificateKey::Rsa4096 => rsa(4096),
        CertificateKey::P256 => {
            let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
            PKey::from_ec_key(EcKey::generate(&group)?)
        }
    }
}

fn certificate(key: &PKey<Private>) -> Result<X509, ErrorStack> {
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, "localhost")?;
    let name = name.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let serial = serial.to_asn1_integer()?;
    let (start, end) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(1)?);
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(&name)?;
    builder.set_issuer_name(&name)?;
    builder.set_pubkey(key)?;
    builder.set_not_before(&start)?;
    builder.set_not_after(&end)?;
    let names = SubjectAlternativeName::new().dns("localhost").build(&builder.x509v3_context(None, None))?;
    builder.append_extension(&names)?;
    builder.sign(key, MessageDigest::sha256())?;
    Ok(builder.build())
}

impl HandshakeClient {
    /// One that trusts this certificate; with its own certificate, for RPC.
    fn new(
        address: SocketAddr,
        listener: BenchListener,
        authority: &Path,
        own: Option<(&Path, &Path)>,
    ) -> Result<Self, ErrorStack> {
        let session = Arc::new(Mutex::new(None));
        let connector = |group: TlsGroup| Self::connector(group, authority, own, &session);
        let (connector, hybrid) = (connector(TlsGroup::X25519)?, connector(TlsGroup::X25519MlKem768)?);
        Ok(Self { address, listener, connector, hybrid, session })
    }

    fn connector(
        group: TlsGroup,
        authority: &Path,
        own: Option<(&Path, &Path)>,
        session: &Arc<Mutex<Option<SslSession>>>,
    ) -> Result<SslConnector, ErrorStack> {
        let mut connector = SslConnector::builder(SslMethod::tls())?;
        connector.set_curves_list(group.as_str())?;
        connector.set_ca_file(authority)?;
        if let Some((certificate, key)) = own {
            connector.set_certificate_chain_file(certificate)?;
            connector.set_private_key_file(key, SslFiletype::PEM)?;
            connector.set_alpn_protos(RPC)?;
        }
        let newest = Arc::clone(session);
        connector.set_session_cache_mode(SslSessionCacheMode::CLIENT);
        connector.set_new_session_callback(move |_, session| {
            *newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        });
        Ok(connector.build())
    }

    /// One connection, to its end. Returns how long it took until the handshake had succeeded on this side, and whether it resumed a
    /// session.
    fn connect(&self, session: Option<&SslSession>, mode: HandshakeMode) -> Option<(Duration, bool)> {
        let start = Instant::now();
        let socket = TcpStream::connect_timeout(&self.address, TIMEOUT).ok()?;
        socket.set_read_timeout(Some(TIMEOUT)).ok()?;
        socket.set_nodelay(true).ok()?;
        let connector = if mode == HandshakeMode::Hybrid { &self.hybrid } else { &self.connector };
        let mut ssl = connector.configure().ok()?.into_ssl("localhost").ok()?;
        if let Some(session) = session {
            offer_session(&mut ssl, session).ok()?;
        }
        let mut stream = ssl.connect(socket).ok()?;
        let (latency, is_resumed) = (start.elapsed(), stream.ssl().session_reused());
        match self.listener {
            BenchListener::Api => stream.write_all(REQUEST).ok()?,
            BenchListener::Rpc => {
                stream.write_all(HEALTH).ok()?;
                // Tickets come with the first answer.
                stream.read_exact(&mut [0]).ok()?;
                stream.shutdown().ok()?;
            }
        }
        // Until the server has closed.
        let _ = stream.read_to_end(&mut Vec::new());
        Some((latency, is_resumed))
    }

    fn connect_until(&self, deadline: Instant, mode: HandshakeMode) -> HandshakeFigures {
        let mut figures = HandshakeFigures::default();
        while Instant::now() < deadline {
            let newest = || self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let session = if mode == HandshakeMode::Resumed { newest() } else { None };
            match self.connect(session.as_ref(), mode) {
                Some((latency, is_resumed)) if is_resumed == (mode == HandshakeMode::Resumed) => {
                    figures.latencies.record(latency);
                }
                _ => figures.failed += 1,
            }
        }
        figures
    }
}

/// Opens connections for a while, each closed after its request, `open` at a time.
fn drive(
    server: &HandshakeServer,
    listener: BenchListener,
    mode: HandshakeMode,
    open: u16,
    duration: Duration,
) -> CommandOutcome<HandshakeFigures> {
    let client = match listener {
        BenchListener::Api => &server.api,
        BenchListener::Rpc => &server.rpc,
    };
    // For a session, if one is needed.
    client.connect(None, mode);
    let process = server.target.process.as_ref().expect("the engine is a child");
    let cpu = || {
        process.cpu().map_err(|error| CommandFailure::internal(format!("cannot read the engine's CPU time: {error}")))
    };
    let (before, start) = (cpu()?, Instant::now());
    let deadline = start + duration;
    let threads: Vec<_> = (0..open)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.connect_until(deadline, mode))
        })
        .collect();
    let mut figures = HandshakeFigures::default();
    for thread in threads {
        figures.add(&thread.join().map_err(|_| CommandFailure::internal("a client thread panicked"))?);
    }
    (figures.cpu, figures.elapsed) = (cpu()?.since(&before).total(), start.elapsed());
    if figures.latencies.count() == 0 {
        return Err(CommandFailure::failed("no handshake succeeded"));
    }
    Ok(figures)
}

impl ComparedModes {
    fn listener(&self) -> &'static str {
        if self.listener == BenchListener::Api { "API" } else { "RPC, client certificate" }
    }
}

fn as_text(groups: &[ComparedModes], provenance: &Provenance) -> String {
    let mut out = provenance.text();
    out.push_str(
        "a new connection for each request; ratios to full handshakes with private-key operations one by one and X25519\n\n",
    );
    out.push_str(&format!(
        "{:<9}{:<25}{:>5}  {:<11}{:>16}{:>22}{:>16}{:>16}\n",
        "key", "listener", "open", "handshakes", "per s", "engine's CPU µs each", "p50 µs", "p99 µs"
    ));
    for group in groups {
        for (mode, figures) in HandshakeMode::ALL.iter().zip(&group.figures) {
            let cell = |figure: fn(&HandshakeFigures) -> f64| {
                let (value, plain) = (figure(figures), figure(&group.figures[0]));
                if *mode == HandshakeMode::Plain {
                    format!("{value:.0}")
                } else {
                    format!("{value:.0} {:.2}x", value / plain)
                }
            };
            out.push_str(&format!(
                "{:<9}{:<25}{:>5}  {:<11}{:>16}{:>22}{:>16}{:>16}\n",
                group.key.name(),
                group.listener(),
                group.open,
                mode.name(),
                cell(HandshakeFigures::rate),
                cell(HandshakeFigures::cpu_each),
                cell(|figures| figures.quantile(0.5)),
                cell(|figures| figures.quantile(0.99)),
            ));
        }
    }
    let failed: u64 = groups.iter().flat_map(|group| &group.figures).map(|figures| figures.failed).sum();
    if failed > 0 {
        out.push_str(&format!("\n{failed} handshakes failed, or were of another kind than they should be\n"));
    }
    out
}

fn as_json(groups: &[ComparedModes], provenance: &Provenance) -> Value {
    let figures = |figures: &HandshakeFigures| {
        json!({
            "handshakes": figures.latencies.count(),
            "failed": figures.failed,
            "per_s": figures.rate(),
            "cpu_us": figures.cpu_each(),
            "p50_us": figures.quantile(0.5),
            "p99_us": figures.quantile(0.99),
        })
    };
    let group = |group: &ComparedModes| {
        let [plain, batched, resumed, hybrid] = group.figures.each_ref().map(figures);
        json!({
            "key": group.key.name(),
            "client_certificate": group.listener == BenchListener::Rpc,
            "open": group.open,
            "batching_off": plain,
            "batching_auto": batched,
            "resumed": resumed,
            "hybrid": hybrid,
        })
    };
    let mut report = provenance.json("handshakes");
    report["rows"] = groups.iter().map(group).collect();
    report
}
