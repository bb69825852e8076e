//! Requests to the engine as jobs of its pool.
//!
//! A [`Service`] creates a [`Request`] from each frame, which reads the parameters and begins the [`RequestWork`]. A [`RequestJob`] runs
//! both in steps on the workers, the work of a large request on several at once. The output is passed to a [`AnswerReceiver`], once, with
//! its
//! share of the memory for answers. [`EngineService`] implements the protocol's methods over the engine, [`api`] the calls of the HTTPS
//! API.
//!
//! Guarantees: no step takes much longer than some tens of microseconds; every request is answered exactly once; memory of answers is
//! charged before it is allocated. There are no sockets, runtime or TLS here: workers compute, and never wait for a network.

pub mod api;
mod gathering;
mod interface;
mod job;
mod memory;
mod reply;
mod rope;
mod rpc;
mod sealed_record;
mod work;

pub use gathering::gather;
pub use interface::{PeerIdentity, RefusedCaller, Service, Tenant};
pub use job::{RequestJob, SLICE_TIME};
pub use memory::{Exhausted, MemoryBudget, Share};
pub use reply::{AnswerReceiver, Answered, Effort, Reply};
pub use rope::{FREED_BUFFERS_MAX, MERGE_SIZE_MAX, Rope};
pub use rpc::convert::{
    accept, decrypt_options, encrypt_options, error as error_object, inspect_options, other_case, rewrap_options,
};
pub use rpc::{EngineService, FailureObserver, UnsealRules};
pub use sealed_record::{RecordFault, RecordReport, RecordRules, VerifiedRecord, VerifyError, verify_records};
pub use work::{
    BegunRequest, PartStep, PlannedRequest, Request, RequestPart, RequestStage, RequestStep, RequestWork, WrittenOutput,
};
