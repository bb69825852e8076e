//! Calls with a context for each value.

use leafseal_protocol::{DecryptOptions, EncryptOptions, Method, RewrapOptions, Scalar, request};

use super::Client;
use crate::answer::{Answer, NativeValues, Rewrapped};
use crate::error::ClientError;

impl Client {
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
        self.call(
            Method::Encrypt,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptOptions { deadline_ms, ..*options };
                request::encrypt_bound(id, &options, contexts, values.iter().copied(), out);
            },
            Answer::into_reported_values,
        )
        .await
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
        self.call(
            Method::Decrypt,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptOptions { deadline_ms, ..*options };
                request::decrypt_bound(id, &options, contexts, values.iter().copied(), out);
            },
            Answer::into_reported_values,
        )
        .await
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
        self.call(
            Method::Rewrap,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = RewrapOptions { deadline_ms, ..*options };
                request::rewrap_bound(id, &options, contexts, envelopes.iter().copied(), out);
            },
            |answer| answer.rewrapped(),
        )
        .await
    }
}
