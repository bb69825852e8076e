//! Calls on lists of values, which are bound to nothing, to one context, or each to its own.

use leafseal_protocol::{DecryptOptions, EncryptOptions, Method, RewrapOptions, Scalar, request};

use super::Client;
use crate::answer::{Answer, NativeValues, Rewrapped, Value};
use crate::error::ClientError;

/// The context of each value, if they have one each.
type ValueContexts<'a> = Option<&'a [&'a str]>;

impl Client {
    /// Encrypts native values; nil stays nil.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt(
        &self,
        options: &EncryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<Vec<Value>, ClientError> {
        self.encrypt_list(options, None, values, Answer::into_values).await
    }

    /// As [`Client::encrypt`], with the engine's report: how many of the values were envelopes already.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_reported(
        &self,
        options: &EncryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<NativeValues, ClientError> {
        self.encrypt_list(options, None, values, Answer::into_reported_values).await
    }

    /// As [`Client::encrypt_reported`], for values that are bound each to its own of `contexts`, of which there must be as many.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_bound(
        &self,
        options: &EncryptOptions<'_>,
        contexts: &[&str],
        values: &[Scalar<'_>],
    ) -> Result<NativeValues, ClientError> {
        self.encrypt_list(options, Some(contexts), values, Answer::into_reported_values).await
    }

    /// Decrypts envelopes to native values; other values stay unchanged.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt(
        &self,
        options: &DecryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<Vec<Value>, ClientError> {
        self.decrypt_list(options, None, values, Answer::into_values).await
    }

    /// As [`Client::decrypt`], with the engine's report: which envelopes failed to decrypt, if the options continue after them.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_reported(
        &self,
        options: &DecryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<NativeValues, ClientError> {
        self.decrypt_list(options, None, values, Answer::into_reported_values).await
    }

    /// As [`Client::decrypt_reported`], for values that are bound each to its own of `contexts`, of which there must be as many.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_bound(
        &self,
        options: &DecryptOptions<'_>,
        contexts: &[&str],
        values: &[Scalar<'_>],
    ) -> Result<NativeValues, ClientError> {
        self.decrypt_list(options, Some(contexts), values, Answer::into_reported_values).await
    }

    /// Rewraps envelopes to the app's newest key version.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn rewrap(&self, options: &RewrapOptions<'_>, envelopes: &[&str]) -> Result<Rewrapped, ClientError> {
        self.rewrap_list(options, None, envelopes).await
    }

    /// As [`Client::rewrap`], for envelopes that are bound each to its own of `contexts`, of which there must be as many.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn rewrap_bound(
        &self,
        options: &RewrapOptions<'_>,
        contexts: &[&str],
        envelopes: &[&str],
    ) -> Result<Rewrapped, ClientError> {
        self.rewrap_list(options, Some(contexts), envelopes).await
    }

    async fn encrypt_list<T>(
        &self,
        options: &EncryptOptions<'_>,
        contexts: ValueContexts<'_>,
        values: &[Scalar<'_>],
        read: impl FnOnce(Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let encode = |id, deadline_ms, out: &mut Vec<u8>| {
            let options = EncryptOptions { deadline_ms, ..*options };
            let values = values.iter().copied();
            match contexts {
                None => request::encrypt(id, &options, values, out),
                Some(contexts) => request::encrypt_bound(id, &options, contexts, values, out),
            }
        };
        self.call(Method::Encrypt, options.deadline_ms, encode, read).await
    }

    async fn decrypt_list<T>(
        &self,
        options: &DecryptOptions<'_>,
        contexts: ValueContexts<'_>,
        values: &[Scalar<'_>],
        read: impl FnOnce(Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let encode = |id, deadline_ms, out: &mut Vec<u8>| {
            let options = DecryptOptions { deadline_ms, ..*options };
            let values = values.iter().copied();
            match contexts {
                None => request::decrypt(id, &options, values, out),
                Some(contexts) => request::decrypt_bound(id, &options, contexts, values, out),
            }
        };
        self.call(Method::Decrypt, options.deadline_ms, encode, read).await
    }

    async fn rewrap_list(
        &self,
        options: &RewrapOptions<'_>,
        contexts: ValueContexts<'_>,
        envelopes: &[&str],
    ) -> Result<Rewrapped, ClientError> {
        let encode = |id, deadline_ms, out: &mut Vec<u8>| {
            let options = RewrapOptions { deadline_ms, ..*options };
            let envelopes = envelopes.iter().copied();
            match contexts {
                None => request::rewrap(id, &options, envelopes, out),
                Some(contexts) => request::rewrap_bound(id, &options, contexts, envelopes, out),
            }
        };
        self.call(Method::Rewrap, options.deadline_ms, encode, |answer| answer.rewrapped()).await
    }
}
