//! Writes documents with other tokens in some places, in steps of bounded work for offload threads.

use std::ops::ControlFlow;

use leafseal_document::{DocumentError, DocumentLimits, DocumentWalk, Match, Purpose, Selection, WalkProgress};

use crate::body::buffer::{BodyBuffer, BudgetShare};
use crate::refusal::Refusal;

/// Bytes that one step copies or reads: some ten microseconds.
const STEP_SIZE: usize = 64 << 10;

/// The tokens that are written.
pub(crate) enum Tokens {
    /// The same in each place.
    Same(Vec<u8>),
    /// One for each place: a part of these bytes.
    Each(BodyBuffer, Vec<Match>),
}

impl Tokens {
    fn of(&self, number: usize) -> Option<&[u8]> {
        match self {
            Tokens::Same(token) => Some(token),
            Tokens::Each(bytes, places) => places.get(number).map(|place| &bytes.as_ref()[place.start..place.end]),
        }
    }

    /// The size of all tokens.
    fn size(&self, count: usize) -> usize {
        match self {
            Tokens::Same(token) => token.len() * count,
            Tokens::Each(bytes, _) => bytes.len(),
        }
    }
}

/// Writes a document with tokens in the places of matches, which are in order.
pub(crate) struct Splice {
    body: BodyBuffer,
    matches: Vec<Match>,
    tokens: Tokens,
    out: BodyBuffer,
    next: usize,
    /// How far the document, and the current token, are written.
    copied: usize,
    written: usize,
    /// Covers the matches.
    _share: BudgetShare,
}

impl Splice {
    /// `share` covers the matches and the places of tokens.
    ///
    /// # Errors
    /// If there is no memory for the document.
    pub(crate) fn new(
        body: BodyBuffer,
        matches: Vec<Match>,
        tokens: Tokens,
        share: BudgetShare,
    ) -> Result<Self, Refusal> {
        let out = BodyBuffer::with_capacity(body.len() + tokens.size(matches.len()), body.share())?;
        Ok(Splice { body, matches, tokens, out, next: 0, copied: 0, written: 0, _share: share })
    }

    /// Bytes that are read and written.
    pub(crate) fn size(&self) -> usize {
        self.body.len() + self.tokens.size(self.matches.len())
    }

    /// Runs one step; breaks with the new document.
    pub(crate) fn step(mut self) -> ControlFlow<Result<BodyBuffer, Refusal>, Self> {
        match self.advance() {
            Ok(WalkProgress::More) => ControlFlow::Continue(self),
            Ok(WalkProgress::Done) => ControlFlow::Break(Ok(self.out)),
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        }
    }

    fn advance(&mut self) -> Result<WalkProgress, Refusal> {
        let document = self.body.as_ref();
        let mut left = STEP_SIZE;
        while left > 0 {
            let place = self.matches.get(self.next).zip(self.tokens.of(self.next));
            let until = place.map_or(document.len(), |(place, _)| place.start);
            if self.copied < until {
                let end = until.min(self.copied + left);
                self.out.extend(&document[self.copied..end])?;
                left -= end - self.copied;
                self.copied = end;
                continue;
            }
            let Some((place, token)) = place else { return Ok(WalkProgress::Done) };
            let end = token.len().min(self.written + left);
            self.out.extend(&token[self.written..end])?;
            // Each place takes time too.
            left = left.saturating_sub((end - self.written).max(PLACE_COST));
            self.written = end;
            if end == token.len() {
                (self.copied, self.written) = (place.end, 0);
                self.next += 1;
            }
        }
        Ok(WalkProgress::More)
    }
}

/// Bytes that are copied in the time in which a place is found.
const PLACE_COST: usize = 16;

/// Writes the tokens in the places of matches as a list of their own, in steps.
pub(crate) struct List {
    body: BodyBuffer,
    matches: Vec<Match>,
    out: BodyBuffer,
    next: usize,
    written: usize,
}

/// A document, the places of its matches, and the list of their tokens.
type Listed = (BodyBuffer, Vec<Match>, BodyBuffer);

impl List {
    /// # Errors
    /// If there is no memory for the list.
    pub(crate) fn new(body: BodyBuffer, matches: Vec<Match>) -> Result<Self, Refusal> {
        // Matches do not overlap, and there are bytes between them.
        let out = BodyBuffer::with_capacity(body.len() + 2, body.share())?;
        Ok(List { body, matches, out, next: 0, written: 0 })
    }

    /// Runs one step; breaks with the document, its matches and the list.
    pub(crate) fn step(mut self) -> ControlFlow<Result<Listed, Refusal>, Self> {
        match self.advance() {
            Ok(WalkProgress::More) => ControlFlow::Continue(self),
            Ok(WalkProgress::Done) => ControlFlow::Break(Ok((self.body, self.matches, self.out))),
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        }
    }

    fn advance(&mut self) -> Result<WalkProgress, Refusal> {
        let mut left = STEP_SIZE;
        while left > 0 {
            let Some(place) = self.matches.get(self.next) else {
                self.out.extend(if self.next == 0 { b"[]" } else { b"]" })?;
                return Ok(WalkProgress::Done);
            };
            if self.written == 0 {
                self.out.extend(if self.next == 0 { b"[" } else { b"," })?;
            }
            let token = &self.body.as_ref()[place.start..place.end];
            let end = token.len().min(self.written + left);
            self.out.extend(&token[self.written..end])?;
            left = left.saturating_sub((end - self.written).max(PLACE_COST));
            self.written = end;
            if end == token.len() {
                (self.next, self.written) = (self.next + 1, 0);
            }
        }
        Ok(WalkProgress::More)
    }
}

/// Why a document could not be searched.
pub(crate) enum WalkFault {
    Document(DocumentError),
    NoRoom(Refusal),
}

/// Finds the scalars of a list, in steps.
pub(crate) struct Elements {
    list: BodyBuffer,
    walk: DocumentWalk,
    found: Vec<Match>,
    /// Covers those that were found.
    share: BudgetShare,
}

/// A list, the places of its scalars, and the share that covers these.
type FoundList = (BodyBuffer, Vec<Match>, BudgetShare);

impl Elements {
    /// # Errors
    /// If the list is too large, or there is no memory.
    pub(crate) fn new(list: BodyBuffer) -> Result<Self, WalkFault> {
        let limits = DocumentLimits::default();
        let walk = DocumentWalk::new(list.len(), &Selection::everything(), Purpose::Encrypt, &limits);
        let walk = walk.map_err(WalkFault::Document)?;
        let share = list.share().another(0).map_err(WalkFault::NoRoom)?;
        Ok(Elements { list, walk, found: Vec::new(), share })
    }

    /// Runs one step; breaks with the list, the places of its scalars, and the share that covers these.
    pub(crate) fn step(mut self) -> ControlFlow<Result<FoundList, WalkFault>, Self> {
        let progress = match self.walk.next_batch(self.list.as_ref(), &mut self.found, usize::MAX, STEP_SIZE) {
            Ok(progress) => progress,
            Err(error) => return ControlFlow::Break(Err(WalkFault::Document(error))),
        };
        let size = self.found.capacity() * size_of::<Match>();
        if let Err(refusal) = self.share.resize(size) {
            return ControlFlow::Break(Err(WalkFault::NoRoom(refusal)));
        }
        match progress {
            WalkProgress::More => ControlFlow::Continue(self),
            WalkProgress::Done => ControlFlow::Break(Ok((self.list, self.found, self.share))),
        }
    }
}
