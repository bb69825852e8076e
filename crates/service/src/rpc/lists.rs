//! `rewrap` and `inspect`, for lists of envelopes.

use std::sync::Arc;

use leafseal_engine::{Caller, Engine, InspectOptions, Inspector, LongRewrap, RewrapOptions, RewrappedText, Rewrapper};
use leafseal_protocol::answer::OpenRewrap;
use leafseal_protocol::{ErrorObject, InspectParams, Inspection, RewrapParams, Scalar, answer, write};

use super::FailureObserver;
use super::call::OwnedCall;
use super::convert;
use super::failures::FailureLog;
use super::list::{ListMethod, ListWork};
use super::long::Long;
use super::span::{BoundList, Span};

impl ListWork<Rewrapper> {
    pub(super) fn rewrap(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &RewrapParams<'_>),
        log: &Arc<dyn FailureObserver>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let has_contexts = params.contexts.is_some();
        let options = RewrapOptions { has_contexts, ..convert::rewrap_options(&params.options) };
        let rewrapper = engine.rewrapper(caller, &options).map_err(convert::error)?;
        let answer = OpenRewrap::begin(id, params.values.count(), out);
        let failures = FailureLog::of(options.on_failure, log, caller);
        Ok(ListWork::begin(engine, call, rewrapper, Ending { answer: Some(answer), failures }))
    }
}

/// The data for the end of a list of rewrapped envelopes.
pub(super) struct Ending {
    answer: Option<OpenRewrap>,
    failures: FailureLog,
}

impl ListMethod for Rewrapper {
    type Long = Long<LongRewrap>;
    type Ending = Ending;

    fn list(call: &OwnedCall) -> BoundList<'_> {
        let params = call.rewrap();
        BoundList { values: params.values, contexts: params.contexts }
    }

    fn part_values_max(&self) -> usize {
        Rewrapper::part_values_max(self)
    }

    fn fork(&mut self) -> Result<Self, ErrorObject> {
        Ok(Rewrapper::fork(self))
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
            None => rewrap(self, list, span, out),
        }
    }

    fn end(
        &mut self,
        ending: &mut Ending,
        call: &OwnedCall,
        count: u64,
        head: Option<&mut Vec<u8>>,
        tail: &mut Vec<u8>,
    ) {
        let report = self.report();
        let indexes = ending.failures.ended(call, &report);
        let report = convert::list_report(&report, &indexes, ending.failures.is_wanted());
        let answer = ending.answer.take().expect("an answer ends once");
        match head {
            Some(head) => answer.finish_at(count, &report, head, tail),
            None => answer.finish(count, &report, tail),
        }
    }
}

/// Processes as many envelopes as fit into a step; returns how many of them were rewrapped.
fn rewrap(
    rewrapper: &mut Rewrapper,
    list: BoundList<'_>,
    span: &mut Span,
    out: &mut Vec<u8>,
) -> Result<u64, ErrorObject> {
    let texts = span.read_texts(list, rewrapper.part_values_max())?;
    let own = span.own(list, texts.len())?;
    let texts = &texts[..own.as_ref().map_or(texts.len(), Vec::len)];
    let bytes: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    let (first, mut count, mut failed) = (span.index(), 0, Vec::new());
    let done = rewrapper.rewrap_bound(&bytes, own.as_deref(), |index, rewrapped| {
        match rewrapped {
            RewrappedText::New(envelope) => {
                count += 1;
                write::string_header(envelope.len(), out);
                return out.extend_from_slice(envelope);
            }
            RewrappedText::Unchanged => {}
            RewrappedText::Failed => failed.push(first + index as u64),
        }
        write::scalar(&Scalar::Str(texts[index]), out);
    });
    failed.into_iter().for_each(|index| rewrapper.note_failure(index, String::new));
    let done = done.map_err(|error| convert::error_from(error, first))?;
    span.skip(list, done)?;
    Ok(count)
}

impl ListWork<Inspector> {
    pub(super) fn inspect(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        (call, params): (&Arc<OwnedCall>, &InspectParams<'_>),
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let has_contexts = params.contexts.is_some();
        let options = InspectOptions { has_contexts, ..convert::inspect_options(&params.options) };
        let inspector = engine.inspector(caller, params.app).and_then(|inspector| inspector.with(&options));
        let inspector = inspector.map_err(convert::error)?;
        answer::begin_inspect(id, params.values.count(), out);
        Ok(ListWork::begin(engine, call, inspector, ()))
    }
}

impl ListMethod for Inspector {
    type Long = ();
    type Ending = ();

    fn list(call: &OwnedCall) -> BoundList<'_> {
        let params = call.inspect();
        BoundList { values: params.values, contexts: params.contexts }
    }

    fn part_values_max(&self) -> usize {
        Inspector::part_values_max(self)
    }

    fn fork(&mut self) -> Result<Self, ErrorObject> {
        Ok(Inspector::fork(self))
    }

    /// Inspection replaces nothing.
    fn advance(
        &mut self,
        list: BoundList<'_>,
        span: &mut Span,
        (): &mut (),
        out: &mut Vec<u8>,
    ) -> Result<u64, ErrorObject> {
        inspect(self, list, span, out).map(|()| 0)
    }

    fn end(&mut self, (): &mut (), _: &OwnedCall, _: u64, _: Option<&mut Vec<u8>>, _: &mut Vec<u8>) {}
}

/// Processes one envelope, which costs the check of a point or a key agreement, or a piece of a long one.
fn inspect(
    inspector: &mut Inspector,
    list: BoundList<'_>,
    span: &mut Span,
    out: &mut Vec<u8>,
) -> Result<(), ErrorObject> {
    if let Some(string) = span.long_string(list) {
        // An envelope is ASCII: other text is not inspected further.
        if write_metadata(inspector, (list, span), string.bytes, out)? {
            span.pass(list, &string)?;
        }
    } else if let Some(text) = span.read_texts(list, 1)?.first()
        && write_metadata(inspector, (list, span), text.as_bytes(), out)?
    {
        span.skip(list, 1)?;
    }
    Ok(())
}

/// Writes the metadata of the next envelope; returns whether that needed no further step.
fn write_metadata(
    inspector: &mut Inspector,
    (list, span): (BoundList<'_>, &Span),
    text: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, ErrorObject> {
    let own = span.own(list, 1)?;
    let inspected = inspector.inspect_bound(text, own.as_deref());
    let inspected = inspected.map_err(|error| convert::error(error).at_index(span.index()))?;
    let Some(inspected) = inspected else { return Ok(false) };
    let reported = Inspection {
        scheme: Some(convert::wire_scheme(inspected.scheme)),
        version: inspected.version.to_owned(),
        curve: inspected.curve.map(convert::wire_curve),
        kind: convert::text_kind(inspected.value_type),
        debug: inspected.marking == leafseal_engine::Marking::Debug,
        ephemeral: inspected.ephemeral.map(|ephemeral| ephemeral.to_vec()),
        symmetric_key_id: inspected.key_id.map(|id| id.0.to_vec()),
        from_public_key: inspected.is_from_public_key.then_some(true),
        role: inspected.role,
        origin: inspected.origin.map(u64::from),
        encrypted_at: inspected.encrypted_at.map(u64::from),
        key_version: inspected.key_version.map(u64::from),
        unopened: inspected.is_unopened.then_some(true),
    };
    answer::inspected(&reported, out);
    Ok(true)
}
