//! The relay's access log: a file or standard output, written on its own thread and reopened on request.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use leafseal_net::LogFormat;
use leafseal_relay::AccessLog;

use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// Maximum number of lines waiting to be written; further ones are dropped and counted.
const LINES_MAX: usize = 16_384;

/// Writes lines on its own thread.
pub(crate) struct LineWriter {
    format: LogFormat,
    lines: SyncSender<String>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Lines dropped because the queue was full or they could not be written.
    dropped: AtomicU64,
    /// Whether the file is to be reopened before the next line.
    is_reopen_due: AtomicBool,
}

/// The destination of lines.
enum Destination {
    Standard,
    File(PathBuf),
}

impl Destination {
    fn open(&self) -> std::io::Result<Box<dyn Write + Send>> {
        match self {
            Self::Standard => Ok(Box::new(std::io::stdout())),
            Self::File(path) => Ok(Box::new(File::options().create(true).append(true).open(path)?)),
        }
    }
}

impl LineWriter {
    /// Opens the log at `path`; `-` is standard output.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn start(path: &Path, format: LogFormat) -> Outcome<Self> {
        let destination = if path == Path::new("-") {
            // Checked here, so that a closed descriptor is reported at the start.
            Output::standard()?.finish()?;
            Destination::Standard
        } else {
            Destination::File(path.to_owned())
        };
        let out = destination.open().map_err(|error| Failure::writing(path.display(), &error))?;
        let (lines, waiting) = sync_channel(LINES_MAX);
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("leafseal-access".to_owned());
        let started = thread.spawn(move || write_lines(&waiting, out, &destination, &of_thread));
        started.map_err(|error| Failure::internal(format!("no thread: {error}")))?;
        Ok(Self { format, lines, shared })
    }

    /// Closes the file and opens it again at its path, for example after log rotation renamed it. Lines received before are in the old
    /// file.
    pub(crate) fn reopen(&self) {
        self.shared.is_reopen_due.store(true, Ordering::Release);
        // An empty line wakes the thread. If the queue is full the thread is awake.
        let _ = self.lines.try_send(String::new());
    }
}

impl AccessLog for LineWriter {
    fn format(&self) -> LogFormat {
        self.format
    }

    fn write(&self, line: &str) {
        if self.lines.try_send(format!("{line}\n")).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

fn write_lines(waiting: &Receiver<String>, out: Box<dyn Write + Send>, destination: &Destination, shared: &Shared) {
    let (mut is_broken, mut reported) = (false, 0);
    let mut out = BufWriter::new(out);
    while let Ok(first) = waiting.recv() {
        if shared.is_reopen_due.swap(false, Ordering::AcqRel) {
            match destination.open() {
                Ok(file) => {
                    out = BufWriter::new(file);
                    tracing::info!("the access log was reopened");
                }
                Err(error) => tracing::error!(%error, "the access log cannot be reopened: the old file stays in use"),
            }
        }
        let (mut written, mut lines) = (out.write_all(first.as_bytes()), u64::from(!first.is_empty()));
        while let Ok(line) = waiting.try_recv() {
            written = written.and_then(|()| out.write_all(line.as_bytes()));
            lines += u64::from(!line.is_empty());
        }
        written = written.and_then(|()| out.flush());
        if let (Err(error), false) = (&written, is_broken) {
            tracing::error!(%error, "the access log cannot be written");
        } else if written.is_ok() && is_broken {
            tracing::info!("the access log can be written again");
        }
        is_broken = written.is_err();
        if is_broken {
            // Some of those may have been written: the count of lost lines is never too low.
            shared.dropped.fetch_add(lines, Ordering::Relaxed);
        }
        let lost = shared.dropped.load(Ordering::Relaxed);
        if lost > reported && !is_broken {
            let lost = lost - reported;
            tracing::warn!(lost, "lines of the access log were dropped: they arrive faster than they can be written");
        }
        reported = lost;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn lines_for_which_there_is_no_room_are_counted() {
        let (lines, waiting) = sync_channel(2);
        let writer = LineWriter { format: LogFormat::Json, lines, shared: Arc::default() };
        (0..5).for_each(|_| writer.write("{}"));
        assert_eq!((writer.dropped(), waiting.try_iter().count()), (3, 2));
    }

    #[test]
    fn lines_that_a_file_does_not_take_are_counted() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (lines, waiting) = sync_channel(10);
        let writer = LineWriter { format: LogFormat::Json, lines, shared: Arc::default() };
        (0..4).for_each(|_| writer.write("{}"));
        let shared = Arc::clone(&writer.shared);
        drop(writer);
        write_lines(&waiting, Box::new(Full), &Destination::Standard, &shared);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn after_a_rotation_lines_go_to_a_file_of_the_old_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, rotated) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let (lines, waiting) = sync_channel(10);
        let writer = LineWriter { format: LogFormat::Json, lines, shared: Arc::default() };
        let shared = Arc::clone(&writer.shared);
        let destination = Destination::File(path.clone());
        let out = destination.open().unwrap();
        let thread = std::thread::spawn(move || write_lines(&waiting, out, &destination, &shared));
        writer.write("before");
        while std::fs::read(&path).unwrap().is_empty() {
            std::thread::yield_now();
        }
        std::fs::rename(&path, &rotated).unwrap();
        writer.reopen();
        writer.write("after");
        drop(writer);
        thread.join().unwrap();
        assert_eq!(std::fs::read_to_string(rotated).unwrap(), "before\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "after\n");
    }
}
