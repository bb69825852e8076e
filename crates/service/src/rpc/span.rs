//! Spans of a list in a frame: the values that one worker has yet to process.

use std::sync::Arc;

use leafseal_engine::{Binding, InvalidContext};
use leafseal_protocol::{ErrorCode, ErrorObject, RawValues, Scalar, Text, ValueError, ValuesPosition};

use crate::work::PartStep;

/// The list of a call.
#[derive(Clone, Copy)]
pub(super) struct BoundList<'a> {
    pub(super) values: RawValues<'a>,
    /// What each value is bound to, if they come with that.
    pub(super) contexts: Option<RawValues<'a>>,
}

/// A span of a list, from its next value to its end.
#[derive(Clone, Copy)]
pub(super) struct Span {
    next: ValuesPosition,
    /// The position of its context, if values have one each.
    context: ValuesPosition,
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
    pub(super) fn whole(list: BoundList<'_>, bytes_max: usize) -> Self {
        let (next, context) = (ValuesPosition::default(), ValuesPosition::default());
        Span { next, context, end: list.values.count(), bytes_max: bytes_max.max(1) }
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
    pub(super) fn long_string<'a>(&self, list: BoundList<'a>) -> Option<LongString<'a>> {
        let (bytes, after) = list.values.long_string_at(self.next, self.bytes_max)?;
        (!self.is_done()).then_some(LongString { bytes, after })
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Skips a long string.
    pub(super) fn pass(&mut self, list: BoundList<'_>, string: &LongString<'_>) -> Result<(), ValueError> {
        self.next = string.after;
        self.follow(list)
    }

    /// Goes on to the context of the next value.
    fn follow(&mut self, list: BoundList<'_>) -> Result<(), ValueError> {
        let Some(contexts) = list.contexts else { return Ok(()) };
        let mut iterator = contexts.iter_from(self.context);
        iterator.skip_values(self.next.index() - self.context.index())?;
        self.context = iterator.position();
        Ok(())
    }

    /// What the next values are bound to, if they come with that: `count` of them or, if their contexts are long, fewer, but at least one.
    /// Neighbours with equal contexts share one.
    ///
    /// # Errors
    /// The first context is not a text of 1 to 1024 bytes.
    pub(super) fn own(&self, list: BoundList<'_>, count: usize) -> Result<Option<Vec<Arc<Binding>>>, ErrorObject> {
        let Some(contexts) = list.contexts else { return Ok(None) };
        let mut own: Vec<Arc<Binding>> = Vec::with_capacity(count);
        let (mut last, mut bytes) = (None, 0);
        for (index, context) in (self.index()..).zip(contexts.strings_from(self.context)).take(count) {
            let made = context.map_err(ErrorObject::from).and_then(|context| {
                let context = context.as_bytes();
                let same = own.last().filter(|_| last == Some(context)).map(Arc::clone);
                let made = same.map_or_else(|| binding(context).map(Arc::new), Ok);
                made.map(|made| (context, made)).map_err(|error| error.at_index(index))
            });
            match made {
                Ok((context, made)) => {
                    bytes += context.len();
                    last = Some(context);
                    own.push(made);
                }
                // A fault behind other values is reported when it is the first, so that faults are reported in order.
                Err(error) if own.is_empty() => return Err(error),
                Err(_) => break,
            }
            if bytes >= self.bytes_max {
                break;
            }
        }
        Ok(Some(own))
    }

    /// Reads up to `count_max` values from the front, in pieces of about equal size unless limited by their bytes. A malformed value ends
    /// the piece: its fault is reported when it is the first value, so that faults are reported in order.
    pub(super) fn read<'a>(
        &self,
        BoundList { values, .. }: BoundList<'a>,
        count_max: usize,
    ) -> Result<ReadSpan<'a>, ValueError> {
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
    pub(super) fn read_texts<'a>(
        &self,
        BoundList { values, .. }: BoundList<'a>,
        count_max: usize,
    ) -> Result<Vec<Text<'a>>, ValueError> {
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
    pub(super) fn advance(&mut self, list: BoundList<'_>, read: &ReadSpan<'_>, done: usize) -> Result<(), ValueError> {
        if done == read.scalars.len() {
            self.next = read.after;
            return self.follow(list);
        }
        self.skip(list, done)
    }

    /// Advances past `count` values.
    pub(super) fn skip(&mut self, list: BoundList<'_>, count: usize) -> Result<(), ValueError> {
        let mut iterator = list.values.iter_from(self.next);
        iterator.skip_values(u32::try_from(count).expect("not more than the list has"))?;
        self.next = iterator.position();
        self.follow(list)
    }

    /// Splits off up to `count_max` values from the front.
    pub(super) fn cut(&mut self, list: BoundList<'_>, count_max: usize) -> Result<Span, ValueError> {
        let (before, mut iterator) = (*self, list.values.iter_from(self.next));
        iterator.skip_bounded(self.piece(count_max), self.bytes_max)?;
        self.next = iterator.position();
        self.follow(list)?;
        Ok(Span { end: self.next.index(), ..before })
    }

    /// The number of values to take so that no small rest is left at the end.
    fn piece(&self, count_max: usize) -> u32 {
        let left = self.end - self.next.index();
        let count_max = u32::try_from(count_max.max(1)).unwrap_or(u32::MAX);
        left.div_ceil(left.div_ceil(count_max).max(1))
    }
}

/// What a value with this context is bound to.
fn binding(context: &[u8]) -> Result<Binding, ErrorObject> {
    let text = str::from_utf8(context).expect("checked when it was read");
    let invalid =
        |error: InvalidContext| ErrorObject::new(ErrorCode::InvalidParams, format!("field `contexts`: {error}"));
    Binding::context(text).map_err(invalid)
}

/// The text of a possible envelope. Other scalars count as the empty text, which is not an envelope.
pub(super) fn text_of<'a>(scalar: &Scalar<'a>) -> &'a [u8] {
    match scalar {
        Scalar::Str(text) => text.as_bytes(),
        _ => b"",
    }
}
