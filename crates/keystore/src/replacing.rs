//! Replaces files atomically: a crash leaves the old file or the new one, owner and group stay, and only the owner can read secrets.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use leafseal_crypto::CryptoRng;

use crate::attributes::Attributes;
use crate::drafts::{DraftStore, folder_of};

/// The readers of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Only its owner, from the moment of its creation.
    Owner,
    /// Everybody.
    All,
}

/// Writes a temporary file next to `path`, syncs it to disk, and renames it. A file that it replaces passes on its owner and group, so that
/// a service can still read its keys after root has renewed them; the permissions are those of `readers`. A symbolic link is replaced.
///
/// # Errors
/// Those of the file system, or if the file cannot be replaced by one of the same owner and group. The file is then as it was.
pub fn replace_file(path: &Path, content: &[u8], readers: Readers, rng: &mut dyn CryptoRng) -> io::Result<()> {
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::All => 0o644,
    };
    let replaced = match fs::symlink_metadata(path) {
        Ok(existing) if existing.is_file() => {
            Some(Attributes::of_replaced(path, &existing, folder_of(path)).map_err(io::Error::other)?)
        }
        _ => None,
    };
    let DraftStore { mut file, path: draft } = DraftStore::create(path, mode, rng.next_u64())?;
    let owned = replaced.map_or(Ok(()), |replaced| replaced.give_owner_to(&file).map_err(io::Error::other));
    let whole = owned.and_then(|()| file.write_all(content)).and_then(|()| file.sync_all());
    let written = whole.and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // A partly written key must not remain; the first error is reported.
        let _ = fs::remove_file(&draft);
    }
    written?;
    // The rename is on the disk only when the folder is.
    File::open(folder_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    use leafseal_crypto::random::fresh_random;

    fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
        replace_file(path, content, Readers::Owner, &mut fresh_random())
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn keys_are_private_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, "old and readable for all").unwrap();
        write_secret(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o600));
        let certificate = folder.path().join("cert.pem");
        replace_file(&certificate, b"c", Readers::All, &mut fresh_random()).unwrap();
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "no temporary file is left");
    }

    #[test]
    fn the_next_write_removes_files_of_a_killed_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.key");
        for left in ["server.key.new-0123456789abcdef", ".server.key.0123456789abcdef"] {
            fs::write(folder.path().join(left), "half a key").unwrap();
        }
        write_secret(&path, b"new").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "").unwrap();
        assert!(write_secret(&path, b"new").is_err());
        assert!(path.join("inside").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_secret(&folder.path().join("no/such/key"), b"new").is_err());
    }
}
