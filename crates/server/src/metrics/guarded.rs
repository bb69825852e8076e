//! Metrics of the memory in which keys are guarded.

use std::fmt;

use leafseal_engine::GuardedMemory;
use leafseal_net::metrics::{MetricName, MetricsWriter};

const GUARDED: MetricName = MetricName::bytes(
    "guarded",
    "Memory that core dumps and forks leave out: of keys of apps and the store, and the heap of the TLS library with its private keys",
);
const LOCKED: MetricName = MetricName::bytes("locked", "Memory of keys of apps and the store that is never swapped");
const REFUSED: MetricName = MetricName::plain(
    "lock_refused",
    "1 if the system has refused to lock memory of keys, which may be swapped then: raise its limit (ulimit -l)",
);

/// Writes the figures of this process.
pub(super) fn write(memory: GuardedMemory, out: &mut MetricsWriter<'_>) -> fmt::Result {
    let GuardedMemory { mapped, locked, library } = memory;
    out.gauges(GUARDED, ["memory"], [(["keys"], mapped as u64), (["tls"], library as u64)])?;
    out.gauge(LOCKED, locked as u64)?;
    out.gauge(REFUSED, u64::from(locked < mapped))
}

#[cfg(test)]
mod tests {
    use leafseal_net::metrics::openmetrics;

    use super::*;

    #[test]
    fn memory_that_is_not_locked_shows() {
        let text =
            |mapped| openmetrics(move |out| write(GuardedMemory { mapped, locked: 65536, library: 1 << 20 }, out));
        let (locked, refused) = (text(65536), text(2 * 65536));
        for line in ["guarded_bytes{memory=\"tls\"} 1048576", "locked_bytes 65536", "lock_refused 0"] {
            assert!(locked.contains(&format!("leafseal_{line}\n")), "{line} is not in\n{locked}");
        }
        for line in ["guarded_bytes{memory=\"keys\"} 131072", "locked_bytes 65536", "lock_refused 1"] {
            assert!(refused.contains(&format!("leafseal_{line}\n")), "{line} is not in\n{refused}");
        }
    }
}
