//! A sorted set with fast access to its least element: a set of one, the most frequent case, never touches the tree.

use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Front<T> {
    first: Option<T>,
    /// All other elements, which are greater.
    rest: BTreeSet<T>,
}

impl<T> Default for Front<T> {
    fn default() -> Self {
        Front { first: None, rest: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> Front<T> {
    /// The least element.
    pub(crate) fn first(&self) -> Option<T> {
        self.first
    }

    /// The greatest element.
    pub(crate) fn last(&self) -> Option<T> {
        self.rest.last().copied().or(self.first)
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Adds an element that is not in the set.
    pub(crate) fn insert(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(first) if element < first => {
                self.rest.insert(first);
                self.first = Some(element);
            }
            Some(_) => {
                self.rest.insert(element);
            }
        }
    }

    /// Removes an element, if it is in the set.
    pub(crate) fn remove(&mut self, element: T) {
        if self.first == Some(element) {
            self.pop_first();
        } else {
            self.rest.remove(&element);
        }
    }

    /// Replaces `old`, which is in the set, by `new`.
    pub(crate) fn replace(&mut self, old: T, new: T) {
        let is_least = || self.rest.first().is_none_or(|second| new < *second);
        if self.first == Some(old) && is_least() {
            self.first = Some(new);
        } else {
            self.remove(old);
            self.insert(new);
        }
    }

    /// Removes the least element.
    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let first = self.first?;
        self.first = if self.rest.is_empty() { None } else { self.rest.pop_first() };
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn does_what_a_sorted_set_does(steps in prop::collection::vec((0u8..4, 0u8..12), 0..60)) {
            let (mut front, mut model) = (Front::default(), BTreeSet::new());
            for (step, element) in steps {
                match step {
                    0 if model.insert(element) => front.insert(element),
                    1 => {
                        model.remove(&element);
                        front.remove(element);
                    }
                    2 if !model.contains(&element) => {
                        if let Some(&old) = model.iter().nth(usize::from(element) % model.len().max(1)) {
                            model.remove(&old);
                            model.insert(element);
                            front.replace(old, element);
                        }
                    }
                    3 => prop_assert_eq!(front.pop_first(), model.pop_first()),
                    _ => {}
                }
                prop_assert_eq!((front.first(), front.last()), (model.first().copied(), model.last().copied()));
                prop_assert_eq!(front.len(), model.len());
            }
        }
    }
}
