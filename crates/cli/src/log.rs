//! The log on standard error: events of the project's crates as lines in the configured format.

use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};

use leafseal_net::{LogFormat, LogLine};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::config::LogSettings;

/// Events of other crates are omitted: this project's events explain their errors.
const TARGETS: &str = "leafseal";

/// The levels, from the fewest events to the most.
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

/// The index of the configured level in [`LEVELS`].
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Starts the log. A second call in one process only changes the level.
pub(crate) fn start(log: LogSettings) {
    set_level(log.level);
    // Fails only if a log was started before.
    let _ = tracing::subscriber::set_global_default(LogLines { format: log.format });
}

/// Changes the level.
pub(crate) fn set_level(level: Level) {
    let place = LEVELS.iter().position(|known| *known == level).unwrap_or_default();
    LEVEL.store(u8::try_from(place).unwrap_or_default(), Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
}

fn level() -> Level {
    LEVELS[usize::from(LEVEL.load(Ordering::Relaxed))]
}

/// Writes each event as one line.
struct LogLines {
    format: LogFormat,
}

impl Subscriber for LogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= level() && metadata.target().starts_with(TARGETS)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(level().into())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = line(self.format, event);
        line.push('\n');
        // A log that cannot be written must not stop the engine.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn line(format: LogFormat, event: &Event<'_>) -> String {
    let mut line = LogLine::new(format, &event.metadata().level().as_str().to_ascii_lowercase());
    event.record(&mut LogFields(&mut line));
    line.finish()
}

/// Adds the fields of an event to a line.
struct LogFields<'l>(&'l mut LogLine);

impl Visit for LogFields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.bare(field.name(), format_args!("{value:.3}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.bare(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.bare(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.bare(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.text(field.name(), value);
    }

    /// Messages, and fields given with `%`: both print as `Display` does. `cargo xtask tidy` refuses fields given with `?`.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.0.text(field.name(), &text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects lines of one format.
    struct KeptLines {
        format: LogFormat,
        lines: Arc<Mutex<Vec<String>>>,
    }

    impl Subscriber for KeptLines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn event(&self, event: &Event<'_>) {
            self.lines.lock().unwrap().push(line(self.format, event));
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn line_of(format: LogFormat, log: impl FnOnce()) -> String {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        tracing::subscriber::with_default(KeptLines { format, lines: Arc::clone(&lines) }, log);
        lines.lock().unwrap().concat()
    }

    #[test]
    fn fields_print_as_display_does_in_both_formats() {
        let error = io::Error::from_raw_os_error(2);
        let (none, some) = (None::<u64>, Some(7_u64));
        let log = || tracing::warn!(name = "a b", %error, count = 3_u64, none, some, is_on = true, "it {}", "failed");
        let json: serde_json::Value = serde_json::from_str(&line_of(LogFormat::Json, log)).unwrap();
        assert_eq!(
            (&json["level"], &json["message"], &json["name"]),
            (&"warn".into(), &"it failed".into(), &"a b".into())
        );
        assert_eq!((&json["count"], &json["some"], &json["is_on"]), (&3.into(), &7.into(), &true.into()));
        assert_eq!((json["error"].as_str(), json.get("none")), (Some(&*error.to_string()), None));
        let logfmt = line_of(LogFormat::Logfmt, log);
        let (_, fields) = logfmt.split_once(' ').unwrap();
        let expected = "level=warn message=\"it failed\" name=\"a b\" error=\"No such file or directory (os error 2)\" \
                        count=3 some=7 is_on=true";
        assert_eq!(fields, expected);
    }
}
