//! What the values of a request are bound to: all to one context, or each to its own.

use std::sync::Arc;

use leafseal_document::ContextSelector;
use leafseal_envelope::{Binding, BindingPart, Bindings};

use crate::error::{Error, ErrorCode};
use crate::settings::Settings;

/// How a document's values are bound to their places in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathBinding {
    /// To the normalized path, each index as `[*]`: not to the element of a list.
    Path,
    /// To the normalized path.
    PathAndIndex,
}

impl PathBinding {
    pub(crate) fn part(self) -> BindingPart {
        match self {
            Self::Path => BindingPart::Path,
            Self::PathAndIndex => BindingPart::IndexedPath,
        }
    }
}

/// What the options of a request bind its values to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BindingWish<'a> {
    /// One context for all.
    pub(crate) context: Option<&'a str>,
    /// Documents: where the context of each value is.
    pub(crate) context_select: Option<&'a str>,
    /// Documents: to the path of each value.
    pub(crate) bind: Option<PathBinding>,
    /// Lists: each value comes with its context.
    pub(crate) has_contexts: bool,
}

impl BindingWish<'_> {
    /// Whether values are bound to anything.
    pub(crate) fn is_bound(self) -> bool {
        self.context.is_some() || self.context_select.is_some() || self.bind.is_some() || self.has_contexts
    }

    /// What the values are bound to.
    ///
    /// # Errors
    /// The context is empty or too long, its path is not one, or options do not go together.
    pub(crate) fn binding(self, settings: &Settings) -> Result<RequestBinding, Error> {
        let invalid = |message: &str| Err(Error::new(ErrorCode::InvalidParams, message));
        if self.context.is_some() && (self.context_select.is_some() || self.has_contexts) {
            return invalid("context is one for all values: leave it out, or context_select and contexts");
        }
        let binding = match self.context {
            None => Binding::default(),
            Some(context) => Binding::context(context)
                .map_err(|invalid| Error::new(ErrorCode::InvalidParams, invalid.to_string()))?,
        };
        if self.has_contexts {
            return match self.context_select.is_some() || self.bind.is_some() {
                true => invalid("contexts are for lists of values, context_select and bind for documents"),
                false => Ok(RequestBinding::OfList),
            };
        }
        if self.context_select.is_none() && self.bind.is_none() {
            return Ok(RequestBinding::One(binding));
        }
        let select = self.context_select.map(|path| {
            ContextSelector::parse(path, &settings.document).map_err(|error| {
                let message = format!("context_select, byte {}: {}", error.position, error.kind);
                Error::new(ErrorCode::InvalidSelector, message).at_offset(error.position)
            })
        });
        let path = self.bind.map(PathBinding::part);
        Ok(RequestBinding::OfDocument(Arc::new(DocumentBinding { binding, select: select.transpose()?, path })))
    }
}

/// What the values of a request are bound to.
#[derive(Debug, Clone)]
pub(crate) enum RequestBinding {
    /// All to the same, or to nothing.
    One(Binding),
    /// Each to a context of a list beside that of the values.
    OfList,
    /// Each by its place in a document.
    OfDocument(Arc<DocumentBinding>),
}

impl RequestBinding {
    /// What some values are bound to, which have their `own` if they come with one each.
    ///
    /// # Errors
    /// They have none where the request binds each to its own.
    pub(crate) fn of<'b>(&'b self, own: OwnBindings<'b>) -> Result<Bindings<'b>, Error> {
        let message = match (self, own) {
            (Self::One(binding), None) => return Ok(Bindings::One(binding)),
            (Self::OfList | Self::OfDocument(_), Some(own)) => return Ok(Bindings::Each(own)),
            (Self::OfDocument(_), None) => "context_select and bind are for documents",
            (Self::OfList | Self::One(_), _) => "contexts are for lists of values",
        };
        Err(Error::new(ErrorCode::InvalidParams, message))
    }

    /// How a document's values are bound, if each is to its own.
    pub(crate) fn of_document(&self) -> Option<Arc<DocumentBinding>> {
        match self {
            Self::OfDocument(binding) => Some(Arc::clone(binding)),
            Self::One(_) | Self::OfList => None,
        }
    }

    /// What new values are bound to that do not come with their own.
    pub(crate) fn one(&self) -> Binding {
        match self {
            Self::One(binding) => binding.clone(),
            Self::OfList | Self::OfDocument(_) => Binding::default(),
        }
    }
}

/// What each of some values is bound to, if each is to its own.
pub type OwnBindings<'b> = Option<&'b [Arc<Binding>]>;

/// How the values of a document are bound: each by its place in it.
#[derive(Debug)]
pub struct DocumentBinding {
    /// To the context of the request, in addition.
    pub(crate) binding: Binding,
    pub(crate) select: Option<ContextSelector>,
    pub(crate) path: Option<BindingPart>,
}
