//! Entry points for a simulation of clients and servers in one thread, in which seeds determine the order of events. Nothing else needs
//! them.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes in the simulation's memory.
pub trait SimulatedStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> SimulatedStream for S {}

/// A connection that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn SimulatedStream>>> + Send + 'a>>;

/// Replaces the network and random numbers.
pub trait SimulatedNetwork: Send + Sync + 'static {
    /// Connects to an address of the settings.
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a>;

    /// A seeded random number from 0 to 1.
    fn chance(&self) -> f64;
}
