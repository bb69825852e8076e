//! Long strings of lists: checked, encrypted, decrypted or copied in pieces, one per step.

use leafseal_engine::{
    Decryptor, Encryptor, Error, ErrorCode, LongDecryption, LongEncryption, LongRewrap, LongStep, OnFailure,
    OwnBindings, Rewrapper, SealedInput, Shape, ValueType,
};
use leafseal_protocol::{ErrorObject, Field, ValueError, ValueFault, write};

use super::convert;
use super::span::{BoundList, LongString, Span};

/// The operation on long strings.
pub(super) trait LongRewriter {
    /// The state of a long string.
    type Long: Default;

    fn step(
        &mut self,
        long: &mut Self::Long,
        text: (&[u8], OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error>;

    /// Records a string that failed to decrypt; returns the action for it.
    fn failed(&mut self, _index: u64) -> OnFailure {
        OnFailure::Fail
    }
}

/// The state of a long string, if the next value is one that has been started.
pub(super) struct Long<L>(Option<Box<LongState<L>>>);

#[derive(Default)]
struct LongState<L> {
    /// The number of bytes checked as UTF-8.
    checked: usize,
    work: L,
    /// The number of copied bytes, if the string is copied unchanged.
    copied: Option<usize>,
}

impl<L> Default for Long<L> {
    fn default() -> Self {
        Self(None)
    }
}

impl<L: Default> Long<L> {
    /// Processes the next piece of `string`, the next value of `span`, and advances the span when the string is done; returns how many
    /// values were replaced.
    pub(super) fn step(
        &mut self,
        rewriter: &mut impl LongRewriter<Long = L>,
        list: BoundList<'_>,
        span: &mut Span,
        string: &LongString<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u64, ErrorObject> {
        let (state, index) = (self.0.get_or_insert_default(), span.index());
        let step = if state.checked < string.bytes.len() {
            state.check(string.bytes, span.bytes_max(), index)?
        } else if state.copied.is_some() {
            state.copy(string.bytes, span.bytes_max(), out)
        } else {
            let own = span.own(list, 1)?;
            let text = (string.bytes, own.as_deref());
            rewriter.step(&mut state.work, text, out).map_err(|error| convert::error_from(error, index))?
        };
        let step = match step {
            LongStep::Failed if rewriter.failed(index) == OnFailure::Null => {
                write::nil(out);
                self.0 = None;
                span.pass(list, string)?;
                return Ok(0);
            }
            LongStep::Failed => LongStep::Left,
            step => step,
        };
        match step {
            LongStep::More => return Ok(0),
            LongStep::Left if state.copied.is_none() => {
                out.reserve(write::HEAD_SIZE_MAX + string.bytes.len());
                write::string_header(string.bytes.len(), out);
                state.copied = Some(0);
                return Ok(0);
            }
            LongStep::Left | LongStep::Failed | LongStep::Done => {}
        }
        self.0 = None;
        span.pass(list, string)?;
        Ok(u64::from(step == LongStep::Done))
    }
}

impl<L> LongState<L> {
    fn check(&mut self, bytes: &[u8], size: usize, index: u64) -> Result<LongStep, ErrorObject> {
        let rest = &bytes[self.checked..];
        let piece = &rest[..size.max(CHARACTER_SIZE_MAX).min(rest.len())];
        self.checked += match std::str::from_utf8(piece) {
            Ok(_) => piece.len(),
            // The piece only ends within a character.
            Err(error) if error.error_len().is_none() && piece.len() < rest.len() => error.valid_up_to(),
            Err(_) => return Err(ValueError { field: Field::Values, index, fault: ValueFault::InvalidUtf8 }.into()),
        };
        Ok(LongStep::More)
    }

    fn copy(&mut self, bytes: &[u8], size: usize, out: &mut Vec<u8>) -> LongStep {
        let copied = self.copied.get_or_insert_default();
        let rest = &bytes[*copied..];
        let piece = &rest[..size.min(rest.len())];
        out.reserve(rest.len());
        out.extend_from_slice(piece);
        *copied += piece.len();
        if *copied < bytes.len() { LongStep::More } else { LongStep::Left }
    }
}

/// Maximum length of a UTF-8 character in bytes.
const CHARACTER_SIZE_MAX: usize = 4;

impl LongRewriter for Encryptor {
    type Long = LongEncryption;

    fn step(
        &mut self,
        long: &mut LongEncryption,
        (text, own): (&[u8], OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.encrypt_long(long, (&SealedInput { value_type: ValueType::String, text }, own), &MessagePack, out)
    }
}

impl LongRewriter for Decryptor {
    type Long = LongDecryption;

    fn step(
        &mut self,
        long: &mut LongDecryption,
        text: (&[u8], OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.decrypt_long(long, text, &MessagePack, out)
    }

    fn failed(&mut self, index: u64) -> OnFailure {
        self.note_failure(index, String::new);
        self.on_failure()
    }
}

impl LongRewriter for Rewrapper {
    type Long = LongRewrap;

    fn step(
        &mut self,
        long: &mut LongRewrap,
        text: (&[u8], OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.rewrap_long(long, text, &MessagePack, out)
    }

    fn failed(&mut self, index: u64) -> OnFailure {
        self.note_failure(index, String::new);
        self.on_failure()
    }
}

/// Long values in MessagePack are strings: a number with that many digits could not be represented exactly.
struct MessagePack;

impl Shape for MessagePack {
    fn size(&self, _value_type: ValueType, piece: &[u8]) -> usize {
        piece.len()
    }

    fn begin(&self, value_type: ValueType, size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        if value_type == ValueType::Number {
            return Err(Error::new(ErrorCode::NumberOutOfRange, "a number of too many digits"));
        }
        out.reserve(write::HEAD_SIZE_MAX + size);
        write::string_header(size, out);
        Ok(())
    }

    fn piece(&self, _value_type: ValueType, piece: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(piece);
    }

    fn end(&self, _value_type: ValueType, _out: &mut Vec<u8>) {}
}
