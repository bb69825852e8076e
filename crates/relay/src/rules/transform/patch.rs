//! Bodies that describe changes of a resource: refused where the selectors cannot be meant for them, or read by their operations.

use std::ops::{ControlFlow, Range};

use leafseal_document::{
    DocumentLimits, LineFinder, Match, NextLine, PatchShape, PatchWalk, Purpose, ShapeWalk, WalkProgress, escape_into,
};

use super::splice::{Elements, List, Splice, Tokens, WalkFault};
use super::*;
use crate::policy::Patches;

/// Bytes that one step of a walk reads: some ten microseconds.
const STEP_SIZE: usize = 16 << 10;

/// Cost of a walk for each byte, as [`Cost::of_bytes`] counts it.
const WALK_FACTOR: u64 = 16;
/// The same for a search of the words that patches contain.
const SEARCH_FACTOR: u64 = 2;

/// The refusal of a patch whose operations are not read.
const IS_PATCH: &str = "it has the shape of a JSON Patch (RFC 6902), in which selectors find nothing: set patches = \"operations\" to \
                        compare the paths of its operations with them, or \"document\" if it is no patch";
const HOLDS_PATCH: &str = "a member or element of it has the shape of a JSON Patch (RFC 6902), in which selectors find nothing: send the \
                           patch as the body, or set patches = \"document\" if it is none";
const IS_PATCH_IN_LINE: &str = "one of its lines has the shape of a patch, in which selectors find nothing: set patches = \"document\" \
                                if it is none";
const IS_SCIM: &str = "it has the shape of a SCIM patch (RFC 7644), in which selectors find nothing: set patches = \"document\" if it \
                       is none";

/// The work of beginning a line, in bytes that are walked in about that time.
const LINE_COST: usize = 64;

/// A search for the shape of a body.
pub(crate) struct ShapeSearch {
    walk: ShapeWalk,
    body: BodyBuffer,
}

/// No operation of a patch is shorter: it has two names, at least one of which has four letters, and two values.
const OPERATION_SIZE_MIN: usize = 12;

/// A search for lines in the shape of a patch.
pub(crate) struct LineSearch {
    body: BodyBuffer,
    lines: LineFinder,
    /// The current line, if it may have that shape.
    line: Option<(Range<usize>, ShapeWalk)>,
}

/// A search for the selected values of a patch.
pub(crate) struct PatchSearch {
    walk: PatchWalk,
    body: BodyBuffer,
    matches: Vec<Match>,
    /// Covers the matches and the memory of the walk.
    share: BudgetShare,
}

impl ShapeSearch {
    pub(crate) fn new(body: BodyBuffer) -> Self {
        ShapeSearch { walk: ShapeWalk::new(&DocumentLimits::default()), body }
    }

    /// Looks for what patches contain; breaks with the search if the body may be one, otherwise with the body.
    pub(crate) fn look(mut self) -> ControlFlow<Result<Self, BodyBuffer>, Self> {
        let over = self.walk.advance(self.body.as_ref(), STEP_SIZE);
        if matches!(over, Ok(Some(_))) {
            return ControlFlow::Break(Err(self.body));
        }
        if self.walk.is_searching() { ControlFlow::Continue(self) } else { ControlFlow::Break(Ok(self)) }
    }

    pub(crate) fn step(mut self) -> ControlFlow<(Option<PatchShape>, BodyBuffer), Self> {
        match self.walk.advance(self.body.as_ref(), STEP_SIZE) {
            Ok(None) => ControlFlow::Continue(self),
            Ok(Some(shape)) => ControlFlow::Break((shape, self.body)),
            // The rules refuse it, at the same place.
            Err(_) => ControlFlow::Break((None, self.body)),
        }
    }
}

impl LineSearch {
    pub(crate) fn new(body: BodyBuffer) -> Self {
        LineSearch { body, lines: LineFinder::default(), line: None }
    }

    /// Looks at a line, or at as many as a step permits.
    pub(crate) fn step(mut self) -> ControlFlow<(bool, BodyBuffer), Self> {
        let body = self.body.as_ref();
        let mut left = STEP_SIZE;
        while left > 0 {
            let Some((line, walk)) = &mut self.line else {
                match self.lines.next(body, &mut left) {
                    NextLine::End => return ControlFlow::Break((false, self.body)),
                    NextLine::More => break,
                    // It has no room for an operation with its path.
                    NextLine::Line { range, .. } if range.len() < OPERATION_SIZE_MIN => {}
                    NextLine::Line { range, .. } => {
                        self.line = Some((range, ShapeWalk::new(&DocumentLimits::default())));
                        left = left.saturating_sub(LINE_COST);
                    }
                }
                continue;
            };
            let size = line.len();
            match walk.advance(&body[line.clone()], left) {
                Ok(None) => {}
                Ok(Some(Some(_))) => return ControlFlow::Break((true, self.body)),
                // The rules refuse a line that is no JSON.
                Ok(Some(None)) | Err(_) => self.line = None,
            }
            left = left.saturating_sub(size);
        }
        ControlFlow::Continue(self)
    }
}

impl PatchSearch {
    pub(crate) fn new(walk: PatchWalk, body: BodyBuffer) -> Result<Self, Refusal> {
        let share = body.share().another(0)?;
        Ok(PatchSearch { walk, body, matches: Vec::new(), share })
    }

    /// Runs one step; breaks with the matches, in the order of the document.
    pub(crate) fn step(mut self) -> ControlFlow<Result<Self, WalkFault>, Self> {
        let progress = match self.walk.next_batch(self.body.as_ref(), &mut self.matches, STEP_SIZE) {
            Ok(progress) => progress,
            Err(error) => return ControlFlow::Break(Err(WalkFault::Document(error))),
        };
        let held = self.walk.memory() + self.matches.capacity() * size_of::<Match>();
        if let Err(refusal) = self.share.grow(held.saturating_sub(self.share.size())) {
            return ControlFlow::Break(Err(WalkFault::NoRoom(refusal)));
        }
        match progress {
            WalkProgress::More => ControlFlow::Continue(self),
            WalkProgress::Done => ControlFlow::Break(Ok(self)),
        }
    }

    /// The matches, and the share that covers them.
    pub(crate) fn into_parts(self) -> (BodyBuffer, Vec<Match>, BudgetShare) {
        (self.body, self.matches, self.share)
    }
}

impl MessageRules<'_> {
    /// How a body with the type of a JSON Patch is read.
    pub(super) fn patch_kind(&self) -> BodyKind {
        if self.actions.patches == Patches::Operations { BodyKind::Patch } else { BodyKind::Json }
    }

    /// The kind of a JSON body by its shape, whatever its type.
    pub(super) async fn by_shape(&self, kind: BodyKind, body: BodyBuffer) -> Result<(BodyKind, BodyBuffer), Refusal> {
        let patches = self.actions.patches;
        let hides = self.actions.hidden.as_ref().is_some_and(|hidden| hidden.json);
        if kind == BodyKind::JsonLines && hides && patches != Patches::Document {
            return self.refuse_patches_in_lines(body).await.map(|body| (kind, body));
        }
        let is_read = matches!(kind, BodyKind::Json | BodyKind::Patch) && patches != Patches::Document;
        if !is_read || !(hides || patches == Patches::Operations) {
            return Ok((kind, body));
        }
        let cost = Cost::of_bytes(body.len(), SEARCH_FACTOR);
        let search = match self.offload().run_in_slices(cost, ShapeSearch::new(body), ShapeSearch::look).await {
            Ok(search) => search,
            Err(body) => return Ok((kind, body)),
        };
        let cost = Cost::of_bytes(search.body.len(), WALK_FACTOR);
        let (shape, body) = self.offload().run_in_slices(cost, search, ShapeSearch::step).await;
        let refused = |what| Err(Refusal::mismatch(self.direction, what));
        match shape {
            None => Ok((kind, body)),
            Some(PatchShape::Json) if patches == Patches::Operations => Ok((BodyKind::Patch, body)),
            Some(PatchShape::Json) => refused(IS_PATCH),
            Some(PatchShape::Inner) if hides => refused(HOLDS_PATCH),
            Some(PatchShape::Scim) if hides => refused(IS_SCIM),
            Some(PatchShape::Inner | PatchShape::Scim) => Ok((kind, body)),
        }
    }

    /// Refuses JSON Lines with a line in the shape of a patch: their operations are not read.
    async fn refuse_patches_in_lines(&self, body: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let cost = Cost::of_bytes(body.len(), WALK_FACTOR);
        let (is_patch, body) = self.offload().run_in_slices(cost, LineSearch::new(body), LineSearch::step).await;
        if is_patch { Err(Refusal::mismatch(self.direction, IS_PATCH_IN_LINE)) } else { Ok(body) }
    }

    /// Applies a rule to the values of a patch that its operations put where the rule's selectors select.
    pub(super) async fn patch(&mut self, rule: &Rule, body: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let Some(fields) = &rule.selectors.json else { return Ok(body) };
        let purpose = if rule.action == Action::Decrypt { Purpose::Decrypt } else { Purpose::Encrypt };
        let walk = PatchWalk::new(body.len(), &fields.selection, purpose, &DocumentLimits::default());
        let walk = walk
            .map_err(|error| Refusal::of_document(self.direction, error))?
            .strict(rule.require_match && rule.hides());
        let search = PatchSearch::new(walk, body)?;
        let cost = Cost::of_bytes(search.body.len(), WALK_FACTOR);
        let found = self.offload().run_in_slices(cost, search, PatchSearch::step).await;
        let (body, matches, share) = found.map_err(|fault| self.of_walk(fault))?.into_parts();
        if matches.is_empty() {
            return Ok(body);
        }
        if rule.action == Action::Redact {
            self.changed[rule.action as usize] += matches.len() as u64;
            self.has_new_body = true;
            let mut token = Vec::new();
            escape_into(&rule.replacement, &mut token);
            return self.splice(Splice::new(body, matches, Tokens::Same(token), share)?).await;
        }
        self.patch_by_engine(rule, body, (matches, share)).await
    }

    /// Sends the found values to the engine as a list of their own, and puts its answer in their places.
    async fn patch_by_engine(
        &mut self,
        rule: &Rule,
        body: BodyBuffer,
        (matches, share): (Vec<Match>, BudgetShare),
    ) -> Result<BodyBuffer, Refusal> {
        let cost = Cost::of_copy(body.len());
        let list = self.offload().run_in_slices(cost, List::new(body, matches)?, List::step).await?;
        let (body, matches, list) = list;
        let everything: Arc<[String]> = Arc::new(["$".to_owned()]);
        let answer = self.document(rule, &everything, (false, false), list).await?;
        let cost = Cost::of_bytes(answer.len(), WALK_FACTOR);
        let elements = Elements::new(answer).map_err(|fault| self.of_walk(fault))?;
        let elements = self.offload().run_in_slices(cost, elements, Elements::step).await;
        let (answer, places, _places_share) = elements.map_err(|fault| self.of_walk(fault))?;
        if places.len() != matches.len() {
            return Err(internal("the engine answered with another number of values"));
        }
        self.splice(Splice::new(body, matches, Tokens::Each(answer, places), share)?).await
    }

    pub(super) async fn splice(&self, splice: Splice) -> Result<BodyBuffer, Refusal> {
        let cost = Cost::of_copy(splice.size());
        self.offload().run_in_slices(cost, splice, Splice::step).await
    }

    fn of_walk(&self, fault: WalkFault) -> Refusal {
        match fault {
            WalkFault::Document(error) => Refusal::of_document(self.direction, error),
            WalkFault::NoRoom(refusal) => refusal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::buffer::BodyBudget;

    /// Whether lines have the shape of a patch, and the number of steps.
    fn search(text: &[u8]) -> (bool, usize) {
        let mut body = BodyBuffer::new(BodyBudget::new(&Limits::default()).share(IpAddr::from([127, 0, 0, 1])));
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
        assert!(!is_patch && steps <= SIZE / 9 * 160 / STEP_SIZE, "{steps}");
        let patch = [&blank[..], b"{\"op\":\"add\",\"path\":\"/card\"}", &blank].concat();
        assert_eq!(search(&patch), (true, SIZE / STEP_SIZE + 1));
    }
}
