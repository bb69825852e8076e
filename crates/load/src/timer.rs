//! A timer with microsecond precision. The runtime's own timer has a resolution of a millisecond, longer than many latencies.

use std::time::Instant;

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::time::Instant;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    /// A kernel timer (timerfd), polled by the runtime. When it expires, eight bytes can be read from it.
    #[derive(Debug)]
    pub(super) struct Timer(Receiver);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            Receiver::from_owned_fd_unchecked(fd).map(Timer)
        }

        pub(super) async fn wait_until(&mut self, moment: Instant) -> io::Result<()> {
            let wait = moment.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            let once = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec {
                    tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: i64::from(wait.subsec_nanos()),
                },
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read.map(drop),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::time::Instant;

    /// The runtime's timer, for systems without timerfd: waits up to a millisecond longer.
    #[derive(Debug)]
    pub struct Timer;

    impl Timer {
        pub fn new() -> io::Result<Self> {
            Ok(Timer)
        }

        pub async fn wait_until(&mut self, moment: Instant) -> io::Result<()> {
            tokio::time::sleep_until(moment.into()).await;
            Ok(())
        }
    }
}

/// A timer within a runtime. Waiting is cancel-safe.
#[derive(Debug)]
pub(crate) struct Timer(imp::Timer);

impl Timer {
    pub(crate) fn new() -> std::io::Result<Self> {
        imp::Timer::new().map(Timer)
    }

    /// Returns at `moment` or some microseconds later; immediately if it has passed.
    pub(crate) async fn wait_until(&mut self, moment: Instant) -> std::io::Result<()> {
        self.0.wait_until(moment).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn never_early_and_usable_again_after_a_dropped_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut timer = Timer::new().unwrap();
            let begun = Instant::now();
            let dropped =
                tokio::time::timeout(Duration::from_millis(1), timer.wait_until(begun + Duration::from_secs(60)));
            assert!(dropped.await.is_err());
            for micros in [0, 1, 50, 2500] {
                let moment = Instant::now() + Duration::from_micros(micros);
                timer.wait_until(moment).await.unwrap();
                assert!(Instant::now() >= moment);
            }
            timer.wait_until(begun).await.unwrap();
        });
    }
}
