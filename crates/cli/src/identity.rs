//! An engine's certificates and keys: their files, loaded together, with the expiry of each certificate.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::KeyExchange;
use leafseal_engine::admin::{remove_abandoned, remove_abandoned_in};
use leafseal_net::tls::{
    CertificateExpiry, PrivateKeySettings, ServerIdentity, SessionSettings, VerifiedChains, ticket_keys,
};
use leafseal_server::{StartError, TlsSettings, check_identity};
use zeroize::Zeroizing;

use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome, plain};

/// Interval of expiry checks.
pub(crate) const EXPIRY_PERIOD: Duration = Duration::from_secs(3600);

/// The paths of certificates and keys.
pub(crate) struct IdentityFiles {
    /// The engine's certificate chain.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// How operations with it are computed.
    pub key_settings: PrivateKeySettings,
    /// The authorities of clients.
    pub authorities: PathBuf,
    /// Certificate chain and key of the API, if it is enabled.
    pub api: Option<(PathBuf, PathBuf)>,
    /// How operations with that key are computed.
    pub api_key_settings: PrivateKeySettings,
    /// How long sessions can be resumed, with the engine and with the API.
    pub session_lifetimes: [Duration; 2],
    /// The accepted groups of the key exchange, of the engine and of the API.
    pub key_exchanges: [KeyExchange; 2],
    /// The keys of session tickets, if engines share them.
    pub ticket_keys: Option<PathBuf>,
    /// Bounds of the client certificates that are remembered as verified.
    pub verified_chains: VerifiedChains,
}

/// The content of the files.
pub(crate) struct Identity {
    /// For the engine's listener.
    pub tls: TlsSettings,
    /// For the API's listener, if it is enabled.
    pub api: Option<ServerIdentity>,
    /// The expiry of the certificates.
    pub certificates: Vec<CertificateExpiry>,
}

impl IdentityFiles {
    /// The files that the configuration names.
    pub(crate) fn configured(context: &RunContext, has_api: bool) -> Self {
        let (files, of_api) = (&context.config().files, &context.config().api_files);
        let path = |configured: &Path| context.path(configured);
        Self {
            chain: path(&files.certificate),
            key: path(&files.private_key),
            key_settings: files.private_key_settings,
            api_key_settings: of_api.private_key_settings,
            authorities: path(&files.client_authorities),
            key_exchanges: [files.key_exchange.clone(), of_api.key_exchange.clone()],
            session_lifetimes: [files.session_lifetime, of_api.session_lifetime],
            ticket_keys: files.session_ticket_keys.as_deref().map(path),
            verified_chains: files.verified_chains,
            api: has_api.then(|| (path(&of_api.certificate), path(&of_api.private_key))),
        }
    }

    /// All paths.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.chain.clone(), self.key.clone(), self.authorities.clone()];
        paths.extend(self.api.iter().flat_map(|(chain, key)| [chain.clone(), key.clone()]));
        paths.extend(self.ticket_keys.clone());
        paths
    }

    /// Removes what killed processes left behind, perhaps with a private key in it: temporary files beside these, and of any key or
    /// certificate in the folder of certificates.
    pub(crate) fn remove_abandoned(&self, context: &RunContext) {
        self.paths().iter().for_each(|path| remove_abandoned(path));
        remove_abandoned_in(&context.certificates());
    }

    /// Everything that is wrong with the files: those that cannot be read, and what the others hold, each with its file.
    pub(crate) fn problems(&self) -> Vec<String> {
        let content = self.content();
        let unread = content.failure().map_or(String::new(), |failure| failure.message);
        let IdentityContent { tls, api, unreadable } = content;
        let shown =
            |paths: &[&PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let faults = check_identity(&tls, api.as_ref()).into_iter().filter_map(|error| {
            let files = match (&error, &self.api) {
                (StartError::ApiIdentity(_), Some((chain, key))) => vec![chain, key],
                _ => vec![&self.chain, &self.key, &self.authorities],
            };
            let is_read = files.iter().all(|path| !unreadable.contains_key(*path));
            is_read.then(|| format!("{}: {error}", shown(&files)))
        });
        unread.lines().map(str::to_owned).chain(faults).collect()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Every file that cannot be read, one per line.
    pub(crate) fn read(&self) -> CommandOutcome<Identity> {
        let content = self.content();
        if let Some(failure) = content.failure() {
            return Err(failure);
        }
        let IdentityContent { tls, api, .. } = content;
        let expiry =
            |usage, path: &Path, pem: &[u8]| CertificateExpiry::of_pem(usage, &path.display().to_string(), pem);
        let mut certificates = expiry("server", &self.chain, &tls.certificate_chain_pem);
        certificates.extend(expiry("client-authorities", &self.authorities, &tls.client_authorities_pem));
        if let (Some(api), Some((chain, _))) = (&api, &self.api) {
            certificates.extend(expiry("api", chain, &api.certificate_chain_pem));
        }
        Ok(Identity { tls, api, certificates })
    }

    fn content(&self) -> IdentityContent {
        let (mut unreadable, mut invalid) = (BTreeMap::new(), None);
        let mut file = |path: &Path| {
            std::fs::read(path).unwrap_or_else(|error| {
                unreadable.insert(path.to_owned(), (format!("{}: {}", path.display(), plain(&error)), error.kind()));
                Vec::new()
            })
        };
        let ticket_keys = self.ticket_keys.as_deref().map_or_else(Vec::new, |path| {
            let content = Zeroizing::new(file(path));
            ticket_keys(&content).unwrap_or_else(|error| {
                let line = format!("{}: {error}", path.display());
                invalid = Some((path.to_owned(), (line, ErrorKind::InvalidData)));
                Vec::new()
            })
        });
        let [sessions, api_sessions] =
            self.session_lifetimes.map(|lifetime| SessionSettings { lifetime, ticket_keys: ticket_keys.clone() });
        let tls = TlsSettings {
            certificate_chain_pem: file(&self.chain),
            private_key_pem: file(&self.key).into(),
            private_key_settings: self.key_settings,
            sessions,
            key_exchange: self.key_exchanges[0].clone(),
            verified_chains: self.verified_chains,
            client_authorities_pem: file(&self.authorities),
        };
        let api = self.api.as_ref().map(|(chain, key)| ServerIdentity {
            certificate_chain_pem: file(chain),
            private_key_pem: file(key).into(),
            private_key_settings: self.api_key_settings,
            sessions: api_sessions,
            key_exchange: self.key_exchanges[1].clone(),
        });
        // A file that could not be read at all says so already.
        if let Some((path, problem)) = invalid {
            unreadable.entry(path).or_insert(problem);
        }
        IdentityContent { tls, api, unreadable }
    }
}

/// The files that could be read; the others are empty.
struct IdentityContent {
    tls: TlsSettings,
    api: Option<ServerIdentity>,
    /// A line for each file that could not be read, and why.
    unreadable: BTreeMap<PathBuf, (String, ErrorKind)>,
}

impl IdentityContent {
    /// The files that could not be read, a line each, with advice.
    fn failure(&self) -> Option<CommandFailure> {
        let lines: Vec<&str> = self.unreadable.values().map(|(line, _)| line.as_str()).collect();
        let has = |wanted| self.unreadable.values().any(|(_, kind)| *kind == wanted);
        let advice = advice(has(ErrorKind::NotFound), has(ErrorKind::InvalidData));
        (!lines.is_empty()).then(|| CommandFailure::usage(lines.join("\n")).advise(advice))
    }
}

/// Advice about unreadable files, of which some are missing or have a wrong content.
fn advice(is_missing: bool, is_invalid: bool) -> &'static str {
    match (is_missing, is_invalid) {
        (true, _) => {
            "run leafseal certs init to create certificates, or name others by server.certificate, server.private_key, \
             server.client_authorities, api.certificate and api.private_key; server.session_ticket_keys may be \"off\""
        }
        (false, true) => "write a key of 64 hexadecimal digits on each line, such as openssl rand -hex 32 prints",
        (false, false) => "they must be readable by the user that runs the engine",
    }
}
