//! Ports of servers that stop and start again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that systems give to connections and to listeners of port 0: from 32,768 on Linux, from 49,152 elsewhere (RFC 6335,
/// section 6).
const PORTS: std::ops::Range<u16> = 10_000..32_768;

/// A free port of 127.0.0.1 that a server still finds free after it has stopped for a while: no connection of this machine takes it as its
/// own, and no server of another test that asks for any port.
///
/// # Panics
/// When all are taken.
pub(crate) fn lasting_port() -> u16 {
    /// Threads of this program never try the same port.
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Programs that run at once start far from each other: their ids are often neighbours.
    let start = std::process::id().wrapping_mul(7919);
    let next = || {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        PORTS.start + u16::try_from(start.wrapping_add(tried) % count).expect("less than their count")
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..count).map(|_| next()).find(is_free).expect("a free port")
}
