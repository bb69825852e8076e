//! The engine of a scenario: the one that the file names, or one that the command starts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use leafseal_client::{ClientSettings, ClientTls, TlsPart};
use leafseal_load::accounting::ProcessAccount;
use leafseal_load::run::ObservedEngine;
use leafseal_load::scenario::{LoadTarget, Pem, PemSource, Script, TargetAuthority, YamlPosition};

use crate::arguments::{GlobalArguments, LoadRunArguments};
use crate::commands::bench::engine::BenchTarget;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome, plain};

/// The authority's file beside the client's certificate, if the scenario names none.
const AUTHORITY: &str = "ca.pem";
/// Maximum size of a PEM file in bytes; a chain of certificates has a few thousand.
const PEM_SIZE_MAX: u64 = 1 << 20;

/// The connection settings and observable sources of an engine.
pub(super) struct EngineTarget {
    /// The connection settings.
    pub client: ClientSettings,
    /// Its observable sources.
    pub observed: ObservedEngine,
    /// Its settings, if the command started it.
    pub settings: Vec<String>,
    /// Stopped on drop.
    _own: Option<BenchTarget>,
}

/// The engine of a run. If the command starts one, the script's requests use its app.
pub(super) fn engine(
    global: &GlobalArguments,
    arguments: &LoadRunArguments,
    path: &Path,
    script: &mut Script,
) -> CommandOutcome<EngineTarget> {
    if arguments.start {
        let own = BenchTarget::start(global, &[])?;
        script.kinds.iter_mut().for_each(|kind| own.app.clone_into(&mut kind.app));
        return Ok(EngineTarget {
            client: own.client.clone(),
            observed: ObservedEngine { metrics: own.operator.into_iter().collect(), process: own.process.clone() },
            settings: own.settings.clone(),
            _own: Some(own),
        });
    }
    let context = RunContext::checked(global)?;
    let metrics = arguments.metrics.as_deref().map(metrics_addresses).transpose()?.unwrap_or_default();
    let LoadTarget { host, port, server_name, .. } = &script.target;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let tls = certificates(path, &script.target)?;
    Ok(EngineTarget {
        client: context.config().client(&address, server_name.as_deref(), tls),
        observed: ObservedEngine { metrics, process: arguments.pid.map(ProcessAccount::new) },
        settings: Vec::new(),
        _own: None,
    })
}

/// A part of the certificates: its key in `config.e3`, its position in the scenario file, and the file, if it is one.
struct CertificatePart<'a> {
    key: &'static str,
    place: YamlPosition,
    source: TargetSource<'a>,
}

enum TargetSource<'a> {
    File(PathBuf),
    Text(&'a str),
}

impl<'a> CertificatePart<'a> {
    fn new(key: &'static str, pem: &'a Pem, folder: &Path) -> Self {
        let source = match &pem.source {
            PemSource::File(name) => TargetSource::File(folder.join(name)),
            PemSource::Text(text) => TargetSource::Text(text),
        };
        CertificatePart { key, place: pem.place, source }
    }

    fn authority(target: &'a LoadTarget, folder: &Path) -> Self {
        match &target.authority {
            TargetAuthority::Given(pem) => CertificatePart::new("ca", pem, folder),
            TargetAuthority::BesideCertificate => {
                let source = TargetSource::File(beside(folder, &target.certificate));
                CertificatePart { key: "ca", place: target.certificate.place, source }
            }
        }
    }

    /// Its content, or an error.
    fn read(&self) -> Result<Vec<u8>, String> {
        match &self.source {
            TargetSource::Text(text) => Ok(text.as_bytes().to_vec()),
            TargetSource::File(path) => {
                read_pem(path).map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))
            }
        }
    }

    /// An error line about unusable content.
    fn unusable(&self, scenario: &Path, message: &str) -> String {
        match &self.source {
            TargetSource::File(path) => self.problem(scenario, &format!("{}: {message}", path.display())),
            TargetSource::Text(_) => self.problem(scenario, message),
        }
    }

    fn problem(&self, scenario: &Path, message: &str) -> String {
        format!("{}:{}: config.e3.{}: {message}", scenario.display(), self.place, self.key)
    }
}

/// Reads certificates and key; everything that cannot be read or used is reported with its position in the scenario.
fn certificates(path: &Path, target: &LoadTarget) -> CommandOutcome<ClientTls> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let key = CertificatePart::new("key", &target.key, folder);
    let certificate = CertificatePart::new("cert", &target.certificate, folder);
    let authority = CertificatePart::authority(target, folder);
    let mut problems = Vec::new();
    let mut read =
        |part: &CertificatePart| part.read().map_err(|message| problems.push(part.problem(path, &message))).ok();
    let private_key_pem = read(&key);
    let certificate_chain_pem = read(&certificate);
    let is_expected = target.authority != TargetAuthority::BesideCertificate || certificate_chain_pem.is_some();
    // Without a certificate, no authority is expected beside it.
    let authorities_pem = if is_expected { read(&authority) } else { None };
    let (Some(private_key_pem), Some(certificate_chain_pem), Some(authorities_pem)) =
        (private_key_pem, certificate_chain_pem, authorities_pem)
    else {
        return Err(CommandFailure::usage(problems.join("\n")));
    };
    let tls =
        ClientTls { authorities_pem, certificate_chain_pem, private_key_pem: private_key_pem.into(), files: None };
    let mut unusable = tls.problems();
    let part_of = |part: TlsPart| match part {
        TlsPart::Authorities => &authority,
        TlsPart::CertificateChain => &certificate,
        TlsPart::PrivateKey => &key,
    };
    unusable.sort_by_key(|problem| part_of(problem.part).place);
    problems.extend(unusable.iter().map(|problem| part_of(problem.part).unusable(path, &problem.message)));
    if problems.is_empty() { Ok(tls) } else { Err(CommandFailure::usage(problems.join("\n"))) }
}

fn read_pem(path: &Path) -> std::io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > PEM_SIZE_MAX {
        return Err(std::io::Error::other("too large for a certificate or a key"));
    }
    std::fs::read(path)
}

fn beside(folder: &Path, certificate: &Pem) -> PathBuf {
    let name = match &certificate.source {
        PemSource::File(name) => Path::new(name),
        PemSource::Text(_) => Path::new(""),
    };
    folder.join(name.parent().unwrap_or(Path::new(""))).join(AUTHORITY)
}

/// Resolves `http://HOST:PORT/metrics`.
fn metrics_addresses(url: &str) -> CommandOutcome<Vec<SocketAddr>> {
    let wrong = || {
        CommandFailure::usage("--metrics: it must be the engine's metrics URL, such as http://127.0.0.1:3444/metrics")
    };
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "metrics") {
        return Err(wrong());
    }
    let with_port = if address.contains(':') { address.to_owned() } else { format!("{address}:80") };
    let found: Vec<SocketAddr> = with_port
        .to_socket_addrs()
        .map_err(|error| CommandFailure::unreachable(format!("--metrics: cannot find {address}: {}", plain(&error))))?
        .collect();
    if found.is_empty() { Err(wrong()) } else { Ok(found) }
}
