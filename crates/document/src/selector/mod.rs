//! Selections: JSONPath selectors (RFC 9535) compiled to be shared between documents.

pub(crate) mod ast;
mod filter;
pub(crate) mod iregexp;
mod parser;

use std::sync::Arc;

use crate::automaton::Program;
use crate::error::{SelectorError, SelectorErrorKind};
use crate::limits::Limits;
use ast::Query;
use parser::Parser;

/// What of a document is meant: the union of any number of RFC 9535 selectors.
///
/// Where a selected value is an array or object, every scalar inside is meant. A selection is read-only and cheap to
/// clone; keep one for as long as the same selectors serve.
#[derive(Clone, Debug)]
pub struct Selection {
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    queries: Vec<Query>,
    /// `$` queries inside the filters of all queries.
    root_queries: usize,
    /// The automaton's program; absent where a filter needs the tree.
    program: Option<Arc<Program>>,
}

impl Selection {
    /// Every scalar of a document: the selector `$`.
    pub fn everything() -> Selection {
        Selection::compile(vec![Query::default()], 0)
    }

    /// Compiles selectors; their union is selected. No selectors select nothing.
    ///
    /// # Errors
    /// The first selector that is not well-formed and well-typed by RFC 9535, or that passes a limit.
    pub fn parse(selectors: &[impl AsRef<str>], limits: &Limits) -> Result<Selection, SelectorError> {
        if selectors.len() > limits.selectors_max {
            let kind = SelectorErrorKind::TooMany(limits.selectors_max);
            return Err(SelectorError { selector: limits.selectors_max, position: 0, kind });
        }
        let mut queries = Vec::with_capacity(selectors.len());
        let (mut segments, mut root_queries) = (0, 0);
        for (selector, text) in selectors.iter().enumerate() {
            let mut parser = Parser::new(text.as_ref(), limits, segments, root_queries);
            let query = parser.selector();
            let query =
                query.map_err(|fault| SelectorError { selector, position: fault.position, kind: fault.kind })?;
            queries.push(query);
            (segments, root_queries) = (parser.segments, parser.root_queries);
        }
        Ok(Selection::compile(queries, root_queries))
    }

    fn compile(queries: Vec<Query>, root_queries: usize) -> Selection {
        let streams = !queries.iter().any(Query::has_filter);
        let program = streams.then(|| Arc::new(Program::new(&queries)));
        Selection { compiled: Arc::new(Compiled { queries, root_queries, program }) }
    }

    /// Whether documents are walked without a tree: false where any selector holds a filter.
    pub fn streams(&self) -> bool {
        self.compiled.program.is_some()
    }

    pub(crate) fn program(&self) -> Option<&Arc<Program>> {
        self.compiled.program.as_ref()
    }

    pub(crate) fn queries(&self) -> &[Query] {
        &self.compiled.queries
    }

    pub(crate) fn root_queries(&self) -> usize {
        self.compiled.root_queries
    }
}
