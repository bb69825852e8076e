//! The syntax tree of a selector, in the terms of RFC 9535: queries of segments of selectors, and filter expressions.

/// A JSONPath query, absolute or relative: what follows its `$` or `@`.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonPathQuery {
    pub(crate) segments: Vec<PathSegment>,
}

impl JsonPathQuery {
    /// Whether its syntax limits it to one node (RFC 9535, section 2.3.5.1, `singular-query`).
    pub(crate) fn is_singular(&self) -> bool {
        self.segments.iter().all(|segment| {
            segment.reach == Reach::Children
                && matches!(segment.selectors[..], [Selector::Name(_) | Selector::Index(_)])
        })
    }

    /// Whether any of its segments has a filter.
    pub(crate) fn has_filter(&self) -> bool {
        let mut selectors = self.segments.iter().flat_map(|segment| &segment.selectors);
        selectors.any(|selector| matches!(selector, Selector::Filter(_)))
    }

    /// The query with each selector that needs to know more of a value than its path replaced by one that selects any.
    pub(crate) fn by_names(&self) -> JsonPathQuery {
        let selector = |selector: &Selector| match selector {
            Selector::Filter(_) => Selector::Wildcard,
            Selector::Index(index) if *index < 0 => Selector::Wildcard,
            Selector::Slice(slice) if slice.needs_length() => Selector::Wildcard,
            selector => selector.clone(),
        };
        let segment = |segment: &PathSegment| PathSegment {
            reach: segment.reach,
            selectors: segment.selectors.iter().map(selector).collect(),
        };
        JsonPathQuery { segments: self.segments.iter().map(segment).collect() }
    }
}

/// Which values a segment's selectors are applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Children of the current nodes.
    Children,
    /// Their children and everything below.
    Descendants,
}

/// One segment: at least one selector.
#[derive(Clone, Debug)]
pub(crate) struct PathSegment {
    pub(crate) reach: Reach,
    pub(crate) selectors: Vec<Selector>,
}

/// One selector; integers are within ±(2^53 − 1).
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    Name(String),
    Wildcard,
    Index(i64),
    Slice(ArraySlice),
    /// The filter with this number in the selection.
    Filter(u32),
}

/// An array slice; `None` was omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArraySlice {
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) step: i64,
}

impl ArraySlice {
    /// Whether the elements that it selects depend on the length of the array, other than by existing.
    pub(crate) fn needs_length(&self) -> bool {
        let counts_from_end = |bound: Option<i64>| bound.is_some_and(|bound| bound < 0);
        // A downward slice starts at the smaller of its start and the last element, which moves all its steps.
        self.step < 0 || counts_from_end(self.start) || counts_from_end(self.end)
    }

    /// Whether it selects element `index` of an array of `length` elements (RFC 9535, section 2.3.4.2.2). If [`ArraySlice::needs_length`]
    /// is
    /// false, any `length` above `index` has the same result.
    pub(crate) fn selects(&self, index: i64, length: i64) -> bool {
        let from_start = |bound: i64| if bound >= 0 { bound } else { length + bound };
        if self.step > 0 {
            let lower = from_start(self.start.unwrap_or(0)).clamp(0, length);
            let upper = from_start(self.end.unwrap_or(length)).clamp(0, length);
            return lower <= index && index < upper && (index - lower) % self.step == 0;
        }
        if self.step == 0 {
            return false;
        }
        let upper = from_start(self.start.unwrap_or(length - 1)).clamp(-1, length - 1);
        let lower = match self.end {
            Some(end) => from_start(end).clamp(-1, length - 1),
            None => -1,
        };
        lower < index && index <= upper && (upper - index) % -self.step == 0
    }
}

/// Whether an index, which counts from the end if negative, is that of element `index` of `length`.
pub(crate) fn index_selects(selector: i64, index: i64, length: i64) -> bool {
    index == if selector >= 0 { selector } else { length + selector }
}

/// A logical expression of a filter.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    /// An existence test.
    Exists(FilterQuery),
    Compare(Box<Comparison>),
    /// `match` or `search`.
    Matches(Box<PatternTest>),
}

/// A comparison; `>` and `>=` are stored with their operands swapped.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) left: Comparable,
    pub(crate) operator: Operator,
    pub(crate) right: Comparable,
}

/// The operators that remain once operands of `>` and `>=` are swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
}

/// Where a query in a filter begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryOrigin {
    /// At `$`: its result is the same for the whole document; the number identifies it in the selection.
    Root(u32),
    /// At `@`.
    Current,
}

/// A query in a filter.
#[derive(Clone, Debug)]
pub(crate) struct FilterQuery {
    pub(crate) origin: QueryOrigin,
    pub(crate) query: JsonPathQuery,
}

/// An expression with a value, or Nothing.
#[derive(Clone, Debug)]
pub(crate) enum Comparable {
    Literal(Literal),
    /// A singular query.
    Query(FilterQuery),
    Length(Box<Comparable>),
    Count(FilterQuery),
    /// The function `value`.
    Value(FilterQuery),
}

/// A literal; a number is stored as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    String(String),
    Number(String),
    Boolean(bool),
    Null,
}

/// How much of a text a pattern must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extent {
    /// All of it: `match`.
    Whole,
    /// Any part: `search`.
    Part,
}

/// A call of `match` or `search`.
#[derive(Clone, Debug)]
pub(crate) struct PatternTest {
    pub(crate) extent: Extent,
    pub(crate) text: Comparable,
    pub(crate) pattern: Comparable,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9535, section 2.3.4.2.2, with the loops as written there.
    fn selected_by_the_letter(slice: ArraySlice, length: i64) -> Vec<i64> {
        let normalize = |bound: i64| if bound >= 0 { bound } else { length + bound };
        let (default_start, default_end) = if slice.step >= 0 { (0, length) } else { (length - 1, -length - 1) };
        let start = normalize(slice.start.unwrap_or(default_start));
        let end = normalize(slice.end.unwrap_or(default_end));
        let mut selected = Vec::new();
        if slice.step > 0 {
            let (lower, upper) = (start.max(0).min(length), end.max(0).min(length));
            let mut index = lower;
            while index < upper {
                selected.push(index);
                index += slice.step;
            }
        } else if slice.step < 0 {
            let (upper, lower) = (start.max(-1).min(length - 1), end.max(-1).min(length - 1));
            let mut index = upper;
            while lower < index {
                selected.push(index);
                index += slice.step;
            }
        }
        selected.sort_unstable();
        selected
    }

    fn bounds() -> impl Iterator<Item = Option<i64>> + Clone {
        (-7..=7).map(Some).chain([None])
    }

    #[test]
    fn slices_select_as_the_loops_of_the_rfc() {
        for (start, end) in bounds().flat_map(|start| bounds().map(move |end| (start, end))) {
            for (step, length) in (-4..=4).flat_map(|step| (0..=6).map(move |length| (step, length))) {
                let slice = ArraySlice { start, end, step };
                let selected: Vec<_> = (0..length).filter(|&index| slice.selects(index, length)).collect();
                assert_eq!(selected, selected_by_the_letter(slice, length), "{slice:?} of {length}");
                if !slice.needs_length() {
                    assert!((0..length).all(|index| slice.selects(index, length) == slice.selects(index, i64::MAX)));
                }
            }
        }
    }
}
