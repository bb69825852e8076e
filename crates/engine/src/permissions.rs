//! Permissions. A caller over the network is a client whose grant is in the store and is read again after each change, so that a disabled
//! client is refused from the next refresh on; the same holds for API keys. A token contains its own permissions. The owner of the store
//! may do everything.

use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use leafseal_errors::Operation;
use leafseal_errors::Principal;
use leafseal_keystore::{AcceptedSchemes, ApiKey, ApiKeyId, AppName, ClientGrant, ClientName, RoleName, Roles};

use crate::error::{Error, ErrorCode};

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// The owner of the store.
    Owner,
    /// A caller without credentials, to whom a server returns public keys.
    Anonymous,
    /// A client, identified by its certificate.
    Client {
        /// The name in its certificate.
        name: ClientName,
        /// SHA-256 of its certificate.
        certificate_sha256: [u8; 32],
    },
    /// The holder of an API key.
    ApiKey {
        /// The key's id.
        id: ApiKeyId,
        /// SHA-256 of the presented secret.
        secret_sha256: [u8; 32],
    },
    /// A client, such as a relay, that acts for the holder of an API key: it may do what both may.
    OnBehalf {
        /// The client.
        agent: Box<Caller>,
        /// The key's id.
        key: ApiKeyId,
    },
    /// The holder of a client-side token with a valid signature.
    Token(TokenCaller),
}

impl Caller {
    /// The caller as decisions name it: its identity without secrets.
    pub fn principal(&self) -> Principal<'_> {
        match self {
            Self::Owner => Principal::Owner,
            Self::Anonymous => Principal::Anonymous,
            Self::Client { name, certificate_sha256 } => {
                Principal::Client { name: name.as_str(), certificate_sha256: *certificate_sha256 }
            }
            Self::ApiKey { id, .. } => Principal::ApiKey { id: id.as_str() },
            Self::OnBehalf { agent, key } => {
                Principal::OnBehalf { client: agent.principal().client().unwrap_or_default(), key: key.as_str() }
            }
            Self::Token(token) => Principal::Token { id: &token.id },
        }
    }
}

/// The content of a client-side token; only a valid token creates one. It may decrypt once the payload that it is for has been compared
/// ([`crate::Engine::show_payload`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCaller {
    id: String,
    app: AppName,
    roles: Roles,
    accept: AcceptedSchemes,
    payload: PayloadDigest,
    is_shown: bool,
}

/// The digest of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadDigest(pub(crate) [u8; 32]);

impl TokenCaller {
    pub(crate) fn new(
        id: String,
        app: AppName,
        (roles, accept): (Roles, AcceptedSchemes),
        payload: PayloadDigest,
    ) -> Self {
        Self { id, app, roles, accept, payload, is_shown: false }
    }

    /// The id of the token, in lower-case hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The only app that it is for.
    pub fn app(&self) -> &AppName {
        &self.app
    }

    /// The data roles that it may read.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The payload that it is for.
    pub fn payload(&self) -> PayloadDigest {
        self.payload
    }

    /// The same caller after its payload was read, if it is the one that the token is for.
    pub(crate) fn shown(&self, read: &PayloadDigest) -> Result<Self, Error> {
        match *read == self.payload {
            true => Ok(Self { is_shown: true, ..self.clone() }),
            false => Err(Error::new(ErrorCode::Forbidden, "the token is for another payload")),
        }
    }

    pub(crate) fn rights(&self) -> Rights {
        Rights::Token { app: self.app.clone(), roles: self.roles.clone(), accept: self.accept }
    }
}

impl Caller {
    /// Checks that the payload of a token is known. Others need none.
    pub(crate) fn check_payload(&self) -> Result<(), Error> {
        match self {
            Self::Token(TokenCaller { is_shown: false, .. }) => {
                Err(Error::new(ErrorCode::Forbidden, "a token decrypts nothing but the payload that it is for"))
            }
            _ => Ok(()),
        }
    }
}

/// The current permissions of a caller.
#[derive(Debug, Clone)]
pub(crate) enum Rights {
    Everything,
    /// Reading public keys, which needs no permission of its own.
    PublicKeys,
    Granted(Arc<ClientGrant>),
    Key(Arc<ApiKey>),
    Token {
        app: AppName,
        roles: Roles,
        accept: AcceptedSchemes,
    },
    OnBehalf {
        agent: Box<Rights>,
        key: Box<Rights>,
    },
}

/// The error for every invalid API key: it does not reveal whether the key exists.
pub(crate) fn not_a_key() -> Error {
    Error::new(ErrorCode::Forbidden, "the API key is not known to this engine, or was revoked")
}

static NO_ROLE: Roles = Roles::Only(BTreeSet::new());

impl Rights {
    /// The permissions of a client with this certificate at this time.
    pub(crate) fn granted(
        grant: Arc<ClientGrant>,
        certificate_sha256: &[u8; 32],
        now_unix_s: u64,
    ) -> Result<Self, Error> {
        let name = &grant.name;
        if grant.disabled {
            return Err(Error::new(ErrorCode::Forbidden, format!("client {name} is disabled")));
        }
        if !grant.accepts(certificate_sha256, now_unix_s) {
            let message = format!("client {name} came with another certificate than the one it was granted");
            return Err(Error::new(ErrorCode::Forbidden, message));
        }
        Ok(Self::Granted(grant))
    }

    /// The permissions that an agent and the key that it acts for have in common.
    pub(crate) fn on_behalf(agent: Self, key: Option<Arc<ApiKey>>) -> Result<Self, Error> {
        let key = key.filter(|key| key.revoked_at.is_none()).ok_or_else(not_a_key)?;
        Ok(Self::OnBehalf { agent: Box::new(agent), key: Box::new(Self::Key(key)) })
    }

    /// Refuses before any lookup, so that an app that the caller may not use looks like one that does not exist.
    pub(crate) fn check(&self, operations: &[Operation], app: &AppName) -> Result<(), Error> {
        let who = match self {
            Self::Everything => return Ok(()),
            Self::PublicKeys => "a caller without credentials".to_owned(),
            Self::Granted(grant) => format!("client {}", grant.name),
            Self::Key(key) => format!("API key {}", key.id),
            Self::Token { .. } => "the token".to_owned(),
            Self::OnBehalf { agent, key } => {
                return agent.check(operations, app).and_then(|()| key.check(operations, app));
            }
        };
        if operations.iter().all(|&operation| self.allows(operation, app)) {
            return Ok(());
        }
        let names = operations.iter().map(|&operation| self.name_of(operation)).collect::<Vec<_>>().join(" and ");
        Err(Error::new(ErrorCode::Forbidden, format!("{who} may not {names} for app {app}")))
    }

    fn allows(&self, operation: Operation, app: &AppName) -> bool {
        match self {
            Self::Everything => true,
            Self::PublicKeys => false,
            Self::Granted(grant) => grant.allows(operation, app),
            Self::Key(key) => key.app == *app && key.operations.contains(&operation),
            Self::Token { app: own, .. } => own == app && operation == Operation::Decrypt,
            Self::OnBehalf { agent, key } => agent.allows(operation, app) && key.allows(operation, app),
        }
    }

    /// The name of the missing permission, as it is granted.
    fn name_of(&self, operation: Operation) -> &'static str {
        match (operation, self) {
            (Operation::Encrypt, _) => "encrypt",
            (Operation::Decrypt, _) | (Operation::Inspect, Self::Granted(_)) => "decrypt",
            (Operation::Inspect, _) => "inspect",
            (Operation::IssueTokens, _) => "make client-side tokens",
        }
    }

    /// Checks that anything is permitted, which suffices to read public keys.
    pub(crate) fn check_any(&self, app: &AppName) -> Result<(), Error> {
        match self {
            Self::PublicKeys => Ok(()),
            Self::Key(key) if key.app == *app && !key.operations.is_empty() => Ok(()),
            _ => self.check(&[Operation::Encrypt], app).or_else(|_| self.check(&[Operation::Decrypt], app)),
        }
    }

    /// The roles that the caller may read; `None` for all.
    pub(crate) fn roles(&self) -> Option<&Roles> {
        match self {
            Self::Everything => None,
            Self::PublicKeys => Some(&NO_ROLE),
            Self::Granted(grant) => Some(&grant.roles),
            Self::Key(key) => Some(&key.roles),
            Self::Token { roles, .. } => Some(roles),
            Self::OnBehalf { key, .. } => key.roles(),
        }
    }

    /// The envelopes that are decrypted for the caller.
    pub(crate) fn accepted(&self) -> AcceptedSchemes {
        match self {
            Self::Granted(grant) => grant.accept,
            Self::OnBehalf { agent, key } => agent.accepted().and(key.accepted()),
            Self::Key(key) => key.accept,
            Self::Token { accept, .. } => *accept,
            Self::Everything | Self::PublicKeys => AcceptedSchemes::ALL,
        }
    }

    /// Checks that the caller may read a value of `role`.
    pub(crate) fn check_role(&self, role: &str) -> Result<(), Error> {
        let (roles, who) = match self {
            Self::Everything => return Ok(()),
            Self::PublicKeys => (&NO_ROLE, "caller"),
            Self::Granted(grant) => (&grant.roles, "client"),
            Self::Key(key) => (&key.roles, "API key"),
            Self::Token { roles, .. } => (roles, "token"),
            Self::OnBehalf { agent, key } => return agent.check_role(role).and_then(|()| key.check_role(role)),
        };
        if *roles == Roles::Any || RoleName::parse(role).is_ok_and(|role| roles.cover(&role)) {
            return Ok(());
        }
        Err(Error::new(ErrorCode::Forbidden, format!("the value's role is not granted to this {who}")))
    }
}
