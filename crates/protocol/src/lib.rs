//! The wire format between Leafseal's engine and its clients: MessagePack-RPC, as its public specification has it.
//!
//! Bytes in, bytes out. The crate opens no socket, starts no thread and keeps no clock, so that the network runtime,
//! the workers, the client and a simulation can all share it. `docs/protocol.md` describes the same format for people
//! who write a client without this crate; a test holds the two together.
//!
//! The path of a message: [`Scanner`] finds the end of a frame while its bytes arrive and [`FrameBuffer`] stores them until then,
//! [`Message::parse`] splits the frame into its four parts, and `…Params::decode` (server) or `…Result::decode` (client) parses the
//! typed content. Values of users borrow from the frame; lists of them are iterated in place ([`RawValues`]) and never collected.
//! Encoders append to the caller's `Vec<u8>`: [`request`] for clients, [`answer`] for the engine, over [`write`](mod@write).
//!
//! Guarantees: no input panics, allocates by a claimed length, or is scanned twice; errors name the field or index.

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod answer;
mod content;
mod error;
mod field;
mod frames;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod message;
mod method;
mod methods;
mod number;
mod option;
mod options;
mod params;
mod payload;
mod peek;
mod query;
mod raw_params;
mod record;
pub mod request;
mod results;
mod scanner;
mod values;
mod wire;
mod words;
pub mod write;

pub use error::{ContentError, ErrorObject, FieldFault, FrameError, MessageError, MessageFault, RemoteError};
pub use field::{Field, WireType};
pub use frames::{FRAME_PIECE_SIZE, Frame, FrameBuffer, READ_SIZE};
pub use leafseal_errors::{ErrorCode, Interface, Retry};
pub use limits::FrameLimits;
pub use message::{Message, RawParams, RawValue, UnscannedError};
pub use method::{CANCEL, CONNECTION_ERROR, GOING_AWAY, GoingAway, connection_error, decode_cancel};
pub use methods::*;
pub use number::{NumberBuffer, NumberFault};
pub use option::{OptionInfo, OptionKind, OptionScope, OptionValue, OwnedOptions, Surface};
pub use options::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, InspectOptions, RewrapOptions,
};
pub use params::{
    DecryptDocumentParams, DecryptFileParams, DecryptParams, EncryptDocumentParams, EncryptFileParams, EncryptParams,
    InspectParams, RewrapParams,
};
pub use peek::Peek;
pub use query::{InfoResult, QueryInfo, QueryResult, ResultShape};
pub use record::{FieldInfo, FieldKind, RecordInfo, RecordValue, SecretText, WireRecord};
pub use results::{DocumentResult, FileResult, InspectResult, Reported, RewrapResult, ValuesResult};
pub use scanner::Scanner;
pub use values::{RawValues, Scalar, Strings, Text, ValueError, ValueFault, Values, ValuesPosition};
pub use words::{
    AcceptedScheme, Curve, Keying, OnFailure, OtherCase, PathBinding, Reseal, RewrapFailure, Scheme, TextKind, Word,
    WordList, WordSet,
};

/// Version of the protocol that this crate speaks; `info` reports it and the ALPN name carries it.
pub const PROTOCOL_VERSION: u32 = 1;
/// The application protocol that both sides name in the TLS handshake (ALPN, RFC 7301).
pub const ALPN: &[u8] = b"leafseal/1";
/// The list of [`ALPN`] alone in the format of TLS libraries, each name preceded by its length (RFC 7301, section 3.1).
pub const ALPN_LIST: &[u8] = b"\x0aleafseal/1";
/// TCP port the engine listens on unless it is configured otherwise.
pub const PORT: u16 = 3443;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_protocol_contains_the_version_and_is_alone_in_the_list() {
        assert_eq!(ALPN, format!("leafseal/{PROTOCOL_VERSION}").as_bytes());
        assert_eq!(ALPN_LIST.split_first().map(|(size, name)| (usize::from(*size), name)), Some((ALPN.len(), ALPN)));
    }
}
