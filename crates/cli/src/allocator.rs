//! The program's allocator (`docs/decisions/0007-allocator.md`).

use leafseal_engine::WipingAllocator;

#[cfg(not(feature = "jemalloc"))]
use std::alloc::System as Inner;
#[cfg(feature = "jemalloc")]
use tikv_jemallocator::Jemalloc as Inner;

/// Thousands of buffers of the workers are freed on other threads: with the system's allocator threads wait for one another then, and large
/// buffers are returned to the system each time. jemalloc returns them on a thread of its own, after a second, so that freeing a large
/// buffer is fast.
#[global_allocator]
static ALLOCATOR: WipingAllocator<Inner> = WipingAllocator::new(Inner);

/// Sets whether memory is overwritten when it is freed: `engine.wipe_buffers`, and `wipe_buffers` of a relay.
pub(crate) fn set_wiping(is_wiping: bool) {
    ALLOCATOR.set_wiping(is_wiping);
}

#[cfg(all(test, feature = "jemalloc"))]
mod tests {
    use std::time::{Duration, Instant};

    const SIZE: usize = 256 << 20;
    /// Maximum duration of a worker's slice.
    const SLICE_MAX: Duration = Duration::from_micros(200);
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Resident bytes, as Linux reports them.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages = statm.split(' ').nth(1).expect("the second number").parse::<usize>().expect("a number");
        pages * 4096
    }

    /// Workers and network threads free frames and answers: that takes no longer than a slice, and the memory is returned. Tested
    /// in its own process: memory of other tests is resident too.
    #[cfg(target_os = "linux")]
    #[test]
    fn freeing_a_large_buffer_is_quick_and_returns_the_memory() {
        const ALONE: &str = "LEAFSEAL_TEST_ALONE";
        if std::env::var_os(ALONE).is_some() {
            return freeing();
        }
        let program = std::env::current_exe().expect("the tests' program");
        let name = "allocator::tests::freeing_a_large_buffer_is_quick_and_returns_the_memory";
        let run = std::process::Command::new(program).args(["--exact", name]).env(ALONE, "1").output().expect("runs");
        let reported = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && reported.contains("1 passed"), "{reported}");
    }

    #[cfg(target_os = "linux")]
    fn freeing() {
        let before = resident();
        let free = || {
            let buffer = vec![1_u8; SIZE];
            assert!(resident() >= before + SIZE / 2, "it is resident");
            let began = Instant::now();
            drop(buffer);
            began.elapsed()
        };
        // The machine may be busy: the minimum is the time of freeing.
        let least = (0..5).map(|_| free()).min().expect("five");
        assert!(least < SLICE_MAX, "{least:?}");
        let began = Instant::now();
        while resident() > before + SIZE / 4 {
            assert!(began.elapsed() < PATIENCE, "{} bytes stay resident", resident());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
