//! Searches texts inside of messages for JSON in which a member has the name of a selected value.
//!
//! An upstream that parses such a text reads in the clear what the rules hide, wherever it takes the text for the resource or a part of it:
//! the search therefore compares names alone, at any depth, and looks into the strings of the text as well. It accepts what lenient
//! parsers do, in one pass over the bytes and without a copy of the text: see [`Level`].

mod decoder;
mod level;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use leafseal_document::{CaseFold, Selection, folded_char};

use decoder::Decoder;
use level::{Level, LevelStep, Unescaped};

pub(crate) use level::Unescape;

/// Maximum number of texts inside one another that are searched: a deeper one is refused like one that holds a name.
pub(crate) const LEVELS_MAX: usize = 8;
/// Characters of a word that are kept at least: those of a number.
const SIZE_MIN: usize = 32;
/// Characters that one call of [`TextSearch::read`] passes through the levels: some ten microseconds.
const STEPS_PER_CALL: u64 = 8 << 10;

/// The names of members under which selectors find values.
#[derive(Debug)]
pub(crate) struct MemberNames {
    /// Folded, in order.
    names: Vec<Box<[char]>>,
    /// The same as they are written where a text departs from JSON.
    loose: Vec<Box<[char]>>,
    size_max: usize,
    /// Whether a selector finds values under any name.
    is_any: bool,
    case: CaseFold,
}

impl MemberNames {
    /// The names of these selections, if there are any, and with them those of `fields`, which rules hide in forms and in the query;
    /// `case` is how names are compared.
    pub(crate) fn new<'f>(selections: &[Selection], fields: impl IntoIterator<Item = &'f str>, case: CaseFold) -> Self {
        let mut names = MemberNames { names: Vec::new(), loose: Vec::new(), size_max: SIZE_MIN, is_any: false, case };
        for selection in selections {
            match selection.member_names() {
                None => names.is_any = true,
                Some(of_selection) => of_selection.into_iter().for_each(|name| names.add(name)),
            }
        }
        if !names.is_empty() {
            fields.into_iter().flat_map(field_names).for_each(|name| names.add(name));
        }
        for list in [&mut names.names, &mut names.loose] {
            list.sort_unstable();
            list.dedup();
        }
        names
    }

    fn add(&mut self, name: &str) {
        let name: Box<[char]> = name.chars().map(|c| self.fold(c)).collect();
        self.size_max = self.size_max.max(name.len());
        let mut loose = Vec::new();
        name.iter().for_each(|&c| level::push_loose(&mut loose, c));
        self.loose.push(level::without_marks(&loose).into());
        self.names.push(name);
    }

    /// Whether there are none, as where no rule hides values of JSON documents.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.is_any
    }

    fn fold(&self, c: char) -> char {
        if self.case == CaseFold::Other { c } else { folded_char(c) }
    }

    fn has(&self, name: &[char]) -> bool {
        self.is_any || self.names.binary_search_by(|known| (**known).cmp(name)).is_ok()
    }

    /// Whether the name is a path with such a step: `card.number`, `card["number"]`, `number(1i)`.
    fn has_step(&self, name: &[char]) -> bool {
        let is_mark = |c: &char| matches!(c, '.' | '[' | ']' | '(' | '"' | '\'');
        name.iter().any(is_mark) && name.split(is_mark).any(|step| self.has(step))
    }

    /// Whether a text ends with a name, and marks behind it.
    fn end(&self, text: &[char]) -> bool {
        let text = level::without_marks(text);
        let is_whole = |name: &[char]| {
            let before = text.len().checked_sub(name.len()).filter(|&at| text[at..] == *name);
            before.is_some_and(|at| at == 0 || !level::is_of_word(text[at - 1]))
        };
        self.is_any && !text.is_empty() || self.loose.iter().any(|name| is_whole(name))
    }
}

/// The names of the member that a field of this name is: its last step, or the whole where brackets and dots are part of it.
fn field_names(field: &str) -> impl Iterator<Item = &str> {
    let is_step = |step: &&str| !step.bytes().all(|byte| byte.is_ascii_digit());
    let last = field.split(['[', ']', '.']).rfind(is_step);
    [field].into_iter().chain(last).filter(|name| !name.trim().is_empty())
}

/// The findings about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was found so far.
    More,
    /// It is no JSON; the rest needs not be read.
    NotJson,
    /// It is JSON with a name, or deeper than [`LEVELS_MAX`].
    Held,
}

/// A search through one text after another, in pieces.
#[derive(Debug)]
pub(crate) struct TextSearch {
    names: Arc<MemberNames>,
    decoder: Decoder,
    /// The text, the string of it that is read now, the string of that one, and so on; one more than are searched.
    levels: Vec<Level>,
    steps: u64,
}

impl TextSearch {
    /// A search in the strings of a JSON document, which is UTF-8.
    pub(crate) fn new(names: Arc<MemberNames>) -> Self {
        let levels = (0..=LEVELS_MAX).map(|_| Level::default()).collect();
        TextSearch { names, decoder: Decoder::utf_8(), levels, steps: 0 }
    }

    /// Begins with a text in any encoding of Unicode.
    pub(crate) fn begin_bytes(&mut self) {
        self.begin();
        self.decoder = Decoder::unknown();
    }

    /// Begins with a text in UTF-8.
    pub(crate) fn begin(&mut self) {
        self.decoder = Decoder::utf_8();
        self.levels[0].begin();
    }

    /// Bytes read, characters passed to a level, and names compared one by one so far: at most [`TextSearch::steps_max`].
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// The bound on the steps for texts of `size` bytes: a byte is decoded, each level passes on at most one character for one that it
    /// takes, and only the last one that is read compares it with names.
    pub(crate) fn steps_max(&self, size: usize) -> u64 {
        size as u64 * (LEVELS_MAX as u64 + 2 + self.names.loose.len() as u64)
    }

    /// Reads a piece of the text; returns how much of it was read, and the verdict.
    pub(crate) fn read(&mut self, piece: &[u8]) -> (usize, Verdict) {
        let until = self.steps + STEPS_PER_CALL;
        for (at, &byte) in piece.iter().enumerate() {
            if self.steps >= until {
                return (at, Verdict::More);
            }
            let verdict = self.take(byte);
            if verdict != Verdict::More {
                return (at + 1, verdict);
            }
        }
        (piece.len(), Verdict::More)
    }

    /// Reads a piece of a string token of a well-formed document, after its opening quotation mark; returns how much of it was read, and
    /// the verdict, which is [`Verdict::NotJson`] at the end of the string.
    pub(crate) fn read_string(&mut self, unescape: &mut Unescape, piece: &[u8]) -> (usize, Verdict) {
        let until = self.steps + STEPS_PER_CALL;
        for (at, &byte) in piece.iter().enumerate() {
            if self.steps >= until {
                return (at, Verdict::More);
            }
            self.steps += 1;
            let mut verdict = Verdict::More;
            if let Some(c) = self.decoder.ascii(byte).or_else(|| self.decoder.take(byte)[0]) {
                verdict = match unescape.take(c) {
                    Unescaped::Plain('"') | Unescaped::Unusual => Verdict::NotJson,
                    Unescaped::Plain(c) | Unescaped::Escaped(c) => self.pass(c),
                    Unescaped::Begun => Verdict::More,
                };
            }
            if verdict != Verdict::More {
                return (at + 1, verdict);
            }
        }
        (piece.len(), Verdict::More)
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Verdict {
        self.steps += 1;
        if let Some(c) = self.decoder.ascii(byte) {
            return self.pass(c);
        }
        for c in self.decoder.take(byte).into_iter().flatten() {
            let verdict = self.pass(c);
            if verdict != Verdict::More {
                return verdict;
            }
        }
        Verdict::More
    }

    /// Passes a character to the first level, and what that makes of it to the next.
    fn pass(&mut self, c: char) -> Verdict {
        let (mut number, mut c) = (0, c);
        while let Some(level) = self.levels.get_mut(number) {
            if level.is_no_json() {
                break;
            }
            self.steps += 1;
            let taken = level.take(c, &self.names, &mut self.steps);
            if number == LEVELS_MAX && level.is_json() {
                return Verdict::Held;
            }
            match taken {
                LevelStep::Nothing => break,
                LevelStep::Held => return Verdict::Held,
                LevelStep::StringBegins => {
                    if let Some(next) = self.levels.get_mut(number + 1) {
                        next.begin();
                    }
                    break;
                }
                LevelStep::OfString(inner) => (number, c) = (number + 1, inner),
            }
        }
        if self.levels[0].is_no_json() { Verdict::NotJson } else { Verdict::More }
    }
}
