//! The certificates that new connections use: those of the settings, or what is in their files now.
//!
//! A look at three files takes a few system calls, on a thread that may block, for each new connection. There is no timer: what has been
//! renewed matters only to connections that are still to be made.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use boring::ssl::SslConnector;
use leafseal_config::KeyExchange;
use tokio::task::spawn_blocking;

use crate::error::ClientError;
use crate::identity::{ClientTls, ClientTlsFiles};
use crate::settings::ClientSettings;
use crate::tls;

/// Size and time of the last change of each file: another content has others.
type FilesSeen = [Option<(u64, SystemTime)>; 3];

/// The context of connections, made again when its files have changed.
pub(crate) struct ClientCredentials(Arc<CredentialsInner>);

struct CredentialsInner {
    files: Option<ClientTlsFiles>,
    key_exchange: KeyExchange,
    loaded: Mutex<LoadedCredentials>,
}

struct LoadedCredentials {
    connector: SslConnector,
    /// The files as they were before they were read; `None` after the start, when they may have changed since the settings were made.
    seen: Option<FilesSeen>,
}

impl ClientCredentials {
    /// The credentials of the settings.
    ///
    /// # Errors
    /// If they cannot be used.
    pub(crate) fn new(settings: &ClientSettings) -> Result<Self, ClientError> {
        let connector = tls::connector(&settings.tls, &settings.key_exchange)?;
        Ok(Self(Arc::new(CredentialsInner {
            files: settings.tls.files.clone(),
            key_exchange: settings.key_exchange.clone(),
            loaded: Mutex::new(LoadedCredentials { connector, seen: None }),
        })))
    }

    /// The context for a new connection.
    pub(crate) async fn connector(&self) -> SslConnector {
        let inner = Arc::clone(&self.0);
        if self.0.files.is_some() {
            // Only a runtime that shuts down does not run it.
            let _ = spawn_blocking(move || inner.refresh()).await;
        }
        self.0.lock().connector.clone()
    }
}

impl CredentialsInner {
    fn lock(&self) -> MutexGuard<'_, LoadedCredentials> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files if they have changed. Half of a renewal, or nothing usable, changes nothing, and is looked at again next time.
    fn refresh(&self) {
        let Some(ClientTlsFiles { authorities, certificate_chain, private_key }) = &self.files else { return };
        let seen = [authorities, certificate_chain, private_key].map(|path| look(path));
        if self.lock().seen == Some(seen) {
            return;
        }
        let read = ClientTls::from_files(authorities, certificate_chain, private_key);
        if let Ok(connector) = read.and_then(|tls| tls::connector(&tls, &self.key_exchange)) {
            *self.lock() = LoadedCredentials { connector, seen: Some(seen) };
        }
    }
}

fn look(path: &Path) -> Option<(u64, SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}
