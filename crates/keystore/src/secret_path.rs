//! The kinds of paths that must be private, and how private each must be.

use std::fmt;

/// Anything for group or others.
const ANY_BY_OTHERS: u32 = 0o077;
/// Writing by group or others.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Reading by the group.
const READ_BY_GROUP: u32 = 0o040;
/// The user id of root.
pub(crate) const ROOT_USER: u32 = 0;
/// The group id of root.
const ROOT_GROUP: u32 = 0;

/// The kind of a path that must be private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPath {
    /// The file with the root key.
    RootKeyFile,
    /// The file of the store.
    StoreFile,
    /// The folder around the store.
    StoreFolder,
    /// The file with the password of a database.
    PasswordFile,
    /// The file with the private key of a certificate.
    PrivateKeyFile,
    /// The file with a passphrase or shares.
    UnsealFile,
    /// The file with the newest state of a store that was seen: no secret, but nobody else may put back an older one.
    MemoryFile,
    /// The folder around it.
    MemoryFolder,
    /// The file with the token for a key service.
    TokenFile,
    /// The file with the PIN of a token.
    PinFile,
}

impl SecretPath {
    /// The argument of `chmod` that mends it.
    pub(crate) fn wanted_mode(self) -> &'static str {
        match self {
            Self::RootKeyFile
            | Self::StoreFile
            | Self::PasswordFile
            | Self::PrivateKeyFile
            | Self::UnsealFile
            | Self::MemoryFile
            | Self::TokenFile
            | Self::PinFile => "600",
            Self::StoreFolder | Self::MemoryFolder => "700",
        }
    }

    /// The permission bits that are a fault.
    ///
    /// A folder that others may list is no fault, as the files in it are closed to them; one that they may write to is, as
    /// they could put another file in a secret one's place.
    ///
    /// A secret of root's may be readable by root's group: systemd passes credentials in such a file with an access control list for
    /// the service's user, which the mode shows as the group's bit. It may also be readable by the group that this process runs as:
    /// Kubernetes gives the files of a Secret to root and to the group of the pod, which no file system permission separates further.
    pub(crate) fn refused_bits(self, owner: u32, group: u32, own_group: u32) -> u32 {
        match self {
            Self::RootKeyFile
            | Self::PasswordFile
            | Self::PrivateKeyFile
            | Self::UnsealFile
            | Self::TokenFile
            | Self::PinFile
                if owner == ROOT_USER && [ROOT_GROUP, own_group].contains(&group) =>
            {
                ANY_BY_OTHERS & !READ_BY_GROUP
            }
            Self::RootKeyFile
            | Self::PasswordFile
            | Self::PrivateKeyFile
            | Self::UnsealFile
            | Self::TokenFile
            | Self::PinFile
            | Self::StoreFile => ANY_BY_OTHERS,
            Self::StoreFolder | Self::MemoryFolder | Self::MemoryFile => WRITE_BY_OTHERS,
        }
    }
}

impl fmt::Display for SecretPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RootKeyFile => "the root key file",
            Self::StoreFile => "the keystore",
            Self::StoreFolder => "the keystore's folder",
            Self::PasswordFile => "the password file",
            Self::PrivateKeyFile => "the private key file",
            Self::UnsealFile => "the file with a passphrase or shares",
            Self::MemoryFile => "the file with the keystore's newest state",
            Self::MemoryFolder => "the folder with the keystore's newest state",
            Self::TokenFile => "the token file",
            Self::PinFile => "the PIN file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_root_key_of_root_may_be_readable_by_its_group() {
        use SecretPath::{RootKeyFile, StoreFile, StoreFolder};
        let own = 65532;
        let cases = [
            (RootKeyFile, 0, 0, 0o440, true),
            (RootKeyFile, 0, 0, 0o460, false),
            (RootKeyFile, 0, 0, 0o444, false),
            (RootKeyFile, 0, own, 0o440, true),
            (RootKeyFile, 0, own, 0o460, false),
            (RootKeyFile, 0, own, 0o450, false),
            (RootKeyFile, 0, own, 0o444, false),
            (RootKeyFile, 0, 1000, 0o440, false),
            (RootKeyFile, 1000, 0, 0o440, false),
            (RootKeyFile, 1000, own, 0o440, false),
            (StoreFile, 0, 0, 0o440, false),
            (StoreFile, 0, own, 0o440, false),
            (StoreFolder, 0, own, 0o770, false),
        ];
        for (what, owner, group, mode, private) in cases {
            let refused = mode & what.refused_bits(owner, group, own);
            assert_eq!(refused == 0, private, "{what} {owner}:{group} {mode:o}");
        }
    }
}
