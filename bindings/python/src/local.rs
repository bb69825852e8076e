//! Calls on an engine in this process, in the steps that the engine offers: between two steps a call can be stopped.

use std::sync::Arc;

use leafseal_client::Inspection;
use leafseal_engine::{
    Caller, Curve, DecryptOptions, Decryptor, DocumentWork, EncryptOptions, Encryptor, Engine, EnvelopeMetadata,
    Marking, OnFailure, OpenedValue, Progress, Rewriter, Scheme, SealedInput, Selection, Settled, SettledValues,
    ValueType,
};
use leafseal_protocol::{self as wire, ErrorCode, NumberBuffer, Scalar, TextKind};

use crate::arrow::Column;
use crate::contexts::ContextsFrom;
use crate::fault::CallFault;
use crate::options::{CallDirection, OperationOptions};
use crate::values::{Draft, ListCell, ListSource, ValueList, too_long};
use crate::work::{CallWork, Done, Input, WorkOutput, WorkReport};

/// Bytes of values that are read for one step.
const STEP_BYTES_MAX: usize = 64 << 10;

/// Called between steps; an error ends the call.
pub(crate) type StepCheck<'a> = &'a mut dyn FnMut() -> Result<(), CallFault>;

/// Runs a call as the owner of the store.
pub(crate) fn run(engine: &Engine, work: &CallWork, check: StepCheck<'_>) -> Result<Done, CallFault> {
    check()?;
    let options = work.options();
    match &work.input {
        Input::List(values) => {
            let (mut lists, report) = list(engine, work, &[values], check)?;
            Ok(Done { output: WorkOutput::List(lists.pop().unwrap_or_default()), report })
        }
        Input::Columns(columns) => {
            let sources: Vec<&Column> = columns.iter().collect();
            let (lists, report) = list(engine, work, &sources, check)?;
            Ok(Done { output: WorkOutput::Columns(lists), report })
        }
        Input::Document(json) => document(engine, work.direction, options, json, check),
        Input::Documents(columns) => {
            let selection = selection(engine, options)?;
            let (mut lists, mut first) = (Vec::with_capacity(columns.len()), 0);
            for column in columns {
                lists.push(documents(engine, work, selection.as_ref(), column, first, check)?);
                first += column.len();
            }
            Ok(Done { output: WorkOutput::Columns(lists), report: WorkReport::default() })
        }
        Input::Envelopes(envelopes) => inspect(engine, options, envelopes, check),
        Input::Ready => Ok(Done { output: WorkOutput::Ready, report: WorkReport::default() }),
    }
}

/// Processes lists with the keys of one request.
fn list<S: ListSource>(
    engine: &Engine,
    work: &CallWork,
    sources: &[&S],
    check: StepCheck<'_>,
) -> Result<(Vec<ValueList>, WorkReport), CallFault> {
    let (options, has_contexts) = (work.options(), work.contexts.is_some());
    let (mut lists, mut first) = (Vec::with_capacity(sources.len()), 0);
    let report = match work.direction {
        CallDirection::Encrypt => {
            let options = EncryptOptions { has_contexts, ..options.engine_encrypt()? };
            let mut encryptor = engine.encryptor(&Caller::Owner, &options)?;
            for source in sources {
                let (list, contexts) = (*source, work.contexts(first));
                lists.push(encrypt(&mut encryptor, list, contexts, check).map_err(|fault| fault.shifted(first))?);
                first += source.len();
            }
            encryptor.report()
        }
        CallDirection::Decrypt => {
            let options = DecryptOptions { has_contexts, ..options.engine_decrypt()? };
            let mut decryptor = engine.decryptor(&Caller::Owner, &options)?;
            for source in sources {
                let bound = (*source, work.contexts(first));
                lists.push(decrypt(&mut decryptor, bound, first, check).map_err(|fault| fault.shifted(first))?);
                first += source.len();
            }
            decryptor.report()
        }
    };
    let failed_indexes = report.failures.iter().map(|failure| failure.position).collect();
    let report = WorkReport {
        resealed: report.resealed,
        skipped: report.skipped,
        rewrapped: report.rewrapped,
        symmetric: report.symmetric,
        failed: report.failed,
        failed_indexes,
        ..WorkReport::default()
    };
    Ok((lists, report))
}

/// The values of one step, from `start` on.
fn read<'a>(source: &'a impl ListSource, start: usize, count_max: usize, scalars: &mut Vec<Scalar<'a>>) {
    scalars.clear();
    let (end, mut bytes) = (source.len().min(start + count_max.max(1)), 0);
    for index in start..end {
        let scalar = source.scalar(index);
        bytes += text_of(&scalar).len();
        scalars.push(scalar);
        if bytes >= STEP_BYTES_MAX {
            break;
        }
    }
}

/// The text of a possible envelope. Other scalars count as the empty text, which is not an envelope.
fn text_of<'a>(scalar: &Scalar<'a>) -> &'a [u8] {
    match scalar {
        Scalar::Str(text) => text.as_bytes(),
        _ => b"",
    }
}

/// Encrypts a list.
fn encrypt(
    encryptor: &mut Encryptor,
    source: &impl ListSource,
    contexts: Option<ContextsFrom<'_>>,
    check: StepCheck<'_>,
) -> Result<ValueList, CallFault> {
    let mut out = Draft::with_capacity(source.len());
    let mut start = 0;
    let mut numbers: Vec<NumberBuffer> = Vec::new();
    let mut scalars = Vec::new();
    while start < source.len() {
        check()?;
        read(source, start, encryptor.step_values_max(), &mut scalars);
        if numbers.len() < scalars.len() {
            numbers.resize_with(scalars.len(), NumberBuffer::new);
        }
        let own = contexts.map(|contexts| contexts.bindings(start, scalars.len())).transpose()?;
        let settled = match encryptor.settles() {
            true => encryptor.settle_bound(&scalars.iter().map(text_of).collect::<Vec<_>>(), own.as_deref())?,
            false => Settled::all(scalars.len()),
        };
        let scalars = &scalars[..settled.done];
        let mut values = Vec::with_capacity(scalars.len());
        let mut kept = Vec::with_capacity(scalars.len());
        let (mut of_values, mut envelopes) = (Vec::new(), Vec::new());
        for (index, (scalar, buffer)) in scalars.iter().zip(&mut numbers).enumerate() {
            let Some((kind, text)) = scalar.text(buffer) else { continue };
            let value = SealedInput { value_type: value_type(kind), text };
            if !encryptor.leaves(&value) && !settled.leaves(index) {
                values.push(value);
                of_values.extend(own.as_ref().map(|own| Arc::clone(&own[index])));
                kept.push(index);
                if settled.has_envelopes() {
                    envelopes.push(settled.envelope(index));
                }
            }
        }
        let Draft { cells, text } = &mut out;
        let (mut written, mut fault) = (0, None);
        let own = own.is_some().then_some(&*of_values);
        let values = SettledValues { values: &values, own, envelopes: &envelopes };
        encryptor.encrypt_settled(values, text, |index, size, text| {
            for left in &scalars[written..kept[index]] {
                copy(left, cells, text);
            }
            match u32::try_from(size) {
                Ok(size) => cells.push(ListCell::Text { start: text.len(), size }),
                Err(_) => fault = Some(too_long(start + kept[index])),
            }
            written = kept[index] + 1;
        })?;
        fault.map_or(Ok(()), Err)?;
        for left in &scalars[written..] {
            copy(left, cells, text);
        }
        start += scalars.len();
    }
    Ok(out.finish())
}

/// Copies a value that stays as it is.
fn copy(scalar: &Scalar<'_>, cells: &mut Vec<ListCell>, text: &mut Vec<u8>) {
    cells.push(match scalar {
        Scalar::Nil => ListCell::Nil,
        Scalar::Bool(value) => ListCell::Bool(*value),
        Scalar::UInt(value) => ListCell::UInt(*value),
        Scalar::Int(value) => ListCell::Int(*value),
        Scalar::Float(value) => ListCell::Float(*value),
        Scalar::Str(string) => {
            let (start, bytes) = (text.len(), string.as_bytes());
            text.extend_from_slice(bytes);
            // Sources hold no longer strings.
            ListCell::Text { start, size: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
        }
    });
}

/// Decrypts a list that begins at value `first` of the call's list.
fn decrypt(
    decryptor: &mut Decryptor,
    (source, contexts): (&impl ListSource, Option<ContextsFrom<'_>>),
    first: usize,
    check: StepCheck<'_>,
) -> Result<ValueList, CallFault> {
    let mut out = Draft::with_capacity(source.len());
    let mut start = 0;
    let mut scalars = Vec::new();
    let on_failure = decryptor.on_failure();
    while start < source.len() {
        check()?;
        read(source, start, decryptor.step_values_max(), &mut scalars);
        let texts: Vec<&[u8]> = scalars.iter().map(text_of).collect();
        let own = contexts.map(|contexts| contexts.bindings(start, scalars.len())).transpose()?;
        let (mut fault, mut failed) = (None, Vec::new());
        let done = if on_failure == OnFailure::Fail {
            decryptor.decrypt_bound(&texts, own.as_deref(), |index, opened| {
                let pushed = match opened {
                    Some(opened) => push_opened(&mut out, &opened, start + index),
                    None => out.push(&scalars[index]),
                };
                if let Err(error) = pushed {
                    fault.get_or_insert(error);
                }
            })
        } else {
            decryptor.open_texts_bound(&texts, own.as_deref(), |index, outcome| {
                let pushed = match outcome {
                    Ok(None) => out.push(&scalars[index]),
                    Ok(Some(opened)) if push_opened(&mut out, &opened, start + index).is_ok() => Ok(()),
                    Ok(Some(_)) | Err(_) => {
                        failed.push(index);
                        out.push(if on_failure == OnFailure::Null { &Scalar::Nil } else { &scalars[index] })
                    }
                };
                if let Err(error) = pushed {
                    fault.get_or_insert(error);
                }
            })
        };
        for index in failed {
            decryptor.note_failure((first + start + index) as u64, String::new);
        }
        match (fault, done) {
            // A value that was decrypted, but that has no form here, comes before one that was not.
            (Some(fault), _) => return Err(fault),
            (None, Err(error)) => return Err(CallFault::from(error).shifted(start)),
            (None, Ok(done)) => start += done,
        }
    }
    Ok(out.finish())
}

fn push_opened(out: &mut Draft, opened: &OpenedValue<'_>, index: usize) -> Result<(), CallFault> {
    match opened.value_type {
        ValueType::String => out.push_text(opened.text),
        ValueType::Boolean => out.push(&Scalar::Bool(opened.text == "true")),
        ValueType::Number => {
            let number = Scalar::from_number_text(opened.text)
                .map_err(|fault| CallFault::at(ErrorCode::NumberOutOfRange, index, fault.to_string()))?;
            out.push(&number)
        }
    }
}

fn value_type(kind: TextKind) -> ValueType {
    match kind {
        TextKind::String => ValueType::String,
        TextKind::Number => ValueType::Number,
        TextKind::Boolean => ValueType::Boolean,
    }
}

fn document(
    engine: &Engine,
    direction: CallDirection,
    options: &OperationOptions,
    json: &[u8],
    check: StepCheck<'_>,
) -> Result<Done, CallFault> {
    match direction {
        CallDirection::Encrypt => {
            let rewriter = engine.encryptor(&Caller::Owner, &options.engine_encrypt()?)?;
            rewrite(engine, rewriter, options, json, check)
        }
        CallDirection::Decrypt => {
            let rewriter = engine.decryptor(&Caller::Owner, &options.engine_decrypt()?)?;
            rewrite(engine, rewriter, options, json, check)
        }
    }
}

fn rewrite<R: Rewriter>(
    engine: &Engine,
    rewriter: R,
    options: &OperationOptions,
    json: &[u8],
    check: StepCheck<'_>,
) -> Result<Done, CallFault> {
    let selection = selection(engine, options)?;
    let mut out = Vec::with_capacity(json.len());
    let report = append(engine, rewriter, (selection.as_ref(), options.is_strict()), json, &mut out, check)?;
    Ok(Done { output: WorkOutput::Document(out), report })
}

/// Appends the document that `json` becomes.
fn append<R: Rewriter>(
    engine: &Engine,
    rewriter: R,
    (selection, strict): (Option<&Selection>, bool),
    json: &[u8],
    out: &mut Vec<u8>,
    check: StepCheck<'_>,
) -> Result<WorkReport, CallFault> {
    let work = engine.rewrite_document(rewriter, selection, json.len())?;
    let mut work: DocumentWork<R> = work.strict(strict);
    while work.step(json, out)? == Progress::More {
        check()?;
    }
    let report = work.report();
    Ok(WorkReport {
        count: Some(work.count()),
        matched: report.matched,
        resealed: report.resealed,
        skipped: report.skipped,
        rewrapped: report.rewrapped,
        symmetric: report.symmetric,
        failed: report.failed,
        failed_paths: report.failures.into_iter().map(|failure| failure.path).collect(),
        failed_indexes: Vec::new(),
    })
}

/// The documents of a chunk that begins with row `first`, each a request of its own.
fn documents(
    engine: &Engine,
    work: &CallWork,
    selection: Option<&Selection>,
    column: &Column,
    first: usize,
    check: StepCheck<'_>,
) -> Result<ValueList, CallFault> {
    let mut out = Draft::with_capacity(column.len());
    let (options, contexts) = (work.options(), work.contexts(first));
    for row in 0..column.len() {
        check()?;
        let Scalar::Str(json) = column.scalar(row) else {
            out.push(&Scalar::Nil)?;
            continue;
        };
        let (start, json, how) = (out.text.len(), json.as_bytes(), (selection, options.is_strict()));
        let context = contexts.map(|contexts| contexts.get(row));
        let appended = match work.direction {
            CallDirection::Encrypt => engine
                .encryptor(&Caller::Owner, &bound_encrypt(options.engine_encrypt()?, context))
                .map_err(CallFault::from)
                .and_then(|rewriter| append(engine, rewriter, how, json, &mut out.text, check)),
            CallDirection::Decrypt => engine
                .decryptor(&Caller::Owner, &bound_decrypt(options.engine_decrypt()?, context))
                .map_err(CallFault::from)
                .and_then(|rewriter| append(engine, rewriter, how, json, &mut out.text, check)),
        };
        appended.map_err(|fault| fault.in_row(first + row))?;
        let size = u32::try_from(out.text.len() - start).map_err(|_| too_long(first + row))?;
        out.cells.push(ListCell::Text { start, size });
    }
    Ok(out.finish())
}

/// The options of a document with a context of its own.
fn bound_encrypt<'a>(options: EncryptOptions<'a>, context: Option<&'a str>) -> EncryptOptions<'a> {
    EncryptOptions { context: context.or(options.context), ..options }
}

/// The same for decryption.
fn bound_decrypt<'a>(options: DecryptOptions<'a>, context: Option<&'a str>) -> DecryptOptions<'a> {
    DecryptOptions { context: context.or(options.context), ..options }
}

fn selection(engine: &Engine, options: &OperationOptions) -> Result<Option<Selection>, CallFault> {
    let Some(select) = &options.select else { return Ok(None) };
    let mut builder = engine.selection_builder().other_case(options.engine_other_case());
    for selector in select {
        builder.add(selector).map_err(|error| CallFault::from(leafseal_engine::Error::from(error)))?;
    }
    Ok(Some(builder.finish()))
}

fn inspect(
    engine: &Engine,
    options: &OperationOptions,
    envelopes: &[String],
    check: StepCheck<'_>,
) -> Result<Done, CallFault> {
    let inspector = engine.inspector(&Caller::Owner, options.app.as_deref())?;
    let mut inspector = inspector.with(&leafseal_service::inspect_options(&options.wire_inspect()))?;
    let mut inspected = Vec::with_capacity(envelopes.len());
    for (index, envelope) in envelopes.iter().enumerate() {
        loop {
            check()?;
            let facts = inspector.inspect(envelope.as_bytes());
            if let Some(facts) = facts.map_err(|error| CallFault::from(error.at_index(index as u64)))? {
                inspected.push(inspection(facts));
                break;
            }
        }
    }
    Ok(Done { output: WorkOutput::Inspected(inspected), report: WorkReport::default() })
}

/// The form that the client returns.
fn inspection(facts: EnvelopeMetadata) -> Inspection {
    Inspection {
        scheme: Some(match facts.scheme {
            Scheme::PublicKey => wire::Scheme::PublicKey,
            Scheme::Symmetric => wire::Scheme::Symmetric,
        }),
        version: facts.version.to_owned(),
        curve: facts.curve.map(|curve| match curve {
            Curve::P256 => wire::Curve::R1,
            Curve::Secp256k1 => wire::Curve::K1,
        }),
        kind: match facts.value_type {
            ValueType::String => TextKind::String,
            ValueType::Number => TextKind::Number,
            ValueType::Boolean => TextKind::Boolean,
        },
        debug: facts.marking == Marking::Debug,
        ephemeral: facts.ephemeral.map(|ephemeral| ephemeral.to_vec()),
        symmetric_key_id: facts.key_id.map(|id| id.0.to_vec()),
        from_public_key: facts.is_from_public_key.then_some(true),
        role: facts.role,
        origin: facts.origin.map(u64::from),
        encrypted_at: facts.encrypted_at.map(u64::from),
        key_version: facts.key_version.map(u64::from),
        unopened: facts.is_unopened.then_some(true),
    }
}
