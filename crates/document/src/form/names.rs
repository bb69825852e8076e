//! Selects the fields of a form or query by name, and detects names that some parser reads as a selected one.
//!
//! Parsers do not agree on the name of a field. PHP writes `_` for `.`, for a space and for a `[` without a closing bracket, and splits a
//! name at its brackets; `qs` (Express) and older Rack unwrap `[card]`; `qs` and Spring can read `a.b` as `a[b]`; Spring drops a leading
//! `!`, Zope drops everything from `:` on, Rails from `(`; ASP.NET and gorilla/schema ignore case. A name is therefore read in each of
//! these ways, and a field that has a selected name for only some parsers is refused.

use std::borrow::Cow;

use super::readers::{READERS, Tree};
use crate::fold::{CaseFold, fold_into, folded};
use crate::selector::FieldPath;

/// Maximum number of leading bytes that some parsers drop.
const PADDING_MAX: usize = 8;

/// The meaning of a field by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is selected.
    Selected,
    /// It is not.
    Other,
    /// Some parsers read it as a selected name, others do not.
    Ambiguous,
}

/// The names of selected fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    /// Sorted, each once.
    names: Vec<Box<str>>,
    /// The same without the case of their letters if it is ignored, otherwise none; sorted.
    folded: Vec<Box<str>>,
    /// Paths of fields that are selected by the parsers that read them, and only detected: none is [`FieldPath::Exactly`].
    open: Vec<FieldPath>,
    is_everything: bool,
    /// Fields that are not selected although all are.
    excepted: Option<Box<FieldNames>>,
    guard: Option<Box<NameGuard>>,
}

/// Detects names that some parser reads as a selected one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NameGuard {
    /// Names that are handled elsewhere.
    known: FieldNames,
    folds: bool,
    /// The selected names as each parser of [`READERS`] reads them.
    trees: [Tree; READERS.len()],
    /// Those of these readings that have one step; sorted.
    singles: Vec<String>,
}

impl FieldNames {
    /// Selects the fields of these names, compared byte by byte after decoding, without what some parsers remove: white space
    /// around a name, and everything from a null byte on. A single `*` means every field.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut chosen = FieldNames::default();
        for name in names {
            match name.as_ref() {
                "*" => chosen.is_everything = true,
                name => chosen.names.push(name.trim_ascii().into()),
            }
        }
        sort(&mut chosen.names);
        chosen
    }

    /// Adds the fields by which values of a document can be sent. Those that are not given exactly are detected where names are guarded,
    /// and never selected.
    #[must_use]
    pub fn with_paths<'p>(mut self, paths: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        for path in paths {
            match path {
                FieldPath::Exactly(name) => self.names.push(name.trim_ascii().into()),
                path => self.open.push(path.clone()),
            }
        }
        sort(&mut self.names);
        sort(&mut self.open);
        self
    }

    /// The same without the names that `these` selects.
    #[must_use]
    pub fn without(mut self, these: &FieldNames) -> Self {
        self.names.retain(|name| !these.has(name.as_bytes()));
        self
    }

    /// The same; with [`OtherCase::Same`] it also selects fields whose names differ only in case.
    pub fn in_case(self, other_case: CaseFold) -> Self {
        let mut folds: Vec<Box<str>> = Vec::new();
        if other_case == CaseFold::Same {
            folds.extend(self.names.iter().map(|name| folded(name).into()));
            sort(&mut folds);
        }
        FieldNames { folded: folds, ..self }
    }

    /// The same, but refuses a form with a field that only some parsers read as one of these: because of case unless `other_case` permits
    /// it, or because of brackets, dots and the like. Fields in `known` are exempt.
    #[must_use]
    pub fn guarded(self, other_case: CaseFold, known: &FieldNames) -> Self {
        let chosen = self.in_case(other_case);
        let folds = other_case != CaseFold::Other;
        let neat: Vec<String> = chosen.names.iter().map(|name| neat(name, folds).into_owned()).collect();
        let open: Vec<FieldPath> = chosen.open.iter().map(|path| neat_path(path, folds)).collect();
        let trees = READERS.map(|reader| Tree::new(&reader, &neat, &open));
        let mut singles: Vec<String> = trees.iter().flat_map(Tree::singles).map(str::to_owned).collect();
        sort(&mut singles);
        let known = FieldNames { guard: None, ..known.clone() }.in_case(other_case);
        FieldNames { guard: Some(Box::new(NameGuard { known, folds, trees, singles })), ..chosen }
    }

    /// Selects the fields of all of these.
    pub fn union<'n>(all: impl IntoIterator<Item = &'n FieldNames>) -> Self {
        let mut union = FieldNames::default();
        for names in all {
            union.is_everything |= names.is_everything;
            union.names.extend(names.names.iter().cloned());
        }
        sort(&mut union.names);
        union
    }

    /// Whether no field is selected.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.open.is_empty() && !self.is_everything
    }

    /// Whether every field is selected.
    pub fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// Whether names that only some parsers read as a selected one are refused.
    pub(super) fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// The names, without `*`.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Whether a field with this decoded name is selected.
    pub fn has(&self, name: &[u8]) -> bool {
        if self.is_everything {
            return self.excepted.as_ref().is_none_or(|excepted| !excepted.has(name));
        }
        let is = |name: &[u8]| self.names.binary_search_by(|chosen| chosen.as_bytes().cmp(name)).is_ok();
        let cut = own_reading(name);
        is(name) || is(cut) || (!self.folded.is_empty() && self.has_in_any_case(cut))
    }

    #[cold]
    fn has_in_any_case(&self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| {
            let name = folded(name);
            self.folded.binary_search_by(|chosen| (**chosen).cmp(&*name)).is_ok()
        })
    }

    /// Whether a field can be selected by both.
    pub fn may_overlap(&self, other: &FieldNames) -> bool {
        let is_any = |names: &FieldNames, others: &FieldNames| names.is_everything && !others.is_empty();
        let has_one_of = |names: &FieldNames, others: &FieldNames| others.iter().any(|name| names.has(name.as_bytes()));
        is_any(self, other) || is_any(other, self) || has_one_of(self, other) || has_one_of(other, self)
    }

    /// Whether a field with this decoded name is selected, or refused because some parser reads its name as a selected one.
    pub fn means(&self, name: &[u8]) -> bool {
        self.meaning(name, &mut 0) != Meaning::Other
    }

    /// Selects every field except those that `these` selects.
    #[must_use]
    pub fn everything_except(these: &FieldNames) -> Self {
        FieldNames { is_everything: true, excepted: Some(Box::new(these.clone())), ..FieldNames::default() }
    }

    /// Classifies a field by its name, or by the first bytes of it, and adds the bytes that were read to `steps`: at most
    /// [`NAME_READINGS`] times the name.
    pub(super) fn meaning(&self, name: &[u8], steps: &mut u64) -> Meaning {
        *steps += name.len() as u64;
        if self.has(name) { Meaning::Selected } else { self.meaning_of_other(name, steps) }
    }

    /// Classifies a field whose name is not a selected one.
    pub(super) fn meaning_of_other(&self, name: &[u8], steps: &mut u64) -> Meaning {
        match &self.guard {
            Some(guard) if guard.takes(name, steps) && !guard.known.has(name) => Meaning::Ambiguous,
            _ => Meaning::Other,
        }
    }

    /// Number of leading [`is_padding`] bytes of a name that determine its meaning: no less than a selected name begins with.
    pub(super) fn padding_max(&self) -> usize {
        let padding = |name: &str| name.bytes().take_while(|&byte| is_padding(byte)).count();
        self.names.iter().map(|name| padding(name)).max().unwrap_or(0).max(PADDING_MAX)
    }
}

fn sort<T: Ord>(names: &mut Vec<T>) {
    names.sort_unstable();
    names.dedup();
}

/// How often a byte of a name is read at most by [`FieldNames::meaning`]: once for the selected names, and where a guard reads it, as it is
/// and with its escapes undone once more (each up to twice as long in UTF-8 where the name is in Latin-1), once to prepare each of these
/// texts and once by each of [`READERS`].
pub(super) const NAME_READINGS: u64 = 1 + 2 * 2 * (1 + READERS.len() as u64);

impl NameGuard {
    /// Whether some parser reads the name as a selected one.
    fn takes(&self, name: &[u8], steps: &mut u64) -> bool {
        // All parsers agree on ordinary names.
        if name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
            let name = String::from_utf8_lossy(name);
            let name = if self.folds { Cow::Owned(name.to_ascii_lowercase()) } else { name };
            return self.singles.binary_search_by(|single| (**single).cmp(&*name)).is_ok();
        }
        readable(name).iter().any(|text| self.takes_text(&neat(text, self.folds), steps))
    }

    /// A field below a selected value is part of it.
    fn takes_text(&self, text: &str, steps: &mut u64) -> bool {
        *steps += text.len() as u64;
        READERS.iter().zip(&self.trees).any(|(reader, tree)| {
            *steps += text.len() as u64;
            tree.takes(reader, text)
        })
    }
}

/// A name as the relay reads it: up to a null byte, without surrounding white space.
pub(super) fn own_reading(name: &[u8]) -> &[u8] {
    name[..memchr::memchr(0, name).unwrap_or(name.len())].trim_ascii()
}

/// Whether a name has one reading: in UTF-8, without control characters, at which some parsers end a name and which some drop.
pub(super) fn has_one_reading(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control))
}

/// Whether forms can have fields of this name that all parsers read alike: it is not empty and has no control characters, at which some
/// end a name and which some drop.
pub fn is_field_name(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}

/// Whether some parsers drop the byte at the start of a name. None drops a NUL, at which some end the name.
pub(super) fn is_padding(byte: u8) -> bool {
    (1..=b' ').contains(&byte) || b"[]!?.".contains(&byte)
}

/// The texts that a name's bytes may represent: in UTF-8 or else Latin-1, and with its escapes decoded once more.
fn readable(name: &[u8]) -> Vec<String> {
    let name = &name[..memchr::memchr(0, name).unwrap_or(name.len())];
    let text = match std::str::from_utf8(name) {
        Ok(text) => text.to_owned(),
        Err(_) => name.iter().map(|&byte| char::from(byte)).collect(),
    };
    let again = text.contains('%').then(|| unescaped(&text));
    std::iter::once(text).chain(again).collect()
}

/// Decodes `%XX`, and `%uXXXX` as ASP.NET does.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let hex = |from: usize, size: usize| {
            let digits =
                rest.get(from..from + size).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            digits.and_then(|digits| u32::from_str_radix(digits, 16).ok())
        };
        let wide = if rest.starts_with(['u', 'U']) { hex(1, 4).and_then(char::from_u32) } else { None };
        match (wide, hex(0, 2)) {
            (Some(character), _) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[5..];
            }
            (None, Some(byte)) => {
                out.push(byte as u8);
                rest = &rest[2..];
            }
            (None, None) => out.push(b'%'),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// A path whose names are [`neat`].
fn neat_path(path: &FieldPath, folds: bool) -> FieldPath {
    let neat = |name: &String| neat(name, folds).into_owned();
    match path {
        FieldPath::Exactly(name) => FieldPath::Exactly(neat(name)),
        FieldPath::Anywhere(name) => FieldPath::Anywhere(neat(name)),
        FieldPath::Below { first, name } => FieldPath::Below { first: first.as_ref().map(neat), name: neat(name) },
    }
}

/// A name without surrounding bytes that parsers drop, and case-folded if `folds`.
fn neat(name: &str, folds: bool) -> Cow<'_, str> {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    let name = name.trim_matches(is_blank).trim_start_matches(['!', '?']).trim_start_matches(is_blank);
    if !folds {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    fold_into(name, &mut out);
    Cow::Owned(out)
}
