//! The methods by name, and the notifications: `cancel` to the engine, `connection_error` and `going_away` from it.

use crate::content::{Entries, Unknown, remote_error};
use leafseal_errors::ErrorCode;

use crate::error::{ContentError, ErrorObject, RemoteError, ShownName};
use crate::message::RawParams;
use crate::methods::Method;
use crate::wire::ValueHead;

/// Name of the notification that requests the engine to stop a request; its parameters are the request's id.
pub const CANCEL: &str = "cancel";
/// Name of the notification that the engine sends before it closes a connection that cannot go on, so that the peer
/// learns why although no request's id could be read; its parameter is an error object.
pub const CONNECTION_ERROR: &str = "connection_error";
/// Name of the notification that the engine sends before it closes a connection in good order; its parameter is a
/// [`GoingAway`].
pub const GOING_AWAY: &str = "going_away";

impl Method {
    /// The method of that name, or the error to answer with.
    ///
    /// # Errors
    /// `unknown_method`.
    pub fn require(name: &str) -> Result<Method, ErrorObject> {
        Method::parse(name).ok_or_else(|| {
            let shown = ShownName::of(name.as_bytes());
            ErrorObject::new(ErrorCode::UnknownMethod, format!("unknown method{shown}"))
        })
    }
}

/// Reads the parameters of `cancel`: the id of the request to stop.
///
/// # Errors
/// When they are not exactly one integer from 0 to 2^32 − 1.
pub fn decode_cancel(params: RawParams<'_>) -> Result<u32, ContentError> {
    let mut reader = params.reader();
    match reader.head()? {
        ValueHead::Unsigned(id) if params.count() == 1 => u32::try_from(id).map_err(|_| ContentError::ParamsNotOneId),
        _ => Err(ContentError::ParamsNotOneId),
    }
}

/// Reads the parameters of `connection_error`.
///
/// # Errors
/// When they are not exactly one error object.
pub fn connection_error(params: RawParams<'_>) -> Result<RemoteError<'_>, ContentError> {
    remote_error(Entries::of_params(params, crate::content::ERROR_FIELDS, Unknown::Skip)?)
}

/// Why, and how far, the engine leaves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoingAway {
    /// The engine shuts down: new requests belong on a connection to another engine.
    Shutdown,
    /// The connection has reached its age: new requests belong on a new connection.
    Age,
    /// The engine reads no further. Every request that it has read is answered; it has not begun any other.
    Closed,
}

impl GoingAway {
    /// Every reason.
    pub const ALL: &'static [GoingAway] = &[GoingAway::Shutdown, GoingAway::Age, GoingAway::Closed];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            GoingAway::Shutdown => "shutdown",
            GoingAway::Age => "age",
            GoingAway::Closed => "closed",
        }
    }

    /// Reads the parameters of `going_away`. A word of a newer engine, or none, means [`GoingAway::Age`], which promises the least.
    pub fn decode(params: RawParams<'_>) -> GoingAway {
        let mut reader = params.reader();
        let word = match reader.head() {
            Ok(ValueHead::String(size)) if params.count() > 0 => reader.take(size).ok(),
            _ => None,
        };
        let known = |reason: &&GoingAway| word == Some(reason.as_str().as_bytes());
        GoingAway::ALL.iter().find(known).copied().unwrap_or(GoingAway::Age)
    }
}
