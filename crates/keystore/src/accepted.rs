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

    /// The kinds with their words.
    fn kinds(self) -> [(bool, &'static str); 3] {
        [(self.public_key, "public-key"), (self.symmetric, "symmetric"), (self.from_public_key, "from-public-key")]
    }

    /// As a statement has it: `all`, `none`, or words with commas. `all` includes kinds that a later version adds.
    pub(crate) fn text(self) -> String {
        if self == Self::ALL {
            return "all".to_owned();
        }
        let words: Vec<&str> =
            self.kinds().into_iter().filter(|(is_there, _)| *is_there).map(|(_, word)| word).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(",") }
    }

    /// Reads that.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let has = |word| text.split(',').any(|one| one == word);
        let [public_key, symmetric, from_public_key] = Self::ALL.kinds().map(|(_, word)| text == "all" || has(word));
        Some(Self { public_key, symmetric, from_public_key }).filter(|accept| accept.text() == text)
    }
}
