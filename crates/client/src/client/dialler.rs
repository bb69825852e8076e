//! Opening one connection: name, socket, TLS.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use boring::rand::rand_bytes;
use boring::ssl::SslConnector;
use leafseal_protocol::Retry;
use tokio::time::timeout;

use super::credentials::ClientCredentials;
use crate::error::{ClientError, ErrorKind};
use crate::places::{self, connect_any};
use crate::settings::ClientSettings;
#[cfg(feature = "simulation")]
use crate::simulation::{self, SimulatedNetwork};
use crate::tls::{self, ChainValidity};

/// A new connection over TLS.
pub(crate) struct Dialled {
    pub(crate) stream: tls::ClientStream,
    pub(super) record: SocketAddr,
    /// The records of its address.
    pub(super) records: usize,
    /// How long the engine's chain is valid from now.
    pub(super) valid_for: Option<Duration>,
}

/// Opens connections.
pub(super) enum Dialler {
    Tls(ClientCredentials),
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn SimulatedNetwork>),
}

impl Dialler {
    /// A random number from 0 to 1.
    pub(super) fn chance(&self) -> f64 {
        match self {
            Dialler::Tls(_) => {
                let mut random = [0; 4];
                // Without random numbers pauses merely have no jitter.
                rand_bytes(&mut random).map_or(1.0, |()| f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX))
            }
            #[cfg(feature = "simulation")]
            Dialler::Simulated(network) => network.chance(),
        }
    }

    /// One of `count` addresses, at random.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the number of addresses")]
    pub(super) fn random_address(&self, count: usize) -> usize {
        (self.chance() * count as f64) as usize % count
    }
}

/// Opens a connection to a record of `address`, selected by [`connect_any`], within `connect_timeout`.
pub(crate) async fn dial(
    settings: &ClientSettings,
    connector: &SslConnector,
    address: &str,
    start: f64,
    is_avoided: impl Fn(SocketAddr) -> bool,
) -> Result<Dialled, ClientError> {
    within_connect_timeout(settings, address, dial_stream(settings, connector, address, start, is_avoided)).await
}

async fn within_connect_timeout<S>(
    settings: &ClientSettings,
    address: &str,
    connecting: impl Future<Output = Result<S, ClientError>>,
) -> Result<S, ClientError> {
    let limit = settings.connect_timeout;
    match timeout(limit, connecting).await {
        Ok(stream) => stream,
        Err(_) => {
            let message = format!("{address}: no connection within {} ms", limit.as_millis());
            Err(ClientError::new(ErrorKind::Connect, Retry::Elsewhere, message))
        }
    }
}

async fn dial_stream(
    settings: &ClientSettings,
    connector: &SslConnector,
    address: &str,
    start: f64,
    is_avoided: impl Fn(SocketAddr) -> bool,
) -> Result<Dialled, ClientError> {
    let name = match &settings.server_name {
        Some(name) => name.as_str(),
        None => host(address)?,
    };
    let failed = |error: io::Error| unreachable(address, &error);
    let mut records = places::records(address).await.map_err(failed)?;
    let socket = connect_any(&mut records, start, is_avoided, settings.connect_timeout).await.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    let record = socket.peer_addr().map_err(failed)?;
    let configuration = connector.configure();
    let mut configuration = configuration.map_err(|error| ClientError::settings(error.to_string()))?;
    let validity = ChainValidity::default();
    validity.watch(&mut configuration);
    match tokio_boring::connect(configuration, name, tls::socket(socket)).await {
        Ok(stream) => Ok(Dialled { stream, record, records: records.len(), valid_for: validity.get() }),
        Err(error) => {
            let error = tls::explain_handshake(&error);
            let message = format!("{address}: {}", error.message);
            Err(ClientError { message, ..error })
        }
    }
}

fn unreachable(address: &str, error: &io::Error) -> ClientError {
    ClientError::new(ErrorKind::Connect, Retry::Elsewhere, format!("{address}: {error}"))
}

/// Opens a connection in a simulation.
#[cfg(feature = "simulation")]
pub(super) async fn dial_simulated(
    settings: &ClientSettings,
    network: &dyn SimulatedNetwork,
    address: &str,
) -> Result<Box<dyn simulation::SimulatedStream>, ClientError> {
    let connecting = async { network.connect(address).await.map_err(|error| simulated(address, &error)) };
    within_connect_timeout(settings, address, connecting).await
}

/// In a simulation, invalid data is a failed handshake.
#[cfg(feature = "simulation")]
fn simulated(address: &str, error: &io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::InvalidData => ClientError::new(ErrorKind::Tls, Retry::Never, format!("{address}: {error}")),
        _ => unreachable(address, error),
    }
}

/// The host of `HOST:PORT`, an IPv6 address without its brackets.
pub(super) fn host(address: &str) -> Result<&str, ClientError> {
    match address.rsplit_once(':') {
        Some((host, _)) if !host.is_empty() => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            Ok(bare.unwrap_or(host))
        }
        _ => Err(ClientError::settings(format!("{address}: an address is HOST:PORT"))),
    }
}
