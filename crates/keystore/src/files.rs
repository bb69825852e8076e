//! Files that only their owner may reach: checked when they are opened, created whole or not at all.
//!
//! Permissions are checked on the open handle where there is one, so that the path cannot be exchanged in between.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fieldseal_crypto::CryptoRng;
use zeroize::Zeroizing;

use crate::Error;

/// Permission bits of a new secret file.
const FILE_MODE: u32 = 0o600;
/// Permission bits of a new folder.
const FOLDER_MODE: u32 = 0o700;
/// Anything for group or others.
const ANY_BY_OTHERS: u32 = 0o077;
/// Writing by group or others.
const WRITE_BY_OTHERS: u32 = 0o022;

/// A path that must be private, by what lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPath {
    /// The file with the root key.
    RootKeyFile,
    /// The file of the store.
    StoreFile,
    /// The folder around the store.
    StoreFolder,
}

impl SecretPath {
    /// The argument of `chmod` that mends it.
    pub(crate) fn wanted_mode(self) -> &'static str {
        match self {
            Self::RootKeyFile | Self::StoreFile => "600",
            Self::StoreFolder => "700",
        }
    }

    /// A folder that others may list is no fault, as the files in it are closed to them; one that they may write to is, as
    /// they could put another file in a secret one's place.
    fn refused_bits(self) -> u32 {
        match self {
            Self::RootKeyFile | Self::StoreFile => ANY_BY_OTHERS,
            Self::StoreFolder => WRITE_BY_OTHERS,
        }
    }
}

impl fmt::Display for SecretPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RootKeyFile => "the root key file",
            Self::StoreFile => "the keystore",
            Self::StoreFolder => "the keystore's folder",
        })
    }
}

/// Refuses a path whose mode lets others in.
pub(crate) fn check_private(what: SecretPath, path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    let mode = metadata.mode() & 0o7777;
    if mode & what.refused_bits() == 0 {
        return Ok(());
    }
    Err(Error::Permissions { what, path: path.to_owned(), mode })
}

/// The folder that `path` lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Creates `folder` and what is missing above it, each 0700. One that exists keeps its mode.
pub(crate) fn create_folder(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(Error::io(folder))
}

/// Creates an empty file, 0600, unless there is one.
pub(crate) fn create_empty_if_missing(path: &Path) -> Result<(), Error> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io(path)(error)),
    }
}

/// Writes a new file, 0600, that is there whole and on disk when this returns, and whole or not at all if it never does. An
/// existing file is never touched.
///
/// A kill may leave a file `NAME.new-…`, also 0600, which nobody reads.
pub(crate) fn create_secret(path: &Path, content: &[u8], rng: &mut dyn CryptoRng) -> Result<(), Error> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".new-{:016x}", rng.next_u64()));
    let draft = PathBuf::from(draft);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&draft).map_err(Error::io(&draft))?;
    // A link and not a rename, which would replace a file made meanwhile: a lost root key is a lost store.
    let published = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(Error::io(&draft))
        .and_then(|()| fs::hard_link(&draft, path).map_err(Error::io(path)));
    let removed = fs::remove_file(&draft).map_err(Error::io(&draft));
    published?;
    removed?;
    let folder = folder_of(path);
    File::open(folder).and_then(|handle| handle.sync_all()).map_err(Error::io(folder))
}

/// Reads a whole file of at most `size_max` bytes into a buffer that is wiped; `None` when it is longer. `check` sees the open
/// file's metadata first.
pub(crate) fn read_secret(
    path: &Path,
    size_max: usize,
    check: impl FnOnce(&fs::Metadata) -> Result<(), Error>,
) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    check(&file.metadata().map_err(Error::io(path))?)?;
    // Read into room that never grows: a growing vector would leave copies behind.
    let mut content = Zeroizing::new(vec![0; size_max + 1]);
    let mut size = 0;
    while size < content.len() {
        match file.read(&mut content[size..]) {
            Ok(0) => break,
            Ok(count) => size += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(path)(error)),
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
        let Err(Error::Io { source, .. }) = create_secret(&path, b"second", &mut rng) else {
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
            let read = read_secret(&path, 8, |_| Ok(())).expect("read");
            assert_eq!(read.map(|content| content.len()), fits.then_some(size));
        }
        assert!(matches!(read_secret(folder.path(), 8, |_| Ok(())), Err(Error::Io { .. })));
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
    fn the_refusal_says_how_to_mend_it() {
        let refusal = Error::Permissions { what: SecretPath::RootKeyFile, path: "root.key".into(), mode: 0o644 };
        assert_eq!(
            refusal.to_string(),
            "the root key file root.key has mode 0644, which lets others reach it: run chmod 600 root.key"
        );
    }

    #[test]
    fn the_folder_of_a_bare_name_is_here() {
        assert_eq!(folder_of(Path::new("store.db")), Path::new("."));
        assert_eq!(folder_of(Path::new("a/store.db")), Path::new("a"));
    }
}
