//! Counters and gauges of the network side, for operators and tests.

use std::sync::atomic::{AtomicU64, Ordering};

use super::requests::OutcomeCounts;

macro_rules! counters {
    ($($name:ident $what:literal),+ $(,)?) => {
        /// Counters since the start, at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ServerCounters {
            $(#[doc = $what] pub $name: u64,)+
            /// Requests that have ended, including `health`.
            pub ended: OutcomeCounts,
            /// Open connections, after their handshakes.
            pub connections_open: usize,
            /// Handshakes in progress.
            pub handshakes_open: usize,
            /// Bytes of incomplete frames above 64 KiB.
            pub incoming_bytes: usize,
            /// Bytes of answers that are being created, waiting to be written, or being written.
            pub answers_bytes: usize,
            /// The workers' counters.
            pub pool: leafseal_engine::pool::PoolCounters,
        }

        /// The live counters. Relaxed ordering suffices: no other data depends on them.
        #[derive(Debug, Default)]
        pub(crate) struct LiveCounters {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl LiveCounters {
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
    handshakes_resumed "Handshakes that resumed a session.",
    handshakes_displaced "Handshakes among them that gave way to newer ones.",
    connections_forbidden "Connections whose certificate the service did not know.",
    connections_faulted "Connections that the server ended with `connection_error`.",
    going_away_sent "Times that the server announced `going_away` to a client.",
    network_bytes_received "Bytes read from sockets, TLS included.",
    network_bytes_sent "Bytes that sockets took, TLS included.",
    requests "Requests read, `health` included.",
}

impl LiveCounters {
    pub(crate) fn add(counter: &AtomicU64) {
        LiveCounters::add_many(counter, 1);
    }

    pub(crate) fn add_many(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
