//! Processes lists of values, for any method: a stretch of the list, which one worker processes, and the whole list.

use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::Engine;
use leafseal_protocol::ErrorObject;

use super::call::OwnedCall;
use super::span::{BoundList, Span};
use crate::work::{PartStep, PlannedRequest, RequestPart, RequestStep, RequestWork, WrittenOutput};

/// A method's operation on each value of a list.
pub(super) trait ListMethod: Send + Sized + 'static {
    /// The state of a long value between two steps.
    type Long: Default + Send;

    /// The data for the end of the answer.
    type Ending: Send;

    /// The list in the parameters of the method.
    fn list(call: &OwnedCall) -> BoundList<'_>;

    /// Maximum number of values of a part.
    fn part_values_max(&self) -> usize;

    /// The counted work of a call's list that may be processed on the thread that submits the request.
    fn counted_work(_: &OwnedCall) -> Option<Duration> {
        None
    }

    /// Creates a copy for another worker.
    ///
    /// # Errors
    /// The request's answer.
    fn fork(&mut self) -> Result<Self, ErrorObject>;

    /// Processes as many values as fit into a step, or a piece of a long one. Returns how many of them were replaced.
    ///
    /// # Errors
    /// The request's answer, with the index of the value in the list.
    fn advance(
        &mut self,
        list: BoundList<'_>,
        span: &mut Span,
        long: &mut Self::Long,
        out: &mut Vec<u8>,
    ) -> Result<u64, ErrorObject>;

    /// Ends the answer, in which `count` values were replaced. `head` is set if the answer continues in buffers other than its first one.
    fn end(
        &mut self,
        ending: &mut Self::Ending,
        call: &OwnedCall,
        count: u64,
        head: Option<&mut Vec<u8>>,
        tail: &mut Vec<u8>,
    );
}

/// A stretch of a list, and its progress.
struct ListStretch<M: ListMethod> {
    call: Arc<OwnedCall>,
    method: M,
    span: Span,
    long: M::Long,
    /// The number of replaced values.
    count: u64,
}

/// A list that is being processed.
pub(super) struct ListWork<M: ListMethod> {
    rest: ListStretch<M>,
    ending: M::Ending,
}

impl<M: ListMethod> ListStretch<M> {
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        let list = M::list(&self.call);
        self.count += self.method.advance(list, &mut self.span, &mut self.long, out)?;
        Ok(self.span.progress())
    }
}

impl<M: ListMethod> ListWork<M> {
    pub(super) fn begin(engine: &Engine, call: &Arc<OwnedCall>, method: M, ending: M::Ending) -> Self {
        let span = Span::whole(M::list(call), engine.settings().step_bytes_max);
        let rest = ListStretch { call: Arc::clone(call), method, span, long: M::Long::default(), count: 0 };
        ListWork { rest, ending }
    }

    fn end(&mut self, count: u64, head: Option<&mut Vec<u8>>, tail: &mut Vec<u8>) {
        let ListStretch { call, method, .. } = &mut self.rest;
        method.end(&mut self.ending, call, count, head, tail);
    }
}

impl<M: ListMethod> RequestWork for ListWork<M> {
    fn counted_work(&self) -> Option<Duration> {
        M::counted_work(&self.rest.call)
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        match self.rest.advance(out)? {
            // The request spreads; only the service's limit applies to its answer.
            PartStep::More => Ok(RequestStep::Spread { answer_size_max: usize::MAX }),
            PartStep::Done => {
                self.end(self.rest.count, None, out);
                Ok(RequestStep::Done)
            }
        }
    }

    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        let ListStretch { call, method, span, long, .. } = &mut self.rest;
        let forked = method.fork()?;
        let cut = span.cut(M::list(call), forked.part_values_max())?;
        // A long value that has been started is the first of the part.
        let long = std::mem::take(long);
        let part = Box::new(ListStretch { call: Arc::clone(call), method: forked, span: cut, long, count: 0 });
        Ok(if span.is_done() { PlannedRequest::Last(part) } else { PlannedRequest::Part(part) })
    }

    fn step_unplanned(&mut self, out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        Some(self.rest.advance(out))
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: WrittenOutput, tail: &mut Vec<u8>) {
        self.end(written.fields, Some(head), tail);
    }

    fn fields(&self) -> u64 {
        self.rest.count
    }
}

impl<M: ListMethod> RequestPart for ListStretch<M> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        self.advance(out)
    }

    fn fields(&self) -> u64 {
        self.count
    }
}
