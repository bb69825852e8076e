//! Filters as byte code: each is a sequence of instructions for a machine with a verdict and a stack of operands, so that evaluation can
//! pause between any two visits of the document and resume later, unlike a recursive one.

use super::ast::{
    Comparable, Comparison, Expression, Extent, FilterQuery, JsonPathQuery, Literal, Operator, PatternTest, QueryOrigin,
};
use super::pattern::FixedPattern;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// Evaluates the node list of the query with this number, for this use.
    Walk(u32, QueryUse),
    /// Pushes the literal with this number.
    Literal(u32),
    /// Replaces the operand on top of the stack by the result of the function `length`.
    Length,
    /// Pops two operands, the left one pushed first; the verdict is the result of the comparison.
    Compare(Operator),
    /// Pops a text; the verdict is whether the pattern with this number matches it.
    MatchFixed(u32),
    /// Pops a text and a pattern, which comes from the document.
    MatchComputed(Extent),
    /// Negates the verdict.
    Not,
    /// Jumps if the verdict is `when`.
    Jump { when: bool, to: u32 },
    /// Ends the filter.
    End,
}

/// The purpose of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryUse {
    /// The verdict is whether there is a node.
    Exists,
    /// Pushes the number of nodes.
    Count,
    /// Pushes the node, if there is exactly one.
    Single,
    /// Pushes the node of a singular query: the last of duplicate members.
    Singular,
}

/// The filters of a selection.
#[derive(Debug, Default)]
pub(crate) struct FilterCode {
    instructions: Vec<Instruction>,
    /// The start of each filter.
    filters: Vec<u32>,
    queries: Vec<(QueryOrigin, JsonPathQuery)>,
    literals: Vec<Literal>,
    patterns: Vec<FixedPattern>,
    root_queries: usize,
}

impl FilterCode {
    /// Compiles filters, whose numbers are kept.
    pub(super) fn new(filters: Vec<Expression>, root_queries: usize) -> Self {
        let mut code = FilterCode { root_queries, ..FilterCode::default() };
        for filter in filters {
            code.filters.push(code.next());
            code.expression(filter);
            code.instructions.push(Instruction::End);
        }
        code
    }

    /// The start of a filter.
    pub(crate) fn start(&self, filter: u32) -> u32 {
        self.filters[filter as usize]
    }

    pub(crate) fn instruction(&self, at: u32) -> Instruction {
        self.instructions[at as usize]
    }

    pub(crate) fn query(&self, number: u32) -> (QueryOrigin, &JsonPathQuery) {
        let (origin, query) = &self.queries[number as usize];
        (*origin, query)
    }

    pub(crate) fn literal(&self, number: u32) -> &Literal {
        &self.literals[number as usize]
    }

    /// The patterns that are known in advance.
    pub(crate) fn patterns(&self) -> &[FixedPattern] {
        &self.patterns
    }

    /// The number of queries from `$`.
    pub(crate) fn root_queries(&self) -> usize {
        self.root_queries
    }

    fn next(&self) -> u32 {
        self.instructions.len() as u32
    }

    fn expression(&mut self, expression: Expression) {
        match expression {
            Expression::Or(terms) => self.terms(terms, true),
            Expression::And(terms) => self.terms(terms, false),
            Expression::Not(inner) => {
                self.expression(*inner);
                self.instructions.push(Instruction::Not);
            }
            Expression::Exists(query) => self.walk(query, QueryUse::Exists),
            Expression::Compare(comparison) => self.comparison(*comparison),
            Expression::Matches(test) => self.pattern_test(*test),
        }
    }

    /// Compiles terms of which the first with the verdict `settles` determines the result.
    fn terms(&mut self, terms: Vec<Expression>, settles: bool) {
        let mut jumps = Vec::with_capacity(terms.len());
        for term in terms {
            self.expression(term);
            jumps.push(self.next());
            self.instructions.push(Instruction::Jump { when: settles, to: 0 });
        }
        let end = self.next();
        for jump in jumps {
            self.instructions[jump as usize] = Instruction::Jump { when: settles, to: end };
        }
    }

    fn comparison(&mut self, comparison: Comparison) {
        self.operand(comparison.left);
        self.operand(comparison.right);
        self.instructions.push(Instruction::Compare(comparison.operator));
    }

    fn operand(&mut self, operand: Comparable) {
        match operand {
            Comparable::Literal(literal) => {
                self.literals.push(literal);
                self.instructions.push(Instruction::Literal(self.literals.len() as u32 - 1));
            }
            Comparable::Query(query) => self.walk(query, QueryUse::Singular),
            Comparable::Count(query) => self.walk(query, QueryUse::Count),
            Comparable::Value(query) => self.walk(query, QueryUse::Single),
            Comparable::Length(argument) => {
                self.operand(*argument);
                self.instructions.push(Instruction::Length);
            }
        }
    }

    fn walk(&mut self, query: FilterQuery, wanted: QueryUse) {
        self.queries.push((query.origin, query.query));
        self.instructions.push(Instruction::Walk(self.queries.len() as u32 - 1, wanted));
    }

    fn pattern_test(&mut self, test: PatternTest) {
        self.operand(test.text);
        match test.pattern {
            Comparable::Literal(Literal::String(pattern)) => {
                self.patterns.push(FixedPattern::new(pattern, test.extent));
                self.instructions.push(Instruction::MatchFixed(self.patterns.len() as u32 - 1));
            }
            argument => {
                self.operand(argument);
                self.instructions.push(Instruction::MatchComputed(test.extent));
            }
        }
    }
}
