//! What the network side has done and holds, for operators and tests.

use std::sync::atomic::{AtomicU64, Ordering};

use fieldseal_protocol::ErrorCode;

macro_rules! counters {
    ($($name:ident $what:literal),+ $(,)?) => {
        /// Counters since the start, at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ServerCounters {
            $(#[doc = $what] pub $name: u64,)+
            /// Connections open now, their handshakes done.
            pub connections_open: usize,
            /// Handshakes going on now.
            pub handshakes_open: usize,
            /// Bytes of frames above 64 KiB that are still arriving.
            pub incoming_bytes: usize,
            /// Bytes of answers that are being made, wait to be written, or are being written.
            pub answers_bytes: usize,
            /// The workers' counters.
            pub pool: fieldseal_engine::pool::Counters,
        }

        /// The live counters. Relaxed throughout: nothing is published by them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> ServerCounters {
                ServerCounters {
                    $($name: self.$name.load(Ordering::Relaxed),)+
                    ..ServerCounters::default()
                }
            }
        }
    };
}

counters! {
    connections_accepted "Connections accepted.",
    connections_refused "Connections closed because there were too many, or because their callers could not be looked up.",
    handshakes_failed "Handshakes that failed, a refused certificate included.",
    handshakes_displaced "Handshakes among them that gave way to newer ones.",
    connections_forbidden "Connections whose certificate the service did not know.",
    connections_faulted "Connections that the server ended with `connection_error`.",
    network_bytes_received "Bytes read from sockets, TLS included.",
    network_bytes_sent "Bytes that sockets took, TLS included.",
    requests "Requests read, `health` included.",
    health_checks "Requests for `health`.",
    answers_by_service "Answers that the service wrote, its errors included.",
    fields "Values encrypted, decrypted or rewrapped for answers of the service.",
    answers_cancelled "Requests answered with `cancelled`, or stopped because their connection was gone.",
    answers_late "Requests answered with `deadline_exceeded` by the server.",
    answers_overloaded "Requests answered with `overloaded`.",
    answers_unavailable "Requests answered with `unavailable`, because the server shuts down.",
    answers_internal "Requests answered with `internal`, because the service panicked or wrote no answer.",
    answers_invalid "Requests answered with `invalid_request`, because they were no whole message.",
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        Counters::add_many(counter, 1);
    }

    pub(crate) fn add_many(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts an error that the server itself answers with.
    pub(crate) fn count_error(&self, code: ErrorCode) {
        let counter = match code {
            ErrorCode::Cancelled => &self.answers_cancelled,
            ErrorCode::DeadlineExceeded => &self.answers_late,
            ErrorCode::Overloaded => &self.answers_overloaded,
            ErrorCode::Unavailable => &self.answers_unavailable,
            ErrorCode::Internal => &self.answers_internal,
            _ => &self.answers_invalid,
        };
        Counters::add(counter);
    }
}
