//! The owner, group, mode and access lists of a file that another one replaces.
//!
//! A file that is written beside the old one and renamed belongs to the user who writes it. Without these attributes the new content would
//! be readable by another group, or no longer by the user who needs it. They are set on the new file before it gets a name, in an order in
//! that no one who could not read the old one can read the new one.

use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::process::geteuid;
use thiserror::Error;

/// Permission bits that are kept. The others let a program run as another user, which the kernel removes from a file that is written.
const MODE_MASK: u32 = 0o777;
/// Anything for group or others.
const OTHERS: u32 = 0o077;
/// Deletion in a folder is restricted to the owners of files and folder.
const STICKY: u32 = 0o1000;
/// Writing by group or others.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Writing by others.
const WRITE_BY_ALL: u32 = 0o002;

/// Why a file cannot be replaced by one with the same attributes.
#[derive(Debug, Error)]
pub enum AttributesError {
    /// Its attributes cannot be read.
    #[error("its owner and permissions cannot be read: {0}")]
    Unreadable(io::Error),
    /// Owner and group cannot be given to the new file.
    #[error(
        "its owner and group ({owner}:{group}) cannot be kept by user {user}: run the command as user {owner} in group {group}, or \
         redirect standard output into the file, which keeps them"
    )]
    Owner {
        /// The owner's id.
        owner: u32,
        /// The group's id.
        group: u32,
        /// The id of the user who runs this program.
        user: u32,
    },
    /// An access list or another extended attribute cannot be given to the new file.
    #[error(
        "its attribute {name} cannot be kept: {source}: remove the attribute, or redirect standard output into the file, which keeps it"
    )]
    Extended {
        /// The attribute's name.
        name: String,
        /// The fault.
        source: io::Error,
    },
    /// The mode cannot be given to the new file.
    #[error("its mode {mode:04o} cannot be kept: {source}")]
    Mode {
        /// The mode.
        mode: u32,
        /// The fault.
        source: io::Error,
    },
    /// The file has other names, which would keep the old content.
    #[error(
        "it has {0} names (hard links), and the others would keep the old content: write to another file, or redirect standard output \
         into the file"
    )]
    HardLinks(u64),
    /// Another user can have put the file there to read what is written.
    #[error(
        "it belongs to user {owner}, in a folder in which others may create files, and that user could read the result: write to \
         another folder, or remove the file first"
    )]
    Foreign {
        /// The owner's id.
        owner: u32,
    },
}

/// The attributes of a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    owner: u32,
    group: u32,
    mode: u32,
    /// Extended attributes that do not depend on the content, by name.
    extended: Vec<(OsString, Vec<u8>)>,
}

impl Attributes {
    /// Reads those of the file at `path`, which must not be a symbolic link, and refuses a file that cannot be replaced: it has other
    /// names, or another user can have put it into the `folder` to read what is written.
    ///
    /// # Errors
    /// [`AttributesError`].
    pub fn of_replaced(path: &Path, metadata: &Metadata, folder: &Path) -> Result<Self, AttributesError> {
        if metadata.nlink() > 1 {
            return Err(AttributesError::HardLinks(metadata.nlink()));
        }
        let folder = std::fs::metadata(folder).map_err(AttributesError::Unreadable)?;
        if is_foreign(metadata.uid(), folder.uid(), folder.mode(), geteuid().as_raw()) {
            return Err(AttributesError::Foreign { owner: metadata.uid() });
        }
        Ok(Self {
            owner: metadata.uid(),
            group: metadata.gid(),
            mode: metadata.mode() & MODE_MASK,
            extended: extended::of_path(path).map_err(AttributesError::Unreadable)?,
        })
    }

    /// Gives them to `file`, in which nothing needs to be written yet. Meanwhile only its owner and the new one may read `file`.
    ///
    /// # Errors
    /// [`AttributesError`]. Some attributes may have been set; the file is then readable by no more users than the old one.
    pub fn give_to(&self, file: &File) -> Result<(), AttributesError> {
        let current = file.metadata().map_err(AttributesError::Unreadable)?;
        let mode = |mode: u32| {
            let set = file.set_permissions(Permissions::from_mode(mode));
            set.map_err(|source| AttributesError::Mode { mode, source })
        };
        if current.mode() & OTHERS != 0 {
            // Until it has its owner and lists, no one else may reach it.
            mode(current.mode() & MODE_MASK & !OTHERS)?;
        }
        if (current.uid(), current.gid()) != (self.owner, self.group) {
            let (owner, group) = (self.owner, self.group);
            fchown(file, Some(owner), Some(group)).map_err(|_| AttributesError::Owner {
                owner,
                group,
                user: geteuid().as_raw(),
            })?;
        }
        extended::give(file, &self.extended)?;
        // Last, because it decides together with the access list who may read. Nothing to do where a file system has one mode for all.
        let current = file.metadata().map_err(AttributesError::Unreadable)?;
        if current.mode() & 0o7777 == self.mode { Ok(()) } else { mode(self.mode) }
    }

    /// Gives only owner and group to `file`, whose readers are fixed by its purpose.
    ///
    /// # Errors
    /// [`AttributesError::Owner`].
    pub fn give_owner_to(&self, file: &File) -> Result<(), AttributesError> {
        let current = file.metadata().map_err(AttributesError::Unreadable)?;
        let owned = Self { mode: current.mode() & MODE_MASK, extended: Vec::new(), ..self.clone() };
        owned.give_to(file)
    }
}

/// Whether a file of `owner` may be a trap in a folder of `folder_owner` with this mode: the rule of Linux's `fs.protected_regular`, for
/// every folder in which any user may create files.
fn is_foreign(owner: u32, folder_owner: u32, folder_mode: u32, user: u32) -> bool {
    let is_open = folder_mode & WRITE_BY_ALL != 0 || folder_mode & STICKY != 0 && folder_mode & WRITE_BY_OTHERS != 0;
    is_open && owner != user && owner != folder_owner
}

/// Extended attributes: access control lists, labels, and those of users.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod extended {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr};
    use rustix::io::Errno;

    use super::*;

    /// POSIX access control list of a file.
    const ACCESS_LIST: &str = "system.posix_acl_access";
    /// Attributes of the content, or of permissions that the kernel removes when a file is written.
    const OF_CONTENT: [&str; 3] = ["security.capability", "security.ima", "security.evm"];
    /// Maximum bytes of a list of names, and of a value (`XATTR_LIST_MAX` and `XATTR_SIZE_MAX` of Linux).
    const SIZE_MAX: usize = 64 << 10;

    pub(super) fn of_path(path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        read(|buffer| llistxattr(path, buffer), |name, buffer| lgetxattr(path, name, buffer))
    }

    /// Sets `wanted`, and removes an access list that the folder has given to the file.
    pub(super) fn give(file: &File, wanted: &[(OsString, Vec<u8>)]) -> Result<(), AttributesError> {
        let current = read(|buffer| flistxattr(file, buffer), |name, buffer| fgetxattr(file, name, buffer));
        let current = current.map_err(AttributesError::Unreadable)?;
        let failed = |name: &OsString| {
            let name = name.to_string_lossy().into_owned();
            move |source: Errno| AttributesError::Extended { name, source: source.into() }
        };
        for (name, _) in current.iter().filter(|(name, _)| name == ACCESS_LIST) {
            if !wanted.iter().any(|(other, _)| other == name) {
                fremovexattr(file, name.as_os_str()).map_err(failed(name))?;
            }
        }
        for attribute in wanted.iter().filter(|attribute| !current.contains(attribute)) {
            let (name, value) = attribute;
            fsetxattr(file, name.as_os_str(), value, XattrFlags::empty()).map_err(failed(name))?;
        }
        Ok(())
    }

    /// Reads all attributes that are kept. A file system without attributes has none.
    fn read(
        list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
        get: impl Fn(&std::ffi::OsStr, &mut [u8]) -> Result<usize, Errno>,
    ) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        let names = match whole(&list) {
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            names => names?,
        };
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let kept = names.filter(|name| OF_CONTENT.iter().all(|other| other.as_bytes() != *name));
        let mut attributes = Vec::new();
        for name in kept {
            match whole(|buffer| get(std::ffi::OsStr::from_bytes(name), buffer)) {
                // Removed meanwhile.
                Err(Errno::NODATA) => {}
                value => attributes.push((OsString::from_vec(name.to_vec()), value?)),
            }
        }
        Ok(attributes)
    }

    /// The whole of a list or value.
    fn whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; SIZE_MAX];
        let size = read(&mut value)?;
        value.truncate(size);
        Ok(value)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod extended {
    use super::*;

    pub(super) fn of_path(_: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        Ok(Vec::new())
    }

    pub(super) fn give(_: &File, _: &[(OsString, Vec<u8>)]) -> Result<(), AttributesError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_traps_where_anybody_may_create_files() {
        let (root, user, other) = (0, 1000, 1001);
        for (owner, folder_owner, folder_mode, is_trap) in [
            (other, root, 0o1777, true),
            (other, root, 0o777, true),
            (other, root, 0o1770, true),
            (other, root, 0o770, false),
            (other, other, 0o1777, false),
            (user, root, 0o1777, false),
            (root, root, 0o1777, false),
            (other, root, 0o755, false),
        ] {
            assert_eq!(is_foreign(owner, folder_owner, folder_mode, user), is_trap, "{owner} {folder_mode:o}");
        }
    }
}
