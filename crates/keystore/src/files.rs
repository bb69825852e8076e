//! Files that only their owner may reach: checked when they are opened, created whole or not at all.
//!
//! Owner and permissions are checked on the open handle if there is one, so that the path cannot be exchanged in between. The owner
//! matters as much as the mode: the owner of a file can change it and its mode at any time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use leafseal_crypto::CryptoRng;
use rustix::fs::OFlags;
use rustix::process::{getegid, geteuid};
use zeroize::Zeroizing;

use crate::StoreError;
use crate::drafts::{DraftStore, folder_of};
use crate::secret_path::{ROOT_USER, SecretPath};

/// Permission bits of a new secret file.
const FILE_MODE: u32 = 0o600;
/// Permission bits of a new folder.
const FOLDER_MODE: u32 = 0o700;
/// Refuses a path that belongs to another user, or whose mode lets others in.
pub(crate) fn check_private(what: SecretPath, path: &Path, metadata: &fs::Metadata) -> Result<(), StoreError> {
    let (owner, user) = (metadata.uid(), geteuid().as_raw());
    if !is_trusted_owner(owner, user) {
        return Err(StoreError::Owner { what, path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & what.refused_bits(owner, metadata.gid(), getegid().as_raw()) == 0 {
        return Ok(());
    }
    Err(StoreError::Permissions { what, path: path.to_owned(), mode })
}

/// Root may read and replace everything anyhow, so a file of root's is no worse than one of our own.
fn is_trusted_owner(owner: u32, user: u32) -> bool {
    owner == user || owner == ROOT_USER
}

/// A file with any name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Creates `folder` and what is missing above it, each 0700. One that exists keeps its mode.
pub(crate) fn create_folder(folder: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(StoreError::io(folder))
}

/// Creates an empty file, 0600, unless there is one.
pub(crate) fn create_empty_if_missing(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::io(path)(error)),
    }
}

/// Writes a new file, 0600, that is there whole and on disk when this returns, and whole or not at all if it never does. An
/// existing file is never touched.
///
/// A kill may leave a draft, also 0600, which is never read; the next start removes it.
pub(crate) fn create_secret(path: &Path, content: &[u8], rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
    let DraftStore { mut file, path: draft } =
        DraftStore::create(path, FILE_MODE, rng.next_u64()).map_err(StoreError::io(path))?;
    // A link and not a rename, which would replace a file made meanwhile: a lost root key is a lost store.
    let published = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(StoreError::io(&draft))
        .and_then(|()| fs::hard_link(&draft, path).map_err(StoreError::io(path)));
    let removed = fs::remove_file(&draft).map_err(StoreError::io(&draft));
    published?;
    removed?;
    let folder = folder_of(path);
    File::open(folder).and_then(|handle| handle.sync_all()).map_err(StoreError::io(folder))
}

/// Opens a regular file that is private, and refuses any other. Never blocks: opening a FIFO would wait for a writer.
pub(crate) fn open_private(what: SecretPath, path: &Path) -> Result<File, StoreError> {
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(without_waiting).open(path).map_err(StoreError::io(path))?;
    let metadata = file.metadata().map_err(StoreError::io(path))?;
    if !metadata.is_file() {
        return Err(StoreError::NotAFile { what, path: path.to_owned() });
    }
    check_private(what, path, &metadata)?;
    Ok(file)
}

/// Reads a regular file that only its owner may reach, of at most `size_max` bytes; `None` if it is longer.
///
/// # Errors
/// Its permissions or owner ([`StoreError::Permissions`], [`StoreError::Owner`]), or it cannot be read.
pub fn read_private_file(
    what: SecretPath,
    path: &Path,
    size_max: usize,
) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
    read_secret(open_private(what, path)?, path, size_max)
}

/// Reads all of `file`, at most `size_max` bytes, into a buffer that is wiped; `None` when it is longer. `path` is for errors.
pub(crate) fn read_secret(
    mut file: File,
    path: &Path,
    size_max: usize,
) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
    // Read into a buffer that never grows: a growing vector would leave copies behind.
    let mut content = Zeroizing::new(vec![0; size_max + 1]);
    let mut size = 0;
    while size < content.len() {
        match file.read(&mut content[size..]) {
            Ok(0) => break,
            Ok(count) => size += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::io(path)(error)),
        }
    }
    content.truncate(size);
    Ok((size <= size_max).then_some(content))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn a_secret_file_is_whole_private_and_never_replaced() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("secret");
        let mut rng = StdRng::seed_from_u64(1);
        create_secret(&path, b"first", &mut rng).expect("created");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        let Err(StoreError::Io { source, .. }) = create_secret(&path, b"second", &mut rng) else {
            panic!("replaced");
        };
        assert_eq!(source.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"first");
        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "no draft is left");
    }

    #[test]
    fn reading_is_bounded() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("secret");
        for (size, fits) in [(0, true), (1, true), (7, true), (8, true), (9, false), (100, false)] {
            fs::write(&path, vec![7; size]).expect("written");
            let read = read_secret(File::open(&path).expect("opened"), &path, 8).expect("read");
            assert_eq!(read.map(|content| content.len()), fits.then_some(size));
        }
        let unreadable = File::open(folder.path()).expect("opened");
        assert!(matches!(read_secret(unreadable, folder.path(), 8), Err(StoreError::Io { .. })));
    }

    #[test]
    fn each_kind_of_path_has_its_own_bound() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, b"").expect("written");
        let cases = [
            (SecretPath::StoreFile, 0o600, true),
            (SecretPath::StoreFile, 0o400, true),
            (SecretPath::StoreFile, 0o640, false),
            (SecretPath::RootKeyFile, 0o604, false),
            (SecretPath::RootKeyFile, 0o610, false),
            (SecretPath::StoreFolder, 0o755, true),
            (SecretPath::StoreFolder, 0o770, false),
            (SecretPath::StoreFolder, 0o702, false),
        ];
        for (what, mode, private) in cases {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            let checked = check_private(what, &path, &fs::metadata(&path).expect("there"));
            assert_eq!(checked.is_ok(), private, "{what} {mode:o}");
        }
    }

    #[test]
    fn files_of_this_user_and_of_root_are_trusted() {
        let cases = [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1000, 0, false), (1001, 1000, false)];
        for (owner, user, trusted) in cases {
            assert_eq!(is_trusted_owner(owner, user), trusted, "{owner} for {user}");
        }
    }

    #[test]
    fn a_path_of_another_user_is_refused_whatever_its_mode() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, b"").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        let other = geteuid().as_raw() + 1;
        // Only root may change the owner of files; the rule itself is tested above for every user.
        match std::os::unix::fs::chown(&path, Some(other), None) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
            given => given.expect("given away"),
        }
        for what in [SecretPath::RootKeyFile, SecretPath::StoreFile, SecretPath::StoreFolder] {
            match check_private(what, &path, &fs::metadata(&path).expect("there")) {
                Err(StoreError::Owner { what: found, owner, .. }) => assert_eq!((found, owner), (what, other)),
                unexpected => panic!("{unexpected:?}"),
            }
        }
        assert!(matches!(open_private(SecretPath::RootKeyFile, &path), Err(StoreError::Owner { .. })));
    }

    #[test]
    fn only_regular_files_open_and_none_is_waited_for() {
        let folder = tempfile::tempdir().expect("folder");
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&fifo).status().expect("mkfifo runs");
        assert!(made.success());
        let (sender, receiver) = std::sync::mpsc::channel();
        let path = fifo.clone();
        std::thread::spawn(move || sender.send(open_private(SecretPath::RootKeyFile, &path)));
        let opened = receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("no writer, no wait");
        let refusal = opened.expect_err("no regular file");
        assert_eq!(refusal.to_string(), format!("the root key file {} is not a regular file", fifo.display()));
        assert!(matches!(open_private(SecretPath::RootKeyFile, folder.path()), Err(StoreError::NotAFile { .. })));
        assert!(matches!(
            open_private(SecretPath::RootKeyFile, &folder.path().join("none")),
            Err(StoreError::Io { .. })
        ));
    }

    #[test]
    fn the_refusal_says_how_to_fix_it() {
        let what = SecretPath::StoreFile;
        let refusal = StoreError::Owner { what, path: "store.db".into(), owner: 1001, user: 1000 };
        assert_eq!(
            refusal.to_string(),
            "the keystore store.db belongs to user 1001, who can change it at any time, while this program runs as user \
             1000: run it as user 1001, or, if you trust what is in it, run chown 1000 store.db"
        );
        let refusal = StoreError::Permissions { what: SecretPath::RootKeyFile, path: "root.key".into(), mode: 0o644 };
        assert_eq!(
            refusal.to_string(),
            "the root key file root.key has mode 0644, which lets others reach it: run chmod 600 root.key"
        );
    }
}
