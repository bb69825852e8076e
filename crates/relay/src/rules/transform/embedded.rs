//! JSON texts in strings of a document. Selectors are not meant for them, but an upstream that parses such a text finds in it what the
//! rules hide.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{BodyKind, MessageRules};
use crate::body::buffer::BodyBuffer;
use crate::body::offload::Cost;
use crate::json_text::{MemberNames, TextSearch, Unescape, Verdict};
use crate::refusal::Refusal;

/// Bytes that one step looks through: some ten microseconds.
const STEP_SIZE: usize = 64 << 10;
/// Bytes that take about as long to look through as a call of the search: a text that is found to be no JSON takes few.
const CALL_SIZE: usize = 64;
/// Bytes that are looked through in the time of a step of the search.
const STEP_FACTOR: usize = 8;
/// White space at the start of a string that is passed over.
const SPACES_MAX: usize = 64;

const HOLDS: &str = "a text in it is JSON with a member of a name that selectors of rules look for: send these values in the body itself, \
                     or set embedded_json = \"pass\" if the upstream does not parse it";

/// A search through the strings of a JSON document, or of one on each line, in steps.
pub(crate) struct StringSearch<B> {
    body: B,
    at: usize,
    texts: TextSearch,
    /// The escape sequence that is read, while a string is.
    string: Option<Unescape>,
}

impl MessageRules<'_> {
    /// Refuses a body, as the rules leave it, with a JSON text in which a member has the name of a value that they hide.
    pub(super) async fn refuse_embedded(&self, kind: &BodyKind, body: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let Some(names) = self.names_in_texts() else { return Ok(body) };
        if !matches!(kind, BodyKind::Json | BodyKind::JsonLines | BodyKind::Patch) {
            return Ok(body);
        }
        let cost = Cost::of_bytes(body.len(), 4);
        let search = StringSearch::new(body, names);
        let search = match self.offload().run_in_slices(cost, search, StringSearch::look).await {
            Ok(search) => search,
            Err(body) => return Ok(body),
        };
        let cost = Cost::of_bytes(search.body.len(), 40);
        let (body, holds) = self.offload().run_in_slices(cost, search, StringSearch::step).await;
        if holds { Err(Refusal::mismatch(self.direction, HOLDS)) } else { Ok(body) }
    }
}

impl<B: AsRef<[u8]>> StringSearch<B> {
    pub(crate) fn new(body: B, names: Arc<MemberNames>) -> Self {
        StringSearch { body, at: 0, texts: TextSearch::new(names), string: None }
    }

    /// Looks for a string that may hold JSON; breaks with the search if there is one, otherwise with the body.
    pub(crate) fn look(mut self) -> ControlFlow<Result<Self, B>, Self> {
        let document = self.body.as_ref();
        let stop = document.len().min(self.at + STEP_SIZE);
        match next_string(document, self.at, stop) {
            Some(_) => ControlFlow::Break(Ok(self)),
            None if stop == document.len() => ControlFlow::Break(Err(self.body)),
            None => {
                self.at = stop;
                ControlFlow::Continue(self)
            }
        }
    }

    /// Runs one step; breaks with the body, and whether it holds such a text.
    pub(crate) fn step(mut self) -> ControlFlow<(B, bool), Self> {
        let document = self.body.as_ref();
        let mut left = STEP_SIZE;
        while left > 0 {
            if let Some(unescape) = &mut self.string {
                let (before, rest) = (self.texts.steps(), &document[self.at..]);
                let (read, verdict) = self.texts.read_string(unescape, rest);
                self.at += read;
                left = left.saturating_sub(CALL_SIZE + (self.texts.steps() - before) as usize * STEP_FACTOR);
                match verdict {
                    Verdict::Held => return ControlFlow::Break((self.body, true)),
                    Verdict::NotJson => self.string = None,
                    // A document whose last string does not end was refused where a rule read it.
                    Verdict::More if self.at == document.len() => self.string = None,
                    Verdict::More => {}
                }
                continue;
            }
            let stop = document.len().min(self.at + left);
            left -= (stop - self.at).min(left);
            match next_string(document, self.at, stop) {
                Some(start) => {
                    left += stop - start.min(stop);
                    self.at = start;
                    self.texts.begin();
                    self.string = Some(Unescape::default());
                }
                None if stop == document.len() => return ControlFlow::Break((self.body, false)),
                None => self.at = stop,
            }
        }
        ControlFlow::Continue(self)
    }
}

/// The start of the next string that may hold JSON, after its quotation mark, among those that begin from `at` up to `stop`. A mark that
/// ends a string of a well-formed document is never followed by what such a string begins with.
fn next_string(document: &[u8], at: usize, stop: usize) -> Option<usize> {
    memchr::memchr_iter(b'"', &document[at..stop]).map(|found| at + found).find_map(|quote| {
        let before = document[..quote].iter().rev().take_while(|&&byte| byte == b'\\').count();
        let mut head = document[quote + 1..].iter().take(SPACES_MAX);
        // Behind so much white space the search itself looks.
        let may_be_json = head.find(|&&byte| byte != b' ').is_none_or(|&first| may_begin_json(first));
        (before % 2 == 0 && may_be_json).then_some(quote + 1)
    })
}

/// Whether a JSON text may begin so, in a string or behind white space in it, where quotation marks are escaped: see the search itself.
fn may_begin_json(first: u8) -> bool {
    first.is_ascii_digit() || b"{[\\'`/#()-tfn".contains(&first) || !first.is_ascii() || first == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_may_be_documents_are_found() {
        for string in [
            r#"{\"a\":1}"#,
            r#" [1]"#,
            r#"\n{\"a\":1}"#,
            r#"\u007b\"a\":1}"#,
            r#"\"{}\""#,
            r#"'a'"#,
            "\u{feff}{}",
            "// {",
        ] {
            let document = format!("{{\"x\":\"y\\\\\",\"z\":\"{string}\"}}");
            let start = next_string(document.as_bytes(), 0, document.len()).expect("a string");
            assert!(document[start..].starts_with(string), "{document}");
        }
        for string in ["x", "", "  ", "ev:[1]", "a\\\"{\\\"", ", {", "] [", ": {"] {
            let document = format!("{{\"z\" : \"{string}\" , \"a\" :[{{\"b\": [1]}} ] }}");
            assert_eq!(next_string(document.as_bytes(), 0, document.len()), None, "{string}");
        }
    }
}
