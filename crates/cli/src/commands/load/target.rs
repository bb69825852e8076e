//! The engine that a scenario is for: the one that the file names, or one of our own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use fieldseal_client::{ClientSettings, ClientTls};
use fieldseal_load::accounting::Process;
use fieldseal_load::run::Observed;
use fieldseal_load::scenario::{Authority, Pem, PemSource, Place as FilePlace, Script, Target};

use crate::arguments::{LoadRunArguments, Place};
use crate::commands::bench::engine::Target as OwnEngine;
use crate::context::Context;
use crate::failure::{Failure, Outcome, plain};

/// The authority's file beside the client's certificate, where the scenario names none.
const AUTHORITY: &str = "ca.pem";
/// Bytes of a PEM file; a chain of certificates has a few thousand.
const PEM_SIZE_MAX: u64 = 1 << 20;

/// How an engine is reached and looked at.
pub struct Engine {
    /// How it is reached.
    pub client: ClientSettings,
    /// What can be seen of it.
    pub observed: Observed,
    /// Settings that it was given.
    pub settings: Vec<String>,
    /// It ends with this.
    _own: Option<OwnEngine>,
}

/// The engine of a run. Where it is our own, the script's requests are given its app.
pub fn engine(place: &Place, arguments: &LoadRunArguments, path: &Path, script: &mut Script) -> Outcome<Engine> {
    if arguments.start {
        let own = OwnEngine::start(place, &[])?;
        script.kinds.iter_mut().for_each(|kind| own.app.clone_into(&mut kind.app));
        return Ok(Engine {
            client: own.client.clone(),
            observed: Observed { metrics: own.operator, process: own.process.clone() },
            settings: own.settings.clone(),
            _own: Some(own),
        });
    }
    let context = Context::checked(place)?;
    let metrics = arguments.metrics.as_deref().map(metrics_address).transpose()?;
    let Target { host, port, server_name, .. } = &script.target;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let tls = certificates(path, &script.target)?;
    Ok(Engine {
        client: context.config().client.settings(&address, server_name.as_deref(), tls),
        observed: Observed { metrics, process: arguments.pid.map(Process::new) },
        settings: Vec::new(),
        _own: None,
    })
}

/// Reads certificates and key; every file that cannot be read is named with its place in the scenario.
fn certificates(path: &Path, target: &Target) -> Outcome<ClientTls> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    let mut read = |pem: &Pem, key: &str| match &pem.source {
        PemSource::Text(text) => text.clone().into_bytes(),
        PemSource::File(name) => read_pem(&folder.join(name)).unwrap_or_else(|error| {
            problems.push(problem(path, pem.place, key, &folder.join(name), &error));
            Vec::new()
        }),
    };
    let key = read(&target.key, "key");
    let certificate = read(&target.certificate, "cert");
    let authority = match &target.authority {
        Authority::Given(pem) => read(pem, "ca"),
        // Beside a certificate that is not there nothing is expected.
        Authority::BesideCertificate if certificate.is_empty() => Vec::new(),
        Authority::BesideCertificate => {
            let beside = beside(folder, &target.certificate);
            read_pem(&beside).unwrap_or_else(|error| {
                problems.push(problem(path, target.certificate.place, "ca", &beside, &error));
                Vec::new()
            })
        }
    };
    if !problems.is_empty() {
        return Err(Failure::usage(problems.join("\n")));
    }
    Ok(ClientTls { authorities_pem: authority, certificate_chain_pem: certificate, private_key_pem: key.into() })
}

fn problem(path: &Path, place: FilePlace, key: &str, file: &Path, error: &std::io::Error) -> String {
    format!("{}:{place}: config.e3.{key}: cannot read {}: {}", path.display(), file.display(), plain(error))
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

/// Where `http://HOST:PORT/metrics` is.
fn metrics_address(url: &str) -> Outcome<SocketAddr> {
    let wrong = || Failure::usage("--metrics: it takes the engine's own URL, such as http://127.0.0.1:3444/metrics");
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "metrics") {
        return Err(wrong());
    }
    let with_port = if address.contains(':') { address.to_owned() } else { format!("{address}:80") };
    let mut found = with_port
        .to_socket_addrs()
        .map_err(|error| Failure::unreachable(format!("--metrics: cannot find {address}: {}", plain(&error))))?;
    found.next().ok_or_else(wrong)
}
