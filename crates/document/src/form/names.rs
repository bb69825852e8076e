//! Selects the fields of a form or query by name, and detects names that some parser reads as a selected one.
//!
//! Parsers do not agree on the name of a field. PHP writes `_` for `.`, for a space and for a `[` without a closing bracket, and splits a
//! name at its brackets; `qs` (Express) and older Rack unwrap `[card]`; `qs` and Spring can read `a.b` as `a[b]`; Spring drops a leading
//! `!`, Zope everything from `:` on; ASP.NET and gorilla/schema ignore case. A name is therefore read in each of these ways, and a field
//! that has a selected name for only some parsers is refused.

use crate::fold::{OtherCase, folded};

/// Bytes of a name that are examined, unless a selected name is longer than a quarter of that.
const HEAD_SIZE: usize = 1024;
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
    names: Vec<Box<str>>,
    is_everything: bool,
    is_case_ignored: bool,
    guard: Option<Box<Guard>>,
}

/// Detects names that some parser reads as a selected one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guard {
    /// Names that are handled elsewhere.
    known: FieldNames,
    folds: bool,
    /// The selected names as each parser of [`READERS`] reads them.
    paths: Vec<[Path; READERS.len()]>,
    /// Those of these paths that have one step.
    singles: Vec<String>,
}

/// A name as a parser reads it: the steps to the value from the outside in.
type Path = Vec<String>;

/// A parser of names: how it reads a selected name, and how any other.
struct Reader {
    selected: fn(&str) -> Path,
    read: fn(&str) -> Path,
}

const READERS: [Reader; 6] = [
    Reader { selected: whole, read: whole },
    Reader { selected: php, read: php },
    Reader { selected: qs, read: qs },
    Reader { selected: bracketed, read: bracketed },
    Reader { selected: dotted, read: dotted },
    Reader { selected: whole, read: before_colon },
];

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
        chosen
    }

    /// The same; with [`OtherCase::Same`] it also selects fields whose names differ only in case.
    pub fn in_case(self, other_case: OtherCase) -> Self {
        FieldNames { is_case_ignored: other_case == OtherCase::Same, ..self }
    }

    /// The same, but refuses a form with a field that only some parsers read as one of these: because of case unless `other_case` permits
    /// it, or because of brackets, dots and the like. Fields in `known` are exempt.
    #[must_use]
    pub fn guarded(self, other_case: OtherCase, known: &FieldNames) -> Self {
        let chosen = self.in_case(other_case);
        let folds = other_case != OtherCase::Other;
        let read = |name: &str| READERS.map(|reader| (reader.selected)(&neat(name, folds)));
        let paths: Vec<[Path; READERS.len()]> = chosen.names.iter().map(|name| read(name)).collect();
        let mut singles: Vec<String> =
            paths.iter().flatten().filter(|path| path.len() == 1).map(|path| path[0].clone()).collect();
        singles.sort_unstable();
        singles.dedup();
        let known = FieldNames { guard: None, ..known.clone() }.in_case(other_case);
        FieldNames { guard: Some(Box::new(Guard { known, folds, paths, singles })), ..chosen }
    }

    /// Selects the fields of all of these.
    pub fn union<'n>(all: impl IntoIterator<Item = &'n FieldNames>) -> Self {
        let mut union = FieldNames::default();
        for names in all {
            union.is_everything |= names.is_everything;
            union.names.extend(names.names.iter().cloned());
        }
        union
    }

    /// Whether no field is selected.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.is_everything
    }

    /// The number of comparisons for the name of a field in the worst case, which determines the time to find fields. With a guard, each
    /// parser's reading of a name counts as eight.
    pub fn comparisons(&self) -> usize {
        let guarded = if self.guard.is_some() { READERS.len() * (8 + self.names.len()) } else { 0 };
        self.names.len() + guarded
    }

    /// Whether every field is selected.
    pub fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// The names, without `*`.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Whether a field with this decoded name is selected.
    pub fn has(&self, name: &[u8]) -> bool {
        if self.is_everything {
            return true;
        }
        let end = memchr::memchr(0, name).unwrap_or(name.len());
        let is = |name: &[u8]| self.names.iter().any(|chosen| chosen.as_bytes() == name);
        let cut = name[..end].trim_ascii();
        is(name) || is(cut) || (self.is_case_ignored && self.has_in_any_case(cut))
    }

    #[cold]
    fn has_in_any_case(&self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| {
            let name = folded(name);
            self.names.iter().any(|chosen| folded(chosen) == name)
        })
    }

    /// Classifies a field by its name, or by the first [`FieldNames::head_size`] bytes of it.
    pub(super) fn meaning(&self, name: &[u8]) -> Meaning {
        if self.has(name) { Meaning::Selected } else { self.meaning_of_other(name) }
    }

    /// Classifies a field whose name is not a selected one.
    pub(super) fn meaning_of_other(&self, name: &[u8]) -> Meaning {
        match &self.guard {
            Some(guard) if guard.takes(name) && !guard.known.has(name) => Meaning::Ambiguous,
            _ => Meaning::Other,
        }
    }

    /// Whether a form with a field that some parser reads by this name is refused.
    pub(super) fn doubts(&self, name: &[u8]) -> bool {
        self.guard.is_some() && self.meaning(name) != Meaning::Other
    }

    /// Number of leading [`is_padding`] bytes of a name that determine its meaning: no less than a selected name begins with.
    pub(super) fn padding_max(&self) -> usize {
        let padding = |name: &str| name.bytes().take_while(|&byte| is_padding(byte)).count();
        self.names.iter().map(|name| padding(name)).max().unwrap_or(0).max(PADDING_MAX)
    }

    /// Number of bytes that determine the meaning of a name, after leading [`is_padding`] bytes are removed.
    pub(super) fn head_size(&self) -> usize {
        let longest = self.names.iter().map(|name| name.len()).max().unwrap_or(0);
        HEAD_SIZE.max(longest.saturating_mul(4))
    }
}

impl Guard {
    /// Whether some parser reads the name as a selected one.
    fn takes(&self, name: &[u8]) -> bool {
        // All parsers agree on ordinary names.
        if name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
            return self.singles.iter().any(|single| match self.folds {
                true => single.as_bytes().eq_ignore_ascii_case(name),
                false => single.as_bytes() == name,
            });
        }
        readable(name).iter().any(|text| self.takes_text(&neat(text, self.folds)))
    }

    fn takes_text(&self, text: &str) -> bool {
        READERS.iter().enumerate().any(|(number, reader)| {
            let path = (reader.read)(text);
            // Fields below a selected value are part of it.
            self.paths.iter().map(|paths| &paths[number]).any(|chosen| !chosen.is_empty() && path.starts_with(chosen))
        })
    }
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

/// Appends a byte of a name unless it is part of a padding longer than `padding_max`. Returns whether it was appended.
pub(super) fn push_name_byte(byte: u8, name: &mut Vec<u8>, padding_max: usize) -> bool {
    let is_more = name.len() >= padding_max && is_padding(byte) && name.iter().all(|&byte| is_padding(byte));
    if !is_more {
        name.push(byte);
    }
    !is_more
}

/// The texts that a name's bytes may represent: in UTF-8 or Latin-1, and with its escapes decoded once more.
fn readable(name: &[u8]) -> Vec<String> {
    let name = &name[..memchr::memchr(0, name).unwrap_or(name.len())];
    let mut texts = vec![String::from_utf8_lossy(name).into_owned()];
    if std::str::from_utf8(name).is_err() {
        texts.push(name.iter().map(|&byte| char::from(byte)).collect());
    }
    let again: Vec<String> = texts.iter().filter(|text| text.contains('%')).map(|text| unescaped(text)).collect();
    texts.extend(again);
    texts
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

/// A name without surrounding bytes that parsers drop, and case-folded if `folds`.
fn neat(name: &str, folds: bool) -> String {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    let name = name.trim_matches(is_blank).trim_start_matches(['!', '?']).trim_start_matches(is_blank);
    if folds { folded(name) } else { name.to_owned() }
}

/// Go, Python, Java: the name unchanged.
fn whole(name: &str) -> Path {
    vec![name.to_owned()]
}

/// PHP (`php_register_variable_ex`).
fn php(name: &str) -> Path {
    let Some(open) = name.find('[') else { return vec![name.replace([' ', '.'], "_")] };
    let root = name[..open].replace([' ', '.'], "_");
    let mut rest = &name[open..];
    let mut steps = Vec::new();
    while let Some(inner) = rest.strip_prefix('[') {
        match inner.find(']') {
            Some(close) => {
                steps.push(&inner[..close]);
                rest = &inner[close + 1..];
            }
            None if steps.is_empty() => return vec![format!("{root}_{}", inner.replace([' ', '.', '['], "_"))],
            None => break,
        }
    }
    path(&root, steps)
}

/// The npm package `qs`: the text before the first complete brackets, and the text in all complete ones.
fn qs(name: &str) -> Path {
    let (mut open, mut root, mut steps) = (None, None, Vec::new());
    for (at, byte) in name.bytes().enumerate() {
        match (byte, open) {
            (b'[', _) => open = Some(at),
            (b']', Some(start)) => {
                root.get_or_insert(&name[..start]);
                steps.push(&name[start + 1..at]);
                open = None;
            }
            _ => {}
        }
    }
    path(root.unwrap_or(name), steps)
}

/// Rack: the text between brackets, complete or not.
fn bracketed(name: &str) -> Path {
    path("", name.split(['[', ']']))
}

/// Spring, gorilla/schema, `qs` with `allowDots`: dots are brackets.
fn dotted(name: &str) -> Path {
    path("", name.split(['[', ']', '.']))
}

/// Zope: a type may follow the name.
fn before_colon(name: &str) -> Path {
    whole(name.split(':').next().unwrap_or(name))
}

/// The steps from `root` on. Elements of a list belong to the list, whether numbered or appended.
fn path<'t>(root: &'t str, steps: impl IntoIterator<Item = &'t str>) -> Path {
    let mut path = Path::new();
    for step in std::iter::once(root).chain(steps) {
        let step = step.trim().trim_matches(['"', '\'']);
        let is_element = !path.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        if !step.is_empty() && !is_element {
            path.push(step.to_owned());
        }
    }
    path
}
