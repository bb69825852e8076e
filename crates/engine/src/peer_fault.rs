//! Why an engine learns nothing from another one.

/// Why what another engine has seen is not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// It shows nothing about the store, or the store cannot be read.
    #[error("{0}")]
    Useless(String),
    /// The other engine has another store, or one that this one does not come from: one of the two has not what it should have.
    #[error("{0}")]
    Dispute(String),
}
