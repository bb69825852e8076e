//! What becomes of texts that may be envelopes already, where such are skipped or resealed.

use std::ops::Range;

use leafseal_envelope::SealedInput;

use crate::bindings::OwnBindings;

/// The decision about some of the texts, if envelopes that decrypt are skipped or resealed.
pub struct Settled {
    /// The number of decided texts; the others wait for the next step.
    pub done: usize,
    pub(crate) outcomes: Vec<SettledText>,
    /// The new envelopes, one after the other.
    pub(crate) envelopes: Vec<u8>,
}

/// The decision about a text.
#[derive(Clone)]
pub(crate) enum SettledText {
    /// It is encrypted.
    Encrypted,
    /// It stays unchanged.
    Left,
    /// It becomes this one of the new envelopes.
    Resealed(Range<usize>),
}

impl Settled {
    /// This many texts, which are all encrypted.
    pub fn all(count: usize) -> Self {
        Self { done: count, outcomes: Vec::new(), envelopes: Vec::new() }
    }

    /// Whether the text at `index` stays unchanged.
    pub fn leaves(&self, index: usize) -> bool {
        matches!(self.outcomes.get(index), Some(SettledText::Left))
    }

    /// Whether some were resealed.
    pub fn has_envelopes(&self) -> bool {
        !self.envelopes.is_empty()
    }

    /// The new envelope of the text at `index`, if it was resealed.
    pub fn envelope(&self, index: usize) -> Option<&[u8]> {
        match self.outcomes.get(index) {
            Some(SettledText::Resealed(range)) => Some(&self.envelopes[range.clone()]),
            _ => None,
        }
    }
}

/// Some values with their own bindings, if the request binds each to its own, and for those that were resealed with their envelopes.
pub struct SettledValues<'a> {
    /// The values.
    pub values: &'a [SealedInput<'a>],
    /// Their bindings.
    pub own: OwnBindings<'a>,
    /// The envelopes; for values beyond the end there are none.
    pub envelopes: &'a [Option<&'a [u8]>],
}
