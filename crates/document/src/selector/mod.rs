//! Selections: JSONPath selectors (RFC 9535) compiled to be shared between documents.

pub(crate) mod ast;
pub(crate) mod automaton;
pub(crate) mod code;
mod context;
mod coverage;
mod fields;
mod filter;
mod iregexp;
mod members;
mod overlap;
mod parser;
pub(crate) mod pattern;

use std::sync::Arc;

use crate::error::{SelectorError, SelectorErrorKind};
use crate::fold::CaseFold;
use crate::limits::DocumentLimits;
use ast::{JsonPathQuery, Selector};
use automaton::CompiledQueries;
use code::FilterCode;
pub use context::ContextSelector;
pub use fields::FieldPath;
pub(crate) use fields::before_parenthesis;
use parser::{Parser, SelectorTotals};

/// The selected values of a document: the union of any number of RFC 9535 selectors.
///
/// If a selected value is an array or object, every scalar inside is selected. A selection is immutable and cheap to clone; keep one for as
/// long as the same selectors are used.
#[derive(Clone, Debug)]
pub struct Selection {
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    queries: Vec<JsonPathQuery>,
    /// The byte code of the filters of all queries.
    code: FilterCode,
    /// The automaton's program; `None` if a filter needs the tree.
    program: Option<Arc<CompiledQueries>>,
    /// If a walk reads documents more than once, the program of the same queries with any element or member where these need to know more
    /// of it than its path: what it does not select is not selected.
    sieve: Option<Arc<CompiledQueries>>,
    other_case: CaseFold,
    is_unambiguous: bool,
}

/// Builds a selection selector by selector, for callers that must yield in between.
#[derive(Debug)]
pub struct SelectionBuilder {
    limits: DocumentLimits,
    queries: Vec<JsonPathQuery>,
    parsed: SelectorTotals,
    other_case: CaseFold,
    is_unambiguous: bool,
}

impl Selection {
    /// Every scalar of a document: the selector `$`.
    pub fn everything() -> Selection {
        Selection::compile(vec![JsonPathQuery::default()], FilterCode::default(), CaseFold::Other, false)
    }

    /// Compiles selectors; their union is selected. Without selectors nothing is selected. Patterns of `match` and `search` are compiled
    /// when a filter first needs them.
    ///
    /// # Errors
    /// The first selector that is not well-formed and well-typed by RFC 9535, or that exceeds a limit.
    pub fn parse(selectors: &[impl AsRef<str>], limits: &DocumentLimits) -> Result<Selection, SelectorError> {
        let mut builder = Selection::builder(limits);
        selectors.iter().try_for_each(|selector| builder.add(selector.as_ref()))?;
        Ok(builder.finish())
    }

    /// Creates a builder without selectors.
    pub fn builder(limits: &DocumentLimits) -> SelectionBuilder {
        let (queries, parsed, other_case) = (Vec::new(), SelectorTotals::default(), CaseFold::default());
        SelectionBuilder { limits: limits.clone(), queries, parsed, other_case, is_unambiguous: false }
    }

    fn compile(queries: Vec<JsonPathQuery>, code: FilterCode, other_case: CaseFold, is_unambiguous: bool) -> Selection {
        let streams = !queries.iter().any(JsonPathQuery::has_filter);
        let program = streams.then(|| Arc::new(CompiledQueries::new(&queries, other_case, is_unambiguous)));
        let is_one_pass = program.as_ref().is_some_and(|program| !program.needs_lengths());
        let sieve = (!is_one_pass).then(|| {
            let queries: Vec<JsonPathQuery> = queries.iter().map(JsonPathQuery::by_names).collect();
            let case = if other_case == CaseFold::Other { CaseFold::Other } else { CaseFold::Same };
            Arc::new(CompiledQueries::new(&queries, case, false))
        });
        Selection { compiled: Arc::new(Compiled { queries, code, program, sieve, other_case, is_unambiguous }) }
    }

    /// Whether documents are walked without a tree: false if any selector contains a filter.
    pub fn streams(&self) -> bool {
        self.compiled.program.is_some()
    }

    /// Whether the selectors consist of names and wildcards, so that the path to a value alone decides whether it is selected.
    pub fn is_of_names(&self) -> bool {
        let segments = self.compiled.queries.iter().flat_map(|query| &query.segments);
        let is_of_names = |selector: &Selector| matches!(selector, Selector::Name(_) | Selector::Wildcard);
        segments.flat_map(|segment| &segment.selectors).all(is_of_names)
    }

    /// The names under which the selected values are members of objects; `None` if a selector selects elements, or members of any name.
    pub fn member_names(&self) -> Option<Vec<&str>> {
        let mut names = Vec::new();
        for query in &self.compiled.queries {
            for selector in &query.segments.last()?.selectors {
                let Selector::Name(name) = selector else { return None };
                names.push(name.as_str());
            }
        }
        Some(names)
    }

    pub(crate) fn program(&self) -> Option<&Arc<CompiledQueries>> {
        self.compiled.program.as_ref()
    }

    /// See [`Compiled::sieve`].
    pub(crate) fn sieve(&self) -> Option<&Arc<CompiledQueries>> {
        self.compiled.sieve.as_ref()
    }

    /// Whether array lengths must be counted before documents are walked.
    pub(crate) fn needs_lengths(&self) -> bool {
        self.program().is_some_and(|program| program.needs_lengths())
    }

    /// The action for names that differ from those of the selectors only in case.
    pub fn other_case(&self) -> CaseFold {
        self.compiled.other_case
    }

    /// Whether documents are refused in which parsers find different values where the selectors look: see
    /// [`SelectionBuilder::unambiguous`].
    pub fn is_unambiguous(&self) -> bool {
        self.compiled.is_unambiguous
    }

    pub(crate) fn queries(&self) -> &[JsonPathQuery] {
        &self.compiled.queries
    }

    pub(crate) fn code(&self) -> &FilterCode {
        &self.compiled.code
    }
}

impl SelectionBuilder {
    /// Sets the action for members whose names differ from those of the selectors only in case; by default they are other names.
    #[must_use]
    pub fn other_case(self, other_case: CaseFold) -> Self {
        SelectionBuilder { other_case, ..self }
    }

    /// With `true`, refuses documents in which parsers find different values where the selectors look. Of duplicate members some parsers
    /// keep the first, others the last: a name that a selector looks for must not occur twice in an object, and with filters, which may
    /// look at any member, no name may. A number that a filter compares must compare alike exactly and in double precision, and a text
    /// must not contain U+0000, at which some parsers end it.
    #[must_use]
    pub fn unambiguous(self, is_unambiguous: bool) -> Self {
        SelectionBuilder { is_unambiguous, ..self }
    }

    /// Adds a selector.
    ///
    /// # Errors
    /// It is not well-formed and well-typed by RFC 9535, or exceeds a limit.
    pub fn add(&mut self, selector: &str) -> Result<(), SelectorError> {
        let number = self.queries.len();
        if number >= self.limits.selectors_max {
            let kind = SelectorErrorKind::TooMany(self.limits.selectors_max);
            return Err(SelectorError { selector: number, position: 0, kind });
        }
        let query = Parser::new(selector, &self.limits, &mut self.parsed).selector();
        let query =
            query.map_err(|fault| SelectorError { selector: number, position: fault.position, kind: fault.kind })?;
        self.queries.push(query);
        Ok(())
    }

    /// Compiles the selectors.
    pub fn finish(self) -> Selection {
        let code = FilterCode::new(self.parsed.filters, self.parsed.root_queries as usize);
        Selection::compile(self.queries, code, self.other_case, self.is_unambiguous)
    }
}
