//! A doubly linked list through the items of a slab: items in the middle are removed in constant time.

use slab::Slab;

/// An item's neighbours in its list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Links {
    previous: Option<usize>,
    next: Option<usize>,
}

/// An item of a [`LinkedList`].
pub(crate) trait Linked {
    fn links(&mut self) -> &mut Links;
}

/// The two ends of a list.
#[derive(Debug, Default)]
pub(crate) struct LinkedList {
    first: Option<usize>,
    last: Option<usize>,
}

impl LinkedList {
    pub(crate) fn first(&self) -> Option<usize> {
        self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn has_one(&self) -> bool {
        self.first.is_some() && self.first == self.last
    }

    pub(crate) fn push_last<T: Linked>(&mut self, items: &mut Slab<T>, index: usize) {
        *items[index].links() = Links { previous: self.last, next: None };
        match self.last {
            Some(last) => items[last].links().next = Some(index),
            None => self.first = Some(index),
        }
        self.last = Some(index);
    }

    pub(crate) fn push_first<T: Linked>(&mut self, items: &mut Slab<T>, index: usize) {
        *items[index].links() = Links { previous: None, next: self.first };
        match self.first {
            Some(first) => items[first].links().previous = Some(index),
            None => self.last = Some(index),
        }
        self.first = Some(index);
    }

    /// Removes an item of this list.
    pub(crate) fn remove<T: Linked>(&mut self, items: &mut Slab<T>, index: usize) {
        let Links { previous, next } = std::mem::take(items[index].links());
        match previous {
            Some(previous) => items[previous].links().next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => items[next].links().previous = previous,
            None => self.last = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    impl Linked for Links {
        fn links(&mut self) -> &mut Links {
            self
        }
    }

    fn order(list: &LinkedList, items: &Slab<Links>) -> Vec<usize> {
        std::iter::successors(list.first(), |&index| items[index].next).collect()
    }

    proptest! {
        #[test]
        fn does_what_a_deque_does(steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 0..60)) {
            let (mut list, mut items, mut model) = (LinkedList::default(), Slab::new(), VecDeque::new());
            for (step, which) in steps {
                match step {
                    0 => {
                        let index = items.insert(Links::default());
                        list.push_last(&mut items, index);
                        model.push_back(index);
                    }
                    1 => {
                        let index = items.insert(Links::default());
                        list.push_first(&mut items, index);
                        model.push_front(index);
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let index = model.remove(which.index(model.len())).unwrap();
                        list.remove(&mut items, index);
                        items.remove(index);
                    }
                }
                prop_assert_eq!(order(&list, &items), Vec::from(model.clone()));
                prop_assert_eq!(list.last, model.back().copied());
                prop_assert_eq!((list.is_empty(), list.has_one()), (model.is_empty(), model.len() == 1));
            }
        }
    }
}
