//! The Merkle tree of RFC 6962, section 2.1, over SHA-256, in rows of 256 hashes: those of C2SP `tlog-tiles`.

use leafseal_crypto::hash::sha256;

/// SHA-256.
pub type NodeHash = [u8; 32];

/// Bits of a row's width: a tile is a subtree of this height.
pub(crate) const ROW_BITS: u32 = 8;
/// Hashes of a full row.
pub(crate) const ROW_WIDTH: usize = 1 << ROW_BITS;

/// The hash of an entry.
pub fn leaf_hash(entry: &[u8]) -> NodeHash {
    sha256(&[&[0], entry])
}

fn node_hash(left: &NodeHash, right: &NodeHash) -> NodeHash {
    sha256(&[&[1][..], left, right])
}

/// The root over a power of two of hashes.
pub(crate) fn perfect_root(hashes: &[NodeHash]) -> NodeHash {
    debug_assert!(hashes.len().is_power_of_two(), "{} hashes", hashes.len());
    let mut row = hashes.to_vec();
    while row.len() > 1 {
        row = row.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect();
    }
    row[0]
}

/// A row of hashes of a tree: the `index`-th full row of a level, or the last, which is not full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TileRow {
    pub(crate) level: u8,
    pub(crate) index: u64,
    pub(crate) hashes: Vec<NodeHash>,
}

/// A growing tree, of which only the rows that are not full are kept: less than 256 hashes for each level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MerkleTree {
    size: u64,
    /// The last row of each level, from the entries up.
    rows: Vec<Vec<NodeHash>>,
}

impl MerkleTree {
    /// Entries.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A tree from its last rows.
    ///
    /// Returns `None` if they have not the widths that a tree of this size has.
    pub(crate) fn from_rows(size: u64, rows: Vec<Vec<NodeHash>>) -> Option<Self> {
        let widths = (0..rows.len()).map(|level| row_width(size, level as u32));
        let fit = widths.eq(rows.iter().map(Vec::len)) && row_levels(size) == rows.len();
        fit.then_some(Self { size, rows })
    }

    /// Adds the hash of an entry. `full` receives each row that this completes.
    pub(crate) fn push(&mut self, leaf: NodeHash, mut full: impl FnMut(TileRow)) {
        self.size += 1;
        let mut hash = leaf;
        for level in 0.. {
            if self.rows.len() == level {
                self.rows.push(Vec::with_capacity(ROW_WIDTH));
            }
            let row = &mut self.rows[level];
            row.push(hash);
            if row.len() < ROW_WIDTH {
                break;
            }
            hash = perfect_root(row);
            let hashes = std::mem::replace(row, Vec::with_capacity(ROW_WIDTH));
            full(TileRow { level: level as u8, index: (self.size >> (ROW_BITS as usize * (level + 1))) - 1, hashes });
        }
    }

    /// The rows that are neither full nor empty.
    pub(crate) fn partial_rows(&self) -> impl Iterator<Item = TileRow> + '_ {
        self.rows.iter().enumerate().filter(|(_, row)| !row.is_empty()).map(|(level, row)| TileRow {
            level: level as u8,
            index: self.size >> (ROW_BITS as usize * (level + 1)),
            hashes: row.clone(),
        })
    }

    /// The root hash; that of an empty text for no entries.
    pub fn root(&self) -> NodeHash {
        let mut root = None;
        for row in &self.rows {
            let mut rest = row.as_slice();
            // The perfect subtrees of a row, from the right: each is the left side of all that is right of it.
            while !rest.is_empty() {
                let (left, peak) = rest.split_at(rest.len() & (rest.len() - 1));
                let peak = perfect_root(peak);
                root = Some(root.map_or(peak, |right| node_hash(&peak, &right)));
                rest = left;
            }
        }
        root.unwrap_or_else(|| sha256(&[]))
    }
}

/// Hashes of the last row of a level in a tree of this size; 0 if the row before it is full, or there is none.
pub(crate) fn row_width(size: u64, level: u32) -> usize {
    size.checked_shr(ROW_BITS * level).unwrap_or(0) as usize % ROW_WIDTH
}

/// Levels that a tree of this size has.
pub(crate) fn row_levels(size: u64) -> usize {
    (0..).find(|level| size.checked_shr(ROW_BITS * level).unwrap_or(0) == 0).expect("64 bits end") as usize
}

/// Where the hashes of perfect subtrees come from.
pub trait Hashes {
    /// Why there is none.
    type Error;

    /// The root over the entries from `index << height` on, `1 << height` of them.
    ///
    /// # Errors
    /// When it is not there.
    fn perfect(&self, height: u32, index: u64) -> Result<NodeHash, Self::Error>;

    /// The root over the entries from `start` to `end`, where `start` is 0 or a multiple of the power of two that is not below the count.
    ///
    /// # Errors
    /// Those of [`Hashes::perfect`].
    fn root(&self, start: u64, end: u64) -> Result<NodeHash, Self::Error> {
        let count = end - start;
        if count == 0 {
            return Ok(sha256(&[]));
        }
        let (mut place, mut peaks) = (start, Vec::new());
        for height in (0..u64::BITS).rev().filter(|height| count >> height & 1 == 1) {
            peaks.push(self.perfect(height, place >> height)?);
            place += 1 << height;
        }
        let last = peaks.pop().expect("at least one");
        Ok(peaks.iter().rev().fold(last, |right, left| node_hash(left, &right)))
    }

    /// The proof that entry `index` is in the tree of `size` entries (RFC 6962, section 2.1.1).
    ///
    /// # Errors
    /// Those of [`Hashes::perfect`].
    ///
    /// # Panics
    /// Unless `index < size`.
    fn inclusion(&self, index: u64, size: u64) -> Result<Vec<NodeHash>, Self::Error> {
        assert!(index < size, "entry {index} of {size}");
        let (mut start, mut end, mut proof) = (0, size, Vec::new());
        while end - start > 1 {
            let middle = start + split(end - start);
            if index < middle {
                proof.push(self.root(middle, end)?);
                end = middle;
            } else {
                proof.push(self.root(start, middle)?);
                start = middle;
            }
        }
        proof.reverse();
        Ok(proof)
    }

    /// The proof that the tree of `old` entries begins the tree of `size` entries (RFC 6962, section 2.1.2).
    ///
    /// # Errors
    /// Those of [`Hashes::perfect`].
    ///
    /// # Panics
    /// Unless `old <= size`.
    fn consistency(&self, old: u64, size: u64) -> Result<Vec<NodeHash>, Self::Error> {
        assert!(old <= size, "{old} of {size} entries");
        if old == 0 || old == size {
            return Ok(Vec::new());
        }
        let (mut start, mut end, mut proof) = (0, size, Vec::new());
        while end != old {
            let middle = start + split(end - start);
            if old <= middle {
                proof.push(self.root(middle, end)?);
                end = middle;
            } else {
                proof.push(self.root(start, middle)?);
                start = middle;
            }
        }
        if start != 0 {
            proof.push(self.root(start, end)?);
        }
        proof.reverse();
        Ok(proof)
    }
}

/// The largest power of two below a count above 1.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// Whether `proof` shows that the entry with hash `leaf` is number `index` in the tree of `size` entries and this root.
/// RFC 9162, section 2.1.3.2.
pub fn verify_inclusion(leaf: &NodeHash, index: u64, size: u64, root: &NodeHash, proof: &[NodeHash]) -> bool {
    if index >= size {
        return false;
    }
    let (mut node, mut last, mut hash) = (index, size - 1, *leaf);
    for other in proof {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(other, &hash);
            while node & 1 == 0 && node != 0 {
                (node, last) = (node >> 1, last >> 1);
            }
        } else {
            hash = node_hash(&hash, other);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    last == 0 && hash == *root
}

/// Whether `proof` shows that the tree of `old` entries with root `old_root` begins the tree of `size` entries and root `root`.
/// RFC 9162, section 2.1.4.2.
pub fn verify_consistency(old: u64, old_root: &NodeHash, size: u64, root: &NodeHash, proof: &[NodeHash]) -> bool {
    if old == 0 {
        return proof.is_empty() && *old_root == sha256(&[]);
    }
    if old >= size {
        return old == size && proof.is_empty() && old_root == root;
    }
    let mut hashes = proof.iter();
    let first = if old.is_power_of_two() { Some(old_root) } else { hashes.next() };
    let Some(first) = first else { return false };
    let (mut node, mut last) = (old - 1, size - 1);
    while node & 1 == 1 {
        (node, last) = (node >> 1, last >> 1);
    }
    let (mut old_hash, mut new_hash) = (*first, *first);
    for other in hashes {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            (old_hash, new_hash) = (node_hash(other, &old_hash), node_hash(other, &new_hash));
            while node & 1 == 0 && node != 0 {
                (node, last) = (node >> 1, last >> 1);
            }
        } else {
            new_hash = node_hash(&new_hash, other);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    last == 0 && old_hash == *old_root && new_hash == *root
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// RFC 6962, section 2.1, as it is written, with another library.
    fn mth(entries: &[Vec<u8>]) -> NodeHash {
        match entries {
            [] => Sha256::digest([]).into(),
            [entry] => Sha256::new().chain_update([0]).chain_update(entry).finalize().into(),
            _ => {
                let (left, right) = entries.split_at(split_of(entries.len()));
                Sha256::new().chain_update([1]).chain_update(mth(left)).chain_update(mth(right)).finalize().into()
            }
        }
    }

    fn split_of(count: usize) -> usize {
        let mut half = 1;
        while half * 2 < count {
            half *= 2;
        }
        half
    }

    struct Slow<'a>(&'a [Vec<u8>]);

    impl Hashes for Slow<'_> {
        type Error = std::convert::Infallible;

        fn perfect(&self, height: u32, index: u64) -> Result<NodeHash, Self::Error> {
            let start = (index << height) as usize;
            Ok(mth(&self.0[start..start + (1 << height)]))
        }
    }

    fn entries(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|number| number.to_string().into_bytes()).collect()
    }

    #[test]
    fn roots_are_those_of_the_definition() {
        let entries = entries(600);
        let mut tree = MerkleTree::default();
        for size in 0..=entries.len() {
            if size < 300 || size > 508 && size < 520 || size == 600 {
                assert_eq!(tree.root(), mth(&entries[..size]), "{size}");
                let again =
                    MerkleTree::from_rows(tree.size, tree.rows[..row_levels(tree.size)].to_vec()).expect("its rows");
                assert_eq!(again.root(), tree.root());
            }
            if let Some(entry) = entries.get(size) {
                tree.push(leaf_hash(entry), |row| {
                    assert_eq!((row.level, row.hashes.len()), (0, ROW_WIDTH));
                    assert_eq!(row.index, size as u64 / 256);
                });
            }
        }
    }

    #[test]
    fn proofs_show_what_is_there_and_nothing_else() {
        let entries = entries(70);
        let slow = Slow(&entries);
        for size in 1..=entries.len() as u64 {
            let root = mth(&entries[..size as usize]);
            for index in 0..size {
                let leaf = leaf_hash(&entries[index as usize]);
                let Ok(proof) = slow.inclusion(index, size);
                assert!(verify_inclusion(&leaf, index, size, &root, &proof), "{index} of {size}");
                assert!(!verify_inclusion(&leaf_hash(b"other"), index, size, &root, &proof));
                assert!(size == 1 || !verify_inclusion(&leaf, (index + 1) % size, size, &root, &proof));
                assert!(!verify_inclusion(&leaf, index, size, &root, &[&proof[..], &[root]].concat()));
                assert!(proof.is_empty() || !verify_inclusion(&leaf, index, size, &root, &proof[1..]));
            }
            for old in 0..=size {
                let old_root = mth(&entries[..old as usize]);
                let Ok(proof) = slow.consistency(old, size);
                assert!(verify_consistency(old, &old_root, size, &root, &proof), "{old} to {size}");
                let other = leaf_hash(b"other");
                assert!(!verify_consistency(old, &other, size, &root, &proof));
                assert!(old == 0 || !verify_consistency(old, &old_root, size, &other, &proof));
                assert!(!verify_consistency(old, &old_root, size, &root, &[&proof[..], &[other]].concat()));
                assert!(proof.is_empty() || !verify_consistency(old, &old_root, size, &root, &proof[1..]));
            }
        }
    }
}
