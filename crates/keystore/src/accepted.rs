//! Which envelopes an app, a grant, an API key or a request accepts.

/// The kinds of envelopes that are decrypted; others fail to, as damaged ones do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedSchemes {
    /// Whether those to a public key are, which anyone can make who has that key.
    pub public_key: bool,
    /// Whether those with a symmetric key are, which only an engine makes.
    pub symmetric: bool,
    /// Whether those with a symmetric key are whose value came in one to a public key, so that anyone may have made it.
    pub from_public_key: bool,
}

impl Default for AcceptedSchemes {
    fn default() -> Self {
        Self::ALL
    }
}

impl AcceptedSchemes {
    /// All.
    pub const ALL: Self = Self { public_key: true, symmetric: true, from_public_key: true };

    /// What both accept.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            public_key: self.public_key && other.public_key,
            symmetric: self.symmetric && other.symmetric,
            from_public_key: self.from_public_key && other.from_public_key,
        }
    }
}
