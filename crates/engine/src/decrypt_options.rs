//! The options of a decryption.

use leafseal_keystore::AcceptedSchemes;

use crate::bindings::{BindingWish, PathBinding};
use crate::report::OnFailure;

/// The options of a decryption.
#[derive(Debug, Clone, Copy)]
pub struct DecryptOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The role that every value must carry.
    pub role: Option<&'a str>,
    /// What symmetric envelopes are bound to.
    pub context: Option<&'a str>,
    /// Documents: where the context of each value is, from an object around it: `id`, `customer.id`. In place of `context`.
    pub context_select: Option<&'a str>,
    /// Documents: what of its path each value is bound to, beside its context.
    pub bind: Option<PathBinding>,
    /// Lists: whether each value comes with its own context, which [`Decryptor::decrypt_bound`] gets. In place of `context`.
    pub has_contexts: bool,
    /// The kinds of envelopes that are decrypted; others fail to. By default all, but `symmetric` alone where values are bound: those to a
    /// public key are bound to nothing, and those made of them are bound to wherever they were found.
    pub accept: Option<AcceptedSchemes>,
    /// The action for an envelope that fails to decrypt.
    pub on_failure: OnFailure,
}

impl<'a> DecryptOptions<'a> {
    /// For `app`, values of any role that the caller may read; values that fail to decrypt fail the request.
    pub fn new(app: &'a str) -> Self {
        Self {
            app,
            role: None,
            context: None,
            context_select: None,
            bind: None,
            has_contexts: false,
            accept: None,
            on_failure: OnFailure::Fail,
        }
    }

    /// What binds the values.
    pub(crate) fn wish(&self) -> BindingWish<'a> {
        let Self { context, context_select, bind, has_contexts, .. } = *self;
        BindingWish { context, context_select, bind, has_contexts }
    }
}
