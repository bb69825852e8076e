//! The calls, and the connection pool under them.

mod credentials;
mod dialler;
mod dialling;
mod lists;
mod pool;
mod retries;

use std::fmt;
use std::sync::{Arc, Mutex};

use leafseal_protocol::{
    ApiKeyFacts, AuthenticateParams, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions,
    HealthParams, InfoParams, InspectOptions, Inspection, Method, PublicKeySet, PublicKeysParams, QueryParams,
    QueryResult, Retry, SecretText, request,
};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::answer::{Answer, Document};
use crate::answer_memory::AnswerMemory;
use crate::error::{ClientError, ErrorKind};
use crate::observer::{CallObserver, CallOutcome, Observed};
use crate::outgoing::Outgoing;
use crate::prepared::Prepared;
use crate::settings::ClientSettings;
use crate::shared::CallOrigin;
use crate::signals::PoolSignals;
#[cfg(feature = "simulation")]
use crate::simulation::SimulatedNetwork;
use crate::tls;
use credentials::ClientCredentials;
use dialler::Dialler;
pub(crate) use dialler::dial;
use pool::{ConnectionPool, PoolInner, RefusedBy, SendTurn};
use retries::Retries;

/// A client of one engine, or of several that serve the same apps. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<PoolInner>,
    observer: Option<Arc<dyn CallObserver>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("addresses", &self.inner.settings.addresses).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects and sends `health`, so that a wrong address, certificate or key is detected here. A draining engine is accepted
    /// too.
    ///
    /// # Errors
    /// Unusable settings; no engine reached; certificates refused on either side.
    pub async fn connect(settings: ClientSettings) -> Result<Client, ClientError> {
        let client = Client::new(settings)?;
        client.health().await?;
        Ok(client)
    }

    /// As [`Client::connect`], but the first call connects.
    ///
    /// # Errors
    /// If the settings are unusable.
    pub fn new(mut settings: ClientSettings) -> Result<Client, ClientError> {
        settings.validate()?;
        let dialler = Dialler::Tls(ClientCredentials::new(&settings)?);
        // The TLS library has it; a copy for as long as the client lives would be one more to find.
        settings.tls.private_key_pem = Zeroizing::default();
        Ok(Client::with(settings, dialler))
    }

    /// A client in the network of a simulation, without TLS.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn simulated(settings: ClientSettings, network: impl SimulatedNetwork) -> Client {
        Client::with(settings, Dialler::Simulated(Box::new(network)))
    }

    fn with(settings: ClientSettings, dialler: Dialler) -> Client {
        let next_address = match settings.shuffle_addresses {
            true => dialler.random_address(settings.addresses.len()),
            false => 0,
        };
        let pool = Mutex::new(ConnectionPool::new(next_address));
        let inner = PoolInner { settings, dialler, pool, signals: Arc::new(PoolSignals::default()) };
        Client { inner: Arc::new(inner), observer: None }
    }

    /// Returns the same client on the same connections; `observer` receives the calls made through it and its clones, except those
    /// by [`Client::call_raw`].
    pub fn observed_by(self, observer: Arc<dyn CallObserver>) -> Client {
        Client { observer: Some(observer), ..self }
    }

    /// Encrypts the values of a JSON text that the JSONPath selectors select; without selectors all.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_document(
        &self,
        options: &EncryptOptions<'_>,
        select: Option<&[&str]>,
        json: &[u8],
    ) -> Result<Document, ClientError> {
        self.call(
            Method::EncryptDocument,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptOptions { deadline_ms, ..*options };
                request::encrypt_document(id, &options, select, json, out);
            },
            Answer::into_document,
        )
        .await
    }

    /// Decrypts the envelopes of a JSON text that the JSONPath selectors select; without selectors all.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_document(
        &self,
        options: &DecryptOptions<'_>,
        select: Option<&[&str]>,
        json: &[u8],
    ) -> Result<Document, ClientError> {
        self.call(
            Method::DecryptDocument,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptOptions { deadline_ms, ..*options };
                request::decrypt_document(id, &options, select, json, out);
            },
            Answer::into_document,
        )
        .await
    }

    /// Encrypts a file.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_file(&self, options: &EncryptFileOptions<'_>, data: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.call(
            Method::EncryptFile,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptFileOptions { deadline_ms, ..*options };
                request::encrypt_file(id, &options, data, out);
            },
            Answer::into_file,
        )
        .await
    }

    /// Decrypts a file.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_file(&self, options: &DecryptFileOptions<'_>, data: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.call(
            Method::DecryptFile,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptFileOptions { deadline_ms, ..*options };
                request::decrypt_file(id, &options, data, out);
            },
            Answer::into_file,
        )
        .await
    }

    /// Returns the metadata of envelopes; with an app including the fields inside.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn inspect(&self, app: Option<&str>, envelopes: &[&str]) -> Result<Vec<Inspection>, ClientError> {
        self.inspect_with(&InspectOptions::new(app.unwrap_or_default()), envelopes).await
    }

    /// [`Client::inspect`] with options; without an app in them, envelopes are not opened.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn inspect_with(
        &self,
        options: &InspectOptions<'_>,
        envelopes: &[&str],
    ) -> Result<Vec<Inspection>, ClientError> {
        self.call(
            Method::Inspect,
            None,
            |id, _, out| request::inspect_with(id, options, envelopes.iter().copied(), out),
            |answer| answer.inspections(),
        )
        .await
    }

    /// As [`Client::inspect_with`], for envelopes that are bound each to its own of `contexts`, of which there must be as many.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn inspect_bound(
        &self,
        options: &InspectOptions<'_>,
        contexts: &[&str],
        envelopes: &[&str],
    ) -> Result<Vec<Inspection>, ClientError> {
        self.call(
            Method::Inspect,
            None,
            |id, _, out| request::inspect_bound(id, options, contexts, envelopes.iter().copied(), out),
            |answer| answer.inspections(),
        )
        .await
    }

    /// Makes a query: a method without values of users.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn query<P: QueryParams>(&self, params: &P) -> Result<P::Result, ClientError> {
        let encode = |id, _, out: &mut Vec<u8>| request::query(id, params, out);
        self.call(P::METHOD, None, encode, |answer| Ok(P::Result::decode(answer.result())?)).await
    }

    /// The newest public keys of an app.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn public_keys(&self, app: &str) -> Result<PublicKeySet, ClientError> {
        self.query(&PublicKeysParams { app }).await
    }

    /// Verifies an API key and returns its permissions, for callers that receive API keys from others, such as a relay. The engine answers
    /// only clients that may use the key's app.
    ///
    /// # Errors
    /// As every call; `forbidden` if the key is invalid, or is for an app that this client may not use.
    pub async fn authenticate(&self, api_key: &str) -> Result<ApiKeyFacts, ClientError> {
        self.authenticate_for(api_key, None).await
    }

    /// The same for a user that `client` names, such as by an address: so the engine lets look-ups for several users take turns.
    ///
    /// # Errors
    /// As [`Client::authenticate`].
    pub async fn authenticate_for(&self, api_key: &str, client: Option<&str>) -> Result<ApiKeyFacts, ClientError> {
        self.query(&AuthenticateParams { api_key: SecretText(api_key), client }).await
    }

    /// Returns `ok`, `draining`, or another word that means not ready.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn health(&self) -> Result<String, ClientError> {
        Ok(self.query(&HealthParams {}).await?.status)
    }

    /// Returns properties of the engine by name, in its order.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn info(&self) -> Result<Vec<(String, String)>, ClientError> {
        Ok(self.query(&InfoParams {}).await?.facts)
    }

    /// Makes a call and converts its answer with `read`.
    async fn call<T>(
        &self,
        method: Method,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>, &mut Vec<u8>),
        read: impl FnOnce(Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let encode = |id, deadline_ms| Outgoing::new(|out| encode(id, deadline_ms, out));
        self.observe(method, deadline_ms, None, encode, read).await
    }

    /// Sends an encoded request and waits for its answer. If a deadline is encoded in it, the engine counts it from each time that it reads
    /// the request; retries begin before the deadline has passed.
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn send(&self, prepared: Prepared) -> Result<Answer, ClientError> {
        self.observe(prepared.method, prepared.deadline_ms, None, |id, _| prepared.outgoing(id), Ok).await
    }

    /// As [`Client::send`]; `memory` is called before the answer needs more memory, while it arrives. The last amount requested is the
    /// memory of the returned answer, if that is more than 16 KiB.
    ///
    /// # Errors
    /// As every call; [`ErrorKind::AnswerMemory`] if `memory` refuses.
    pub async fn send_within(&self, prepared: Prepared, memory: Arc<dyn AnswerMemory>) -> Result<Answer, ClientError> {
        self.observe(prepared.method, prepared.deadline_ms, Some(memory), |id, _| prepared.outgoing(id), Ok).await
    }

    async fn observe<T>(
        &self,
        method: Method,
        deadline_ms: Option<u32>,
        memory: Option<Arc<dyn AnswerMemory>>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        read: impl FnOnce(Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let observed = Observed::begin(self.observer.as_ref(), method);
        let retried = |error: &ClientError| {
            if let Some(observer) = &self.observer {
                observer.retried(method, error);
            }
        };
        let outcome = self.call_within_time(Some(method), deadline_ms, memory, encode, retried).await.and_then(read);
        if let Some(observed) = observed {
            observed.ended(outcome.as_ref().map_or_else(CallOutcome::Failed, |_| CallOutcome::Ok));
        }
        outcome
    }

    /// Waits for a connection to the engine; returns at once, without a request, if one is open. For callers that are about to do something
    /// irreversible and will need the engine afterwards.
    ///
    /// # Errors
    /// If no engine could be reached.
    pub async fn ready(&self) -> Result<(), ClientError> {
        let inner = &self.inner;
        let limit = inner.settings.request_timeout;
        let connecting = async {
            let mut retries = Retries::new(inner, None);
            loop {
                if inner.is_ready() {
                    return Ok(());
                }
                match inner.turn(None).await {
                    Ok(turn) => {
                        drop(turn);
                        inner.pump();
                        return Ok(());
                    }
                    Err(error) => retries.after(error, false, |_| {}).await?,
                }
            }
        };
        match timeout(limit, connecting).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClientError::timeout(format!("no connection within {} ms", limit.as_millis()))),
        }
    }

    /// Sends the request that `encode` appends, with the given id and deadline, and waits for its answer. `deadline_ms` is the request's
    /// deadline, if it has one: if the request is retried, `encode` is given what is left of it.
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn call_raw(
        &self,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>, &mut Vec<u8>),
    ) -> Result<Answer, ClientError> {
        let encode = |id, deadline_ms| Outgoing::new(|out| encode(id, deadline_ms, out));
        self.call_within_time(None, deadline_ms, None, encode, |_| {}).await
    }

    async fn call_within_time(
        &self,
        method: Option<Method>,
        deadline_ms: Option<u32>,
        memory: Option<Arc<dyn AnswerMemory>>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        retried: impl Fn(&ClientError),
    ) -> Result<Answer, ClientError> {
        let limit = self.inner.settings.request_timeout;
        match timeout(limit, self.inner.call(method, deadline_ms, memory, encode, retried)).await {
            Ok(outcome) => outcome.map_err(|error| tls::name_own(error, &self.inner.settings.tls)),
            Err(_) => Err(ClientError::timeout(format!("no answer within {} ms", limit.as_millis()))),
        }
    }
}

impl PoolInner {
    /// Attempts a call until it succeeds, or may not be retried. `method` is absent if it is unknown.
    async fn call(
        self: &Arc<Self>,
        method: Option<Method>,
        deadline_ms: Option<u32>,
        memory: Option<Arc<dyn AnswerMemory>>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        retried: impl Fn(&ClientError),
    ) -> Result<Answer, ClientError> {
        let size_max = self.settings.limits.frame_size_max;
        let earns = method.is_none_or(|method| !crate::rules::EARNED_EXCEPT.contains(&method));
        let mut retries = Retries::new(self, deadline_ms);
        let mut refused_by = None;
        loop {
            let (error, is_unusable) = match self.turn(refused_by.as_ref()).await {
                Err(error) => (error, false),
                Ok(SendTurn { connection, slot, refusals }) => {
                    let left_ms = retries.deadline_left_ms();
                    let encode = |id| {
                        let message = encode(id, left_ms);
                        check_request_size(message.size(), size_max).map(|()| message)
                    };
                    let origin = CallOrigin { memory: memory.clone(), _slot: slot, refusals, earns };
                    let outcome = match connection.shared.begin(origin, encode) {
                        Ok(ticket) => ticket.answer().await,
                        Err(error) => Err(error),
                    };
                    match outcome {
                        Ok(answer) => return Ok(answer),
                        Err(error) => {
                            refused_by = Some(RefusedBy::of(&connection));
                            (error, !connection.shared.is_usable())
                        }
                    }
                }
            };
            retries.after(error, is_unusable, &retried).await?;
        }
    }
}

fn check_request_size(size: usize, size_max: usize) -> Result<(), ClientError> {
    if size <= size_max {
        return Ok(());
    }
    let message = format!("the request of {size} bytes exceeds the limit of {size_max}: send less at a time");
    Err(ClientError::new(ErrorKind::RequestTooLarge, Retry::Never, message))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::dialler::host;
    use super::*;
    use crate::identity::{ClientTls, TlsPart};
    use zeroize::Zeroizing;

    pub(crate) fn settings() -> ClientSettings {
        let tls = ClientTls {
            authorities_pem: Vec::new(),
            certificate_chain_pem: Vec::new(),
            private_key_pem: Zeroizing::new(b"not to be shown".to_vec()),
            ..ClientTls::default()
        };
        ClientSettings::new("localhost:3443", tls)
    }

    #[test]
    fn hosts_are_parsed_from_addresses() {
        assert_eq!(host("engine.example.com:3443").unwrap(), "engine.example.com");
        assert_eq!(host("[::1]:3443").unwrap(), "::1");
        assert_eq!(host("127.0.0.1:1").unwrap(), "127.0.0.1");
        for address in ["localhost", ":3443", ""] {
            assert_eq!(host(address).unwrap_err().kind, ErrorKind::Settings, "{address}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_and_keys_not_shown() {
        let unreadable = Client::new(settings()).unwrap_err();
        assert_eq!(unreadable.kind, ErrorKind::Settings);
        assert!(unreadable.message.contains("authorities"), "{unreadable}");
        let parts: Vec<TlsPart> = settings().tls.problems().iter().map(|problem| problem.part).collect();
        assert_eq!(parts, [TlsPart::Authorities, TlsPart::CertificateChain, TlsPart::PrivateKey]);
        let nowhere = ClientSettings { addresses: Vec::new(), ..settings() };
        assert_eq!(Client::new(nowhere).unwrap_err().message, "no address to connect to");
        assert!(!format!("{:?}", settings()).contains("110, 111"));
    }

    #[test]
    fn requests_are_bounded_at_the_byte() {
        assert_eq!(check_request_size(10, 10), Ok(()));
        assert_eq!(check_request_size(11, 10).unwrap_err().kind, ErrorKind::RequestTooLarge);
    }
}
