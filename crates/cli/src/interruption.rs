//! Signals while a command writes a file with `-o`: the file stays unchanged, the temporary file is removed, and standard error
//! reports it.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::signals;

/// Added to a signal's number in the exit code, as shells do.
const EXIT_BASE: u8 = 128;

/// The operation that a signal would interrupt.
#[derive(Debug, PartialEq, Eq)]
enum InterruptibleOperation {
    Idle,
    /// The file `place` is incomplete; `draft` is the name of the temporary file, if it has one.
    Writing {
        place: String,
        draft: Option<PathBuf>,
    },
    /// The file is complete and in place.
    Written {
        place: String,
    },
}

static STATE: Mutex<InterruptibleOperation> = Mutex::new(InterruptibleOperation::Idle);

fn state() -> MutexGuard<'static, InterruptibleOperation> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on SIGINT, SIGTERM and SIGHUP end the process with its draft removed, and with a line on standard error; but not those that
/// it ignored from the start, as under `nohup`.
///
/// # Errors
/// If the system refuses a thread or signal handlers.
pub(crate) fn watch() -> CommandOutcome {
    let runtime = signals::runtime()?;
    let mut deadly = {
        let _context = runtime.enter();
        signals::TerminationSignals::listen()?
    };
    let thread = std::thread::Builder::new().name("leafseal-signals".to_owned());
    let watching = thread.spawn(move || {
        let signal = runtime.block_on(deadly.next());
        // Locked to the end, so that the file is not put in place after the message that denies it.
        let mut state = state();
        note(format_args!("leafseal: {}", abandon(&mut state)));
        crate::end_now(EXIT_BASE + signal);
    });
    watching.map(drop).map_err(|error| CommandFailure::internal(format!("no thread: {error}")))
}

/// Removes the temporary file; returns the line that states the fate of the file.
fn abandon(state: &mut InterruptibleOperation) -> String {
    match std::mem::replace(state, InterruptibleOperation::Idle) {
        InterruptibleOperation::Idle => "interrupted".to_owned(),
        InterruptibleOperation::Written { place } => format!("interrupted after {place} was written"),
        InterruptibleOperation::Writing { place, draft } => {
            let left = draft.and_then(|draft| std::fs::remove_file(&draft).err().map(|error| (draft, error)));
            let left = left.filter(|(_, error)| error.kind() != io::ErrorKind::NotFound);
            let left = left.map(|(draft, error)| {
                format!("; {} could not be removed ({}): remove it", draft.display(), crate::failure::plain(&error))
            });
            format!("interrupted: nothing was written to {place}{}", left.unwrap_or_default())
        }
    }
}

/// Begins writing `place`; `draft` is the name of the temporary file, if it has one.
pub(crate) fn begin(place: &str, draft: Option<PathBuf>) {
    *state() = InterruptibleOperation::Writing { place: place.to_owned(), draft };
}

/// Puts the file in place with `put`. A signal that arrives meanwhile waits until it is done.
///
/// # Errors
/// Errors of `put`.
pub(crate) fn commit(put: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut state = state();
    put()?;
    if let InterruptibleOperation::Writing { place, .. } = &mut *state {
        *state = InterruptibleOperation::Written { place: std::mem::take(place) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_temporary_file_is_removed_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let draft = folder.path().join(".out.json.leafseal-x.tmp");
        std::fs::write(&draft, "plaintext").unwrap();
        let writing = |draft: Option<PathBuf>| InterruptibleOperation::Writing { place: "out.json".to_owned(), draft };
        let expected = "interrupted: nothing was written to out.json";
        assert_eq!(abandon(&mut writing(Some(draft.clone()))), expected);
        assert!(!draft.exists());
        // It may be gone already, or never had a name.
        assert_eq!(abandon(&mut writing(Some(draft))), expected);
        assert_eq!(abandon(&mut writing(None)), expected);
        let mut written = InterruptibleOperation::Written { place: "out.json".to_owned() };
        assert_eq!(abandon(&mut written), "interrupted after out.json was written");
    }
}
