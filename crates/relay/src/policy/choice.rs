//! Choices about requests that an upstream may read as others: whether case counts where paths and names are compared, and what becomes
//! of fields that ask for another method or path.

use leafseal_config::settings;

settings! {
    /// The action for a path or name that equals that of a rule only when case is ignored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OtherCase {
        /// It is refused if a rule hides something there: the upstream may treat both as equal.
        Refuse = "refuse",
        /// It is treated as equal.
        Same = "same",
        /// It is treated as different.
        Other = "other",
    }
}

/// How paths are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Case-sensitive.
    AsWritten,
    /// Ignoring the case of all letters.
    Any,
}

settings! {
    /// What becomes of fields by which a request asks for another method or path.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Overrides {
        /// A method that leads past the route is refused, and header fields with another path are removed.
        Refuse = "refuse",
        /// They pass unchanged.
        Pass = "pass",
    }
}
