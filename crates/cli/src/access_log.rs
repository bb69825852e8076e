//! The relay's access log: a file or standard output, written on its own thread and reopened on request.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use leafseal_net::LogFormat;
use leafseal_relay::AccessLog;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::OpenOutput;

/// Memory in bytes of a waiting line beside its text, so that the number of short lines is bounded too.
const LINE_OVERHEAD: usize = 64;

/// Writes lines on its own thread.
pub(crate) struct LineWriter {
    format: LogFormat,
    lines: Sender<String>,
    /// Maximum memory of waiting lines in bytes; further lines are dropped and counted.
    size_max: usize,
    shared: Arc<SharedLog>,
}

#[derive(Default)]
struct SharedLog {
    /// Memory of the lines that wait.
    waiting: AtomicUsize,
    /// Lines dropped because the queue was full or they could not be written.
    dropped: AtomicU64,
    /// Whether the file is to be reopened before the next line.
    is_reopen_due: AtomicBool,
}

/// The destination of lines.
enum LogDestination {
    Standard,
    File(PathBuf),
}

impl LogDestination {
    fn open(&self) -> std::io::Result<Box<dyn Write + Send>> {
        match self {
            Self::Standard => Ok(Box::new(std::io::stdout())),
            Self::File(path) => Ok(Box::new(File::options().create(true).append(true).open(path)?)),
        }
    }
}

impl LineWriter {
    /// Opens the log at `path`; `-` is standard output. Lines of `size_max` bytes may wait to be written.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn start(path: &Path, format: LogFormat, size_max: usize) -> CommandOutcome<Self> {
        let destination = if path == Path::new("-") {
            // Checked here, so that a closed descriptor is reported at the start.
            OpenOutput::standard()?.finish()?;
            LogDestination::Standard
        } else {
            LogDestination::File(path.to_owned())
        };
        let out = destination.open().map_err(|error| CommandFailure::writing(path.display(), &error))?;
        let (lines, waiting) = channel();
        let shared = Arc::<SharedLog>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("leafseal-access".to_owned());
        let started = thread.spawn(move || write_lines(&waiting, out, &destination, &of_thread));
        started.map_err(|error| CommandFailure::internal(format!("no thread: {error}")))?;
        Ok(Self { format, lines, size_max, shared })
    }

    /// Closes the file and opens it again at its path, for example after log rotation renamed it. Lines received before are in the old
    /// file.
    pub(crate) fn reopen(&self) {
        if !self.shared.is_reopen_due.swap(true, Ordering::AcqRel) {
            // An empty line wakes the thread.
            let _ = self.lines.send(String::new());
        }
    }
}

impl AccessLog for LineWriter {
    fn format(&self) -> LogFormat {
        self.format
    }

    fn write(&self, line: &str) {
        let size = line.len() + LINE_OVERHEAD;
        let has_room = |waiting: usize| waiting.checked_add(size).filter(|&after| after <= self.size_max);
        let is_counted = self.shared.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_ok();
        // No more memory than what is counted, and a byte for the line break.
        let ended = || {
            let mut ended = String::with_capacity(line.len() + 1);
            ended.push_str(line);
            ended.push('\n');
            ended
        };
        if !is_counted || self.lines.send(ended()).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl SharedLog {
    /// Writes a line, which waits no longer. Returns how many lines it is: an empty one only wakes the thread.
    fn write(&self, line: &str, out: &mut impl Write) -> (std::io::Result<()>, u64) {
        if line.is_empty() {
            return (Ok(()), 0);
        }
        // The line break is not counted.
        self.waiting.fetch_sub(line.len() - 1 + LINE_OVERHEAD, Ordering::Relaxed);
        (out.write_all(line.as_bytes()), 1)
    }
}

fn write_lines(
    waiting: &Receiver<String>,
    out: Box<dyn Write + Send>,
    destination: &LogDestination,
    shared: &SharedLog,
) {
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
        let (mut written, mut lines) = shared.write(&first, &mut out);
        while let Ok(line) = waiting.try_recv() {
            let (outcome, count) = shared.write(&line, &mut out);
            written = written.and(outcome);
            lines += count;
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

    fn writer(size_max: usize) -> (LineWriter, Receiver<String>) {
        let (lines, waiting) = channel();
        (LineWriter { format: LogFormat::Json, lines, size_max, shared: Arc::default() }, waiting)
    }

    /// Bytes count, not lines: long ones do not take more memory than short ones.
    #[test]
    fn lines_for_which_there_is_no_room_are_counted() {
        for (line, lines_max) in [("{}".to_owned(), 100), ("x".repeat(30_000), 2)] {
            let size_max = lines_max * (line.len() + LINE_OVERHEAD);
            let (writer, waiting) = writer(size_max);
            (0..17_000).for_each(|_| writer.write(&line));
            assert_eq!(writer.dropped(), 17_000 - lines_max as u64);
            assert_eq!(writer.shared.waiting.load(Ordering::Relaxed), size_max);
            let lines: Vec<String> = waiting.try_iter().collect();
            let memory: usize = lines.iter().map(|line| line.capacity() - 1 + LINE_OVERHEAD).sum();
            assert_eq!(memory, size_max, "the memory of lines is what is counted");
            lines.into_iter().for_each(|line| writer.lines.send(line).unwrap());
            let shared = Arc::clone(&writer.shared);
            drop(writer);
            write_lines(&waiting, Box::new(io::sink()), &LogDestination::Standard, &shared);
            assert_eq!(shared.waiting.load(Ordering::Relaxed), 0, "what was written waits no longer");
        }
    }

    #[test]
    fn a_stalled_log_is_woken_once_to_be_reopened() {
        let (writer, waiting) = writer(1000);
        (0..1000).for_each(|_| writer.reopen());
        assert_eq!(waiting.try_iter().count(), 1);
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
        let (writer, waiting) = writer(1 << 20);
        (0..4).for_each(|_| writer.write("{}"));
        let shared = Arc::clone(&writer.shared);
        drop(writer);
        write_lines(&waiting, Box::new(Full), &LogDestination::Standard, &shared);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn after_a_rotation_lines_go_to_a_file_of_the_old_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, rotated) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let (writer, waiting) = writer(1 << 20);
        let shared = Arc::clone(&writer.shared);
        let destination = LogDestination::File(path.clone());
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
