//! Output: standard output, or a file that is complete or unchanged.
//!
//! A file is written without a name where the file system supports it (`O_TMPFILE`), so that not even SIGKILL leaves a part of it. It gets
//! its name when it is complete: directly if no such file exists. To replace a file it first gets a temporary name, which a rename then
//! moves; only a kill between these two system calls leaves the temporary file, complete. Elsewhere the temporary file has a name from the
//! start. The new file has the owner, group, permissions and access lists of the file that it replaces before anything is written to it.
//! A file that is standard output or error (`/dev/stdout`) is not replaced, but written where it stands.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use leafseal_engine::admin::{Attributes, AttributesError};
use tempfile::{Builder, NamedTempFile};

use crate::failure::{CommandFailure, CommandOutcome};
use crate::interruption;

/// Bytes buffered before they are written.
const WRITE_SIZE: usize = 256 << 10;

/// An open output.
pub(crate) struct OpenOutput {
    writer: BufWriter<OutputDestination>,
    place: String,
}

enum OutputDestination {
    /// Standard output, or another descriptor or special file.
    Direct(File),
    /// A temporary file beside `target` that replaces it at the end. Removed on drop before that.
    Replacing { draft: DraftFile, target: PathBuf },
}

/// A file that is not in its place yet.
enum DraftFile {
    Unnamed(File),
    Named(NamedTempFile),
}

impl DraftFile {
    /// Creates a temporary file in the folder of `target` that only its owner may read.
    fn new(target: &Path) -> io::Result<Self> {
        match unnamed(folder_of(target)) {
            Some(file) => Ok(Self::Unnamed(file)),
            None => Ok(Self::Named(named(target, |names| names.tempfile_in(folder_of(target)))?)),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    fn name(&self) -> Option<PathBuf> {
        match self {
            Self::Unnamed(_) => None,
            Self::Named(file) => Some(file.path().to_owned()),
        }
    }

    /// Moves the file to `target`, replacing what exists.
    fn persist(self, target: &Path) -> io::Result<()> {
        match self {
            Self::Named(file) => file.persist(target).map(drop).map_err(|error| error.error),
            Self::Unnamed(file) => match link(&file, target) {
                // A link never replaces a file: link to a temporary name, and rename that. It is removed on failure.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let linked = named(target, |names| names.make_in(folder_of(target), |name| link(&file, name)))?;
                    linked.into_temp_path().persist(target).map_err(|error| error.error)
                }
                linked => linked,
            },
        }
    }
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a named temporary file: hidden, with a name derived from `target`.
fn named<T>(target: &Path, make: impl FnOnce(&Builder<'_, '_>) -> io::Result<T>) -> io::Result<T> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // Leaves room for the rest of the name within the 255 bytes that file systems permit.
    let end = (0..=name.len().min(200)).rfind(|&end| name.is_char_boundary(end)).unwrap_or_default();
    make(Builder::new().prefix(&format!(".{}.leafseal-", &name[..end])).suffix(".tmp"))
}

/// A file without a name in `folder`; `None` if the file system does not support it, or it could not be given a name later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?);
    own_path(&file).exists().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Gives a file without a name this name, which must not exist.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, own_path(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The path through which this process can access an open file.
#[cfg(target_os = "linux")]
fn own_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The file at `path`, links followed; `None` if there is none. The kernel follows the link, and refuses one that another user has put
/// into a sticky folder.
fn existing(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match std::fs::symlink_metadata(path) {
            Ok(_) => Err(io::Error::other(
                "it is a symbolic link to a file that does not exist: remove the link, or name the file",
            )),
            Err(_) => Ok(None),
        },
        found => found.map(Some),
    }
}

/// A file at the output's path that another program, such as the shell, has opened for this one (`/dev/stdout`, `/dev/fd/3`). If it were
/// replaced, what that program writes later would go into the old file.
enum OpenedFile {
    /// It is standard output or error: what is written comes behind what is there.
    Standard(File),
    /// It is another descriptor, whose place in the file cannot be shared.
    Other,
}

/// Recognises the file by its identity, whatever names or links lead to it.
fn opened(existing: &Metadata) -> Option<OpenedFile> {
    use std::os::unix::fs::MetadataExt;
    let is_existing = |found: &Metadata| (found.dev(), found.ino()) == (existing.dev(), existing.ino());
    for handle in [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()] {
        let Ok(file) = handle.map(File::from) else { continue };
        if file.metadata().is_ok_and(|found| is_existing(&found)) {
            return Some(OpenedFile::Standard(file));
        }
    }
    let others = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut others = others.filter(|entry| is_written(&entry.file_name()));
    others
        .any(|entry| std::fs::metadata(entry.path()).is_ok_and(|found| is_existing(&found)))
        .then_some(OpenedFile::Other)
}

/// Whether a descriptor of this process is open for writing.
fn is_written(number: &OsStr) -> bool {
    let information = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(number)).unwrap_or_default();
    let flags = information.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & ACCESS_MODE != 0)
}

/// The bits of a descriptor's flags that are zero for reading alone (`O_ACCMODE`).
const ACCESS_MODE: u32 = 3;

/// Gives the attributes of the file at `target`, if there is one, to the draft that will replace it.
fn keep_attributes(draft: &DraftFile, target: &Path, place: &str) -> CommandOutcome {
    let failure = |error: AttributesError| CommandFailure::writing(place, &io::Error::other(error));
    let Ok(existing) = std::fs::symlink_metadata(target) else { return Ok(()) };
    if !existing.is_file() {
        let changed = io::Error::other("it was replaced by something else while the command ran: run it again");
        return Err(CommandFailure::writing(place, &changed));
    }
    let attributes = Attributes::of_replaced(target, &existing, folder_of(target)).map_err(failure)?;
    attributes.give_to(draft.file()).map_err(failure)
}

impl Write for OutputDestination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write(bytes),
            Self::Replacing { draft, .. } => draft.file().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// For writers that report the system's errors.
impl Write for OpenOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl OpenOutput {
    /// Standard output, without the standard library's buffer, which flushes at line breaks and hides a closed descriptor.
    pub(crate) fn standard() -> CommandOutcome<Self> {
        let place = "standard output";
        let handle =
            io::stdout().as_fd().try_clone_to_owned().map_err(|error| CommandFailure::writing(place, &error))?;
        Ok(Self::new(OutputDestination::Direct(File::from(handle)), place.to_owned()))
    }

    /// `-` and `None` mean standard output.
    pub(crate) fn open(path: Option<&Path>) -> CommandOutcome<Self> {
        match path {
            Some(path) if path != Path::new("-") => Self::file(path),
            _ => Self::standard(),
        }
    }

    fn file(path: &Path) -> CommandOutcome<Self> {
        let failure = |error: io::Error| CommandFailure::writing(path.display(), &error);
        let place = path.display().to_string();
        let target = match existing(path).map_err(failure)? {
            None => path.to_owned(),
            Some(existing) if existing.is_dir() => {
                return Err(CommandFailure::usage(format!("cannot write to {place}: it is a folder")));
            }
            // The target of a symbolic link is replaced, not the link.
            Some(existing) if existing.is_file() => match opened(&existing) {
                None => std::fs::canonicalize(path).map_err(failure)?,
                Some(OpenedFile::Standard(file)) => return Ok(Self::new(OutputDestination::Direct(file), place)),
                Some(OpenedFile::Other) => {
                    return Err(CommandFailure::usage(format!(
                        "cannot write to {place}: it is a file that is open already: write to standard output and redirect that, as in >&3"
                    )));
                }
            },
            // A device or pipe must not be replaced.
            Some(_) => {
                let device = File::options().write(true).open(path).map_err(failure)?;
                return Ok(Self::new(OutputDestination::Direct(device), place));
            }
        };
        let draft = DraftFile::new(&target).map_err(failure)?;
        interruption::begin(&place, draft.name());
        keep_attributes(&draft, &target, &place)?;
        Ok(Self::new(OutputDestination::Replacing { draft, target }, place))
    }

    fn new(destination: OutputDestination, place: String) -> Self {
        Self { writer: BufWriter::with_capacity(WRITE_SIZE, destination), place }
    }

    /// Whether the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.writer.get_ref(), OutputDestination::Direct(file) if file.is_terminal())
    }

    /// Writes bytes, buffered.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> CommandOutcome {
        self.writer.write_all(bytes).map_err(|error| CommandFailure::writing(&self.place, &error))
    }

    /// Writes buffered bytes, and syncs them to disk where standard output is a file.
    fn deliver(mut self) -> CommandOutcome {
        let failure = |error: io::Error| CommandFailure::writing(&self.place, &error);
        self.writer.flush().map_err(failure)?;
        match self.writer.get_ref() {
            OutputDestination::Direct(file) if file.metadata().is_ok_and(|found| found.is_file()) => {
                file.sync_all().map_err(failure)
            }
            _ => Ok(()),
        }
    }

    /// Writes buffered bytes; a file is then in its place and synced to disk.
    pub(crate) fn finish(self) -> CommandOutcome {
        let Self { mut writer, place } = self;
        let failure = |error: io::Error| CommandFailure::writing(&place, &error);
        writer.flush().map_err(failure)?;
        match writer.into_inner().map_err(|error| failure(error.into_error()))? {
            OutputDestination::Direct(_) => Ok(()),
            OutputDestination::Replacing { draft, target } => {
                // They may have changed meanwhile, or the file is new.
                keep_attributes(&draft, &target, &place)?;
                draft.file().sync_all().map_err(failure)?;
                interruption::commit(|| draft.persist(&target)).map_err(failure)
            }
        }
    }
}

/// Prints `text` on standard output.
pub(crate) fn print(text: &str) -> CommandOutcome {
    let mut output = OpenOutput::standard()?;
    output.write(text.as_bytes())?;
    output.finish()
}

/// Prints on standard output what a change depends on that comes after it.
pub(crate) fn deliver(text: &str) -> CommandOutcome {
    let mut output = OpenOutput::standard()?;
    output.write(text.as_bytes())?;
    output.deliver()
}

/// Prints one line of JSON on standard output.
pub(crate) fn print_json(value: &serde_json::Value) -> CommandOutcome {
    print(&format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    /// A temporary file of each kind that this file system supports.
    fn drafts(target: &Path) -> Vec<DraftFile> {
        let named = named(target, |names| names.tempfile_in(folder_of(target))).unwrap();
        unnamed(folder_of(target)).map(DraftFile::Unnamed).into_iter().chain([DraftFile::Named(named)]).collect()
    }

    #[test]
    fn drafts_take_the_place_of_nothing_and_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for existing in [false, true] {
            let target = folder.path().join("out.json");
            for draft in drafts(&target) {
                if existing {
                    std::fs::write(&target, "before").unwrap();
                }
                draft.file().write_all(b"after").unwrap();
                draft.persist(&target).unwrap();
                assert_eq!(std::fs::read(&target).unwrap(), b"after");
                assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
                std::fs::remove_file(&target).unwrap();
            }
        }
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn drafts_that_cannot_take_their_place_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("taken");
        std::fs::create_dir(&target).unwrap();
        for draft in drafts(&target) {
            assert!(draft.persist(&target).is_err());
        }
        drafts(&target).clear();
        assert_eq!(names(folder.path()), ["taken"]);
    }

    #[test]
    fn the_name_of_a_draft_is_recognisable_and_fits() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["out.json".to_owned(), "ä".repeat(127)] {
            let draft = named(Path::new(&name), |names| names.tempfile_in(folder.path())).unwrap();
            let of_draft = draft.path().file_name().unwrap().to_string_lossy().into_owned();
            assert!(of_draft.starts_with(&format!(".{}", &name[..8])) && of_draft.contains(".leafseal-"), "{of_draft}");
        }
    }
}
