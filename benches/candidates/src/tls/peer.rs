//! The interface that a TLS library must have to be measured.

use crate::identity::Identities;
use crate::stream::Stream;

/// Whether a handshake is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// It waits for the other side.
    Pending,
    /// Application data may flow.
    Complete,
}

/// One end of a connection. All calls panic on failure: both ends are ours.
pub trait Peer {
    /// Takes the handshake as far as the bytes that have arrived allow.
    fn handshake(&mut self) -> Handshake;
    /// Sends all of `bytes`.
    fn send(&mut self, bytes: &[u8]);
    /// Receives until `buffer` is full; the bytes must have been sent.
    fn receive(&mut self, buffer: &mut [u8]);
    /// Gives back what memory the library can do without until more data comes, where it leaves that to the caller.
    fn release_buffers(&mut self) {}
    /// The negotiated cipher suite and the certificate that the other side showed, for the check that all libraries
    /// did the same work.
    fn negotiated(&self) -> Negotiated;
}

/// See [`Peer::negotiated`].
#[derive(PartialEq, Eq, Debug)]
pub struct Negotiated {
    /// Whether it is AES-256.
    pub aes_256: bool,
    /// Whether the version is TLS 1.3.
    pub tls_13: bool,
    /// The other side's leaf certificate, DER.
    pub peer_certificate: Vec<u8>,
}

/// A library with its configuration for both sides, from which connections are made.
pub trait Library {
    /// As it appears in the table.
    fn name(&self) -> &'static str;
    /// A server's end.
    fn server(&self, stream: Stream) -> Box<dyn Peer>;
    /// A client's end.
    fn client(&self, stream: Stream) -> Box<dyn Peer>;
}

/// Makes a library's configuration for the given identities.
pub type Configure = fn(&Identities) -> Box<dyn Library>;
