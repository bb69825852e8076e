//! The folder of a log: its files by name, read within bounds, and written so that a file is whole or not there.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The signed size and root.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// The newest checkpoint that witnesses have cosigned, with their signatures.
pub(crate) const COSIGNED: &str = "checkpoint.cosigned";
/// The public key, as text.
pub(crate) const KEY: &str = "key";
/// The first entry that is still there, as a number; without this file, 0.
pub(crate) const MINIMUM: &str = "minimum";
/// Entries that are in no checkpoint yet.
pub(crate) const JOURNAL: &str = "journal";
/// Where the entries are durable, if that is not this folder.
pub(crate) const STORED: &str = "stored";
/// Held by the writer.
pub(crate) const LOCK: &str = "lock";
/// How far the log has what its writer brings into it from elsewhere: the writer's own note, and no part of the log.
pub const CARRIED: &str = "carried";
/// Tiles and bundles.
pub(crate) const TILES: &str = "tile";
/// Files that are being written.
const TEMPORARY: &str = "tmp";
/// The one of the cosigned checkpoint, which another thread writes than the others.
const COSIGNED_TEMPORARY: &str = "tmp/cosigned";
/// Longest file that is read at once: a bundle of 256 of the longest entries.
const FILE_SIZE_MAX: u64 = 256 * (2 + u16::MAX as u64);

/// A log's folder.
#[derive(Debug, Clone)]
pub(crate) struct LogFolder(PathBuf);

impl LogFolder {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The content of a file; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut file = match File::open(self.path(name)) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut content = Vec::new();
        (&mut file).take(FILE_SIZE_MAX + 1).read_to_end(&mut content)?;
        if content.len() as u64 > FILE_SIZE_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {FILE_SIZE_MAX} bytes")));
        }
        Ok(Some(content))
    }

    /// Whether a writer has it open.
    pub(crate) fn is_being_written(&self) -> bool {
        let lock = File::open(self.path(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes a folder of files, if it is there.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.path(name)) {
            Err(error) if is_absent(&error) => Ok(()),
            done => done,
        }
    }

    /// All files and links below, as paths with `/`, without those that are being written.
    pub(crate) fn files(&self) -> io::Result<Vec<String>> {
        let (mut found, mut open) = (Vec::new(), vec![String::new()]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(self.path(&folder))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if entry.file_type()?.is_dir() {
                    open.push(name);
                } else {
                    found.push(name);
                }
            }
        }
        found.retain(|name| !name.starts_with("tmp/"));
        found.sort_unstable();
        Ok(found)
    }
}

/// Writes the checkpoint that witnesses have cosigned, durably.
pub(crate) fn write_cosigned(folder: &LogFolder, note: &str) -> io::Result<()> {
    let temporary = folder.path(COSIGNED_TEMPORARY);
    fs::create_dir_all(folder.path(TEMPORARY))?;
    let mut file = create_temporary(&temporary)?;
    file.write_all(note.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, folder.path(COSIGNED))?;
    sync_folder(&folder.path(""))
}

/// Files that are written before they are flushed: together, so that the disk has one wait for many.
const FILES_MAX: usize = 64;
/// From this many on, the whole file system is flushed first: 800 files took a tenth of the time (docs/decisions/0052-audit-log.md).
const FILES_FLUSHED_ALONE: usize = 16;

/// Writes several files, and makes them durable together.
#[derive(Debug)]
pub(crate) struct FilesWriting<'f> {
    folder: &'f LogFolder,
    /// Files that are written and not flushed, with the names that they are to have.
    written: Vec<(File, String)>,
    /// Folders with new names.
    changed: BTreeSet<PathBuf>,
}

impl<'f> FilesWriting<'f> {
    pub(crate) fn begin(folder: &'f LogFolder) -> io::Result<Self> {
        fs::create_dir_all(folder.path(TEMPORARY))?;
        Ok(Self { folder, written: Vec::new(), changed: BTreeSet::new() })
    }

    /// Writes a file. It is durable after [`FilesWriting::finish`].
    pub(crate) fn write(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = create_temporary(&self.temporary(self.written.len()))?;
        file.write_all(content)?;
        self.written.push((file, name.to_owned()));
        if self.written.len() < FILES_MAX { Ok(()) } else { self.flush() }
    }

    fn temporary(&self, number: usize) -> PathBuf {
        self.folder.path(TEMPORARY).join(format!("file-{number}"))
    }

    /// Flushes what was written, and gives it its names.
    fn flush(&mut self) -> io::Result<()> {
        let written = std::mem::take(&mut self.written);
        // A few files do not make others wait for what else that file system has to write.
        if let Some((first, _)) = written.first().filter(|_| written.len() >= FILES_FLUSHED_ALONE) {
            flush_all(first)?;
        }
        for (number, (file, name)) in written.iter().enumerate() {
            // After that it is hardly a wait, and shows what went wrong with this file.
            file.sync_all()?;
            let target = self.folder.path(name);
            let parent = target.parent().expect("a name within the folder");
            self.make(parent)?;
            fs::rename(self.temporary(number), &target)?;
            self.changed.insert(parent.to_owned());
        }
        Ok(())
    }

    fn make(&mut self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        // Also of those that were there: an attempt before may have made them, and failed.
        let own = self.folder.path("");
        self.changed.extend(folder.ancestors().take_while(|above| above.starts_with(&own)).map(Path::to_owned));
        Ok(())
    }

    /// Makes the names durable.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.changed.iter().try_for_each(|folder| sync_folder(folder))
    }
}

/// Flushes the file system that a file is on, where that can be asked for.
fn flush_all(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(file)?;
    let _ = file;
    Ok(())
}

/// Begins a file that is renamed later. A link that somebody left in its place is not followed.
pub(crate) fn create_temporary(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    File::options().write(true).create(true).truncate(true).custom_flags(flags).open(path)
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if is_absent(&error) => Ok(()),
        done => done,
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_the_place_of_a_new_file_are_not_followed() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = LogFolder::new(&place.path().join("log"));
        fs::create_dir_all(folder.path("tmp")).expect("a folder");
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").expect("written");
        for name in ["tmp/file-0", COSIGNED_TEMPORARY] {
            std::os::unix::fs::symlink(&victim, folder.path(name)).expect("a link");
        }
        let mut writing = FilesWriting::begin(&folder).expect("begun");
        writing.write("x", b"new").expect_err("a link");
        write_cosigned(&folder, "new").expect_err("a link");
        assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
    }
}
