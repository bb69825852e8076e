//! The parts of a session ticket, and the operations that the library calls.

use leafseal_lanes::gcm::TAG_SIZE;

pub(crate) const NAME_SIZE: usize = 16;
pub(crate) const EXPIRY_SIZE: usize = 8;
pub(crate) const CHAIN_SIZE: usize = 8;
/// The chain of a client without certificates.
pub(crate) const NO_CHAIN: i64 = i64::MAX;
pub(crate) const SALT_SIZE: usize = 32;
pub(crate) const CHAIN_AT: usize = NAME_SIZE + EXPIRY_SIZE;
pub(crate) const SALT_AT: usize = CHAIN_AT + CHAIN_SIZE;
pub(crate) const HEAD_SIZE: usize = SALT_AT + SALT_SIZE;
/// Bytes that a ticket has more than the session in it.
pub(crate) const OVERHEAD: usize = HEAD_SIZE + TAG_SIZE;

/// The content of a ticket, besides the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenedTicket {
    /// The size of the session.
    pub(crate) size: usize,
    /// When it cannot be resumed any more, in Unix seconds.
    pub(crate) expiry: u64,
    /// The last second of the client's chain, if it has shown one.
    pub(crate) chain: Option<i64>,
}

/// Seals and opens tickets. The library calls it during handshakes, on any thread.
pub(crate) trait TicketSealer: Send + Sync {
    /// Seals a session that can be resumed until `expiry`, or for a lifetime from now, and not after the last second of its chain. Returns
    /// the size of the ticket; `None` if the session has expired or `out` is too short.
    fn seal(&self, expiry: Option<u64>, chain: Option<i64>, session: &[u8], out: &mut [u8]) -> Option<usize>;
    /// Opens a ticket and writes its session to `out`. `None` for anything but a ticket of these keys that has not expired.
    fn open(&self, ticket: &[u8], out: &mut [u8]) -> Option<OpenedTicket>;
}
