//! The current permissions of callers, and the keys and secrets that prove who they are: read from caches and the store. Decisions that
//! follow from them is decided in `permit` and `credentials`.

use std::future::poll_fn;
use std::sync::Arc;

use leafseal_keystore::{ApiKey, ApiKeyId, AppName};

use super::Engine;
use crate::apps::TokenSecret;
use crate::error::{Error, ErrorCode};
use crate::lookups::{Asker, Standing};
use crate::permissions::{Caller, Rights};
use crate::wanted::Wanted;

impl Engine {
    /// Whether the app exists and the caller may use it, from the cache only, without blocking: false for anything that no request has used
    /// since the store last changed. The app of an API key or a token exists, because the store or this engine has named it.
    pub fn is_known_to_use(&self, caller: &Caller, app: &str) -> bool {
        let Ok(app) = AppName::parse(app) else { return false };
        if let Caller::OnBehalf { agent, .. } = caller {
            return self.is_known_to_use(agent, app.as_str());
        }
        let rights = self.known_rights(caller);
        let names_its_app = matches!(caller, Caller::ApiKey { .. } | Caller::Token(_));
        let may_use = rights.is_some_and(|rights| rights.check_any(&app).is_ok());
        may_use && (names_its_app || self.shared.directory.knows_app(&app))
    }

    /// The permissions of a caller that acts for itself, from the cache only, without blocking.
    pub(crate) fn known_rights(&self, caller: &Caller) -> Option<Rights> {
        let directory = &self.shared.directory;
        match caller {
            Caller::Owner => Some(Rights::Everything),
            Caller::Anonymous => Some(Rights::PublicKeys),
            Caller::OnBehalf { .. } => None,
            Caller::Client { name, certificate_sha256 } => {
                let now = u64::from(self.shared.clock.now_unix_s());
                directory.known_client(name).and_then(|grant| Rights::granted(grant, certificate_sha256, now).ok())
            }
            Caller::ApiKey { id, secret_sha256 } => {
                directory.known_api_key(id).and_then(|key| Rights::of_key(Some(key), secret_sha256).ok())
            }
            Caller::Token(token) => Some(token.rights()),
        }
    }

    /// The current permissions of a caller, to judge its identity. A permit decides its operations.
    pub(crate) fn current_rights(&self, caller: &Caller) -> Result<Rights, Error> {
        let directory = &self.shared.directory;
        if !matches!(caller, Caller::Owner | Caller::Anonymous) {
            self.check_store_hang()?;
        }
        match caller {
            Caller::Owner => Ok(Rights::Everything),
            Caller::Anonymous => Ok(Rights::PublicKeys),
            Caller::Client { name, certificate_sha256 } => {
                let now = u64::from(self.shared.clock.now_unix_s());
                Rights::granted(directory.client(name, &*self.shared.clock)?, certificate_sha256, now)
            }
            // Its key was verified when the request arrived.
            Caller::ApiKey { id, secret_sha256 } => Rights::of_key(self.api_key(id)?, secret_sha256),
            Caller::OnBehalf { agent, key } => Rights::on_behalf(self.current_rights(agent)?, self.api_key(key)?),
            Caller::Token(token) => Ok(token.rights()),
        }
    }

    /// An API key that a caller acts for, whose secret was verified before.
    fn api_key(&self, id: &ApiKeyId) -> Result<Option<Arc<ApiKey>>, Error> {
        self.shared.directory.api_key(id, Standing::Known, None, &*self.shared.clock)
    }

    /// The API key that a caller presents: whether it exists proves nothing yet. `client` names the user of the key, if another sends it.
    pub(crate) fn shown_api_key(&self, id: &ApiKeyId, client: Option<&str>) -> Result<Option<Arc<ApiKey>>, Error> {
        self.shared.directory.api_key(id, Standing::Unknown, client, &*self.shared.clock)
    }

    /// The same without blocking, except where no look-ups are served; `source` identifies the address that has sent it.
    pub(crate) async fn find_api_key(&self, id: &ApiKeyId, source: u64) -> Result<Option<Arc<ApiKey>>, Error> {
        let directory = &self.shared.directory;
        if !directory.lookups().is_served() {
            return self.shown_api_key(id, None);
        }
        let (wanted, asker) = (Wanted::ApiKey(id.clone()), Asker { standing: Standing::Unknown, source });
        let found: Result<Arc<ApiKey>, _> =
            poll_fn(|context| directory.poll(&wanted, asker, &*self.shared.clock, context.waker())).await?;
        Ok(found.ok())
    }

    /// The same from the cache only.
    pub(crate) fn known_api_key(&self, id: &ApiKeyId) -> Option<Arc<ApiKey>> {
        self.shared.directory.known_api_key(id)
    }

    /// Reads the secret that tokens are signed with, without blocking, except where no look-ups are served.
    pub(crate) async fn find_token_secret(&self) -> Result<(), Error> {
        let directory = &self.shared.directory;
        if directory.known_token_secret().is_some() {
            return Ok(());
        }
        if !directory.lookups().is_served() {
            return self.token_secret().map(drop);
        }
        let asker = Asker { standing: Standing::Known, source: 0 };
        let wanted = Wanted::TokenSecret;
        let polled = poll_fn(|context| directory.poll(&wanted, asker, &*self.shared.clock, context.waker()));
        let found: Result<Arc<TokenSecret>, _> = polled.await?;
        found.map(drop).map_err(|_| Error::new(ErrorCode::Internal, "the keystore has no secret for tokens"))
    }
}
