//! `encrypt` and `decrypt`: lists of native values, read in place in the frame and answered directly into the buffer.

use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::pool::is_inline;
use leafseal_engine::{
    Caller, DecryptOptions, Decryptor, ENVELOPE_OVERHEAD, EncryptOptions, Encryptor, Engine, LongDecryption,
    LongEncryption, OnFailure, OpenedValue, RequestReport, SealedInput, Settled, SettledValues, ValueType,
};
use leafseal_protocol::answer::OpenValues;
use leafseal_protocol::{DecryptParams, EncryptParams, ErrorCode, ErrorObject, NumberBuffer, Scalar, write};

use super::FailureObserver;
use super::call::OwnedCall;
use super::convert;
use super::failures::FailureLog;
use super::inline;
use super::list::{ListMethod, ListWork};
use super::long::Long;
use super::span::{BoundList, Span, text_of};

/// The data for the end of a list of values.
pub(super) struct Ending {
    answer: Option<OpenValues>,
    failures: FailureLog,
}

impl Ending {
    fn end(&mut self, call: &OwnedCall, report: &RequestReport, head: Option<&mut Vec<u8>>, tail: &mut Vec<u8>) {
        let indexes = self.failures.ended(call, report);
        let report = convert::list_report(report, &indexes, self.failures.is_wanted());
        let answer = self.answer.take().expect("an answer ends once");
        match head {
            Some(head) => answer.finish_at(&report, head, tail),
            None => answer.finish(&report, tail),
        }
    }
}

impl ListWork<Encryptor> {
    pub(super) fn encrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &EncryptParams<'_>),
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let has_contexts = params.contexts.is_some();
        let options = EncryptOptions { has_contexts, ..convert::encrypt_options(&params.options) };
        let encryptor = engine.encryptor(caller, &options).map_err(convert::error)?;
        let answer = Some(OpenValues::begin(id, params.values.count(), out));
        Ok(ListWork::begin(engine, call, encryptor, Ending { answer, failures: FailureLog::default() }))
    }
}

impl ListWork<Decryptor> {
    pub(super) fn decrypt(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &DecryptParams<'_>),
        log: &Arc<dyn FailureObserver>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let has_contexts = params.contexts.is_some();
        let options = DecryptOptions { has_contexts, ..convert::decrypt_options(&params.options) };
        let decryptor = engine.decryptor(caller, &options).map_err(convert::error)?;
        let answer = Some(OpenValues::begin(id, params.values.count(), out));
        let failures = FailureLog::of(options.on_failure, log, caller);
        Ok(ListWork::begin(engine, call, decryptor, Ending { answer, failures }))
    }
}

impl ListMethod for Encryptor {
    type Long = Long<LongEncryption>;
    type Ending = Ending;

    fn list(call: &OwnedCall) -> BoundList<'_> {
        let params = call.encrypt();
        BoundList { values: params.values, contexts: params.contexts }
    }

    fn part_values_max(&self) -> usize {
        self.step_values_max()
    }

    fn counted_work(call: &OwnedCall) -> Option<Duration> {
        inline::values(Self::list(call), call.parsed().context_size())
    }

    fn fork(&mut self) -> Result<Self, ErrorObject> {
        Encryptor::fork(self).map_err(convert::error)
    }

    fn advance(
        &mut self,
        list: BoundList<'_>,
        span: &mut Span,
        long: &mut Self::Long,
        out: &mut Vec<u8>,
    ) -> Result<u64, ErrorObject> {
        match span.long_string(list) {
            Some(string) => long.step(self, list, span, &string, out),
            None => encrypt(self, list, span, out),
        }
    }

    fn end(&mut self, ending: &mut Ending, call: &OwnedCall, _: u64, head: Option<&mut Vec<u8>>, tail: &mut Vec<u8>) {
        ending.end(call, &self.report(), head, tail);
    }
}

impl ListMethod for Decryptor {
    type Long = Long<LongDecryption>;
    type Ending = Ending;

    fn list(call: &OwnedCall) -> BoundList<'_> {
        let params = call.decrypt();
        BoundList { values: params.values, contexts: params.contexts }
    }

    fn part_values_max(&self) -> usize {
        Decryptor::part_values_max(self)
    }

    fn counted_work(call: &OwnedCall) -> Option<Duration> {
        inline::values(Self::list(call), call.parsed().context_size())
    }

    fn fork(&mut self) -> Result<Self, ErrorObject> {
        Ok(Decryptor::fork(self))
    }

    fn advance(
        &mut self,
        list: BoundList<'_>,
        span: &mut Span,
        long: &mut Self::Long,
        out: &mut Vec<u8>,
    ) -> Result<u64, ErrorObject> {
        match span.long_string(list) {
            Some(string) => long.step(self, list, span, &string, out),
            None => decrypt(self, list, span, out),
        }
    }

    fn end(&mut self, ending: &mut Ending, call: &OwnedCall, _: u64, head: Option<&mut Vec<u8>>, tail: &mut Vec<u8>) {
        ending.end(call, &self.report(), head, tail);
    }
}

/// Processes as many values as fit into a step; returns how many of them were encrypted.
fn encrypt(
    encryptor: &mut Encryptor,
    list: BoundList<'_>,
    span: &mut Span,
    out: &mut Vec<u8>,
) -> Result<u64, ErrorObject> {
    let read = span.read(list, encryptor.step_values_max())?;
    let own = span.own(list, read.scalars.len())?;
    let scalars = &read.scalars[..own.as_ref().map_or(read.scalars.len(), Vec::len)];
    let mut numbers: Vec<NumberBuffer> = Vec::new();
    numbers.resize_with(scalars.len(), NumberBuffer::new);
    let settles = encryptor.settles();
    let settled = match settles {
        true => {
            let texts: Vec<&[u8]> = scalars.iter().map(text_of).collect();
            encryptor.settle_bound(&texts, own.as_deref()).map_err(convert::error)?
        }
        false => Settled::all(scalars.len()),
    };
    let scalars = &scalars[..settled.done];
    let mut values = Vec::with_capacity(scalars.len());
    let mut kept = Vec::with_capacity(scalars.len());
    let (mut of_values, mut envelopes) = (Vec::new(), Vec::new());
    let mut size = 0;
    for (index, (scalar, buffer)) in scalars.iter().zip(&mut numbers).enumerate() {
        let Some((kind, text)) = scalar.text(buffer) else { continue };
        let value = SealedInput { value_type: convert::value_type(kind), text };
        if encryptor.leaves(&value) || settles && settled.leaves(index) {
            continue;
        }
        size += write::HEAD_SIZE_MAX + ENVELOPE_OVERHEAD + text.len() + text.len().div_ceil(3);
        values.push(value);
        kept.push(index);
        if let Some(own) = &own {
            of_values.push(Arc::clone(&own[index]));
        }
        if settles && settled.has_envelopes() {
            envelopes.push(settled.envelope(index));
        }
    }
    out.reserve(size);
    let mut written = 0;
    let own = own.is_some().then_some(&*of_values);
    let values = SettledValues { values: &values, own, envelopes: &envelopes };
    let sealed = encryptor.encrypt_settled(values, out, |index, size, out| {
        scalars[written..kept[index]].iter().for_each(|left| write::scalar(left, out));
        write::string_header(size, out);
        written = kept[index] + 1;
    });
    sealed.map_err(convert::error)?;
    scalars[written..].iter().for_each(|left| write::scalar(left, out));
    span.advance(list, &read, scalars.len())?;
    Ok(kept.len() as u64)
}

/// Processes as many values as fit into a step; returns how many of them were decrypted.
fn decrypt(
    decryptor: &mut Decryptor,
    list: BoundList<'_>,
    span: &mut Span,
    out: &mut Vec<u8>,
) -> Result<u64, ErrorObject> {
    let read = span.read(list, decryptor.step_values_max())?;
    let first = span.index();
    let own = span.own(list, read.scalars.len())?;
    let count = own.as_ref().map_or(read.scalars.len(), Vec::len);
    let (own, texts) = (own.as_deref(), read.scalars[..count].iter().map(text_of).collect::<Vec<&[u8]>>());
    out.reserve(texts.iter().map(|text| text.len().saturating_sub(ENVELOPE_OVERHEAD)).sum::<usize>() + texts.len());
    let (mut fault, mut decrypted) = (None, 0);
    let on_failure = decryptor.on_failure();
    let mut failed = Vec::new();
    let done = match on_failure {
        OnFailure::Fail => decryptor.decrypt_bound(&texts, own, |index, opened| match opened {
            Some(opened) => match write_opened(&opened, out) {
                Ok(()) => decrypted += 1,
                Err(error) => {
                    fault.get_or_insert(error.at_index(first + index as u64));
                }
            },
            None => write::scalar(&read.scalars[index], out),
        }),
        OnFailure::Leave | OnFailure::Null => decryptor.open_texts_bound(&texts, own, |index, outcome| match outcome {
            Ok(None) => write::scalar(&read.scalars[index], out),
            Ok(Some(opened)) if write_opened(&opened, out).is_ok() => decrypted += 1,
            Ok(Some(_)) | Err(_) => {
                failed.push(index);
                let left = if on_failure == OnFailure::Null { &Scalar::Nil } else { &read.scalars[index] };
                write::scalar(left, out);
            }
        }),
    };
    if is_inline() && done.as_ref().is_ok_and(|&done| done < texts.len()) {
        // A value has a key that is not known.
        return Err(inline::handed_over());
    }
    failed.into_iter().for_each(|index| decryptor.note_failure(first + index as u64, String::new));
    let done = done.map_err(|error| convert::error_from(error, first));
    let is_first = |fault: &ErrorObject| done.as_ref().err().is_none_or(|error| fault.index < error.index);
    fault.filter(is_first).map_or(Ok(()), Err)?;
    let done = done?;
    span.advance(list, &read, done)?;
    Ok(decrypted)
}

#[inline]
fn write_opened(opened: &OpenedValue<'_>, out: &mut Vec<u8>) -> Result<(), ErrorObject> {
    match opened.value_type {
        ValueType::String => write::string(opened.text, out),
        ValueType::Boolean => write::boolean(opened.text == "true", out),
        ValueType::Number => return write_number(opened.text, out),
    }
    Ok(())
}

/// Not inline: strings, which most values are, take the short way.
#[inline(never)]
fn write_number(text: &str, out: &mut Vec<u8>) -> Result<(), ErrorObject> {
    let number = Scalar::from_number_text(text)
        .map_err(|fault| ErrorObject::new(ErrorCode::NumberOutOfRange, fault.to_string()))?;
    write::scalar(&number, out);
    Ok(())
}
