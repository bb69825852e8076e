//! Where output goes: standard output, or a file that is there whole or as it was before.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Failure, Outcome};

/// Bytes gathered before they are written.
const WRITE_SIZE: usize = 256 << 10;

/// A place for output, open for writing.
pub struct Output {
    writer: BufWriter<Destination>,
    place: String,
}

enum Destination {
    /// Standard output, or a file that is no regular one.
    Direct(File),
    /// A file beside `target`, put in its place at the end. Removed when dropped before that.
    Replacing { draft: NamedTempFile, target: PathBuf },
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write(bytes),
            Self::Replacing { draft, .. } => draft.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// Standard output; not through the library's own buffer, which cuts at line breaks and hides a closed descriptor.
    pub fn standard() -> Outcome<Self> {
        let place = "standard output";
        let handle = io::stdout().as_fd().try_clone_to_owned().map_err(|error| Failure::writing(place, &error))?;
        Ok(Self::new(Destination::Direct(File::from(handle)), place.to_owned()))
    }

    /// `-` and nothing mean standard output.
    pub fn open(path: Option<&Path>) -> Outcome<Self> {
        match path {
            Some(path) if path != Path::new("-") => Self::file(path),
            _ => Self::standard(),
        }
    }

    fn file(path: &Path) -> Outcome<Self> {
        let failure = |error: io::Error| Failure::writing(path.display(), &error);
        let place = path.display().to_string();
        // What a link points to is replaced, not the link.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let existing = std::fs::metadata(&target).ok();
        if let Some(existing) = existing.as_ref().filter(|existing| !existing.is_file()) {
            if existing.is_dir() {
                return Err(Failure::usage(format!("cannot write to {place}: it is a folder")));
            }
            // A device or pipe must not be replaced.
            let device = File::options().write(true).open(&target).map_err(failure)?;
            return Ok(Self::new(Destination::Direct(device), place));
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let draft = NamedTempFile::new_in(folder).map_err(failure)?;
        if let Some(existing) = existing {
            draft.as_file().set_permissions(existing.permissions()).map_err(failure)?;
        }
        Ok(Self::new(Destination::Replacing { draft, target }, place))
    }

    fn new(destination: Destination, place: String) -> Self {
        Self { writer: BufWriter::with_capacity(WRITE_SIZE, destination), place }
    }

    /// Whether a person would see it.
    pub fn is_terminal(&self) -> bool {
        matches!(self.writer.get_ref(), Destination::Direct(file) if file.is_terminal())
    }

    /// Writes some of it.
    pub fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.writer.write_all(bytes).map_err(|error| Failure::writing(&self.place, &error))
    }

    /// Writes what is gathered; a file is then in its place and on the disk.
    pub fn finish(self) -> Outcome {
        let Self { mut writer, place } = self;
        let failure = |error: io::Error| Failure::writing(&place, &error);
        writer.flush().map_err(failure)?;
        match writer.into_inner().map_err(|error| failure(error.into_error()))? {
            Destination::Direct(_) => Ok(()),
            Destination::Replacing { draft, target } => {
                draft.as_file().sync_all().map_err(failure)?;
                draft.persist(&target).map_err(|error| failure(error.error))?;
                Ok(())
            }
        }
    }
}

/// Tells a person something on standard error. Where that cannot be written nobody reads it, and the work goes on.
pub fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints `text` on standard output.
pub fn print(text: &str) -> Outcome {
    let mut output = Output::standard()?;
    output.write(text.as_bytes())?;
    output.finish()
}

/// Prints one line of JSON on standard output.
pub fn print_json(value: &serde_json::Value) -> Outcome {
    print(&format!("{value}\n"))
}
