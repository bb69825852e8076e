//! The contexts that the values of a list, or the documents of a column, are bound to: one for each.

use std::sync::Arc;

use leafseal_engine::Binding;
use leafseal_protocol::{ErrorCode, NumberBuffer, Scalar};

use crate::fault::CallFault;
use crate::values::ListSource;

/// Contexts, each checked.
#[derive(Default)]
pub(crate) struct Contexts {
    text: String,
    /// The end of each in the text.
    ends: Vec<usize>,
}

impl Contexts {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends a context: a string, or an integer as its decimal text.
    pub(crate) fn push(&mut self, scalar: &Scalar<'_>) -> Result<(), CallFault> {
        let mut buffer = NumberBuffer::new();
        match scalar {
            Scalar::Str(text) => return self.push_text(text.as_str()),
            Scalar::UInt(_) | Scalar::Int(_) => {
                let digits = scalar.text(&mut buffer).and_then(|(_, digits)| str::from_utf8(digits).ok());
                return self.push_text(digits.unwrap_or_default());
            }
            Scalar::Nil => {}
            Scalar::Bool(_) | Scalar::Float(_) => return Err(self.wrong("must be a string or an integer")),
        }
        Err(self.wrong("is null: each value, a null too, needs a context"))
    }

    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), CallFault> {
        Binding::context(text).map_err(|invalid| self.wrong(&invalid.to_string()))?;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        Ok(())
    }

    /// Appends those of a list.
    pub(crate) fn push_all(&mut self, source: &impl ListSource) -> Result<(), CallFault> {
        self.ends.reserve(source.len());
        (0..source.len()).try_for_each(|index| self.push(&source.scalar(index)))
    }

    /// The error of the next context.
    pub(crate) fn wrong(&self, why: &str) -> CallFault {
        let index = self.len();
        CallFault::at(ErrorCode::InvalidParams, index, format!("context {index}: {why}"))
    }

    /// The context at `index`, which must be below the length.
    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// The part for values that begin at `first` of the call's list.
    pub(crate) fn from(&self, first: usize) -> ContextsFrom<'_> {
        ContextsFrom { contexts: self, first }
    }
}

/// The contexts of a part of a list.
#[derive(Clone, Copy)]
pub(crate) struct ContextsFrom<'a> {
    contexts: &'a Contexts,
    first: usize,
}

impl<'a> ContextsFrom<'a> {
    pub(crate) fn get(self, index: usize) -> &'a str {
        self.contexts.get(self.first + index)
    }

    pub(crate) fn texts(self, start: usize, count: usize) -> Vec<&'a str> {
        (start..start + count).map(|index| self.get(index)).collect()
    }

    /// What those values are bound to. Neighbours with equal contexts share one.
    pub(crate) fn bindings(self, start: usize, count: usize) -> Result<Vec<Arc<Binding>>, CallFault> {
        let mut bindings: Vec<Arc<Binding>> = Vec::with_capacity(count);
        for index in start..start + count {
            let context = self.get(index);
            let same = bindings.last().filter(|_| self.get(index - 1) == context).map(Arc::clone);
            let made = same.map_or_else(|| Binding::context(context).map(Arc::new), Ok);
            bindings.push(made.map_err(|invalid| CallFault::argument(invalid.to_string()))?);
        }
        Ok(bindings)
    }
}
