//! Bodies that describe changes of a resource: refused where the selectors cannot be meant for them, or read by their operations.

use std::ops::{ControlFlow, Range};

use leafseal_document::{
    DocumentError, Limits as DocumentLimits, LineFinder, Match, NextLine, PatchShape, PatchWalk, Progress, Purpose,
    Selection, ShapeWalk, Walker, escape_into,
};

use super::*;
use crate::config::Patches;

/// Bytes that one step of a walk reads: some ten microseconds.
const STEP_SIZE: usize = 16 << 10;

/// Cost of a walk for each byte, as [`Cost::of_bytes`] counts it.
const WALK_FACTOR: u64 = 16;

/// The refusal of a patch whose operations are not read.
const IS_PATCH: &str = "it has the shape of a JSON Patch (RFC 6902), in which selectors find nothing: set patches = \"operations\" to \
                        compare the paths of its operations with them, or \"document\" if it is no patch";
const IS_PATCH_IN_LINE: &str = "one of its lines has the shape of a patch, in which selectors find nothing: set patches = \"document\" \
                                if it is none";
const IS_SCIM: &str = "it has the shape of a SCIM patch (RFC 7644), in which selectors find nothing: set patches = \"document\" if it \
                       is none";

/// A search for the shape of a body.
struct ShapeSearch {
    walk: ShapeWalk,
    body: Buffer,
}

/// A search for lines in the shape of a patch.
struct LineSearch {
    body: Buffer,
    lines: LineFinder,
    /// The current line, if it may have that shape.
    line: Option<(Range<usize>, ShapeWalk)>,
}

/// A search for the selected values of a patch.
struct Search {
    walk: PatchWalk,
    body: Buffer,
    matches: Vec<Match>,
    /// Covers the matches and the memory of the walk.
    share: BudgetShare,
}

/// Why a search ended early.
enum SearchFault {
    Document(DocumentError),
    NoRoom(Refusal),
}

impl ShapeSearch {
    fn step(mut self) -> ControlFlow<(Option<PatchShape>, Buffer), Self> {
        match self.walk.advance(self.body.as_ref(), STEP_SIZE) {
            Ok(None) => ControlFlow::Continue(self),
            Ok(Some(shape)) => ControlFlow::Break((shape, self.body)),
            // The rules refuse it, at the same place.
            Err(_) => ControlFlow::Break((None, self.body)),
        }
    }
}

impl LineSearch {
    fn new(body: Buffer) -> Self {
        LineSearch { body, lines: LineFinder::default(), line: None }
    }

    /// Looks at a line, or at as many as a step permits.
    fn step(mut self) -> ControlFlow<(bool, Buffer), Self> {
        let body = self.body.as_ref();
        let mut left = STEP_SIZE;
        while left > 0 {
            if let Some((line, mut walk)) = self.line.take() {
                match walk.advance(&body[line.clone()], left) {
                    Ok(None) => {
                        self.line = Some((line, walk));
                        break;
                    }
                    Ok(Some(Some(_))) => return ControlFlow::Break((true, self.body)),
                    // The rules refuse a line that is no JSON.
                    Ok(Some(None)) | Err(_) => left = left.saturating_sub(line.len()),
                }
            }
            match self.lines.next(body, &mut left) {
                NextLine::End => return ControlFlow::Break((false, self.body)),
                NextLine::More => break,
                NextLine::Line { range, .. } => {
                    let walk = ShapeWalk::new(&body[range.clone()], &DocumentLimits::default());
                    self.line = walk.map(|walk| (range, walk));
                }
            }
        }
        ControlFlow::Continue(self)
    }
}

impl Search {
    fn step(mut self) -> ControlFlow<Result<Self, SearchFault>, Self> {
        let progress = match self.walk.next_batch(self.body.as_ref(), &mut self.matches, STEP_SIZE) {
            Ok(progress) => progress,
            Err(error) => return ControlFlow::Break(Err(SearchFault::Document(error))),
        };
        let held = self.walk.memory() + self.matches.capacity() * size_of::<Match>();
        if let Err(refusal) = self.share.grow(held.saturating_sub(self.share.size())) {
            return ControlFlow::Break(Err(SearchFault::NoRoom(refusal)));
        }
        match progress {
            Progress::More => ControlFlow::Continue(self),
            Progress::Done => {
                self.matches.sort_unstable_by_key(|found| found.start);
                ControlFlow::Break(Ok(self))
            }
        }
    }
}

impl Job<'_> {
    /// How a body with the type of a JSON Patch is read.
    pub(super) fn patch_kind(&self) -> Kind {
        if self.actions.patches == Patches::Operations { Kind::Patch } else { Kind::Json }
    }

    /// The kind of a JSON body by its shape, whatever its type.
    pub(super) async fn by_shape(&self, kind: Kind, body: Buffer) -> Result<(Kind, Buffer), Refusal> {
        let patches = self.actions.patches;
        let hides = self.actions.hidden.as_ref().is_some_and(|hidden| hidden.json);
        if kind == Kind::JsonLines && hides && patches != Patches::Document {
            return self.refuse_patches_in_lines(body).await.map(|body| (kind, body));
        }
        if kind != Kind::Json || patches == Patches::Document || !(hides || patches == Patches::Operations) {
            return Ok((kind, body));
        }
        let Some(walk) = ShapeWalk::new(body.as_ref(), &DocumentLimits::default()) else { return Ok((kind, body)) };
        let cost = Cost::of_bytes(body.len(), WALK_FACTOR);
        let (shape, body) = self.offload().run_in_slices(cost, ShapeSearch { walk, body }, ShapeSearch::step).await;
        match shape {
            None => Ok((Kind::Json, body)),
            Some(PatchShape::Json) if patches == Patches::Operations => Ok((Kind::Patch, body)),
            Some(PatchShape::Json) => Err(Refusal::mismatch(self.direction, IS_PATCH)),
            Some(PatchShape::Scim) => Err(Refusal::mismatch(self.direction, IS_SCIM)),
        }
    }

    /// Refuses JSON Lines with a line in the shape of a patch: their operations are not read.
    async fn refuse_patches_in_lines(&self, body: Buffer) -> Result<Buffer, Refusal> {
        let search = LineSearch::new(body);
        let cost = Cost::of_bytes(search.body.len(), WALK_FACTOR);
        let (is_patch, body) = self.offload().run_in_slices(cost, search, LineSearch::step).await;
        if is_patch { Err(Refusal::mismatch(self.direction, IS_PATCH_IN_LINE)) } else { Ok(body) }
    }

    /// Applies a rule to the values of a patch that its operations put where the rule's selectors select.
    pub(super) async fn patch(&mut self, rule: &Rule, body: Buffer) -> Result<Buffer, Refusal> {
        let Some(fields) = &rule.json else { return Ok(body) };
        let purpose = if rule.action == Action::Decrypt { Purpose::Decrypt } else { Purpose::Encrypt };
        let walk = PatchWalk::new(body.len(), &fields.selection, purpose, &DocumentLimits::default());
        let walk = walk
            .map_err(|error| Refusal::of_document(self.direction, error))?
            .strict(rule.require_match && rule.hides());
        let share = body.share().another(0)?;
        let search = Search { walk, body, matches: Vec::new(), share };
        let cost = Cost::of_bytes(search.body.len(), WALK_FACTOR);
        let found = self.offload().run_in_slices(cost, search, Search::step).await;
        let Search { body, matches, .. } = found.map_err(|fault| match fault {
            SearchFault::Document(error) => Refusal::of_document(self.direction, error),
            SearchFault::NoRoom(refusal) => refusal,
        })?;
        if matches.is_empty() {
            return Ok(body);
        }
        if rule.action == Action::Redact {
            self.changed[rule.action as usize] += matches.len() as u64;
            self.has_new_body = true;
            let mut token = Vec::new();
            escape_into(&rule.replacement, &mut token);
            let mut out = Buffer::with_capacity(body.len(), body.share())?;
            let cost = Cost::of_copy(body.len() + matches.len() * token.len());
            let tokens = move || write(&body, matches.iter(), std::iter::repeat(&*token), &mut out).map(|()| out);
            return self.offload().run(cost, tokens).await;
        }
        self.patch_by_engine(rule, body, matches).await
    }

    /// Sends the found values to the engine as a list of their own, and puts its answer in their places.
    async fn patch_by_engine(&mut self, rule: &Rule, body: Buffer, matches: Vec<Match>) -> Result<Buffer, Refusal> {
        let size = 2 + matches.iter().map(|found| found.end - found.start + 1).sum::<usize>();
        let mut list = Buffer::with_capacity(size, body.share())?;
        list.extend(b"[")?;
        for (index, found) in matches.iter().enumerate() {
            list.extend(if index == 0 { b"" } else { b"," })?;
            list.extend(&body.as_ref()[found.start..found.end])?;
        }
        list.extend(b"]")?;
        let everything: Arc<[String]> = Arc::new(["$".to_owned()]);
        let answer = self.document(rule, &everything, (false, false), list).await?;
        let mut out = Buffer::with_capacity(body.len() + answer.len(), body.share())?;
        let cost = Cost::of_bytes(body.len() + answer.len(), 16);
        let merge = move || -> Result<Option<Buffer>, Refusal> {
            let Some(tokens) = elements(answer.as_ref(), matches.len()) else { return Ok(None) };
            let tokens = tokens.iter().map(|found| &answer.as_ref()[found.start..found.end]);
            write(&body, matches.iter(), tokens, &mut out)?;
            Ok(Some(out))
        };
        let written = self.offload().run(cost, merge).await?;
        written.ok_or_else(|| internal("the engine answered with another number of values"))
    }
}

/// The scalars of a list of `count` scalars.
fn elements(list: &[u8], count: usize) -> Option<Vec<Match>> {
    let everything = Selection::everything();
    let mut walker = Walker::new(list, &everything, Purpose::Encrypt, &DocumentLimits::default()).ok()?;
    let mut found = Vec::with_capacity(count);
    while walker.next_batch(&mut found, usize::MAX, usize::MAX).ok()? == Progress::More {}
    (found.len() == count).then_some(found)
}

/// Writes the body with other tokens in the places of the matches.
fn write<'t>(
    body: &Buffer,
    matches: impl Iterator<Item = &'t Match>,
    tokens: impl Iterator<Item = &'t [u8]>,
    out: &mut Buffer,
) -> Result<(), Refusal> {
    let bytes = body.as_ref();
    let mut copied = 0;
    for (found, token) in matches.zip(tokens) {
        out.extend(&bytes[copied..found.start])?;
        out.extend(token)?;
        copied = found.end;
    }
    out.extend(&bytes[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::buffer::Budget;

    /// Whether lines have the shape of a patch, and the number of steps.
    fn search(text: &[u8]) -> (bool, usize) {
        let mut body = Buffer::new(Budget::new(&Limits::default()).share(IpAddr::from([127, 0, 0, 1])));
        body.extend(text).unwrap();
        let (mut search, mut steps) = (LineSearch::new(body), 1);
        loop {
            match search.step() {
                ControlFlow::Break((is_patch, _)) => return (is_patch, steps),
                ControlFlow::Continue(next) => (search, steps) = (next, steps + 1),
            }
        }
    }

    #[test]
    fn a_step_looks_at_many_lines() {
        const SIZE: usize = 1 << 20;
        let blank = b"\n".repeat(SIZE);
        assert_eq!(search(&blank), (false, SIZE / STEP_SIZE));
        let short = b"{\"op\":1}\n".repeat(SIZE / 9);
        let (is_patch, steps) = search(&short);
        assert!(!is_patch && steps <= SIZE / 9 * 128 / STEP_SIZE, "{steps}");
        let patch = [&blank[..], b"{\"op\":\"add\",\"path\":\"/card\"}", &blank].concat();
        assert_eq!(search(&patch), (true, SIZE / STEP_SIZE + 1));
    }
}
