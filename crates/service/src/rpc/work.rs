//! The common part of all methods: own steps, then parts for large requests.

use std::sync::Arc;

use fieldseal_protocol::ErrorObject;

use super::call::Call;
use crate::interface::{Part, PartStep, Planned, Step, Written};

/// A request spreads; its answer has no limit but the service's.
pub(super) const NOT_LIMITED: Step = Step::Spread { answer_size_max: usize::MAX };

/// A method at work. It holds how far it has come; its parameters stay in the call.
pub(super) trait Work: Send {
    /// As [`crate::Request::step`].
    fn step(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<Step, ErrorObject>;

    /// As [`crate::Request::next_part`].
    fn next_part(&mut self, _call: &Arc<Call>) -> Result<Planned, ErrorObject> {
        Ok(Planned::None)
    }

    /// As [`crate::Request::step_unplanned`].
    fn step_unplanned(&mut self, _call: &Call, _out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        None
    }

    /// As [`crate::Request::finish`].
    fn finish(&mut self, _call: &Call, _head: &mut Vec<u8>, _written: Written, _tail: &mut Vec<u8>) {}

    /// As [`crate::Request::too_large`], where the method has a limit of its own below `answer_size_max`.
    fn too_large(&self, _answer_size_max: usize) -> Option<ErrorObject> {
        None
    }

    /// As [`crate::Request::fields`].
    fn fields(&self) -> u64;

    /// As [`crate::Request::memory`].
    fn memory(&self) -> usize {
        0
    }
}

pub(super) fn part_of(is_last: bool, part: impl Part + 'static) -> Planned {
    match is_last {
        true => Planned::Last(Box::new(part)),
        false => Planned::Part(Box::new(part)),
    }
}
