//! Shows the progress of long operations on standard error, only if it is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws per second.
const DRAWS_PER_SECOND: u8 = 8;

/// A bar of bytes.
const BYTES: &str = "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
/// Bytes of unknown total.
const BYTES_WITHOUT_END: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";
/// A bar of steps.
const STEPS: &str = "{msg} {bar:30} {pos}/{len} {eta}";

/// Changing figures.
const FIGURES: &str = "{spinner} {msg}";

/// A bar that counts bytes or steps; removed on drop.
pub(crate) struct TerminalProgress(ProgressBar);

impl TerminalProgress {
    /// A bar up to `size` bytes, or a spinner if that is unknown.
    pub(crate) fn bytes(what: &'static str, size: Option<u64>) -> Self {
        Self::new(what, if size.is_some() { BYTES } else { BYTES_WITHOUT_END }, size)
    }

    /// A bar up to `count` steps.
    pub(crate) fn steps(what: &'static str, count: usize) -> Self {
        Self::new(what, STEPS, Some(count as u64))
    }

    /// A line of figures, empty at first.
    pub(crate) fn figures() -> Self {
        Self::new("", FIGURES, None)
    }

    /// Whether it is visible.
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Sets the figures.
    pub(crate) fn set_figures(&self, figures: String) {
        self.0.set_message(figures);
    }

    fn new(what: &'static str, form: &str, length: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        bar.set_style(ProgressStyle::with_template(form).expect("a template that the test has parsed"));
        bar.set_message(what);
        Self(bar)
    }

    /// Sets the progress.
    pub(crate) fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Adds to the progress.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_templates_parse() {
        for form in [super::BYTES, super::BYTES_WITHOUT_END, super::STEPS, super::FIGURES] {
            assert!(indicatif::ProgressStyle::with_template(form).is_ok());
        }
    }
}
