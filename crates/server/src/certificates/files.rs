//! Writes certificates and keys so that a crash leaves the old file or the new one, and a key is nobody else's to read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use boring::rand::rand_bytes;
use fieldseal_engine::admin::Draft;

/// Writes a certificate, readable for all.
///
/// # Errors
/// Those of the file system. The file is then as it was.
pub fn write_certificate(path: &Path, pem: &[u8]) -> io::Result<()> {
    write(path, pem, 0o644)
}

/// Writes a private key, readable for its owner alone from the moment that it exists.
///
/// # Errors
/// Those of the file system. The file is then as it was.
pub fn write_private_key(path: &Path, pem: &[u8]) -> io::Result<()> {
    write(path, pem, 0o600)
}

/// Writes a file beside `path`, brings it to the disk, and renames it.
fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Draft { mut file, path: draft } = Draft::create(path, mode, random()?)?;
    let whole = file.write_all(content).and_then(|()| file.sync_all());
    let written = whole.and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // What has been written of a key must not lie around; the first error is reported.
        let _ = fs::remove_file(&draft);
    }
    written?;
    // The rename is on the disk only when the folder is.
    File::open(folder)?.sync_all()
}

fn random() -> io::Result<u64> {
    let mut random = [0; 8];
    rand_bytes(&mut random).map_err(io::Error::other)?;
    Ok(u64::from_be_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn keys_are_private_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, "old and readable for all").unwrap();
        write_private_key(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o600));
        write_certificate(&folder.path().join("cert.pem"), b"c").unwrap();
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "no temporary file is left");
    }

    #[test]
    fn the_next_write_removes_what_a_killed_one_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.key");
        for left in ["server.key.new-0123456789abcdef", ".server.key.0123456789abcdef"] {
            fs::write(folder.path().join(left), "half a key").unwrap();
        }
        write_private_key(&path, b"new").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "").unwrap();
        assert!(write_private_key(&path, b"new").is_err());
        assert!(path.join("inside").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_private_key(&folder.path().join("no/such/key"), b"new").is_err());
    }
}
