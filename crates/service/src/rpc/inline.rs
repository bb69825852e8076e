//! Which requests may run on the network thread that has read them: values, or all values of a document, to encrypt or decrypt, whose grant
//! and app are in the caches, and whose keys need no agreement.

use std::time::Duration;

use leafseal_engine::pool::hand_over;
use leafseal_engine::{Engine, request_work, values_work};
use leafseal_protocol::{EncryptOptions, ErrorCode, ErrorObject};

use super::call::ParsedCall;
use super::span::BoundList;

/// Longest message in bytes: to find an option behind a list reads the head of each value, which may have a byte.
const MESSAGE_SIZE_MAX: usize = 16 << 10;

/// The counted work of a request, except that of its values. Messages that may have long values, or very many, are left to workers.
pub(super) fn reading(engine: &Engine, size: usize) -> Option<Duration> {
    (size <= engine.settings().step_bytes_max.min(MESSAGE_SIZE_MAX)).then(|| request_work(size))
}

/// What is left of that when its parameters are read. A caller that acts for an API key is looked up in the store; selectors, and paths to
/// contexts, are not counted.
pub(super) fn beginning(call: &ParsedCall<'_>) -> Option<Duration> {
    let is_counted = match call {
        ParsedCall::Encrypt(params) => !opens(&params.options),
        ParsedCall::Decrypt(params) => params.options.key_id.is_none(),
        ParsedCall::EncryptDocument(params) => {
            params.select.is_none() && params.options.context_select.is_none() && !opens(&params.options)
        }
        ParsedCall::DecryptDocument(params) => {
            params.select.is_none() && params.options.context_select.is_none() && params.options.key_id.is_none()
        }
        _ => false,
    };
    is_counted.then_some(Duration::ZERO)
}

/// Whether a request that encrypts opens envelopes.
fn opens(options: &EncryptOptions<'_>) -> bool {
    options.skip_sealed || options.reseal.is_some()
}

/// The counted work of the values of such a request, all bound to a context of `context_size` bytes. Values with contexts of their own are
/// left to workers.
pub(super) fn values(list: BoundList<'_>, context_size: usize) -> Option<Duration> {
    let BoundList { values, contexts } = list;
    contexts.is_none().then(|| values_work(values.count().into(), values.size(), context_size))
}

/// The end of a step that lacks a key, of which nothing but its output is left: a worker repeats it.
pub(super) fn handed_over() -> ErrorObject {
    hand_over();
    ErrorObject::new(ErrorCode::Unavailable, "the request continues on a worker")
}
