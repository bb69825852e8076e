//! A request's frame together with its parsed parameters: lists and documents are used in place, across all steps.
#![allow(clippy::mem_forget, reason = "`self_cell` forgets a guard of its own, never what the cell holds")]

use leafseal_protocol::{
    DecryptDocumentParams, DecryptFileParams, DecryptParams, EncryptDocumentParams, EncryptFileParams, EncryptParams,
    ErrorCode, ErrorObject, InspectParams, Message, Method, Query, RawParams, RawValues, RewrapParams,
};

use super::parts::OwnsDocument;

/// The parameters of any method, or why they are invalid.
pub(super) enum ParsedCall<'a> {
    Encrypt(EncryptParams<'a>),
    Decrypt(DecryptParams<'a>),
    EncryptDocument(EncryptDocumentParams<'a>),
    DecryptDocument(DecryptDocumentParams<'a>),
    EncryptFile(EncryptFileParams<'a>),
    DecryptFile(DecryptFileParams<'a>),
    Rewrap(RewrapParams<'a>),
    Inspect(InspectParams<'a>),
    Query(Query<'a>),
    Fault(ErrorObject),
}

self_cell::self_cell!(
    struct OwnedCallCell {
        owner: Vec<u8>,

        #[covariant]
        dependent: ParsedCall,
    }
);

/// Owns a frame and the view of it.
pub(super) struct OwnedCall(OwnedCallCell);

impl OwnedCall {
    /// Reads the parameters. An error is kept for the answer.
    pub(super) fn read(frame: Vec<u8>) -> Self {
        Self(OwnedCallCell::new(frame, |frame| read(frame).unwrap_or_else(ParsedCall::Fault)))
    }

    pub(super) fn parsed(&self) -> &ParsedCall<'_> {
        self.0.borrow_dependent()
    }

    /// The parameters of `encrypt`. Each accessor is only called for its own method.
    pub(super) fn encrypt(&self) -> &EncryptParams<'_> {
        let ParsedCall::Encrypt(params) = self.parsed() else { unreachable!("{OWN}") };
        params
    }

    pub(super) fn decrypt(&self) -> &DecryptParams<'_> {
        let ParsedCall::Decrypt(params) = self.parsed() else { unreachable!("{OWN}") };
        params
    }

    pub(super) fn rewrap(&self) -> &RewrapParams<'_> {
        let ParsedCall::Rewrap(params) = self.parsed() else { unreachable!("{OWN}") };
        params
    }

    pub(super) fn inspect(&self) -> &InspectParams<'_> {
        let ParsedCall::Inspect(params) = self.parsed() else { unreachable!("{OWN}") };
        params
    }

    /// The file of any method that has one.
    pub(super) fn file(&self) -> &[u8] {
        match self.parsed() {
            ParsedCall::EncryptFile(params) => params.data,
            ParsedCall::DecryptFile(params) => params.data,
            _ => unreachable!("{OWN}"),
        }
    }

    /// The selectors of any method that has them.
    pub(super) fn select(&self) -> Option<RawValues<'_>> {
        match self.parsed() {
            ParsedCall::EncryptDocument(params) => params.select,
            ParsedCall::DecryptDocument(params) => params.select,
            _ => unreachable!("{OWN}"),
        }
    }
}

impl OwnsDocument for OwnedCall {
    /// The document of any method that has one.
    fn document(&self) -> &[u8] {
        match self.parsed() {
            ParsedCall::EncryptDocument(params) => params.document,
            ParsedCall::DecryptDocument(params) => params.document,
            _ => unreachable!("{OWN}"),
        }
    }
}

const OWN: &str = "work begins from its own parameters";

impl ParsedCall<'_> {
    /// The app of the request; empty if the method has none.
    pub(super) fn app(&self) -> &str {
        match self {
            Self::Encrypt(params) => params.options.app,
            Self::Decrypt(params) => params.options.app,
            Self::EncryptDocument(params) => params.options.app,
            Self::DecryptDocument(params) => params.options.app,
            _ => "",
        }
    }

    /// Bytes of the context that all values of the request are bound to.
    pub(super) fn context_size(&self) -> usize {
        let context = match self {
            Self::Encrypt(params) => params.options.context,
            Self::Decrypt(params) => params.options.context,
            Self::EncryptDocument(params) => params.options.context,
            Self::DecryptDocument(params) => params.options.context,
            _ => None,
        };
        context.map_or(0, str::len)
    }

    /// The API key that the caller acts for, if any.
    pub(super) fn key_id(&self) -> Option<&str> {
        match self {
            Self::Decrypt(params) => params.options.key_id,
            Self::DecryptDocument(params) => params.options.key_id,
            Self::DecryptFile(params) => params.options.key_id,
            _ => None,
        }
    }

    /// The caller's deadline, if any.
    pub(super) fn deadline_ms(&self) -> Option<u32> {
        match self {
            Self::Encrypt(params) => params.options.deadline_ms,
            Self::Decrypt(params) => params.options.deadline_ms,
            Self::EncryptDocument(params) => params.options.deadline_ms,
            Self::DecryptDocument(params) => params.options.deadline_ms,
            Self::EncryptFile(params) => params.options.deadline_ms,
            Self::DecryptFile(params) => params.options.deadline_ms,
            Self::Rewrap(params) => params.options.deadline_ms,
            Self::Inspect(_) | Self::Query(_) | Self::Fault(_) => None,
        }
    }
}

fn read(frame: &[u8]) -> Result<ParsedCall<'_>, ErrorObject> {
    let Message::Request { method, params, .. } = Message::parse(frame)? else {
        return Err(ErrorObject::new(ErrorCode::InvalidRequest, "expected a request"));
    };
    read_params(Method::require(method)?, params)
}

fn read_params(method: Method, params: RawParams<'_>) -> Result<ParsedCall<'_>, ErrorObject> {
    Ok(match method {
        Method::Encrypt => ParsedCall::Encrypt(EncryptParams::decode(params)?),
        Method::Decrypt => ParsedCall::Decrypt(DecryptParams::decode(params)?),
        Method::EncryptDocument => ParsedCall::EncryptDocument(EncryptDocumentParams::decode(params)?),
        Method::DecryptDocument => ParsedCall::DecryptDocument(DecryptDocumentParams::decode(params)?),
        Method::EncryptFile => ParsedCall::EncryptFile(EncryptFileParams::decode(params)?),
        Method::DecryptFile => ParsedCall::DecryptFile(DecryptFileParams::decode(params)?),
        Method::Rewrap => ParsedCall::Rewrap(RewrapParams::decode(params)?),
        Method::Inspect => ParsedCall::Inspect(InspectParams::decode(params)?),
        query => match Query::decode(query, params)? {
            Some(query) => ParsedCall::Query(query),
            None => return Err(ErrorObject::new(ErrorCode::Internal, "no such query")),
        },
    })
}
