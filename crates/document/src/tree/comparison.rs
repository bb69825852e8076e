//! Compares two containers for equality (RFC 9535, section 2.3.5.2.2), a pair of values at a time.

use super::steps::StepBudget;
use super::tape::NodeKind;
use super::value::{ComparisonLimits, Operand, ValueSource};
use crate::error::DocumentError;

/// A comparison of two values of the document.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Pairs that must still be compared.
    pairs: Vec<Pair>,
    is_negated: bool,
}

#[derive(Clone, Copy, Debug)]
enum Pair {
    Values(u32, u32),
    /// The elements of two arrays of the same length, from these on.
    Elements {
        left: u32,
        left_end: u32,
        right: u32,
    },
}

impl Comparison {
    /// Starts a comparison whose verdict is negated if `is_negated`.
    pub(super) fn new(left: u32, right: u32, is_negated: bool) -> Self {
        Comparison { pairs: vec![Pair::Values(left, right)], is_negated }
    }

    /// Continues; returns the verdict, unless the run ends before.
    pub(super) fn advance(
        &mut self,
        source: ValueSource<'_>,
        steps: &mut StepBudget,
        bounds: ComparisonLimits,
    ) -> Result<Option<bool>, DocumentError> {
        while let Some(pair) = self.pairs.pop() {
            steps.take(1)?;
            let may_be_equal = match pair {
                Pair::Values(left, right) => self.compare(source, left, right, steps, bounds)?,
                Pair::Elements { left, left_end, right } => {
                    let next = |element: u32| source.tape.node(element).next;
                    if next(left) < left_end {
                        self.pairs.push(Pair::Elements { left: next(left), left_end, right: next(right) });
                    }
                    self.pairs.push(Pair::Values(left, right));
                    true
                }
            };
            if !may_be_equal {
                return Ok(Some(self.is_negated));
            }
            if steps.is_over() && !self.pairs.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(!self.is_negated))
    }

    /// Returns whether two values are equal as far as possible without their contents, whose comparison is postponed.
    fn compare(
        &mut self,
        source: ValueSource<'_>,
        left: u32,
        right: u32,
        steps: &mut StepBudget,
        bounds: ComparisonLimits,
    ) -> Result<bool, DocumentError> {
        let (left_node, right_node) = (source.tape.node(left), source.tape.node(right));
        match (left_node.kind, right_node.kind) {
            (NodeKind::Array, NodeKind::Array) => {
                if left_node.children > 0 && left_node.children == right_node.children {
                    self.pairs.push(Pair::Elements { left: left + 1, left_end: left_node.next, right: right + 1 });
                }
                Ok(left_node.children == right_node.children)
            }
            (NodeKind::Object, NodeKind::Object) => {
                steps.take(MEMBER_STEPS * u64::from(left_node.children.saturating_add(right_node.children)))?;
                self.compare_members(source, left, right, bounds)
            }
            _ => {
                let (left, right) = (Operand::Node(left), Operand::Node(right));
                steps.take_bytes(source.size(left).saturating_add(source.size(right)))?;
                source.are_equal(left, right, bounds)
            }
        }
    }

    fn compare_members(
        &mut self,
        source: ValueSource<'_>,
        left: u32,
        right: u32,
        bounds: ComparisonLimits,
    ) -> Result<bool, DocumentError> {
        let (Some(left), Some(right)) = (source.members(left, bounds)?, source.members(right, bounds)?) else {
            return Ok(false);
        };
        let are_same =
            left.len() == right.len() && left.iter().zip(&right).all(|((left, _), (right, _))| left == right);
        if are_same {
            self.pairs.extend(left.iter().zip(&right).map(|((_, left), (_, right))| Pair::Values(*left, *right)));
        }
        Ok(are_same)
    }
}

/// Steps charged per member for sorting names.
const MEMBER_STEPS: u64 = 4;
