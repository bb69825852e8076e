//! The table of codes. A code that one interface has keeps its name and its meaning in every other.
//!
//! Each entry: meaning, variant, name, side, retry advice, HTTP status, interfaces, remedy. `docs/errors.md` shows meaning and remedy,
//! whose links are relative to `docs`. The status is that of a request at fault; the relay answers 502 where a response of the upstream
//! is. Codes that no HTTP interface returns have the status that a gateway in front of an RPC client would use.

use std::fmt;

use crate::words::{Interface, Retry, Side};

macro_rules! codes {
    ($(#[doc = $about:literal] $variant:ident $name:literal $side:ident $retry:ident $status:literal [$($interface:ident)+]
        $remedy:literal;)+) => {
        /// The stable codes of errors. New ones may join in a later version; none changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $about] $variant),+
        }

        impl ErrorCode {
            /// Every code, of all interfaces.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),+];

            /// The name for programs, in `snake_case`.
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name),+ }
            }

            /// The reverse of [`ErrorCode::as_str`].
            pub fn parse(name: &str) -> Option<ErrorCode> {
                match name { $($name => Some(ErrorCode::$variant),)+ _ => None }
            }

            /// The side at fault.
            pub const fn side(self) -> Side {
                match self { $(ErrorCode::$variant => Side::$side),+ }
            }

            /// The retry advice that goes with the code.
            pub const fn retry(self) -> Retry {
                match self { $(ErrorCode::$variant => Retry::$retry),+ }
            }

            /// The HTTP status that goes with the code.
            pub const fn status(self) -> u16 {
                match self { $(ErrorCode::$variant => $status),+ }
            }

            /// The interfaces that return the code.
            pub const fn interfaces(self) -> &'static [Interface] {
                match self { $(ErrorCode::$variant => &[$(Interface::$interface),+]),+ }
            }

            /// The meaning, in one sentence.
            pub fn about(self) -> &'static str {
                match self { $(ErrorCode::$variant => $about.trim_ascii()),+ }
            }

            /// The remedy, in Markdown; empty if the meaning states it.
            pub const fn remedy(self) -> &'static str {
                match self { $(ErrorCode::$variant => $remedy),+ }
            }
        }
    };
}

codes! {
    /// The bytes are not MessagePack or exceed a structural limit; the connection closes.
    InvalidFrame "invalid_frame" Caller Never 400 [Rpc]
        "A fault of the client library: compare with [the protocol](protocol.md).";
    /// The message does not follow the protocol: MessagePack-RPC, or the framing, host or target of HTTP.
    InvalidRequest "invalid_request" Caller Never 400 [Rpc Relay]
        "A fault of the client library, or of a proxy before the relay: compare with [the protocol](protocol.md).";
    /// The engine has no such method.
    UnknownMethod "unknown_method" Caller Never 404 [Rpc]
        "A misspelt name, or an engine that is older than its client.";
    /// A field, option or argument is unknown, missing, duplicated, of the wrong type or out of range.
    InvalidParams "invalid_params" Caller Never 400 [Rpc Api Client]
        "The message names it. A client that finds it sends nothing.";
    /// The document or body is not what its type says: invalid JSON, a broken form, a damaged coding, too many levels.
    InvalidDocument "invalid_document" Caller Never 400 [Rpc Api Relay]
        "The byte is given. Levels are limited by `document.depth_max`.";
    /// A selector is not a valid JSONPath.
    InvalidSelector "invalid_selector" Caller Never 400 [Rpc Api]
        "The byte is given. See [selectors](format.md).";
    /// A selector matched nothing in the document, or in a line of it, and each had to match.
    UnmatchedSelector "unmatched_selector" Caller Never 422 [Rpc Api Relay]
        "With `strict`, or under a rule with `require_match`: usually a misspelt path, or another version or shape of the document.";
    /// A name, or a compared value, that some parsers read as another one, or that occurs twice.
    AmbiguousName "ambiguous_name" Caller Never 400 [Rpc Api Relay]
        "See `other_case` and `unambiguous`, and for the relay [names](relay.md#names-that-upstreams-treat-as-equal).";
    /// `context_select` leads to no context for a selected value, to neither a string nor an integer, or to a value that is selected.
    InvalidContext "invalid_context" Caller Never 422 [Rpc Api Relay]
        "The byte is given. Add the member to an object around the value, or select only values that have one.";
    /// A string or file is not an envelope, or not of a known version.
    InvalidEnvelope "invalid_envelope" Data Never 422 [Rpc Api Relay]
        "If anyone can write this field, set `on_failure`.";
    /// An envelope did not open: forged, damaged, of another app's key or of a disabled or trimmed key version.
    DecryptFailed "decrypt_failed" Data Never 422 [Rpc Api Relay]
        "There is one code for all causes, on purpose. `leafseal inspect --app` shows whether a key version fits.";
    /// A decrypted number is beyond what MessagePack can carry.
    NumberOutOfRange "number_out_of_range" Data Never 422 [Rpc Relay]
        "Use `decrypt_document`.";
    /// The engine has no such app.
    UnknownApp "unknown_app" Permission Never 404 [Rpc Api]
        "`leafseal keys list`, `keys create`.";
    /// The app is disabled.
    AppDisabled "app_disabled" Permission Never 403 [Rpc Api]
        "`leafseal keys list`, `keys enable`.";
    /// The caller may not use this app, operation or role.
    Forbidden "forbidden" Permission Never 403 [Rpc Api Relay]
        "`leafseal certs list`, `leafseal api-keys list`.";
    /// No room is left: in the queue, for frames that arrive, for answers, or for look-ups in the keystore.
    Overloaded "overloaded" Temporary Later 503 [Rpc Api Relay]
        "Add engines or cores, or find the app that floods. Limits are settings, such as `engine.store_queue_max`.";
    /// The deadline passed before the work was done.
    DeadlineExceeded "deadline_exceeded" Temporary Later 504 [Rpc Api Client]
        "Not finished within `deadline_ms`, `api.call_timeout` or the timeout of the client.";
    /// The caller cancelled the request, and the engine was asked to stop.
    Cancelled "cancelled" Temporary Never 499 [Rpc Client]
        "";
    /// The frame, document, body, list, path or answer exceeds a size limit.
    TooLarge "too_large" Caller Never 413 [Rpc Api Relay Client Browser]
        "Raise the limit that the message names, or send less at a time. Also if a request has tried more key versions than \
         `engine.request_key_trials_max` on values that they do not open.";
    /// The engine is shutting down, unreachable, or lost its keystore.
    Unavailable "unavailable" Temporary Elsewhere 503 [Rpc Api Relay]
        "Use another engine. Also if the keystore has not answered within `engine.store_wait_max`.";
    /// The audit log takes no records, and this answer must not leave without one.
    AuditUnavailable "audit_unavailable" Temporary Elsewhere 503 [Rpc Api Relay]
        "Use another engine. On this one, `/readyz` has the reason, usually a full disk. With `audit.wait = \"decrypt\"` it goes on to \
         encrypt: see [the audit log](guides/audit.md#when-the-disk-refuses).";
    /// A fault of Leafseal.
    Internal "internal" Service Later 500 [Rpc Api Relay Client]
        "The log has the details: report it.";

    /// The API has no such call.
    NotFound "not_found" Caller Never 404 [Api]
        "See [the calls](api.md#calls).";
    /// The call does not accept this HTTP method.
    MethodNotAllowed "method_not_allowed" Caller Never 405 [Api]
        "`Allow` lists the methods. See [the calls](api.md#calls).";
    /// The body has a type or coding that the call, or a rule of the route, does not read.
    UnsupportedMediaType "unsupported_media_type" Caller Never 415 [Api Relay]
        "Send JSON, or for the relay a type that a rule of the route reads, in gzip, br or zstd: see [types](relay.md#types-of-bodies).";
    /// The body arrives too slowly.
    SlowBody "slow_body" Caller Never 408 [Api Relay]
        "A network problem of the client; or raise `api.body_timeout`, and for the relay `body_timeout` or `buffered_body_timeout`.";
    /// The API key or token is missing, wrong, revoked or expired, or belongs to another app.
    Unauthorized "unauthorized" Permission Never 401 [Api Relay]
        "`leafseal api-keys list`. The relay's outbound listener answers 407.";

    /// The upstream could read the path as one that a rule hides.
    AmbiguousPath "ambiguous_path" Caller Never 400 [Relay]
        "Write it as the route does, or set `other_case`.";
    /// The upstream could read a header field as one that a rule hides.
    AmbiguousHeader "ambiguous_header" Caller Never 400 [Relay]
        "Leave the field out, or set `other_case`.";
    /// Finding the route takes too many steps: the path is long, or can be read in many ways.
    PathTooLong "path_too_long" Caller Never 414 [Relay]
        "Raise `routing_steps_max`.";
    /// The client disconnected before the body of its request was complete.
    ClientBroke "client_broke" Caller Never 400 [Relay]
        "";
    /// No route matches the path.
    NoRoute "no_route" Caller Never 404 [Relay]
        "`unmatched` is `refuse`: list the path.";
    /// An outbound listener is used without `CONNECT`.
    ConnectFirst "connect_first" Caller Never 405 [Relay]
        "Set the relay as the proxy for HTTPS.";
    /// `CONNECT` on an inbound listener.
    NoTunnel "no_tunnel" Caller Never 405 [Relay]
        "Use an outbound listener.";
    /// The request is for a host or port other than the tunnel's.
    Misdirected "misdirected" Caller Never 421 [Relay]
        "A fault of the HTTP client: open a tunnel for each destination.";
    /// The value has a role that the rule or the API key does not allow.
    WrongRole "wrong_role" Data Never 422 [Relay]
        "Compare the `role` of the rule with `leafseal inspect`.";
    /// The destination is not listed in the configuration of the relay.
    UnlistedDestination "unlisted_destination" Permission Never 403 [Relay]
        "Add an `[[outbound.destination]]`, or set `unlisted`.";
    /// The address of the destination is internal.
    InternalDestination "internal_destination" Permission Never 403 [Relay]
        "List the destination, or set `unlisted_internal`.";
    /// The relay's own client certificate lacks the permission, or the app is unknown or disabled.
    NotGranted "not_granted" Service Never 500 [Relay]
        "`leafseal certs issue relay --app … --allow …`.";
    /// The engine does not support what a rule needs.
    Misconfigured "misconfigured" Service Never 500 [Relay]
        "Upgrade engines before relays.";
    /// No certificate can be issued for the destination.
    NoCertificate "no_certificate" Service Never 500 [Relay]
        "Check `ca_certificate` and `ca_private_key`.";
    /// The relay reached a limit of memory or connections.
    RelayOverloaded "relay_overloaded" Temporary Later 503 [Relay]
        "`bodies_size_max`, `client_bodies_size_max`, or `connections_max` of an upstream.";
    /// The relay has no connection to an engine yet.
    Starting "starting" Temporary Later 503 [Relay]
        "";
    /// The upstream cannot be reached.
    UpstreamUnreachable "upstream_unreachable" Upstream Later 502 [Relay]
        "";
    /// The upstream takes too long. It may have processed the request.
    UpstreamTimeout "upstream_timeout" Upstream Never 504 [Relay]
        "Repeat only idempotent requests.";
    /// The upstream sent an invalid or incomplete response.
    UpstreamBroke "upstream_broke" Upstream Never 502 [Relay]
        "";
    /// The upstream's certificate does not verify.
    UpstreamCertificate "upstream_certificate" Upstream Never 502 [Relay]
        "It expired, has another name, or an authority that `upstream.authorities` lacks.";
    /// The upstream has processed the request, but its response could not be protected or forwarded.
    AnswerLost "answer_lost" Temporary Never 502 [Relay]
        "Repeat only idempotent requests.";
    /// A response ended early. Only in metrics and the access log.
    AnswerBroke "answer_broke" Upstream Never 502 [Relay]
        "";
    /// A field was removed from trailers. Only in metrics.
    HiddenTrailer "hidden_trailer" Upstream Never 502 [Relay]
        "";

    /// A setting, a certificate, a key or a folder cannot be used; nothing was sent.
    InvalidSettings "invalid_settings" Service Never 500 [Client]
        "The message names it.";
    /// No engine could be reached.
    ConnectFailed "connect_failed" Temporary Elsewhere 503 [Client]
        "Check the addresses, and that an engine runs.";
    /// One side did not accept the other's certificate, or they have no version in common.
    TlsFailed "tls_failed" Service Never 500 [Client]
        "Check the certificates on both sides, and the server name.";
    /// The connection ended before the answer arrived. The engine may have processed the request.
    ConnectionLost "connection_lost" Temporary Elsewhere 503 [Client]
        "All methods may be repeated without harm.";
    /// The engine closed the connection before it started the request.
    GoingAway "going_away" Temporary Elsewhere 503 [Client]
        "";
    /// The engine returned an error with a code that the client does not know.
    UnknownError "unknown_error" Service Never 500 [Client]
        "The engine is newer than its client: follow its retry advice.";
    /// The answer cannot be read.
    ProtocolError "protocol_error" Service Elsewhere 500 [Client]
        "A fault of the engine, or of another program at its address.";
    /// More calls, or bytes of calls, wait in the client than its settings allow.
    Busy "busy" Temporary Later 503 [Client]
        "Call less at a time, or raise the limit.";
    /// The answer exceeds the memory that the call allows for it.
    NoMemory "no_memory" Temporary Never 503 [Client]
        "Only with calls that bound the memory of their answers.";
    /// The client is closed.
    Closed "closed" Service Never 500 [Client]
        "";
    /// The engine object belongs to the parent process.
    Forked "forked" Service Never 500 [Client]
        "Create one after the fork.";

    /// An option is invalid, or an argument is of the wrong type.
    InvalidOption "invalid_option" Caller Never 400 [Browser]
        "The message names it.";
    /// A public key is malformed, or is not a point of P-256.
    InvalidKey "invalid_key" Service Never 500 [Browser]
        "Compare it with `leafseal keys public`.";
    /// JSON cannot hold the value at `path`.
    InvalidValue "invalid_value" Caller Never 400 [Browser]
        "";
    /// The engine returned no public key: it is unreachable, its answer is an error, or the origin of the page is not allowed.
    KeyUnavailable "key_unavailable" Temporary Later 503 [Browser]
        "Check the address and `api.cors_origins`.";
    /// The browser has no WebCrypto, or the page is not a secure context.
    Unsupported "unsupported" Service Never 500 [Browser]
        "Serve the page over HTTPS.";
}

impl ErrorCode {
    /// The codes of RPC, which are the first of the table: an array of counters needs no more.
    pub const RPC: &'static [ErrorCode] = ErrorCode::ALL.split_at(ErrorCode::Internal as usize + 1).0;

    /// Whether the document or the values alone can cause it, so that their sender can correct it.
    pub const fn is_caused_by_data(self) -> bool {
        matches!(
            self,
            ErrorCode::InvalidDocument
                | ErrorCode::UnmatchedSelector
                | ErrorCode::AmbiguousName
                | ErrorCode::InvalidContext
                | ErrorCode::InvalidEnvelope
                | ErrorCode::DecryptFailed
                | ErrorCode::NumberOutOfRange
                | ErrorCode::TooLarge
        )
    }

    /// The codes that an interface returns, in the order of the table.
    pub fn of(interface: Interface) -> impl Iterator<Item = ErrorCode> {
        ErrorCode::ALL.iter().copied().filter(move |code| code.interfaces().contains(&interface))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_in_snake_case_and_read_back() {
        for &code in ErrorCode::ALL {
            let name = code.as_str();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(ErrorCode::parse(name), Some(code));
        }
        assert_eq!(ErrorCode::parse("Internal"), None);
    }

    #[test]
    fn the_codes_of_rpc_come_first() {
        assert!(ErrorCode::of(Interface::Rpc).eq(ErrorCode::RPC.iter().copied()));
    }

    #[test]
    fn texts_are_sentences() {
        for &code in ErrorCode::ALL {
            assert!(code.about().ends_with('.') && !code.about().contains('|'), "{code}");
            assert!(code.remedy().is_empty() || code.remedy().ends_with('.'), "{code}");
        }
    }

    #[test]
    fn what_an_upstream_may_have_processed_is_not_to_be_repeated() {
        let repeated =
            ErrorCode::ALL.iter().filter(|code| code.side() == Side::Upstream && code.retry() != Retry::Never);
        // Nothing was sent: the relay has no connection.
        assert_eq!(repeated.collect::<Vec<_>>(), [&ErrorCode::UpstreamUnreachable]);
    }

    #[test]
    fn temporary_errors_of_http_doors_have_a_status_that_says_so() {
        for &code in ErrorCode::ALL {
            let is_http =
                code.interfaces().iter().any(|interface| matches!(interface, Interface::Api | Interface::Relay));
            if is_http && code.status() == 503 {
                assert!(code.retry() != Retry::Never && code.side() == Side::Temporary, "{code}");
            }
            assert!((400..600).contains(&code.status()), "{code}");
        }
    }
}
