//! `bench handshakes`: a new TLS connection for each request, with private-key operations in batches and one by one in turn.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boring::asn1::Asn1Time;
use boring::bn::{BigNum, MsbOption};
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::ssl::{SslConnector, SslFiletype, SslMethod};
use boring::x509::extension::SubjectAlternativeName;
use boring::x509::{X509, X509NameBuilder};
use fieldseal_load::latencies::Latencies;
use fieldseal_load::report::Provenance;
use serde_json::{Value, json};

use super::engine::Target;
use crate::arguments::{CertificateKey, GlobalArguments, HandshakesArguments};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::progress::Progress;

/// The protocol of the RPC listener, as in ALPN.
const RPC: &[u8] = b"\x0bfieldseal/1";
/// How long a connection may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The request of a connection to the API; its answer is of no interest.
const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Measures and prints the table.
pub(super) fn run(global: &GlobalArguments, arguments: &HandshakesArguments) -> Outcome {
    let keys = if arguments.key.is_empty() { &CertificateKey::ALL[..] } else { &arguments.key };
    let steps = keys.len() * arguments.open.len() * 2 * BATCHING.len() * arguments.rounds as usize;
    let progress = Progress::steps("measuring", steps);
    let mut rows = Vec::new();
    for key in keys {
        rows.extend(measure(global, arguments, *key, &progress)?);
    }
    drop(progress);
    let provenance = Provenance::new(global.set.clone());
    if arguments.form.json { print_json(&as_json(&rows, &provenance)) } else { print(&as_text(&rows, &provenance)) }
}

/// Values of `private_key_batching`, in the order of a pair.
const BATCHING: [&str; 2] = ["auto", "off"];

/// A listener of the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// HTTPS, without client certificates.
    Api,
    /// RPC, with client certificates.
    Rpc,
}

/// What one configuration did.
#[derive(Clone, Default)]
struct Figures {
    latencies: Latencies,
    failed: u64,
    cpu: Duration,
    elapsed: Duration,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
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

/// A row: with batches, and without.
struct Row {
    key: CertificateKey,
    listener: Listener,
    open: u16,
    figures: [Figures; 2],
}

fn measure(
    global: &GlobalArguments,
    arguments: &HandshakesArguments,
    key: CertificateKey,
    progress: &Progress,
) -> Outcome<Vec<Row>> {
    let servers = [start(global, key, BATCHING[0])?, start(global, key, BATCHING[1])?];
    let mut rows = Vec::new();
    for listener in [Listener::Api, Listener::Rpc] {
        rows.extend(arguments.open.iter().map(|open| Row { key, listener, open: *open, figures: Default::default() }));
    }
    for _ in 0..arguments.rounds {
        for row in &mut rows {
            for (figures, server) in row.figures.iter_mut().zip(&servers) {
                figures.add(&drive(server, row.listener, row.open, arguments.duration / arguments.rounds)?);
                progress.add(1);
            }
        }
    }
    Ok(rows)
}

/// An engine, and what a client needs for its listeners.
struct Server {
    target: Target,
    api: (SocketAddr, SslConnector),
    rpc: (SocketAddr, SslConnector),
}

fn start(global: &GlobalArguments, key: CertificateKey, batching: &str) -> Outcome<Server> {
    let settings = [
        "api.address=127.0.0.1:0".to_owned(),
        format!("server.private_key_batching={batching}"),
        format!("api.private_key_batching={batching}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut connectors = None;
    let target = Target::start_with(global, &settings, |context, client| {
        write_certificate(context, key)?;
        let authority = context.certificates().join("server.pem");
        let connector = |client| connector(&authority, client).map_err(library);
        connectors = Some((connector(None)?, connector(Some(client))?));
        Ok(())
    })?;
    let (api, rpc) = connectors.expect("made before the engine starts");
    let [rpc_address, api_address] = target.addresses.ok_or_else(|| Failure::internal("no address of the API"))?;
    Ok(Server { target, api: (api_address, api), rpc: (rpc_address, rpc) })
}

fn library(error: ErrorStack) -> Failure {
    Failure::internal(format!("the TLS library failed: {error}"))
}

/// Replaces the engine's certificate by one with this key, which signs itself.
fn write_certificate(context: &Context, key: CertificateKey) -> Outcome {
    let key = generate(key).map_err(library)?;
    let certificate = certificate(&key).map_err(library)?;
    let folder = context.certificates();
    let write = |name: &str, pem: Vec<u8>| {
        std::fs::write(folder.join(name), pem).map_err(|error| Failure::writing("a certificate", &error))
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

/// A client that trusts this certificate; with its own certificate, one for RPC.
fn connector(authority: &Path, client: Option<(&Path, &Path)>) -> Result<SslConnector, ErrorStack> {
    let mut connector = SslConnector::builder(SslMethod::tls())?;
    connector.set_ca_file(authority)?;
    if let Some((certificate, key)) = client {
        connector.set_certificate_chain_file(certificate)?;
        connector.set_private_key_file(key, SslFiletype::PEM)?;
        connector.set_alpn_protos(RPC)?;
    }
    Ok(connector.build())
}

/// Opens connections for a while, each closed after its request, `open` at a time.
fn drive(server: &Server, listener: Listener, open: u16, duration: Duration) -> Outcome<Figures> {
    let (address, connector) = match listener {
        Listener::Api => &server.api,
        Listener::Rpc => &server.rpc,
    };
    let process = server.target.process.as_ref().expect("the engine is a child");
    let cpu =
        || process.cpu().map_err(|error| Failure::internal(format!("cannot read the engine's CPU time: {error}")));
    let (before, start) = (cpu()?, Instant::now());
    let deadline = start + duration;
    let (address, connector) = (*address, Arc::new(connector.clone()));
    let threads: Vec<_> = (0..open)
        .map(|_| {
            let connector = Arc::clone(&connector);
            std::thread::spawn(move || connect_until(deadline, address, &connector, listener))
        })
        .collect();
    let mut figures = Figures::default();
    for thread in threads {
        figures.add(&thread.join().map_err(|_| Failure::internal("a client thread panicked"))?);
    }
    (figures.cpu, figures.elapsed) = (cpu()?.since(&before).total(), start.elapsed());
    if figures.latencies.count() == 0 {
        return Err(Failure::failed("no handshake succeeded"));
    }
    Ok(figures)
}

fn connect_until(deadline: Instant, address: SocketAddr, connector: &SslConnector, listener: Listener) -> Figures {
    let mut figures = Figures::default();
    while Instant::now() < deadline {
        match connect(address, connector, listener) {
            Some(latency) => figures.latencies.record(latency),
            None => figures.failed += 1,
        }
    }
    figures
}

/// One connection, to its end. Returns how long it took until the handshake had succeeded on this side.
fn connect(address: SocketAddr, connector: &SslConnector, listener: Listener) -> Option<Duration> {
    let start = Instant::now();
    let socket = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    socket.set_read_timeout(Some(TIMEOUT)).ok()?;
    socket.set_nodelay(true).ok()?;
    let mut stream = connector.connect("localhost", socket).ok()?;
    let latency = start.elapsed();
    match listener {
        Listener::Api => stream.write_all(REQUEST).ok()?,
        Listener::Rpc => _ = stream.shutdown().ok()?,
    }
    // Until the server has closed, which it does after it has verified the client's certificate.
    let _ = stream.read_to_end(&mut Vec::new());
    Some(latency)
}

impl Row {
    fn listener(&self) -> &'static str {
        if self.listener == Listener::Api { "API" } else { "RPC, client certificate" }
    }
}

fn as_text(rows: &[Row], provenance: &Provenance) -> String {
    let mut out = provenance.text();
    out.push_str(
        "a new connection for each request; with batches of private-key operations, and in parentheses without\n\n",
    );
    out.push_str(&format!(
        "{:<9}{:<25}{:>5}{:>22}{:>26}{:>24}{:>24}\n",
        "key", "listener", "open", "handshakes/s", "engine's CPU µs each", "p50 µs", "p99 µs"
    ));
    for row in rows {
        let cell = |figure: fn(&Figures) -> f64| {
            let [batched, plain] = row.figures.each_ref().map(figure);
            format!("{batched:.0} ({plain:.0}) {:.2}x", batched / plain)
        };
        out.push_str(&format!(
            "{:<9}{:<25}{:>5}{:>22}{:>26}{:>24}{:>24}\n",
            row.key.name(),
            row.listener(),
            row.open,
            cell(Figures::rate),
            cell(Figures::cpu_each),
            cell(|figures| figures.quantile(0.5)),
            cell(|figures| figures.quantile(0.99)),
        ));
    }
    let failed: u64 = rows.iter().flat_map(|row| &row.figures).map(|figures| figures.failed).sum();
    if failed > 0 {
        out.push_str(&format!("\n{failed} handshakes failed\n"));
    }
    out
}

fn as_json(rows: &[Row], provenance: &Provenance) -> Value {
    let figures = |figures: &Figures| {
        json!({
            "handshakes": figures.latencies.count(),
            "failed": figures.failed,
            "per_s": figures.rate(),
            "cpu_us": figures.cpu_each(),
            "p50_us": figures.quantile(0.5),
            "p99_us": figures.quantile(0.99),
        })
    };
    let row = |row: &Row| {
        json!({
            "key": row.key.name(),
            "client_certificate": row.listener == Listener::Rpc,
            "open": row.open,
            "batching_auto": figures(&row.figures[0]),
            "batching_off": figures(&row.figures[1]),
        })
    };
    let mut report = provenance.json("handshakes");
    report["rows"] = rows.iter().map(row).collect();
    report
}
