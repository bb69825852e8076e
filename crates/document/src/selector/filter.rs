//! The grammar and the typing of filters (RFC 9535, sections 2.3.5 and 2.4).
//!
//! An operand is parsed first and checked by what follows it: before a comparison operator it must have a value, alone it must be a
//! test. That is the whole type system, because the five registered functions take only values and nodes.

use super::ast::{
    Comparable, Comparison, Expression, Extent, FilterQuery, Literal, Operator, PatternTest, QueryOrigin,
};
use super::parser::{Parser, SelectorFault, SelectorResult};
use crate::error::SelectorErrorKind;
use crate::scan;

/// A literal, query or function call before its context has determined its required type.
enum Operand {
    /// A literal or a function with a value.
    Value(Comparable),
    Query(FilterQuery),
    /// `match` or `search`.
    Logical(Expression),
}

/// The operators as they are written; the last two are mirrored when the comparison is built.
#[derive(Clone, Copy)]
enum WrittenOperator {
    Direct(Operator),
    Mirrored(Operator),
}

impl Parser<'_> {
    /// `filter-selector`, after its `?`.
    pub(super) fn filter(&mut self) -> SelectorResult<Expression> {
        self.space();
        self.or_expression()
    }

    fn or_expression(&mut self) -> SelectorResult<Expression> {
        self.descend()?;
        let first = self.and_expression()?;
        let mut terms = vec![first];
        while self.eat_operator("||") {
            terms.push(self.and_expression()?);
        }
        self.depth -= 1;
        Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::Or(terms) })
    }

    fn and_expression(&mut self) -> SelectorResult<Expression> {
        let first = self.basic_expression()?;
        let mut terms = vec![first];
        while self.eat_operator("&&") {
            terms.push(self.basic_expression()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::And(terms) })
    }

    /// `S operator S`; white space before anything else is not consumed.
    fn eat_operator(&mut self, operator: &str) -> bool {
        let before = self.position;
        self.space();
        let found = self.rest().starts_with(operator);
        self.position = if found { self.position + operator.len() } else { before };
        if found {
            self.space();
        }
        found
    }

    /// `paren-expr`, `comparison-expr` or `test-expr`.
    fn basic_expression(&mut self) -> SelectorResult<Expression> {
        if self.eat(b'!') {
            self.space();
            let inner = match self.peek() {
                Some(b'(') => self.parenthesized()?,
                _ => self.test_expression()?,
            };
            return Ok(Expression::Not(Box::new(inner)));
        }
        if self.peek() == Some(b'(') {
            return self.parenthesized();
        }
        let start = self.position;
        let left = self.operand()?;
        let after = self.position;
        self.space();
        let Some(operator) = self.comparison_operator() else {
            self.position = after;
            return self.test(left, start);
        };
        let left = self.comparable(left, start)?;
        self.space();
        let right_start = self.position;
        let right = self.operand()?;
        let right = self.comparable(right, right_start)?;
        Ok(Expression::Compare(Box::new(match operator {
            WrittenOperator::Direct(operator) => Comparison { left, operator, right },
            WrittenOperator::Mirrored(operator) => Comparison { left: right, operator, right: left },
        })))
    }

    fn parenthesized(&mut self) -> SelectorResult<Expression> {
        self.position += 1;
        self.space();
        let inner = self.or_expression()?;
        self.space();
        if !self.eat(b')') {
            return self.expected("'&&', '||' or ')'");
        }
        Ok(inner)
    }

    fn test_expression(&mut self) -> SelectorResult<Expression> {
        let start = self.position;
        let operand = self.operand()?;
        self.test(operand, start)
    }

    /// The operand as a test.
    fn test(&self, operand: Operand, start: usize) -> SelectorResult<Expression> {
        match operand {
            Operand::Query(query) => Ok(Expression::Exists(query)),
            Operand::Logical(expression) => Ok(expression),
            Operand::Value(Comparable::Literal(_)) => self.ill_typed(start, "a literal must be compared"),
            Operand::Value(_) => self.ill_typed(start, "the function's result must be compared"),
        }
    }

    /// The operand as a side of a comparison, or as an argument that must have a value.
    fn comparable(&self, operand: Operand, start: usize) -> SelectorResult<Comparable> {
        match operand {
            Operand::Value(comparable) => Ok(comparable),
            Operand::Query(query) if query.query.is_singular() => Ok(Comparable::Query(query)),
            Operand::Query(_) => self.ill_typed(start, "a value is needed, this query can select several"),
            Operand::Logical(_) => self.ill_typed(start, "a value is needed, this function is a test"),
        }
    }

    fn comparison_operator(&mut self) -> Option<WrittenOperator> {
        let table = [
            ("==", WrittenOperator::Direct(Operator::Equal)),
            ("!=", WrittenOperator::Direct(Operator::NotEqual)),
            ("<=", WrittenOperator::Direct(Operator::LessOrEqual)),
            (">=", WrittenOperator::Mirrored(Operator::LessOrEqual)),
            ("<", WrittenOperator::Direct(Operator::Less)),
            (">", WrittenOperator::Mirrored(Operator::Less)),
        ];
        let (text, operator) = table.into_iter().find(|(text, _)| self.rest().starts_with(text))?;
        self.position += text.len();
        Some(operator)
    }

    /// A literal, a query or a function call.
    fn operand(&mut self) -> SelectorResult<Operand> {
        match self.peek() {
            Some(b'\'' | b'"') => Ok(Operand::Value(Comparable::Literal(Literal::String(self.string()?)))),
            Some(b'-' | b'0'..=b'9') => Ok(Operand::Value(Comparable::Literal(self.number()?))),
            Some(b'@') => Ok(Operand::Query(self.filter_query(QueryOrigin::Current)?)),
            Some(b'$') => {
                let origin = QueryOrigin::Root(self.parsed.root_queries);
                self.parsed.root_queries += 1;
                Ok(Operand::Query(self.filter_query(origin)?))
            }
            Some(b'a'..=b'z') => self.word(),
            _ => self.expected("a query, a literal, a function call, '!' or '('"),
        }
    }

    fn filter_query(&mut self, origin: QueryOrigin) -> SelectorResult<FilterQuery> {
        self.position += 1;
        Ok(FilterQuery { origin, query: self.segments()? })
    }

    /// `number`: the grammar is JSON's own.
    fn number(&mut self) -> SelectorResult<Literal> {
        match scan::number(self.text.as_bytes(), self.position) {
            Ok(end) => {
                let text = self.text[self.position..end].to_owned();
                self.position = end;
                Ok(Literal::Number(text))
            }
            Err(error) => Err(SelectorFault { position: error.offset, kind: SelectorErrorKind::Expected("a digit") }),
        }
    }

    /// `true`, `false`, `null` or a function call.
    fn word(&mut self) -> SelectorResult<Operand> {
        let start = self.position;
        let is_name = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        let word = &self.rest()[..self.rest().bytes().take_while(is_name).count()];
        self.position += word.len();
        if self.peek() == Some(b'(') {
            return self.call(word, start);
        }
        let literal = match word {
            "true" => Literal::Boolean(true),
            "false" => Literal::Boolean(false),
            "null" => Literal::Null,
            _ => {
                self.position = start;
                return self.expected("true, false, null or a function call");
            }
        };
        Ok(Operand::Value(Comparable::Literal(literal)))
    }

    /// `function-expr`, at its opening parenthesis.
    fn call(&mut self, name: &str, start: usize) -> SelectorResult<Operand> {
        let arguments_max = match name {
            "length" | "count" | "value" => 1,
            "match" | "search" => 2,
            _ => {
                return Err(SelectorFault { position: start, kind: SelectorErrorKind::UnknownFunction });
            }
        };
        self.descend()?;
        let arguments = self.arguments()?;
        self.depth -= 1;
        if arguments.len() != arguments_max {
            return Err(SelectorFault { position: start, kind: SelectorErrorKind::ArgumentCount(arguments_max) });
        }
        let mut arguments = arguments.into_iter();
        let mut argument = || arguments.next().expect("counted above");
        Ok(match name {
            "length" => {
                let (operand, at) = argument();
                Operand::Value(Comparable::Length(Box::new(self.comparable(operand, at)?)))
            }
            "count" => Operand::Value(Comparable::Count(self.nodes(argument())?)),
            "value" => Operand::Value(Comparable::Value(self.nodes(argument())?)),
            _ => {
                let extent = if name == "match" { Extent::Whole } else { Extent::Part };
                let (text, at) = argument();
                let text = self.comparable(text, at)?;
                let (pattern, at) = argument();
                let pattern = self.comparable(pattern, at)?;
                self.count_pattern(start)?;
                Operand::Logical(Expression::Matches(Box::new(PatternTest { extent, text, pattern })))
            }
        })
    }

    /// The arguments of a call with their positions, including both parentheses.
    fn arguments(&mut self) -> SelectorResult<Vec<(Operand, usize)>> {
        self.position += 1;
        self.space();
        let mut arguments = Vec::new();
        if self.eat(b')') {
            return Ok(arguments);
        }
        loop {
            let start = self.position;
            arguments.push((self.operand()?, start));
            self.space();
            if self.eat(b')') {
                return Ok(arguments);
            }
            if !self.eat(b',') {
                return self.expected("',' or ')'");
            }
            self.space();
        }
    }

    fn nodes(&self, (operand, start): (Operand, usize)) -> SelectorResult<FilterQuery> {
        match operand {
            Operand::Query(query) => Ok(query),
            _ => self.ill_typed(start, "the function takes a query"),
        }
    }

    fn ill_typed<T>(&self, position: usize, what: &'static str) -> SelectorResult<T> {
        Err(SelectorFault { position, kind: SelectorErrorKind::Type(what) })
    }

    fn count_pattern(&mut self, position: usize) -> SelectorResult<()> {
        if self.parsed.patterns >= self.limits.patterns_max {
            return Err(SelectorFault { position, kind: SelectorErrorKind::TooManyPatterns(self.limits.patterns_max) });
        }
        self.parsed.patterns += 1;
        Ok(())
    }

    /// Limits the nesting, and with it the recursion of parsing and dropping.
    fn descend(&mut self) -> SelectorResult<()> {
        self.depth += 1;
        if self.depth > self.limits.filter_depth_max {
            return self.fault(SelectorErrorKind::TooDeep(self.limits.filter_depth_max));
        }
        Ok(())
    }
}
