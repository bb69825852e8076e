//! The options of the methods: the one declaration of each.
//!
//! An entry has its meaning in short, for clients and their users; after an empty line its meaning in full, for `docs/protocol.md`; its
//! field on the wire and in Rust, its type, the calls that accept it, and the interfaces that offer it beside RPC. `cargo xtask generate`
//! writes the options of the clients and the tables of the pages. An option that is `None` is left to the engine's settings.

use crate::content::{Entries, Unknown};
use crate::error::ContentError;
use crate::field::{Field, FieldSet};
use crate::option::{AppPresence, OptionInfo, OptionScope, OptionType, OptionValue, OwnedOptions, Surface, options};
use crate::payload::{Payload, required};
use crate::raw_params::RawParams;
use crate::words::{
    AcceptedScheme, Curve, Keying, OnFailure, OtherCase, PathBinding, Reseal, RewrapFailure, Scheme, WordSet,
};

options! {
    /// Options of `encrypt` and `encrypt_document`.
    EncryptOptions {
        /// How the envelopes are sealed. Default: the engine's setting; `public-key` with a curve.
        ///
        /// `public-key`: to a public key of the app, as anyone can who has that key; `symmetric`: with a key that only engines have, which
        /// opens up to eighty times faster and can be bound to a `context`. Default: the engine's setting, `public-key` unless changed;
        /// with `curve` it is `public-key`
        Scheme scheme: Option<Scheme>, Any [Clients Python Api Cli];
        /// The context that symmetric envelopes are bound to: 1 to 1024 bytes. They open with the same context alone. Default: none.
        ///
        /// what symmetric envelopes are bound to, such as the id of the row that they are stored in: 1 to 1024 bytes of text, which the
        /// envelope does not contain. It opens with the same context alone. Encrypting it needs `scheme` `symmetric`; for what opens
        /// with it see `accept`. Default: none
        Context context: Option<&'a str>, Any [Clients Python Api Cli];
        /// Documents: the path from an object around each value to its context, such as `id` or `customer.id`. Default: none.
        ///
        /// documents: in place of `context`, the path from an object around a value to the member that is its context: up to 16 names, as
        /// `id`, `customer.id` or `['a.b'].id`. The nearest object that has such a member counts. It must be a string of 1 to 1024 bytes,
        /// or an integer written as digits. None, one that occurs twice, or one that is itself selected, as all are without `select`, fails
        /// the request with `invalid_context` or `ambiguous_name`. Default: none
        ContextSelect context_select: Option<&'a str>, Documents [Clients Python Api Cli];
        /// Documents: binds each value to its path too. Default: it is bound to its context alone.
        ///
        /// documents: binds each value to its normalized path (RFC 9535) as well, of at most 4096 bytes. `path`: each index as `[*]`, so
        /// that elements may move; `path+index`: with the indexes. In JSON Lines it is the path in the line. Like `context` it needs
        /// `scheme` `symmetric`. Default: a value is bound to its context alone
        Bind bind: Option<PathBinding>, Documents [Clients Python Api Cli];
        /// The curve of the envelopes. Default: the engine's setting.
        ///
        /// P-256 or secp256k1, for the scheme `public-key`. Default: the engine's setting, `r1` unless changed
        Curve curve: Option<Curve>, Any [Clients Python Api Cli];
        /// How often a fresh ephemeral key is created. Default: the engine's setting.
        ///
        /// how often a fresh ephemeral key is made: for every value, once a request, or once for many requests within bounds of time
        /// and count. Default: the engine's setting, `request` unless changed
        Keying keying: Option<Keying>, Any [Clients Python Api Cli];
        /// The data role written into the envelopes: 1 to 20 characters of `a-z0-9-`. Default: none.
        ///
        /// encrypting: the data role written into the envelopes; default none. Decrypting: every envelope must carry this role, or the
        /// request fails with `forbidden`; default: policy alone decides
        Role role: Option<&'a str>, Any [Clients Python Api Cli];
        /// Documents: the action for a name that differs from a selector's only in case. Default: it is another name.
        ///
        /// documents: the action for a member whose name differs from a selector's only in case, by any simple case mapping of
        /// Unicode: `refuse` (`ambiguous_name`, `offset` at the name), `same` (it is selected too) or `other`. Names in filters and of
        /// `context_select` count too. Default `other`
        OtherCase other_case: Option<OtherCase>, DocumentsAlone [Clients Python Api Cli];
        /// How long the caller waits, in milliseconds; at least 1.
        ///
        /// time limit in milliseconds, from the moment the engine has read the whole frame. After that the request stops before its
        /// next step and the answer is `deadline_exceeded`. Default: none; the request then ends when it is done, when you send
        /// `cancel`, or when the connection closes
        DeadlineMs deadline_ms: Option<u32>, Any [];
        /// Leaves exactly those envelopes unchanged that `decrypt` would open for the same caller. Default: everything is encrypted,
        /// envelopes too, so that no text can pass as already protected.
        ///
        /// encrypting: leaves exactly those envelopes unchanged that `decrypt` would open for the same caller, `app` and `role`; every
        /// other string that looks like one is encrypted again. Requires the permission to decrypt as well as to encrypt, because the
        /// answer shows which envelopes open. Default `false`: every value is encrypted, envelopes too, so that no text can pass as
        /// already protected
        SkipSealed skip_sealed: bool, Any [Clients Python Api Cli];
        /// Reseals envelopes to a public key that `decrypt` would open for the same caller and role: they become `symmetric`, as by
        /// `rewrap`. Needs a role. Default: they are encrypted again.
        ///
        /// encrypting: `symmetric` makes symmetric envelopes of those to a public key that `decrypt` would open for the same caller, `app`
        /// and `role`, as `rewrap` does: with the same value, type and role, and the mark that anyone may have made them, which `accept`
        /// calls `from-public-key`. Symmetric envelopes that open stay unchanged. Every other string that looks like an envelope is
        /// encrypted again: one of another role, of a kind that is not accepted, or any to a public key if `app` does not accept
        /// `from-public-key`. Plain values are sealed with `scheme` `symmetric`, which may be left out. Needs a `role`, and the permission
        /// to decrypt as well as to encrypt. Not with `skip_sealed`, nor with an `accept` without `public-key`. Default: they are
        /// encrypted again
        Reseal reseal: Option<Reseal>, Any [Clients Python Api Cli];
        /// The kinds of envelopes that `skip_sealed` leaves unchanged and `reseal` opens: as for decryption, for `reseal` by default all.
        Accept accept: Option<WordSet<'a, AcceptedScheme>>, Any [Clients Python Api Cli];
        /// Documents: every selector must match something, or the call fails with `unmatched_selector`.
        ///
        /// documents: every selector of `select` must match a value, or the request fails with `unmatched_selector` and changes
        /// nothing; with `lines`, in every line that is not blank. Default `false`
        Strict strict: bool, Documents [Clients Python Api];
        /// Documents: refuses a document in which parsers find different values where the selectors look.
        ///
        /// encrypting documents: whether a document is refused (`ambiguous_name`, `offset` at the place) in which parsers find
        /// different values where the selectors look: a name that a selector looks for and that occurs twice in its object (with
        /// filters any name, as a filter may look at it), a number that a filter compares and whose order changes in double precision,
        /// a compared text with U+0000, or a carriage return within a line of JSON Lines. Default `false`
        Unambiguous unambiguous: bool, DocumentsAlone [];
        /// Documents: the document is JSON Lines, a document on each line.
        ///
        /// documents: `document` is JSON Lines, a JSON value on each line; line breaks and blank lines stay. All lines have the same
        /// options; `strict` applies to each line that is not blank; `matched` and the limits of size and filters cover all lines
        /// together. A byte order mark may begin the first line alone. The message of an error and each path in `failures` begin with
        /// `line N: `, counted from 1; `offset` counts from the start of `document`. Default `false`
        Lines lines: bool, DocumentsAlone [];
    }
}

options! {
    /// Options of `decrypt` and `decrypt_document`.
    DecryptOptions {
        /// The context that the envelopes are bound to: 1 to 1024 bytes. Default: none.
        Context context: Option<&'a str>, Any [Clients Python Api Cli];
        /// Documents: the path from an object around each value to its context, such as `id` or `customer.id`. Default: none.
        ContextSelect context_select: Option<&'a str>, Documents [Clients Python Api Cli];
        /// Documents: binds each value to its path too. Default: it is bound to its context alone.
        Bind bind: Option<PathBinding>, Documents [Clients Python Api Cli];
        /// The kinds of envelopes that are opened, separated by commas: `public-key`, `symmetric`, `from-public-key`. Default: all, but
        /// `symmetric` alone where values are bound.
        ///
        /// the kinds of envelopes that are opened, separated by commas; any other fails as a damaged one does. `public-key`: those that
        /// anyone can make who has the public key; `symmetric`: those that an engine made from a value; `from-public-key`: those that an
        /// engine made from one to a public key, which anyone may have made. Default: all; with `context`, `contexts`, `context_select` or
        /// `bind`, `symmetric` alone
        Accept accept: Option<WordSet<'a, AcceptedScheme>>, Any [Clients Python Api Cli];
        /// The data role that every envelope must carry. Default: any.
        Role role: Option<&'a str>, Any [Clients Python Api Cli];
        /// The action for an envelope that does not open. Default: the call fails.
        ///
        /// decrypting: the action for an envelope that does not open. `fail`: the request fails. `leave`: it stays unchanged. `null`:
        /// it is replaced by nil, in a document by `null`. Default `fail`
        OnFailure on_failure: Option<OnFailure>, Any [Clients Python Api Cli];
        /// Documents: the action for a name that differs from a selector's only in case. Default: it is another name.
        OtherCase other_case: Option<OtherCase>, DocumentsAlone [Clients Python Api Cli];
        /// The id of an API key on whose behalf the call is made, from `authenticate`: it may do what both may.
        ///
        /// decrypting on behalf of an API key, whose id `authenticate` gave: the request may do only what both the caller and the key
        /// may. The key must be in force, for `app`, and allow `decrypt`; a value with a role must have one of its roles. Else the
        /// request fails with `forbidden`
        KeyId key_id: Option<&'a str>, Any [Clients];
        /// How long the caller waits, in milliseconds; at least 1.
        DeadlineMs deadline_ms: Option<u32>, Any [];
        /// Documents: every selector must match something, or the call fails with `unmatched_selector`.
        Strict strict: bool, Documents [Clients Python Api];
        /// Documents: the document is JSON Lines, a document on each line.
        Lines lines: bool, DocumentsAlone [];
    }
}

options! {
    /// Options of `rewrap`.
    RewrapOptions {
        /// How the new envelopes are sealed. Default: each keeps its own scheme; `public-key` with a curve.
        ///
        /// how the new envelopes are sealed. Default: each keeps its own scheme; with `curve` it is `public-key`, which cannot be bound and
        /// is refused with a context. An envelope to a public key that becomes a symmetric one keeps a mark, as anyone may have made it
        Scheme scheme: Option<Scheme>, Any [Clients Cli];
        /// The context that symmetric envelopes are bound to, old and new ones: 1 to 1024 bytes. Default: none.
        ///
        /// what symmetric envelopes are bound to, old and new ones. Default: none
        Context context: Option<&'a str>, Any [Clients Cli];
        /// Documents: the path from an object around each value to its context, such as `id` or `customer.id`. Default: none.
        ContextSelect context_select: Option<&'a str>, Documents [Cli];
        /// Documents: binds each value to its path too. Default: it is bound to its context alone.
        Bind bind: Option<PathBinding>, Documents [Cli];
        /// Documents: the action for a name that differs from a selector's only in case. Default: it is another name.
        OtherCase other_case: Option<OtherCase>, DocumentsAlone [Cli];
        /// The kinds of envelopes that are opened, separated by commas: `public-key`, `symmetric`, `from-public-key`. Default: all, but
        /// `symmetric` alone where values are bound.
        Accept accept: Option<WordSet<'a, AcceptedScheme>>, Any [Clients Cli];
        /// The curve of the new envelopes. Default: each keeps its own.
        Curve curve: Option<Curve>, Any [Clients Cli];
        /// The action for an envelope that does not open. Default: the call fails.
        OnFailure on_failure: Option<RewrapFailure>, Any [Clients Cli];
        /// How long the caller waits, in milliseconds; at least 1.
        DeadlineMs deadline_ms: Option<u32>, Any [];
    }
}

options! {
    /// Options of `encrypt_file`.
    EncryptFileOptions {
        /// How the file is sealed. Default: the engine's setting; `public-key` with a curve.
        Scheme scheme: Option<Scheme>, Any [Clients Api];
        /// The context that a symmetric file is bound to: 1 to 1024 bytes. Default: none.
        Context context: Option<&'a str>, Any [Clients Api];
        /// The curve of the file's envelope. Default: the engine's setting.
        Curve curve: Option<Curve>, Any [Clients Api];
        /// How long the caller waits, in milliseconds; at least 1.
        DeadlineMs deadline_ms: Option<u32>, Any [];
    }
}

options! {
    /// Options of `decrypt_file`.
    DecryptFileOptions {
        /// The context that the file is bound to: 1 to 1024 bytes. Default: none.
        Context context: Option<&'a str>, Any [Clients Api];
        /// The kinds of envelopes that are opened, separated by commas: `public-key`, `symmetric`, `from-public-key`. Default: all, but
        /// `symmetric` alone where values are bound.
        Accept accept: Option<WordSet<'a, AcceptedScheme>>, Any [Clients Api];
        /// The id of an API key on whose behalf the call is made, from `authenticate`: it may do what both may.
        KeyId key_id: Option<&'a str>, Any [Clients];
        /// How long the caller waits, in milliseconds; at least 1.
        DeadlineMs deadline_ms: Option<u32>, Any [];
    }
}

options! {
    /// Options of `inspect`, which needs no app for what the text of an envelope shows.
    InspectOptions {
        /// The context that symmetric envelopes are bound to: 1 to 1024 bytes. It needs an app. Default: none.
        ///
        /// what symmetric envelopes are bound to: without it they do not open. It needs `app`. Default: none
        Context context: Option<&'a str>, Any [Clients Python Api Cli];
        /// Documents: the path from an object around each value to its context, such as `id` or `customer.id`. Default: none.
        ContextSelect context_select: Option<&'a str>, Documents [Cli];
        /// Documents: binds each value to its path too. Default: it is bound to its context alone.
        Bind bind: Option<PathBinding>, Documents [Cli];
        /// Documents: the action for a name that differs from a selector's only in case. Default: it is another name.
        OtherCase other_case: Option<OtherCase>, DocumentsAlone [Cli];
        /// The kinds of envelopes that are opened, separated by commas: `public-key`, `symmetric`, `from-public-key`. It needs an app.
        /// Default: all, but `symmetric` alone with a context.
        ///
        /// the kinds of envelopes that are opened, as for `decrypt`. It needs `app`
        Accept accept: Option<WordSet<'a, AcceptedScheme>>, Any [Clients Python Api Cli];
        /// The action for an envelope that does not open. It needs an app. Default: the call fails.
        ///
        /// the action for an envelope that does not open. `fail`: the request fails. `leave`: the answer has what its text shows, and of a
        /// symmetric one the version of its key, which its key id names. It needs `app`. Default `fail`
        OnFailure on_failure: Option<RewrapFailure>, Any [Api];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_by_name_to_values_of_their_type() {
        let mut options = EncryptOptions::new("acme");
        assert!(
            options.set(Field::Curve, OptionValue::Text("k1")) && options.set(Field::Role, OptionValue::Text("pci"))
        );
        assert!(
            options.set(Field::Strict, OptionValue::Flag(true))
                && options.set(Field::DeadlineMs, OptionValue::Number(5))
        );
        let expected = EncryptOptions {
            curve: Some(Curve::K1),
            role: Some("pci"),
            strict: true,
            deadline_ms: Some(5),
            ..EncryptOptions::new("acme")
        };
        assert_eq!(options, expected);
        for (option, value) in [
            (Field::Curve, OptionValue::Text("p256")),
            (Field::Curve, OptionValue::Flag(true)),
            (Field::Strict, OptionValue::Number(1)),
            (Field::OnFailure, OptionValue::Text("leave")),
        ] {
            assert!(!options.set(option, value), "{option}");
        }
        assert_eq!(options, expected);
    }

    #[test]
    fn descriptions_are_sentences_and_the_full_text_is_one_line() {
        let all = [EncryptOptions::OPTIONS, DecryptOptions::OPTIONS, RewrapOptions::OPTIONS, InspectOptions::OPTIONS];
        for option in all.concat() {
            assert!(option.summary().ends_with('.') && !option.full().contains('\n'), "{option:?}");
            assert!(!option.full().is_empty() && !option.full().contains('|'), "{option:?}");
        }
    }
}
