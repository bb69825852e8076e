//! The schemes, and the versions that name them in the text of an envelope.

use leafseal_crypto::Curve;

/// How an envelope is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// To a public key of the app (ECIES): by anyone who has that key.
    PublicKey,
    /// With a symmetric key of the app: by an engine that has the app's keys.
    Symmetric,
}

impl Scheme {
    /// Both.
    pub const ALL: [Scheme; 2] = [Self::PublicKey, Self::Symmetric];

    /// `public-key` or `symmetric`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PublicKey => "public-key",
            Self::Symmetric => "symmetric",
        }
    }
}

/// The version of an envelope to a public key: curve, key derivation, associated data, and whether metadata precedes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// `Tk9D`: P-256, current, no metadata.
    Tk9d,
    /// `QkTC`: P-256, current, with metadata.
    Qktc,
    /// `RFVC`: secp256k1, current, no metadata.
    Rfvc,
    /// `S0lS`: secp256k1, current, with metadata.
    S0ls,
    /// `QlJV`: secp256k1, legacy, with metadata.
    Qljv,
    /// `TENZ`: P-256, legacy, with metadata.
    Tenz,
    /// `T1JL`: P-256, legacy, no metadata.
    T1jl,
}

impl Version {
    /// Every version.
    pub const ALL: [Version; 7] = [Self::Tk9d, Self::Qktc, Self::Rfvc, Self::S0ls, Self::Qljv, Self::Tenz, Self::T1jl];

    /// The four characters in the envelope.
    pub fn text(self) -> &'static str {
        match self {
            Self::Tk9d => "Tk9D",
            Self::Qktc => "QkTC",
            Self::Rfvc => "RFVC",
            Self::S0ls => "S0lS",
            Self::Qljv => "QlJV",
            Self::Tenz => "TENZ",
            Self::T1jl => "T1JL",
        }
    }

    /// The curve of its keys.
    pub fn curve(self) -> Curve {
        match self {
            Self::Tk9d | Self::Qktc | Self::Tenz | Self::T1jl => Curve::P256,
            Self::Rfvc | Self::S0ls | Self::Qljv => Curve::Secp256k1,
        }
    }

    /// Whether metadata precedes the text.
    pub fn has_metadata(self) -> bool {
        matches!(self, Self::Qktc | Self::S0ls | Self::Qljv | Self::Tenz)
    }

    /// Whether the version is only opened, never written.
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::Qljv | Self::Tenz | Self::T1jl)
    }

    /// The version that is written today without metadata.
    pub fn plain(curve: Curve) -> Self {
        match curve {
            Curve::P256 => Self::Tk9d,
            Curve::Secp256k1 => Self::Rfvc,
        }
    }

    /// The version that is written today with metadata.
    pub fn with_metadata(curve: Curve) -> Self {
        match curve {
            Curve::P256 => Self::Qktc,
            Curve::Secp256k1 => Self::S0ls,
        }
    }

    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.text().as_bytes() == text)
    }
}

/// The version of a symmetric envelope: whether metadata precedes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SymmetricVersion {
    /// `WEFF`: no metadata.
    Weff,
    /// `WEFN`: with metadata.
    Wefn,
}

impl SymmetricVersion {
    /// Every version.
    pub const ALL: [SymmetricVersion; 2] = [Self::Weff, Self::Wefn];

    /// The four characters in the envelope.
    pub fn text(self) -> &'static str {
        match self {
            Self::Weff => "WEFF",
            Self::Wefn => "WEFN",
        }
    }

    /// Whether metadata precedes the text.
    pub fn has_metadata(self) -> bool {
        self == Self::Wefn
    }

    /// The version with metadata, or the one without.
    pub fn of(has_metadata: bool) -> Self {
        if has_metadata { Self::Wefn } else { Self::Weff }
    }

    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.text().as_bytes() == text)
    }
}
