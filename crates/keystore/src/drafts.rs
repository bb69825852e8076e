//! Temporary files next to the files that they replace: `NAME.new-` and 16 digits.
//!
//! A killed process leaves such a file behind, perhaps with a private key in it. A temporary file is locked while it is written, so
//! that an abandoned one is recognised and removed: before the next one for the same file, and when the file is read at start-up.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

const MARK: &str = ".new-";
/// Digits after the mark.
const DIGITS: usize = 16;
/// Names that are tried until one is free.
const ATTEMPTS: u64 = 8;

/// An empty file for what another is to hold.
#[derive(Debug)]
pub(crate) struct DraftStore {
    /// To be written. Locked until it is dropped.
    pub file: File,
    /// Its path, until it is renamed, linked or removed.
    pub path: PathBuf,
}

impl DraftStore {
    /// Creates a draft of `path`, with these permissions from the moment that it exists. `random` makes its name.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path, mode: u32, random: u64) -> io::Result<Self> {
        remove_abandoned(path);
        let mut last = io::Error::from(ErrorKind::AlreadyExists);
        for attempt in 0..ATTEMPTS {
            let mut draft = path.as_os_str().to_owned();
            draft.push(format!("{MARK}{:016x}", random.wrapping_add(attempt)));
            let draft = PathBuf::from(draft);
            match OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft) {
                Ok(file) => {
                    file.lock()?;
                    // Another process may have taken it for an abandoned one before it was locked.
                    if file.metadata()?.nlink() > 0 {
                        return Ok(DraftStore { file, path: draft });
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

/// Removes abandoned temporary files of `path`. Files that cannot be examined or removed stay; they are never read.
pub fn remove_abandoned(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    remove_where(folder_of(path), |other| is_draft(other, name));
}

/// Removes abandoned temporary files of every key and certificate in a folder (`NAME.key`, `NAME.pem`), likewise.
pub fn remove_abandoned_in(folder: &Path) {
    remove_where(folder, |other| {
        let end = other.rfind(MARK).or_else(|| other.rfind('.'));
        let name = end.map(|end| other[..end].trim_start_matches('.')).unwrap_or_default();
        (name.ends_with(".key") || name.ends_with(".pem")) && is_draft(other, name)
    });
}

fn remove_where(folder: &Path, is_meant: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(&is_meant) && is_abandoned(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a file's name is that of a draft of `name`, by this version or by one before it (`.NAME.` and the digits).
fn is_draft(other: &str, name: &str) -> bool {
    let rest = other.strip_prefix(name).and_then(|rest| rest.strip_prefix(MARK));
    let earlier = || other.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.');
    rest.or_else(earlier).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// Whether a draft is a regular, unlocked file of this user.
fn is_abandoned(draft: &Path) -> bool {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(draft) else { return false };
    let is_ours = file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.uid() == geteuid().as_raw());
    is_ours && !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// The folder that contains `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn only_files_of_a_killed_process_are_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("root.key");
        let left = ["root.key.new-0123456789abcdef", ".root.key.00000000000000ff"];
        let others = ["root.key", "root.key.new-0123456789abcde", "root.key.new-0123456789abcdeg", "root.key.new-"];
        let more = [".root.key.new-0123456789abcdef", "a.key.new-0123456789abcdef", "xroot.key.new-0123456789abcdef"];
        let kept: Vec<&str> = others.into_iter().chain(more).collect();
        for name in left.iter().chain(&kept) {
            fs::write(folder.path().join(name), "secret").expect("written");
        }
        fs::create_dir(folder.path().join("root.key.new-0000000000000000")).expect("a folder");
        std::os::unix::fs::symlink("root.key", folder.path().join("root.key.new-1111111111111111")).expect("a link");
        remove_abandoned(&path);
        let mut expected = [kept, vec!["root.key.new-0000000000000000", "root.key.new-1111111111111111"]].concat();
        expected.sort_unstable();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn files_of_a_killed_process_are_removed_from_a_folder_of_keys() {
        let folder = tempfile::tempdir().expect("folder");
        let left = ["shop.key.new-0123456789abcdef", "ca.pem.new-00000000000000ff", ".relay-ca.key.0123456789abcdef"];
        let kept = [".key.new-", "notes.txt.new-0123456789abcdef", "shop.key", "shop.key.new-0123456789abcdeg"];
        for name in left.iter().chain(&kept) {
            fs::write(folder.path().join(name), "secret").expect("written");
        }
        let draft = DraftStore::create(&folder.path().join("other.key"), 0o600, 0).expect("created");
        remove_abandoned_in(folder.path());
        let mut expected = [&kept[..], &["other.key.new-0000000000000000"]].concat();
        expected.sort_unstable();
        assert_eq!(names(folder.path()), expected);
        drop(draft);
    }

    #[test]
    fn a_draft_that_is_being_written_stays() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("root.key");
        let first = DraftStore::create(&path, 0o600, 1).expect("created");
        let second = DraftStore::create(&path, 0o600, 1).expect("with the next name");
        assert_ne!(first.path, second.path);
        remove_abandoned(&path);
        assert_eq!(names(folder.path()).len(), 2);
        drop(first);
        remove_abandoned(&path);
        assert_eq!(names(folder.path()), ["root.key.new-0000000000000002"]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_no_fault() {
        remove_abandoned(Path::new("/no/such/folder/root.key"));
        remove_abandoned(Path::new("/"));
    }

    #[test]
    fn the_folder_of_a_bare_name_is_here() {
        assert_eq!(folder_of(Path::new("store.db")), Path::new("."));
        assert_eq!(folder_of(Path::new("a/store.db")), Path::new("a"));
    }
}
