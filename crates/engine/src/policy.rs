//! Who may do what. A caller over the network is a client whose grant stands in the store and is read again with each change of
//! it, so that a client that was disabled is refused from the next refresh on; the owner of the store may do everything.

use std::sync::Arc;

use fieldseal_keystore::{AppName, ClientGrant, ClientName, Operation, RoleName, Roles};

use crate::error::{Error, ErrorKind};

/// Whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Whoever holds the store itself.
    Owner,
    /// A client, known by its certificate.
    Client {
        /// The name in its certificate.
        name: ClientName,
        /// SHA-256 of the certificate it came with.
        certificate_sha256: [u8; 32],
    },
}

/// What a caller may do, as of now.
#[derive(Debug, Clone)]
pub(crate) enum Rights {
    Everything,
    Granted(Arc<ClientGrant>),
}

impl Rights {
    /// Those of a client that came with a certificate.
    pub(crate) fn granted(grant: Arc<ClientGrant>, certificate_sha256: &[u8; 32]) -> Result<Self, Error> {
        let name = &grant.name;
        if grant.disabled {
            return Err(Error::new(ErrorKind::Forbidden, format!("client {name} is disabled")));
        }
        if grant.certificate_sha256.is_some_and(|pinned| pinned != *certificate_sha256) {
            let message = format!("client {name} came with another certificate than the one it was granted");
            return Err(Error::new(ErrorKind::Forbidden, message));
        }
        Ok(Self::Granted(grant))
    }

    /// Refuses before anything is looked up, so that an app that the caller has no business with looks like one that is not there.
    pub(crate) fn check(&self, operations: &[Operation], app: &AppName) -> Result<(), Error> {
        let Self::Granted(grant) = self else { return Ok(()) };
        if operations.iter().all(|&operation| grant.allows(operation, app)) {
            return Ok(());
        }
        let (client, names) =
            (&grant.name, operations.iter().map(|&o| operation_name(o)).collect::<Vec<_>>().join(" and "));
        Err(Error::new(ErrorKind::Forbidden, format!("client {client} may not {names} for app {app}")))
    }

    /// Whether either operation is allowed: enough to inspect and to read public keys.
    pub(crate) fn check_any(&self, app: &AppName) -> Result<(), Error> {
        self.check(&[Operation::Encrypt], app).or_else(|_| self.check(&[Operation::Decrypt], app))
    }

    /// Whether a value of `role` may be shown to the caller.
    pub(crate) fn check_role(&self, role: &str) -> Result<(), Error> {
        let covered = match self {
            Self::Everything => true,
            Self::Granted(grant) => match &grant.roles {
                Roles::Any => true,
                roles => RoleName::parse(role).is_ok_and(|role| roles.cover(&role)),
            },
        };
        if covered {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Forbidden, "the value's role is not granted to this client"))
        }
    }
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Encrypt => "encrypt",
        Operation::Decrypt => "decrypt",
    }
}
