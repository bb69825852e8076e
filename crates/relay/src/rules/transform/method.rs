//! Searches bodies for a field by which frameworks take another method than that of the request, and the relay would take another route.
//!
//! Only bodies in which frameworks look for one are searched. They are read completely, because the field may be their last one.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use leafseal_document::form::{FormErrorKind, PartReader, WantedFields};
use leafseal_document::{DocumentLimits, DocumentWalk, Match, Purpose, Selection, WalkProgress};
use leafseal_errors::ErrorCode;

use super::other_readings::ReadingSearch;
use super::*;
use crate::rules::{forms, overrides};

const NO_TYPE: &str = "its Content-Type can be read as that of a form or of JSON, in which a field could ask for another method and so \
                       for another route: send one well-formed type in UTF-8, or set overrides = \"pass\" if the upstream reads no such \
                       field";
const NO_CODING: &str = "its Content-Encoding must be identity, gzip, br or zstd, because a field in it could ask for another method and \
                         so for another route: send it so, or set overrides = \"pass\" if the upstream reads no such field";
const MALFORMED: &str = "parsers could read it differently, and a field in it could ask for another method and so for another route: send \
                         it well-formed, or set overrides = \"pass\" if the upstream reads no such field";
const MUST_BE_READ: &str = "it is read completely, because a field in it could ask for another method and so for another route: set \
                            overrides = \"pass\" if the upstream reads no such field";

/// The result of the search for a method in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoundMethod {
    Nothing,
    Method,
    Malformed,
}

impl MessageRules<'_> {
    /// How a body that no rule reads is searched for a method; `None` if it is not searched.
    ///
    /// # Errors
    /// If servers could take its type for different ones.
    pub(super) fn searched_for_method(&self, headers: &HeaderMap) -> Result<Option<BodyKind>, Refusal> {
        match self.guards_method_in_body {
            true => body_type::searched_for_method(headers).map_err(|_| refusal(NO_TYPE)),
            false => Ok(None),
        }
    }

    /// Forwards a body that no rule reads as it arrives; one in which frameworks would find another method once it is searched.
    pub(super) async fn unread<B>(&mut self, headers: &mut HeaderMap, body: B) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let Some(kind) = self.searched_for_method(headers)? else { return Ok(Outcome::Untouched(body)) };
        let coding = Coding::of(headers).ok_or_else(|| refusal(NO_CODING))?;
        let coded = self.read(body).await.map_err(because_it_is_read)?;
        if coded.is_empty() {
            return Ok(Outcome::Whole(Bytes::new()));
        }
        let (plain, coded) = self.decode(coding, coded).await.map_err(because_it_is_read)?;
        let plain = self.refuse_method(&kind, plain).await?;
        let plain = self.search(plain).await;
        let bytes = coded.unwrap_or(plain);
        validators::update_for_same_body(headers, bytes.len());
        Ok(Outcome::Whole(Bytes::from_owner(bytes)))
    }

    /// Refuses a body that asks for another method, where the request would have another route with it.
    pub(super) async fn refuse_method(&self, kind: &BodyKind, body: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        if !self.guards_method_in_body {
            return Ok(body);
        }
        let (body, found) = match kind {
            BodyKind::Urlencoded => self.method_in_fields(body).await,
            BodyKind::Multipart(boundary) => self.method_in_parts(body, boundary).await,
            BodyKind::Json | BodyKind::Patch | BodyKind::JsonLines => {
                let search = MemberSearch::new(body, *kind == BodyKind::JsonLines);
                let cost = Cost::of_bytes(search.body.len(), 16);
                self.offload().run_in_slices(cost, search, MemberSearch::step).await
            }
            BodyKind::Other => return Ok(body),
        };
        match found {
            FoundMethod::Nothing => Ok(body),
            FoundMethod::Method => Err(refusal(overrides::ASKS_FOR_METHOD)),
            FoundMethod::Malformed => Err(refusal(MALFORMED)),
        }
    }

    async fn method_in_fields(&self, body: BodyBuffer) -> (BodyBuffer, FoundMethod) {
        let cost = forms::cost(body.len(), true);
        let search = ReadingSearch::new(body, overrides::method_fields(), self.transforms.form.clone());
        let (body, is_found) = self.offload().run_in_slices(cost, search, ReadingSearch::step).await;
        (body, if is_found { FoundMethod::Method } else { FoundMethod::Nothing })
    }

    async fn method_in_parts(&self, body: BodyBuffer, boundary: &str) -> (BodyBuffer, FoundMethod) {
        let cost = forms::cost(body.len(), true);
        let limits = self.transforms.form.clone();
        let Ok(reader) = PartReader::new(boundary, overrides::method_fields(), limits, WantedFields::Selected) else {
            return (body, FoundMethod::Malformed);
        };
        let step = |(body, mut reader): (BodyBuffer, PartReader)| {
            let found = match reader.read(body.as_ref()) {
                Ok(WalkProgress::More) => return ControlFlow::Continue((body, reader)),
                Ok(WalkProgress::Done) if reader.into_parts().is_empty() => FoundMethod::Nothing,
                Ok(WalkProgress::Done) => FoundMethod::Method,
                Err(error) if error.kind == FormErrorKind::AmbiguousName => FoundMethod::Method,
                Err(_) => FoundMethod::Malformed,
            };
            ControlFlow::Break((body, found))
        };
        self.offload().run_in_slices(cost, (body, reader), step).await
    }
}

/// A search for the member with a method in a JSON document, or in one on each line, in steps.
struct MemberSearch<B> {
    body: B,
    is_lines: bool,
    /// How far it is known that no name is the member's.
    at: usize,
    walk: Option<DocumentWalk>,
    matches: Vec<Match>,
}

impl<B: AsRef<[u8]>> MemberSearch<B> {
    /// Bytes that one step reads: some ten microseconds.
    const STEP_SIZE: usize = 64 << 10;

    fn new(body: B, is_lines: bool) -> Self {
        MemberSearch { body, is_lines, at: 0, walk: None, matches: Vec::new() }
    }

    /// Runs one step; breaks with the body and what it holds. A document without the letters of the name, and without escapes, is not
    /// parsed.
    fn step(mut self) -> ControlFlow<(B, FoundMethod), Self> {
        static MEMBER: LazyLock<Selection> = LazyLock::new(|| {
            let selector = format!("$.{}", overrides::METHOD_MEMBER);
            Selection::parse(&[selector], &DocumentLimits::default()).expect("the selector is well-formed")
        });
        let document = self.body.as_ref();
        let Some(walk) = &mut self.walk else {
            let name = overrides::METHOD_MEMBER.as_bytes();
            let end = document.len().min(self.at + Self::STEP_SIZE);
            // A name may begin in this piece and end in the next.
            let piece = &document[self.at..document.len().min(end + name.len() - 1)];
            if memchr::memchr(b'\\', piece).is_none() && memchr::memmem::find(piece, name).is_none() {
                self.at = end;
                return match end == document.len() {
                    true => ControlFlow::Break((self.body, FoundMethod::Nothing)),
                    false => ControlFlow::Continue(self),
                };
            }
            let walk = DocumentWalk::new(document.len(), &MEMBER, Purpose::Encrypt, &DocumentLimits::default());
            let Ok(walk) = walk else { return ControlFlow::Break((self.body, FoundMethod::Malformed)) };
            self.walk = Some(if self.is_lines { walk.lines() } else { walk });
            return ControlFlow::Continue(self);
        };
        let progress = walk.next_batch(document, &mut self.matches, 1, Self::STEP_SIZE);
        let found = match progress {
            _ if !self.matches.is_empty() => FoundMethod::Method,
            Ok(WalkProgress::More) => return ControlFlow::Continue(self),
            Ok(WalkProgress::Done) => FoundMethod::Nothing,
            Err(_) => FoundMethod::Malformed,
        };
        ControlFlow::Break((self.body, found))
    }
}

/// The refusal of a body in which a method is searched.
fn refusal(detail: &str) -> Refusal {
    Refusal::new(ErrorCode::UnsupportedMediaType, format!("the request's body: {detail}"))
}

/// Adds to a refusal why the body was read.
fn because_it_is_read(refusal: Refusal) -> Refusal {
    match refusal.code {
        ErrorCode::TooLarge | ErrorCode::InvalidDocument | ErrorCode::SlowBody => {
            Refusal { detail: format!("{}: {MUST_BE_READ}", refusal.detail), ..refusal }
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings in a body, and the number of steps.
    fn search(body: &[u8], is_lines: bool) -> (FoundMethod, usize) {
        let (mut search, mut steps) = (MemberSearch::new(body, is_lines), 1);
        loop {
            match search.step() {
                ControlFlow::Break((_, found)) => return (found, steps),
                ControlFlow::Continue(next) => (search, steps) = (next, steps + 1),
            }
        }
    }

    #[test]
    fn a_member_is_found_at_the_root_alone_in_steps_of_bounded_size() {
        let step = MemberSearch::<Vec<u8>>::STEP_SIZE;
        for (body, is_lines, found) in [
            (&b"{\"_method\":\"PUT\"}"[..], false, FoundMethod::Method),
            (b"{\"_metho\\u0064\":1}", false, FoundMethod::Method),
            (b"{\"a\":{\"_method\":1}}", false, FoundMethod::Nothing),
            (b"[{\"_method\":1}]", false, FoundMethod::Nothing),
            (b"{\"a\":\"_method\"}", false, FoundMethod::Nothing),
            (b"{}\n{\"_method\":1}", true, FoundMethod::Method),
            (b"{}\n\n{\"a\":\"\\n\"}", true, FoundMethod::Nothing),
            (b"{'_method':1}", false, FoundMethod::Malformed),
            (b"{'a':1}", false, FoundMethod::Nothing),
        ] {
            assert_eq!(search(body, is_lines).0, found, "{}", String::from_utf8_lossy(body));
        }
        // The name may lie across the end of a step.
        for before in step - 12..step + 2 {
            let body = format!("{{\"a\":\"{}\",\"_method\":1}}", "x".repeat(before - 10));
            assert_eq!(search(body.as_bytes(), false).0, FoundMethod::Method, "{before}");
        }
        let plain = format!("{{\"a\":\"{}\"}}", "x".repeat(10 * step));
        assert_eq!(search(plain.as_bytes(), false), (FoundMethod::Nothing, 11));
        let members = format!("{{\"_\":\"\\n\"{}}}", ",\"a\":[1]".repeat(step));
        let (found, steps) = search(members.as_bytes(), false);
        assert!(found == FoundMethod::Nothing && (8..=12).contains(&steps), "{steps}");
    }
}
