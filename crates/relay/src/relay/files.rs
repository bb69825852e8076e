//! What a configuration names: its listeners, and the files of certificates and keys, read when the relay starts and when it reloads.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leafseal_client::{Client, ClientSettings, ClientTls};
use leafseal_config::KeyExchange;
use leafseal_net::tls::{Acceptor, CertificateExpiry, ServerIdentity, SessionSettings};
use zeroize::Zeroizing;

use super::RelayError;
use crate::config::{Configuration, EngineSettings, KeyPair, Limits, Outbound};
use crate::leaf_issuer::LeafIssuer;
use crate::upstream::Connector;

/// A listener of the configuration.
pub(super) struct Plan<'c> {
    pub(super) name: &'c Arc<str>,
    pub(super) address: SocketAddr,
    pub(super) tls: Option<&'c KeyPair>,
    pub(super) key_exchange: &'c KeyExchange,
    pub(super) is_outbound: bool,
    /// Its index among the inbound or the outbound listeners.
    pub(super) index: usize,
}

impl Plan<'_> {
    /// The properties that only a restart can change.
    pub(super) fn fixed(&self) -> (&str, SocketAddr, bool) {
        (self.name, self.address, self.is_outbound)
    }
}

pub(super) fn plans(configuration: &Configuration) -> Vec<Plan<'_>> {
    let inbound = configuration.inbound.iter().enumerate().map(|(index, it)| {
        let crate::config::Inbound { name, address, tls, key_exchange, .. } = it;
        Plan { name, address: *address, tls: tls.as_ref(), key_exchange, is_outbound: false, index }
    });
    let outbound = configuration.outbound.iter().enumerate().map(|(index, it)| {
        let Outbound { name, address, tls, key_exchange, .. } = it;
        Plan { name, address: *address, tls: tls.as_ref(), key_exchange, is_outbound: true, index }
    });
    inbound.chain(outbound).collect()
}

pub(super) fn read(base: &Path, path: &Path) -> Result<Vec<u8>, RelayError> {
    let path = base.join(path);
    std::fs::read(&path).map_err(|error| RelayError::File { path, error })
}

pub(super) fn acceptor(plan: &Plan<'_>, base: &Path) -> Result<Option<Acceptor>, RelayError> {
    let Some(pair) = plan.tls else { return Ok(None) };
    let certificate_chain_pem = read(base, &pair.certificate)?;
    let private_key_pem = Zeroizing::new(read(base, &pair.private_key)?);
    let acceptor = Acceptor::new(&ServerIdentity {
        certificate_chain_pem,
        private_key_pem,
        private_key_settings: pair.settings,
        sessions: SessionSettings::default(),
        key_exchange: plan.key_exchange.clone(),
    });
    acceptor.map(Some).map_err(|error| RelayError::Identity { listener: Arc::clone(plan.name), error })
}

/// The relay's identity for the engine, and the authorities that it trusts.
pub(super) fn client_settings(engine: &EngineSettings, base: &Path) -> Result<ClientSettings, RelayError> {
    let EngineSettings { addresses, authorities, certificate, private_key, server_name, calls } = engine;
    let tls = ClientTls::from_files(&base.join(authorities), &base.join(certificate), &base.join(private_key))?;
    Ok(ClientSettings {
        addresses: addresses.clone(),
        server_name: server_name.clone(),
        connections_max: calls.connections_max,
        request_timeout: calls.timeout,
        retries_max: calls.retries_max,
        key_exchange: calls.key_exchange.clone(),
        connect_timeout: calls.timeout.min(Duration::from_secs(5)),
        ..ClientSettings::new("", tls)
    })
}

pub(super) fn new_leaf_issuer(listener: &Outbound, limits: &Limits, base: &Path) -> Result<LeafIssuer, RelayError> {
    let (certificate, key) =
        (read(base, &listener.authority.certificate)?, read(base, &listener.authority.private_key)?);
    let key = Zeroizing::new(key);
    let leaf_issuer = LeafIssuer::new(&certificate, &key, &listener.key_exchange, limits.certificates_max);
    leaf_issuer.map_err(|error| RelayError::Authority { listener: Arc::clone(&listener.name), error })
}

/// The certificate files of the configuration, with the purpose of each.
fn certificate_files(configuration: &Configuration) -> Vec<(String, &Path)> {
    let Configuration { engine, upstream, outbound, .. } = configuration;
    let mut files = vec![
        ("engine-authorities".to_owned(), &*engine.authorities),
        ("engine-client".to_owned(), &*engine.certificate),
    ];
    files.extend(upstream.authorities.as_deref().map(|file| ("upstream-authorities".to_owned(), file)));
    for plan in plans(configuration) {
        files.extend(plan.tls.map(|pair| (plan.name.to_string(), &*pair.certificate)));
    }
    files.extend(outbound.iter().map(|it| (format!("{}-authority", it.name), &*it.authority.certificate)));
    files
}

/// Every file that the configuration names, with relative paths from `base`: certificates and keys.
pub fn files(configuration: &Configuration, base: &Path) -> Vec<PathBuf> {
    let mut files: Vec<&Path> = certificate_files(configuration).into_iter().map(|(_, file)| file).collect();
    files.push(&configuration.engine.private_key);
    files.extend(plans(configuration).iter().filter_map(|plan| plan.tls).map(|pair| &*pair.private_key));
    files.extend(configuration.outbound.iter().map(|it| &*it.authority.private_key));
    files.into_iter().map(|file| base.join(file)).collect()
}

/// The expiry of the configuration's certificates. A file that has become unreadable is skipped; loading it reported the error.
pub(super) fn expiries(configuration: &Configuration, base: &Path) -> Vec<CertificateExpiry> {
    let of_file = |(usage, file): (String, &Path)| {
        let file = base.join(file);
        let pem = std::fs::read(&file).unwrap_or_default();
        CertificateExpiry::of_pem(&usage, &file.display().to_string(), &pem)
    };
    certificate_files(configuration).into_iter().flat_map(of_file).collect()
}

/// Returns the problems of the files that the configuration names, read as [`Relay::start`] reads them, with relative paths from
/// `base`. Opens no listener and no connection.
pub fn check_files(configuration: &Configuration, base: &Path) -> Vec<RelayError> {
    let engine = client_settings(&configuration.engine, base).and_then(|settings| Ok(Client::new(settings)?));
    let upstream = Connector::new(&configuration.upstream, base);
    let mut wrong: Vec<RelayError> = engine.err().into_iter().chain(upstream.err().map(RelayError::from)).collect();
    wrong.extend(plans(configuration).iter().filter_map(|plan| acceptor(plan, base).err()));
    wrong.extend(configuration.outbound.iter().filter_map(|it| new_leaf_issuer(it, &configuration.limits, base).err()));
    wrong
}
