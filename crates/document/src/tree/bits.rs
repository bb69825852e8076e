//! A set of nodes, one bit each: nodes found twice are in it once, and it is iterated in document order.

#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Creates an empty set for numbers below `length`.
    pub(crate) fn new(length: usize) -> Self {
        Bits { words: vec![0; length.div_ceil(64)] }
    }

    /// Its memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    pub(crate) fn insert(&mut self, number: u32) {
        self.words[number as usize / 64] |= 1 << (number % 64);
    }

    /// The smallest member that is at least `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let mut index = from as usize / 64;
        let mut word = self.words.get(index)? & (u64::MAX << (from % 64));
        while word == 0 {
            index += 1;
            word = *self.words.get(index)?;
        }
        Some(index as u32 * 64 + word.trailing_zeros())
    }

    /// Adds the members of another set of the same length.
    pub(crate) fn add_all(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order_across_words() {
        let members = [0, 1, 63, 64, 65, 127, 128, 300, 319];
        let mut bits = Bits::new(320);
        members.iter().rev().for_each(|&member| bits.insert(member));
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(member) = bits.next(from) {
            found.push(member);
            from = member + 1;
        }
        assert_eq!(found, members);
        let mut more = Bits::new(320);
        more.insert(2);
        more.add_all(&bits);
        assert_eq!((more.next(2), more.next(3)), (Some(2), Some(63)));
        bits.clear();
        assert_eq!(bits.next(0), None);
        assert_eq!(Bits::new(0).next(0), None);
        assert_eq!(Bits::new(64).next(64), None);
    }
}
