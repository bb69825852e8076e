//! `encrypt` and `decrypt`: lists of native values, read where they lie in the frame and answered straight into the buffer.

use std::ops::ControlFlow;
use std::sync::Arc;

use fieldseal_engine::{
    Caller, Decryptor, ENVELOPE_OVERHEAD, Encryptor, Engine, LongDecryption, LongEncryption, OnFailure, Opened,
    Settled, Value, ValueType,
};
use fieldseal_protocol::answer::OpenValues;
use fieldseal_protocol::{
    DecryptParams, EncryptParams, ErrorCode, ErrorObject, NumberBuffer, RawValues, Scalar, write,
};

use super::FailureObserver;
use super::call::Call;
use super::convert;
use super::long::Long;
use super::span::{Span, text_of};
use super::work::{NOT_LIMITED, Work, part_of};
use crate::interface::{Part, PartStep, Planned, Step, Written};

/// A list of values that is being encrypted.
pub(super) struct EncryptValues {
    answer: Option<OpenValues>,
    encryptor: Encryptor,
    span: Span,
    long: Long<LongEncryption>,
    encrypted: u64,
}

/// A piece of it.
struct EncryptPart {
    call: Arc<Call>,
    encryptor: Encryptor,
    span: Span,
    long: Long<LongEncryption>,
    encrypted: u64,
}

impl EncryptValues {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &EncryptParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::encrypt_options(&params.options);
        let encryptor = engine.encryptor(caller, &options).map_err(convert::error)?;
        let answer = Some(OpenValues::begin(id, params.values.count(), out));
        let span = Span::whole(params.values, engine.settings().step_bytes_max);
        Ok(Self { answer, encryptor, span, long: Long::default(), encrypted: 0 })
    }

    fn advance(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<(), ErrorObject> {
        self.encrypted += encrypt(&mut self.encryptor, call.encrypt().values, &mut self.span, &mut self.long, out)?;
        Ok(())
    }
}

impl Work for EncryptValues {
    fn step(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        self.advance(call, out)?;
        if !self.span.is_done() {
            return Ok(NOT_LIMITED);
        }
        let answer = self.answer.take().expect("an answer ends once");
        answer.finish(&convert::list_report(&self.encryptor.report(), &[], false), out);
        Ok(Step::Done)
    }

    fn finish(&mut self, _call: &Call, head: &mut Vec<u8>, _written: Written, tail: &mut Vec<u8>) {
        let answer = self.answer.take().expect("an answer ends once");
        answer.finish_at(&convert::list_report(&self.encryptor.report(), &[], false), head, tail);
    }

    fn step_unplanned(&mut self, call: &Call, out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        Some(self.advance(call, out).map(|()| self.span.progress()))
    }

    fn next_part(&mut self, call: &Arc<Call>) -> Result<Planned, ErrorObject> {
        let encryptor = self.encryptor.fork().map_err(convert::error)?;
        let span = self.span.cut(call.encrypt().values, encryptor.step_values_max())?;
        let long = self.long.take();
        Ok(part_of(self.span.is_done(), EncryptPart { call: Arc::clone(call), encryptor, span, long, encrypted: 0 }))
    }

    fn fields(&self) -> u64 {
        self.encrypted
    }
}

impl Part for EncryptPart {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        self.encrypted +=
            encrypt(&mut self.encryptor, self.call.encrypt().values, &mut self.span, &mut self.long, out)?;
        Ok(self.span.progress())
    }

    fn fields(&self) -> u64 {
        self.encrypted
    }
}

/// Passes over as many values as a step takes; gives how many of them were encrypted.
fn encrypt(
    encryptor: &mut Encryptor,
    list: RawValues<'_>,
    span: &mut Span,
    long: &mut Long<LongEncryption>,
    out: &mut Vec<u8>,
) -> Result<u64, ErrorObject> {
    if let Some(string) = span.long_string(list) {
        return long.step(encryptor, span, &string, out);
    }
    let read = span.read(list, encryptor.step_values_max())?;
    let scalars = read.scalars.as_slice();
    let mut numbers: Vec<NumberBuffer> = Vec::new();
    numbers.resize_with(scalars.len(), NumberBuffer::new);
    let settled = match encryptor.skips_sealed() {
        true => encryptor.settle(&scalars.iter().map(text_of).collect::<Vec<_>>()).map_err(convert::error)?,
        false => Settled::all(scalars.len()),
    };
    let scalars = &scalars[..settled.done];
    let mut values = Vec::with_capacity(scalars.len());
    let mut kept = Vec::with_capacity(scalars.len());
    let mut size = 0;
    for (index, (scalar, buffer)) in scalars.iter().zip(&mut numbers).enumerate() {
        let Some((kind, text)) = scalar.text(buffer) else { continue };
        let value = Value { value_type: convert::value_type(kind), text };
        if !encryptor.leaves(&value) && !settled.leaves(index) {
            size += write::HEAD_SIZE_MAX + ENVELOPE_OVERHEAD + text.len() + text.len().div_ceil(3);
            values.push(value);
            kept.push(index);
        }
    }
    out.reserve(size);
    let mut written = 0;
    let sealed = encryptor.encrypt(&values, out, |index, size, out| {
        scalars[written..kept[index]].iter().for_each(|left| write::scalar(left, out));
        write::string_header(size, out);
        written = kept[index] + 1;
    });
    sealed.map_err(convert::error)?;
    scalars[written..].iter().for_each(|left| write::scalar(left, out));
    span.advance(list, &read, scalars.len())?;
    Ok(kept.len() as u64)
}

/// A list of values that is being decrypted.
pub(super) struct DecryptValues {
    answer: Option<OpenValues>,
    /// Whether the request said what becomes of envelopes that do not open: where that is logged.
    failures: Option<(Arc<dyn FailureObserver>, Caller)>,
    decryptor: Decryptor,
    span: Span,
    long: Long<LongDecryption>,
    decrypted: u64,
}

/// A piece of it.
struct DecryptPart {
    call: Arc<Call>,
    decryptor: Decryptor,
    span: Span,
    long: Long<LongDecryption>,
    decrypted: u64,
}

impl DecryptValues {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &DecryptParams<'_>,
        log: &Arc<dyn FailureObserver>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = convert::decrypt_options(&params.options);
        let decryptor = engine.decryptor(caller, &options).map_err(convert::error)?;
        let answer = Some(OpenValues::begin(id, params.values.count(), out));
        let span = Span::whole(params.values, engine.settings().step_bytes_max);
        let failures = (options.on_failure != OnFailure::Fail).then(|| (Arc::clone(log), caller.clone()));
        Ok(Self { answer, failures, decryptor, span, long: Long::default(), decrypted: 0 })
    }

    /// Ends the answer, with `head` where it goes on in other buffers than the one in which it began.
    fn end(&mut self, call: &Call, head: Option<&mut Vec<u8>>, tail: &mut Vec<u8>) {
        let report = self.decryptor.report();
        if let Some((log, caller)) = &self.failures {
            log.ended(caller, call.parsed().app(), &report);
        }
        let indexes: Vec<u64> = report.failures.iter().map(|failure| failure.position).collect();
        let report = convert::list_report(&report, &indexes, self.failures.is_some());
        let answer = self.answer.take().expect("an answer ends once");
        match head {
            Some(head) => answer.finish_at(&report, head, tail),
            None => answer.finish(&report, tail),
        }
    }

    fn advance(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<(), ErrorObject> {
        self.decrypted += decrypt(&mut self.decryptor, call.decrypt().values, &mut self.span, &mut self.long, out)?;
        Ok(())
    }
}

impl Work for DecryptValues {
    fn step(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        self.advance(call, out)?;
        if !self.span.is_done() {
            return Ok(NOT_LIMITED);
        }
        self.end(call, None, out);
        Ok(Step::Done)
    }

    fn finish(&mut self, call: &Call, head: &mut Vec<u8>, _written: Written, tail: &mut Vec<u8>) {
        self.end(call, Some(head), tail);
    }

    fn step_unplanned(&mut self, call: &Call, out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        Some(self.advance(call, out).map(|()| self.span.progress()))
    }

    fn next_part(&mut self, call: &Arc<Call>) -> Result<Planned, ErrorObject> {
        let span = self.span.cut(call.decrypt().values, self.decryptor.part_values_max())?;
        let decryptor = self.decryptor.fork();
        let long = self.long.take();
        Ok(part_of(self.span.is_done(), DecryptPart { call: Arc::clone(call), decryptor, span, long, decrypted: 0 }))
    }

    fn fields(&self) -> u64 {
        self.decrypted
    }
}

impl Part for DecryptPart {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        self.decrypted +=
            decrypt(&mut self.decryptor, self.call.decrypt().values, &mut self.span, &mut self.long, out)?;
        Ok(self.span.progress())
    }

    fn fields(&self) -> u64 {
        self.decrypted
    }
}

/// Passes over as many values as a step takes; gives how many of them were decrypted.
fn decrypt(
    decryptor: &mut Decryptor,
    list: RawValues<'_>,
    span: &mut Span,
    long: &mut Long<LongDecryption>,
    out: &mut Vec<u8>,
) -> Result<u64, ErrorObject> {
    if let Some(string) = span.long_string(list) {
        return long.step(decryptor, span, &string, out);
    }
    let read = span.read(list, decryptor.step_values_max())?;
    let first = span.index();
    let texts: Vec<&[u8]> = read.scalars.iter().map(text_of).collect();
    out.reserve(texts.iter().map(|text| text.len().saturating_sub(ENVELOPE_OVERHEAD)).sum::<usize>() + texts.len());
    let (mut fault, mut decrypted) = (None, 0);
    let on_failure = decryptor.on_failure();
    let mut failed = Vec::new();
    let mut each = |index: usize, opened: Option<Opened<'_>>, out: &mut Vec<u8>| {
        let written = match opened {
            Some(opened) => {
                decrypted += 1;
                write_opened(&opened, out)
            }
            None => {
                write::scalar(&read.scalars[index], out);
                Ok(())
            }
        };
        written.inspect_err(|_| decrypted -= 1)
    };
    let done = match on_failure {
        OnFailure::Fail => decryptor.decrypt(&texts, |index, opened| {
            if let Err(error) = each(index, opened, out) {
                fault.get_or_insert(error.at_index(first + index as u64));
            }
        }),
        OnFailure::Leave | OnFailure::Null => decryptor.open_texts(&texts, |index, outcome| {
            let is_written = outcome.is_ok_and(|opened| each(index, opened, out).is_ok());
            if !is_written {
                failed.push(index);
                let left = if on_failure == OnFailure::Null { &Scalar::Nil } else { &read.scalars[index] };
                write::scalar(left, out);
            }
            ControlFlow::Continue(())
        }),
    };
    failed.into_iter().for_each(|index| decryptor.note_failure(first + index as u64, String::new));
    let done = done.map_err(|error| convert::error_from(error, first));
    let is_first = |fault: &ErrorObject| done.as_ref().err().is_none_or(|error| fault.index < error.index);
    fault.filter(is_first).map_or(Ok(()), Err)?;
    let done = done?;
    span.advance(list, &read, done)?;
    Ok(decrypted)
}

fn write_opened(opened: &Opened<'_>, out: &mut Vec<u8>) -> Result<(), ErrorObject> {
    match opened.value_type {
        ValueType::String => write::string(opened.text, out),
        ValueType::Boolean => write::boolean(opened.text == "true", out),
        ValueType::Number => {
            let number = Scalar::from_number_text(opened.text)
                .map_err(|fault| ErrorObject::new(ErrorCode::NumberOutOfRange, fault.to_string()))?;
            write::scalar(&number, out);
        }
    }
    Ok(())
}
