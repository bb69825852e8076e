//! Choices about requests that an upstream may read as others: whether case counts where paths and names are compared, and what becomes
//! of fields that ask for another method or path.

/// The action for a path or name that equals that of a rule only when case is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherCase {
    /// Refuse it if the other rule hides something: the upstream may treat both as equal.
    #[default]
    Refuse,
    /// Treat it as equal.
    Same,
    /// Treat it as different.
    Other,
}

/// How paths are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Case-sensitive.
    AsWritten,
    /// Ignoring the case of all letters.
    Any,
}

/// What becomes of fields by which a request asks for another method or path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overrides {
    /// Where a route hides something, a method that leads past it is refused, and header fields with another path are removed.
    #[default]
    Refuse,
    /// They pass unchanged.
    Pass,
}
