//! The search for the key of a long text: the versions are tried one after the other, each in pieces.

use std::sync::Arc;

use leafseal_envelope::{EnvelopeForm, LongKey, LongOpening, OpenError, Sealed};

use crate::cost::SearchBudget;
use crate::engine::Engine;
use crate::opening::{Opening, OpeningAttempt, VersionKey};

/// The search for the key of a long text.
pub(crate) struct LongSearch {
    opening: Arc<Opening>,
    /// The offset of the plaintext in its buffer.
    start: usize,
    /// The version being tried, if none is known yet.
    candidate: Option<Box<VersionKey>>,
    place: usize,
    trial: LongOpening,
    /// Pieces on which the candidate was tried.
    pieces: u64,
    /// Pieces on which candidates were tried without success, and which [`LongSearch::take_trials`] has not returned yet.
    trials: u64,
}

impl LongSearch {
    pub(crate) fn new(opening: Arc<Opening>, start: usize) -> Self {
        Self { opening, start, candidate: None, place: 0, trial: LongOpening::new(start), pieces: 0, trials: 0 }
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.opening
    }

    /// Continues by one key agreement, of `likely` first, or by `size` bytes of `sealed`; see [`LongOpening::step`].
    pub(crate) fn step(
        &mut self,
        engine: &Engine,
        likely: Option<u32>,
        sealed: &Sealed<'_>,
        size: usize,
        plaintext: &mut Vec<u8>,
    ) -> Result<Option<EnvelopeForm>, OpenError> {
        let key = match &self.candidate {
            Some(candidate) => &*candidate.key,
            None => match self.opening.next(self.place, likely, &engine.agreements(), &mut SearchBudget::default()) {
                OpeningAttempt::Known(key) => key,
                OpeningAttempt::Candidate(candidate) => {
                    self.candidate = Some(Box::new(candidate));
                    return Ok(None);
                }
                OpeningAttempt::Later => return Ok(None),
                OpeningAttempt::Nothing => return Err(OpenError::DecryptFailed),
            },
        };
        let tried = self.trial.step(LongKey::PublicKey(key), sealed, size, plaintext);
        self.pieces += 1;
        if tried == Err(OpenError::DecryptFailed)
            && let Some(candidate) = self.candidate.take()
        {
            (self.place, self.trial) = (candidate.place + 1, LongOpening::new(self.start));
            self.trials += std::mem::take(&mut self.pieces);
            return Ok(None);
        }
        let form = tried?;
        if let Some(candidate) = self.candidate.take_if(|_| form.is_some()) {
            self.opening.settle(*candidate);
            engine.put_opening(Arc::clone(&self.opening));
        }
        Ok(form)
    }

    /// The pieces on which versions were tried without success since the last call.
    pub(crate) fn take_trials(&mut self) -> u64 {
        std::mem::take(&mut self.trials)
    }
}
