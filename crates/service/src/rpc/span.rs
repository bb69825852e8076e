//! Spans of a list in a frame: the values that one worker has yet to process.

use leafseal_protocol::{RawValues, Scalar, Text, ValueError, ValuesPosition};

use crate::work::PartStep;

/// A span of a list, from its next value to its end.
#[derive(Clone, Copy)]
pub(super) struct Span {
    next: ValuesPosition,
    end: u32,
    /// Maximum bytes of values that are read or split off at a time.
    bytes_max: usize,
}

/// A string that is too long to be read at once, and the position after it. It is not yet checked for UTF-8.
pub(super) struct LongString<'a> {
    pub(super) bytes: &'a [u8],
    after: ValuesPosition,
}

/// Values that were read, and the position after them.
pub(super) struct ReadSpan<'a> {
    pub(super) scalars: Vec<Scalar<'a>>,
    after: ValuesPosition,
}

impl Span {
    /// A span of the whole list.
    pub(super) fn whole(values: RawValues<'_>, bytes_max: usize) -> Self {
        Span { next: ValuesPosition::default(), end: values.count(), bytes_max: bytes_max.max(1) }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next.index() == self.end
    }

    /// The result of a step on it.
    pub(super) fn progress(&self) -> PartStep {
        if self.is_done() { PartStep::Done } else { PartStep::More }
    }

    /// The index of the next value in the list.
    pub(super) fn index(&self) -> u64 {
        u64::from(self.next.index())
    }

    /// The next value, if it is a long string, which [`Span::read`] does not return.
    pub(super) fn long_string<'a>(&self, values: RawValues<'a>) -> Option<LongString<'a>> {
        let (bytes, after) = values.long_string_at(self.next, self.bytes_max)?;
        (!self.is_done()).then_some(LongString { bytes, after })
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Skips a long string.
    pub(super) fn pass(&mut self, string: &LongString<'_>) {
        self.next = string.after;
    }

    /// Reads up to `count_max` values from the front, in pieces of about equal size unless limited by their bytes. A malformed value ends
    /// the piece: its fault is reported when it is the first value, so that faults are reported in order.
    pub(super) fn read<'a>(&self, values: RawValues<'a>, count_max: usize) -> Result<ReadSpan<'a>, ValueError> {
        let count = self.piece(count_max) as usize;
        let mut iterator = values.iter_from(self.next).up_to(self.bytes_max);
        let mut scalars = Vec::with_capacity(count);
        let (mut bytes, mut after) = (0, self.next);
        while scalars.len() < count && bytes < self.bytes_max {
            match iterator.next() {
                Some(Ok(scalar)) => {
                    bytes += text_of(&scalar).len();
                    scalars.push(scalar);
                    after = iterator.position();
                }
                Some(Err(error)) if scalars.is_empty() => return Err(error),
                Some(Err(_)) | None => break,
            }
        }
        Ok(ReadSpan { scalars, after })
    }

    /// As [`Span::read`], for lists that hold only strings.
    pub(super) fn read_texts<'a>(&self, values: RawValues<'a>, count_max: usize) -> Result<Vec<Text<'a>>, ValueError> {
        let count = self.piece(count_max) as usize;
        let mut texts = Vec::with_capacity(count);
        let mut bytes = 0;
        for text in values.strings_from(self.next).up_to(self.bytes_max).take(count) {
            match text {
                Ok(text) => {
                    bytes += text.as_bytes().len();
                    texts.push(text);
                }
                Err(error) if texts.is_empty() => return Err(error),
                Err(_) => break,
            }
            if bytes >= self.bytes_max {
                break;
            }
        }
        Ok(texts)
    }

    /// Advances past values that were read, of which `done` are done.
    pub(super) fn advance(
        &mut self,
        values: RawValues<'_>,
        read: &ReadSpan<'_>,
        done: usize,
    ) -> Result<(), ValueError> {
        if done == read.scalars.len() {
            self.next = read.after;
            return Ok(());
        }
        self.skip(values, done)
    }

    /// Advances past `count` values.
    pub(super) fn skip(&mut self, values: RawValues<'_>, count: usize) -> Result<(), ValueError> {
        let mut iterator = values.iter_from(self.next);
        iterator.skip_values(u32::try_from(count).expect("not more than the list has"))?;
        self.next = iterator.position();
        Ok(())
    }

    /// Splits off up to `count_max` values from the front.
    pub(super) fn cut(&mut self, values: RawValues<'_>, count_max: usize) -> Result<Span, ValueError> {
        let mut iterator = values.iter_from(self.next);
        iterator.skip_bounded(self.piece(count_max), self.bytes_max)?;
        let next = std::mem::replace(&mut self.next, iterator.position());
        Ok(Span { next, end: self.next.index(), ..*self })
    }

    /// The number of values to take so that no small rest is left at the end.
    fn piece(&self, count_max: usize) -> u32 {
        let left = self.end - self.next.index();
        let count_max = u32::try_from(count_max.max(1)).unwrap_or(u32::MAX);
        left.div_ceil(left.div_ceil(count_max).max(1))
    }
}

/// The text of a possible envelope. Other scalars count as the empty text, which is not an envelope.
pub(super) fn text_of<'a>(scalar: &Scalar<'a>) -> &'a [u8] {
    match scalar {
        Scalar::Str(text) => text.as_bytes(),
        _ => b"",
    }
}
