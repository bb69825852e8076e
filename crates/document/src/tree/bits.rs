//! A set of nodes, one bit each: nodes found twice are in it once, and it is iterated in document order.

#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Makes it an empty set for numbers below `length`.
    pub(crate) fn begin(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(64), 0);
    }

    /// Its memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
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

    fn empty(length: usize) -> Bits {
        let mut bits = Bits { words: vec![u64::MAX; 2] };
        bits.begin(length);
        bits
    }

    #[test]
    fn members_come_in_order_across_words() {
        let members = [0, 1, 63, 64, 65, 127, 128, 300, 319];
        let mut bits = empty(320);
        members.iter().rev().for_each(|&member| bits.insert(member));
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(member) = bits.next(from) {
            found.push(member);
            from = member + 1;
        }
        assert_eq!(found, members);
        let mut more = empty(320);
        more.insert(2);
        more.add_all(&bits);
        assert_eq!((more.next(2), more.next(3)), (Some(2), Some(63)));
        bits.clear();
        assert_eq!(bits.next(0), None);
        assert_eq!(empty(0).next(0), None);
        assert_eq!(empty(64).next(64), None);
    }
}
