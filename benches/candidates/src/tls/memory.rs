//! Memory of a connection, as the C allocator counts it; Rust's default allocator is the same one.

use crate::peer::Library;
use crate::stream::Stream;
use crate::{RECORD_LEN, connect_over};

/// Enough for one-off allocations to vanish in the mean.
const CONNECTIONS: usize = 200;

/// Mean number of bytes that the server's end of an established, used and idle connection holds.
pub fn per_connection(library: &dyn Library) -> usize {
    let (record, mut buffer) = (vec![0x5a; RECORD_LEN], vec![0; RECORD_LEN]);
    let mut ends = Vec::with_capacity(CONNECTIONS);
    let before = allocated();
    for _ in 0..CONNECTIONS {
        let (near, far) = Stream::pair();
        let mut pair = connect_over(library, near.clone(), far);
        pair.client.send(&record);
        pair.server.receive(&mut buffer);
        pair.server.send(&record);
        pair.client.receive(&mut buffer);
        drop(pair.client);
        pair.server.release_buffers();
        near.shrink();
        ends.push(pair.server);
    }
    (allocated() - before) / CONNECTIONS
}

/// Bytes that the process has allocated and not freed.
fn allocated() -> usize {
    // SAFETY: the function only reads the allocator's counters.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}
