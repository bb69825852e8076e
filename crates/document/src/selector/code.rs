//! Filters as byte code: each is a run of instructions for a machine with a verdict and a stack of operands, so that evaluation can
//! pause between any two visits of the document and resume later, which a recursive one could not.

use super::ast::{
    Comparable, Comparison, Expression, Extent, FilterQuery, Literal, Operator, Origin, PatternTest, Query,
};
use super::pattern::FixedPattern;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// Walks the node list of the query with this number, for this use.
    Walk(u32, Use),
    /// Puts the literal with this number on the stack.
    Literal(u32),
    /// The function `length`, of the operand on top of the stack, in its place.
    Length,
    /// Takes two operands, the left one first on the stack; the verdict is what they compare to.
    Compare(Operator),
    /// Takes a text; the verdict is whether the pattern with this number matches it.
    MatchFixed(u32),
    /// Takes a text and a pattern, which comes from the document.
    MatchComputed(Extent),
    /// Turns the verdict round.
    Not,
    /// Goes on elsewhere if the verdict is `when`.
    Jump { when: bool, to: u32 },
    /// The filter's verdict is found.
    End,
}

/// The purpose of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The verdict is whether there is a node.
    Exists,
    /// Pushes the number of nodes.
    Count,
    /// Pushes the node, if there is exactly one.
    Single,
    /// Pushes the node of a singular query: of duplicate members the last.
    Singular,
}

/// The filters of a selection.
#[derive(Debug, Default)]
pub(crate) struct Code {
    instructions: Vec<Instruction>,
    /// Where each filter begins.
    filters: Vec<u32>,
    queries: Vec<(Origin, Query)>,
    literals: Vec<Literal>,
    patterns: Vec<FixedPattern>,
    root_queries: usize,
}

impl Code {
    /// Compiles filters; their numbers stay.
    pub(super) fn new(filters: Vec<Expression>, root_queries: usize) -> Self {
        let mut code = Code { root_queries, ..Code::default() };
        for filter in filters {
            code.filters.push(code.next());
            code.expression(filter);
            code.instructions.push(Instruction::End);
        }
        code
    }

    /// Where a filter begins.
    pub(crate) fn start(&self, filter: u32) -> u32 {
        self.filters[filter as usize]
    }

    pub(crate) fn instruction(&self, at: u32) -> Instruction {
        self.instructions[at as usize]
    }

    pub(crate) fn query(&self, number: u32) -> (Origin, &Query) {
        let (origin, query) = &self.queries[number as usize];
        (*origin, query)
    }

    pub(crate) fn literal(&self, number: u32) -> &Literal {
        &self.literals[number as usize]
    }

    /// The patterns that are known ahead.
    pub(crate) fn patterns(&self) -> &[FixedPattern] {
        &self.patterns
    }

    /// Queries from `$`: each has a number below this one.
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
            Expression::Exists(query) => self.walk(query, Use::Exists),
            Expression::Compare(comparison) => self.comparison(*comparison),
            Expression::Matches(test) => self.pattern_test(*test),
        }
    }

    /// Terms of which the first with the verdict `settles` settles the whole.
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
            Comparable::Query(query) => self.walk(query, Use::Singular),
            Comparable::Count(query) => self.walk(query, Use::Count),
            Comparable::Value(query) => self.walk(query, Use::Single),
            Comparable::Length(argument) => {
                self.operand(*argument);
                self.instructions.push(Instruction::Length);
            }
        }
    }

    fn walk(&mut self, query: FilterQuery, wanted: Use) {
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
