//! Rewrapping of long envelopes.

use leafseal_envelope::Envelope;

use crate::bindings::OwnBindings;
use crate::counters::ValueCounts;
use crate::engine::permit::Renewal;
use crate::error::Error;
use crate::long::{LongOpen, LongStep, SealingText, Shape, of_the_value, parse};
use crate::rewrap::{Old, Rewrapper};

/// The progress of rewrapping a long envelope.
#[derive(Default)]
pub struct LongRewrap {
    open: LongOpen,
    sealing: Option<SealingText>,
}

impl Rewrapper {
    /// Continues a long text; one that is not an envelope, or is of the newest version already, stays unchanged. One that fails to decrypt
    /// has the result `Failed`, unless the request fails.
    ///
    /// # Errors
    /// As [`Rewrapper::rewrap_bound`], with index 0.
    pub fn rewrap_long(
        &mut self,
        long: &mut LongRewrap,
        text: (&[u8], OwnBindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        match self.rewrap_long_strictly(long, text, shape, out) {
            Err(error) if self.is_left(&error) => Ok(LongStep::Failed),
            step => step.map_err(|error| self.permit.knowledge.judge(error)),
        }
    }

    fn rewrap_long_strictly(
        &mut self,
        long: &mut LongRewrap,
        (text, own): (&[u8], OwnBindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        if self.renew()? == Renewal::Renewed && long.sealing.is_none() {
            *long = LongRewrap::default();
        }
        let Some(envelope) = parse(text)? else { return Ok(LongStep::Left) };
        if !long.open.is_open() {
            let step = long.open.step(&self.permit, &mut self.keyring, (&envelope, own), <[u8]>::len);
            return step.map(|()| LongStep::More).map_err(|unopened| self.keyring.error(unopened, of_the_value));
        }
        let Some(sealing) = &mut long.sealing else {
            return self.begin_long(long, (&envelope, own), shape, out);
        };
        let step = sealing.step(long.open.text(), self.permit.step_bytes_max(), out);
        if let Some(sealing) = long.sealing.take_if(|_| step == LongStep::Done) {
            sealing.finish(shape, out);
        }
        Ok(step)
    }

    fn begin_long(
        &mut self,
        long: &mut LongRewrap,
        (envelope, own): (&Envelope<'_>, OwnBindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        let metadata = long.open.metadata();
        self.permit.check_role(envelope.into(), None, metadata).map_err(of_the_value)?;
        self.permit.engine.count_opened(ValueCounts::of(envelope.scheme(), 1));
        let (form, by_newest) = (long.open.open().form, long.open.opener().is_newest(&self.permit.app));
        let Some((key, metadata)) = self.target(&Old { envelope, form, metadata, by_newest })? else {
            return Ok(LongStep::Left);
        };
        let value = (envelope.value_type(), long.open.text().len(), self.keyring.binding.of(own)?);
        long.sealing = SealingText::begin(&key, metadata.as_ref(), value, shape, out)?;
        Ok(LongStep::More)
    }
}
