//! Whether case counts where paths and names are compared.

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
