//! An operation on an app: the unit of permissions and of decisions.

words! {
    /// An operation on an app. Grants of clients have the first two, API keys any.
    Operation {
        /// Values to envelopes.
        Encrypt = "encrypt",
        /// Envelopes to values. Rewrapping needs both operations.
        Decrypt = "decrypt",
        /// Opening envelopes to read their metadata. A client needs [`Operation::Decrypt`] for it.
        Inspect = "inspect",
        /// Making tokens with which another caller may decrypt one payload.
        IssueTokens = "client-side-tokens",
    }
}
