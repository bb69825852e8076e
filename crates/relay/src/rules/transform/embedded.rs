//! JSON texts in strings of a document. Selectors are not meant for them, but an upstream that parses such a text finds in it what the
//! rules hide.
//!
//! A document is refused only if a selector finds a value in such a text, as it would in a body of its own; texts within texts are searched
//! too.

use std::ops::ControlFlow;
use std::sync::Arc;

use leafseal_document::{
    DocumentErrorKind, Limits as DocumentLimits, Match, Progress, Purpose, Selection, Walk, unescape_piece,
};

use super::{Job, Kind};
use crate::body::buffer::{BudgetShare, Buffer};
use crate::body::offload::Cost;
use crate::refusal::Refusal;
use crate::rules::types::Embedded;

/// Bytes that one step reads: some ten microseconds.
const STEP_SIZE: usize = 16 << 10;
/// Maximum number of texts within texts that are searched.
const LEVELS_MAX: usize = 4;
/// Memory of a search, as a multiple of the body's size: a text is shorter than the string that it is decoded from, at every level.
const MEMORY_FACTOR: usize = 2;

const HOLDS: &str = "a text in it is JSON in which the rules' selectors find values: send these values in the body itself, or set \
                     embedded_json = \"pass\" if the upstream does not parse it";

/// A search through the texts of a body.
struct Search {
    selections: Arc<[Selection]>,
    body: Buffer,
    /// The documents whose strings are searched, each inside the one before: the first is the body.
    levels: Vec<Level>,
    stage: Stage,
    _memory: BudgetShare,
}

/// A document, and the byte up to which its strings have been looked at.
struct Level {
    /// `None` for the body.
    text: Option<Vec<u8>>,
    at: usize,
}

enum Stage {
    /// Looks for the next text.
    Scan,
    /// Decodes a string of the innermost level.
    Decode { from: usize, to: usize, text: String },
    /// Walks a text with the selection of this number.
    Walk { text: Vec<u8>, number: usize, walk: Box<Walk> },
}

impl Job<'_> {
    /// Refuses a body, as the rules leave it, with a JSON text in which the rules' selectors find something.
    pub(super) async fn refuse_embedded(&self, kind: &Kind, body: Buffer) -> Result<Buffer, Refusal> {
        let Some(hidden) = self.actions.hidden.clone() else { return Ok(body) };
        if hidden.selections.is_empty() || self.actions.embedded_json == Embedded::Pass {
            return Ok(body);
        }
        if !matches!(kind, Kind::Json | Kind::JsonLines | Kind::Patch) {
            return Ok(body);
        }
        let (size, cost) = (body.len(), Cost::of_bytes(body.len(), 4));
        let look = move || (next_string(body.as_ref(), 0, size).is_some(), body);
        let (may_hold, body) = self.offload().run(cost, look).await;
        if !may_hold {
            return Ok(body);
        }
        let memory = body.share().another(size.saturating_mul(MEMORY_FACTOR))?;
        let (selections, levels) = (Arc::clone(&hidden.selections), vec![Level { text: None, at: 0 }]);
        let search = Search { selections, body, levels, stage: Stage::Scan, _memory: memory };
        let (holds, body) = self.offload().run_in_slices(Cost::UNKNOWN, search, Search::step).await;
        if holds { Err(Refusal::mismatch(self.direction, HOLDS)) } else { Ok(body) }
    }
}

impl Search {
    /// Runs one step; breaks with whether a selector finds something.
    fn step(mut self) -> ControlFlow<(bool, Buffer), Self> {
        match std::mem::replace(&mut self.stage, Stage::Scan) {
            Stage::Scan if self.levels.is_empty() => return ControlFlow::Break((false, self.body)),
            Stage::Scan => self.scan(),
            Stage::Decode { from, to, text } => self.decode(from, to, text),
            Stage::Walk { text, number, walk } => {
                if self.walk(text, number, walk) {
                    return ControlFlow::Break((true, self.body));
                }
            }
        }
        ControlFlow::Continue(self)
    }

    fn scan(&mut self) {
        let Some(level) = self.levels.last_mut() else { return };
        let document = level.text.as_deref().unwrap_or(self.body.as_ref());
        let stop = document.len().min(level.at.saturating_add(STEP_SIZE));
        match next_string(document, level.at, stop) {
            Some(start) => {
                let to = end_of_string(document, start);
                level.at = to + 1;
                self.stage = Stage::Decode { from: start, to, text: String::new() };
            }
            None if stop < document.len() => level.at = stop,
            None => drop(self.levels.pop()),
        }
    }

    fn decode(&mut self, from: usize, to: usize, mut text: String) {
        let Some(level) = self.levels.last() else { return };
        let document = level.text.as_deref().unwrap_or(self.body.as_ref());
        // A string that is not Unicode is none that an upstream parses.
        let Ok(size) = unescape_piece(&document[from..to], STEP_SIZE, &mut text) else { return };
        if from + size < to {
            self.stage = Stage::Decode { from: from + size, to, text };
        } else if may_be_document(text.as_bytes()) {
            self.begin(text.into_bytes(), 0);
        }
    }

    /// Begins to walk a text with the selection of this number; after the last one the strings in the text are searched.
    fn begin(&mut self, text: Vec<u8>, number: usize) {
        let Some(selection) = self.selections.get(number) else {
            if self.levels.len() < LEVELS_MAX {
                self.levels.push(Level { text: Some(text), at: 0 });
            }
            return;
        };
        // A text that is longer than a document may be is no document.
        if let Ok(walk) = Walk::new(text.len(), selection, Purpose::Encrypt, &DocumentLimits::default()) {
            self.stage = Stage::Walk { text, number, walk: Box::new(walk) };
        }
    }

    /// Walks on; returns whether the selection finds something.
    fn walk(&mut self, text: Vec<u8>, number: usize, mut walk: Box<Walk>) -> bool {
        let mut matches: Vec<Match> = Vec::new();
        let progress = walk.next_batch(&text, &mut matches, 1, STEP_SIZE);
        if !matches.is_empty() {
            return true;
        }
        match progress {
            Ok(Progress::More) => self.stage = Stage::Walk { text, number, walk },
            Ok(Progress::Done) => self.begin(text, number + 1),
            Err(error) => {
                use DocumentErrorKind::{AmbiguousName, AmbiguousOperand, DuplicateName};
                return matches!(error.kind, AmbiguousName | AmbiguousOperand | DuplicateName);
            }
        }
        false
    }
}

/// The start of the next string that may hold a document, after its quotation mark, among those that begin from `at` up to `stop`.
fn next_string(document: &[u8], at: usize, stop: usize) -> Option<usize> {
    memchr::memchr_iter(b'"', &document[at..stop]).map(|found| at + found).find_map(|quote| {
        let before = document[..quote].iter().rev().take_while(|&&byte| byte == b'\\').count();
        (before % 2 == 0 && may_begin_document(&document[quote + 1..])).then_some(quote + 1)
    })
}

/// The end of the string that begins there: its closing quotation mark.
fn end_of_string(document: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &document[at..]) {
        at += found;
        if document[at] == b'"' {
            return at;
        }
        at = document.len().min(at + 2);
    }
    document.len()
}

/// Whether the string that begins here, in escaped form, may be a document. A mark that ends a string is followed by neither.
fn may_begin_document(escaped: &[u8]) -> bool {
    let rest = escaped.trim_ascii_start();
    match rest {
        [b'{', next, ..] => *next == b'\\' || next.is_ascii_whitespace(),
        [b'[', next, ..] => may_begin_element(*next),
        [b'\\', b'n' | b'r' | b't', ..] => true,
        [b'\\', b'u', b'0', b'0', digits @ ..] => {
            let code = digits.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            code.is_some_and(|code| b"\t\n\r [{".contains(&code))
        }
        _ => false,
    }
}

fn may_begin_element(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_digit() || b"{[\\\"-tfn".contains(&byte)
}

/// Whether a text may be a document that is an object or array.
fn may_be_document(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    match text.trim_ascii_start() {
        [b'{', next, ..] => *next == b'"' || next.is_ascii_whitespace(),
        [b'[', next, ..] => may_begin_element(*next),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_may_be_documents_are_found() {
        for string in
            [r#"{\"a\":1}"#, r#" [1]"#, r#"\n{\"a\":1}"#, r#"\u007b\"a\":1}"#, r#"\u005B1]"#, r#"[\"a\"]"#, r#"{ }"#]
        {
            let document = format!("{{\"x\":\"y\\\\\",\"z\":\"{string}\"}}");
            let start = next_string(document.as_bytes(), 0, document.len()).expect("a string");
            assert_eq!(&document[start..end_of_string(document.as_bytes(), start)], string);
        }
        for string in ["[redacted]", "{name}", "\\u00e9", "a\\\"{\\\"", "x", "", "ev:[1]"] {
            let document = format!("{{\"z\":\"{string}\",\"a\":[{{\"b\":[1]}}]}}");
            assert_eq!(next_string(document.as_bytes(), 0, document.len()), None, "{string}");
        }
    }
}
