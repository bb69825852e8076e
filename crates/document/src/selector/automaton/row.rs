//! The transitions of a set of states, and the names that distinguish its members.

use super::{AutomatonState, ElementSelector, SetId};
use crate::error::DocumentErrorKind;
use crate::fold::{FOLDED_GROWTH_MAX, folded};

/// The transitions of a set.
#[derive(Debug)]
pub(super) struct TransitionRow {
    /// For members whose name is in no selector, and for elements that no index or slice selects.
    pub(super) other: SetId,
    /// By length, then by bytes. Case-folded if case is ignored.
    pub(super) names: Vec<(Box<[u8]>, SetId)>,
    /// Case-folded names, if names that differ only in case are refused.
    pub(super) folded: Vec<Box<str>>,
    /// Unless case counts, the lengths of the case-folded names modulo 64.
    pub(super) lengths: u64,
    /// The states that every child is in.
    pub(super) base: Vec<AutomatonState>,
    /// Zero-based indexes with the states that they add, ordered by index.
    pub(super) indexes: Vec<(i64, AutomatonState)>,
    /// Slices and indexes from the end, with the state each adds.
    pub(super) ranges: Vec<(ElementSelector, AutomatonState)>,
    /// The set of the last element: adjacent elements mostly have the same.
    pub(super) last_element: (Vec<AutomatonState>, SetId),
}

/// A name that some readers take for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmbiguousName {
    /// It equals a selected name only where case does not count.
    Alike,
    /// It has characters of paths, and is too long or leads to too many sets to be followed.
    Path,
}

impl From<AmbiguousName> for DocumentErrorKind {
    fn from(name: AmbiguousName) -> Self {
        match name {
            AmbiguousName::Alike => DocumentErrorKind::AmbiguousName,
            AmbiguousName::Path => DocumentErrorKind::PathName,
        }
    }
}

/// The set of a member, and which of the names that its parent's set looks for it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) set: SetId,
    /// [`Member::UNNAMED`] for a member whose name is not looked for. Numbers of names are consecutive, and the same for equal sets.
    pub(crate) name: u32,
}

impl Member {
    pub(crate) const UNNAMED: u32 = u32::MAX;

    #[inline(always)]
    pub(super) fn unnamed(set: SetId) -> Member {
        Member { set, name: Member::UNNAMED }
    }
}

impl TransitionRow {
    /// Refuses names that differ from these only in case.
    pub(super) fn guard(&mut self, names: Vec<Box<str>>) {
        self.lengths = lengths(names.iter().map(|name| name.len()));
        self.folded = names;
    }

    /// The maximum ratio of a name's length to that of a selected one.
    pub(super) fn growth(&self) -> usize {
        if self.folded.is_empty() { 1 } else { FOLDED_GROWTH_MAX }
    }

    /// The set of the member with this name, unless it is refused.
    #[inline]
    pub(super) fn guarded(&self, name: &[u8]) -> Result<Member, AmbiguousName> {
        match self.names.binary_search_by(|(known, _)| by_length(known, name)) {
            Ok(found) => Ok(self.numbered(found)),
            // An ASCII name can only equal folded names of the same length.
            Err(_) if self.lengths == 0 || (self.lengths & length_bit(name.len()) == 0 && name.is_ascii()) => {
                Ok(Member::unnamed(self.other))
            }
            Err(_) => self.refused_bytes(name),
        }
    }

    /// The set of members that no selector names, unless this name is refused.
    #[inline(never)]
    pub(super) fn refused_bytes(&self, name: &[u8]) -> Result<Member, AmbiguousName> {
        if name.is_ascii() {
            let is_alike = self.folded.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
            return if is_alike { Err(AmbiguousName::Alike) } else { Ok(Member::unnamed(self.other)) };
        }
        // Invalid UTF-8 is detected right behind the walk.
        std::str::from_utf8(name).map_or(Ok(Member::unnamed(self.other)), |name| self.refused(name))
    }

    #[cold]
    pub(super) fn refused(&self, name: &str) -> Result<Member, AmbiguousName> {
        let size_max = self.folded.iter().map(|known| known.len()).max().unwrap_or(0);
        if name.len() > size_max.saturating_mul(FOLDED_GROWTH_MAX) {
            return Ok(Member::unnamed(self.other));
        }
        let name = folded(name);
        let is_alike = self.folded.iter().any(|known| **known == *name);
        if is_alike { Err(AmbiguousName::Alike) } else { Ok(Member::unnamed(self.other)) }
    }

    /// The member with this name.
    #[inline]
    pub(super) fn named(&self, name: &[u8]) -> Member {
        match self.names.binary_search_by(|(known, _)| by_length(known, name)) {
            Ok(found) => self.numbered(found),
            Err(_) => Member::unnamed(self.other),
        }
    }

    #[inline(always)]
    pub(super) fn numbered(&self, found: usize) -> Member {
        Member { set: self.names[found].1, name: found as u32 }
    }
}

/// A bit for names of this length.
#[inline]
pub(super) fn length_bit(length: usize) -> u64 {
    1 << (length % 64)
}

/// The bits of all of these.
pub(super) fn lengths(lengths: impl Iterator<Item = usize>) -> u64 {
    lengths.fold(0, |bits, length| bits | length_bit(length))
}

/// Names of different length, the common case, are distinguished without reading their bytes.
#[inline]
pub(super) fn by_length(left: &[u8], right: &[u8]) -> std::cmp::Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}
