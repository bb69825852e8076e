//! Authentication: certificates, API keys and tokens become a [`Caller`]. A refused identity is reported here; an accepted one with the
//! decision about what it asks for, except where the identity is all that a request needs.

use std::sync::Arc;

use leafseal_errors::{Principal, Question};
use leafseal_keystore::{ApiKey, ApiKeyId, ClientName};

use crate::api_key::{ApiCaller, read_api_key};
use crate::engine::Engine;
use crate::error::{Error, ErrorCode};
use crate::permissions::{Caller, TokenCaller, not_a_key};
use crate::token::TokenFault;

impl Engine {
    /// The caller with this certificate, if its grant is valid.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`] with a reason; [`ErrorCode::Unavailable`].
    pub fn client(&self, name: &str, certificate_sha256: [u8; 32]) -> Result<Caller, Error> {
        let Ok(name) = ClientName::parse(name) else {
            let error = Error::new(ErrorCode::Forbidden, "the certificate's name is not that of a client");
            return Err(self.refuse(Principal::Anonymous, error));
        };
        let caller = Caller::Client { name, certificate_sha256 };
        let known = self.current_rights(&caller).map(drop);
        self.identified(caller.principal(), known)?;
        Ok(caller)
    }

    /// The client with this certificate, if its grant is cached and valid; without blocking. `None` if that does not suffice.
    pub fn known_client(&self, name: &str, certificate_sha256: [u8; 32]) -> Option<Caller> {
        let name = ClientName::parse(name).ok()?;
        self.check_store_hang().ok()?;
        let caller = Caller::Client { name, certificate_sha256 };
        self.known_rights(&caller)?;
        Some(caller)
    }

    /// `agent`, acting for the API key with this id.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`], as for an unknown key.
    pub fn on_behalf(&self, agent: &Caller, key_id: &str) -> Result<Caller, Error> {
        let key = self.identified(agent.principal(), ApiKeyId::parse(key_id).map_err(|_| not_a_key()))?;
        Ok(Caller::OnBehalf { agent: Box::new(agent.clone()), key })
    }

    /// The caller with this API key, if the key is valid. On a worker the request is parked until the store has answered; any other thread
    /// waits, so a network thread uses [`Engine::find_api_caller`].
    ///
    /// # Errors
    /// [`ErrorCode::Unauthorized`], the same for every invalid key; [`ErrorCode::Unavailable`]; [`ErrorCode::Overloaded`].
    pub fn api_caller(&self, id: &ApiKeyId, secret_sha256: [u8; 32]) -> Result<ApiCaller, Error> {
        self.shown_key(id, secret_sha256, self.shown_api_key(id, None))
    }

    /// The same without blocking; `source` identifies the address that has sent it. Waits for as long as the store takes: the caller sets a
    /// limit.
    ///
    /// # Errors
    /// As [`Engine::api_caller`].
    pub async fn find_api_caller(
        &self,
        id: &ApiKeyId,
        secret_sha256: [u8; 32],
        source: u64,
    ) -> Result<ApiCaller, Error> {
        let found = self.find_api_key(id, source).await;
        self.shown_key(id, secret_sha256, found)
    }

    fn shown_key(
        &self,
        id: &ApiKeyId,
        secret_sha256: [u8; 32],
        found: Result<Option<Arc<ApiKey>>, Error>,
    ) -> Result<ApiCaller, Error> {
        let shown = found.and_then(|key| ApiCaller::new(key, secret_sha256)).map_err(unauthorized);
        self.identified(Principal::ApiKey { id: id.as_str() }, shown)
    }

    /// The same from the cache only, without blocking: `None` if that does not suffice.
    pub fn known_api_caller(&self, id: &ApiKeyId, secret_sha256: [u8; 32]) -> Option<ApiCaller> {
        ApiCaller::new(Some(self.known_api_key(id)?), secret_sha256).ok()
    }

    /// Identifies the caller of an API key. `agent`, such as a relay that receives keys from its clients, must be permitted to use the
    /// key's app, and names the key's user as `client`, whose look-ups take turns with those of others. May wait for the store, as
    /// [`Engine::api_caller`].
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`]: the key is invalid, for any reason, or `agent` may not use its app; [`ErrorCode::Unavailable`].
    pub fn authenticate(&self, agent: &Caller, api_key: &str, client: Option<&str>) -> Result<ApiCaller, Error> {
        let key = read_api_key(api_key);
        let shown = self.current_rights(agent).and_then(|rights| {
            let (id, secret_sha256) = key.as_ref().ok_or_else(not_a_key)?;
            let found = self.shown_api_key(id, client)?;
            let shown = ApiCaller::new(found, *secret_sha256)?;
            let message = "the API key is for an app that this client may not use";
            rights.check_any(shown.app()).map_err(|_| Error::new(ErrorCode::Forbidden, message))?;
            Ok(shown)
        });
        let (agent, app) = (agent.principal(), shown.as_ref().ok().map(|shown| shown.app().as_str().to_owned()));
        let principal = match &key {
            Some((id, _)) => Principal::OnBehalf { client: agent.client().unwrap_or_default(), key: id.as_str() },
            None => agent,
        };
        self.observed(principal, Question::Identity, &[], app.as_deref(), shown)
    }

    /// Checks that the caller may make any request, for requests that need nothing else.
    ///
    /// # Errors
    /// Forbidden, store unavailable.
    pub fn admit(&self, caller: &Caller) -> Result<(), Error> {
        let admitted = self.current_rights(caller).map(drop);
        self.observed(caller.principal(), Question::Identity, &[], None, admitted)
    }

    /// Reports that the identity suffices for a request that needs nothing else.
    pub fn accept(&self, caller: &ApiCaller) {
        let (principal, app) = (caller.caller().principal(), caller.app().as_str());
        let _: Result<(), Error> = self.observed(principal, Question::Identity, &[], Some(app), Ok(()));
    }

    /// Reports a refusal that an entry point makes because of the credentials themselves, and returns its error.
    pub fn refuse(&self, principal: Principal<'_>, error: Error) -> Error {
        let refused: Result<(), Error> = self.observed(principal, Question::Identity, &[], None, Err(error));
        refused.expect_err("it is an error")
    }

    /// [`Engine::token`] without blocking, even if the secret has to be looked up first. Waits for as long as the store takes: the caller
    /// sets a limit.
    ///
    /// # Errors
    /// As [`Engine::token`]; the store does not respond.
    pub async fn find_token(&self, text: &str) -> Result<TokenCaller, Error> {
        self.find_token_secret().await?;
        self.token(text)
    }

    /// The identity that a token proves, without a lookup.
    ///
    /// # Errors
    /// Unauthorized: the same for every fault except expiry, whether it is not a token or not of this store; another message if it has
    /// expired.
    pub fn token(&self, text: &str) -> Result<TokenCaller, Error> {
        let (principal_id, error) = match self.verify_token(text) {
            Ok(token) => return Ok(token),
            Err(TokenFault::Store(error)) => return Err(error),
            Err(TokenFault::Invalid) => (None, "the token is not one of this engine"),
            Err(TokenFault::Expired(id)) => (Some(id), "the token has expired"),
        };
        let principal = principal_id.as_deref().map_or(Principal::Anonymous, |id| Principal::Token { id });
        Err(self.refuse(principal, Error::new(ErrorCode::Unauthorized, error)))
    }

    /// Reports a refused identity.
    fn identified<T>(&self, principal: Principal<'_>, identified: Result<T, Error>) -> Result<T, Error> {
        match identified {
            Ok(_) => identified,
            refused => self.observed(principal, Question::Identity, &[], None, refused),
        }
    }
}

/// The error of credentials that are invalid, where the caller is asked for others.
fn unauthorized(error: Error) -> Error {
    match error.code {
        ErrorCode::Forbidden => Error { code: ErrorCode::Unauthorized, ..error },
        _ => error,
    }
}
