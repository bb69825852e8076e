//! The authenticated tree: a keyed Merkle tree over all entries of a store, by which an engine notices rows that others have changed,
//! added, removed, moved or put back from an older copy.
//!
//! Each entry has a leaf with a MAC of its rows. Leaves lie in buckets by a keyed hash of their entry's name, so that all versions of an
//! app share one; three levels of nodes lead from the root to a bucket. The row `tree_root` has the digest of the top node and a MAC over
//! it and the store's generation. All keys are derived from the root key, so that nothing here can be computed by those who write to the
//! database alone.
//!
//! ```text
//! mac(leaf)      = HMAC(leaf key, kind ‖ part ‖ name ‖ rows of each table, sorted)
//! digest(bucket) = HMAC(node key, 255 ‖ number ‖ (kind ‖ part ‖ active ‖ name ‖ mac)…), 0 when it is empty
//! digest(node)   = HMAC(node key, level ‖ position ‖ digests of 32 children), 0 when all are 0
//! mac(root)      = HMAC(root key of the tree, store ‖ root key id ‖ schema ‖ generation ‖ digest of the top node)
//! ```
//!
//! `docs/decisions/0041-authenticated-store.md` has the reasons.

mod change;
mod keys;
mod survey;

use std::collections::BTreeMap;

use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{Sql, SqlRow, params};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::memory::StoreSighting;
use crate::schema_version::TREE_SCHEMA_VERSION;
pub(crate) use keys::{TreeDigest, TreeKeys, ZERO};

/// Children of a node.
const FANOUT: u32 = 32;
/// Levels of nodes above the buckets.
const LEVELS: u32 = 3;
/// The number of buckets.
pub(crate) const BUCKETS: u32 = FANOUT.pow(LEVELS);

/// The verified root of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeRoot {
    digest: TreeDigest,
    mac: TreeDigest,
}

impl TreeRoot {
    /// The state that it is the root of.
    pub(crate) fn sighting(&self, generation: i64, epoch: u32) -> StoreSighting {
        StoreSighting { schema: TREE_SCHEMA_VERSION, epoch, generation, digest: self.digest }
    }

    /// A number that differs between states of the store.
    pub(crate) fn mark(&self) -> u64 {
        u64::from_be_bytes(*self.mac.first_chunk().expect("32 bytes"))
    }
}

/// What the tree knows of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) key: EntryKey,
    /// Whether a key version may be used; false for other kinds.
    pub(crate) active: bool,
    pub(crate) mac: TreeDigest,
}

/// The digests of a node's children, one after the other: [`NODE_SIZE`] bytes.
type Children = Vec<u8>;

/// Bytes of a node.
const NODE_SIZE: usize = FANOUT as usize * ZERO.len();

/// A tree as of one state of the store. What is read is kept, and was verified.
#[derive(Debug)]
pub(crate) struct StoreTree<'k> {
    keys: &'k TreeKeys,
    /// The digest of the top node, which the MAC covers.
    root: TreeDigest,
    nodes: BTreeMap<(u32, u32), Children>,
    buckets: BTreeMap<u32, Vec<Leaf>>,
    /// Leaves to write, and those to remove.
    changed: BTreeMap<(u32, EntryKey), Option<Leaf>>,
}

fn edited(part: EditedPart) -> StoreError {
    StoreError::Edited(StoreEdit { part, kind: EditKind::Changed })
}

impl<'k> StoreTree<'k> {
    /// The tree of a store without entries.
    pub(crate) fn empty(keys: &'k TreeKeys) -> Self {
        let (nodes, buckets, changed) = Default::default();
        Self { keys, root: ZERO, nodes, buckets, changed }
    }

    /// The tree of a root that was verified.
    pub(crate) fn of_root(keys: &'k TreeKeys, root: TreeRoot) -> Self {
        Self { root: root.digest, ..Self::empty(keys) }
    }

    /// The root that is, with its MAC, in columns of `row`, from `index` on. `generation`: of the state that the MAC was made for.
    pub(crate) fn verified_root(
        row: &SqlRow,
        index: usize,
        keys: &TreeKeys,
        generation: i64,
    ) -> Result<TreeRoot, StoreError> {
        let columns = row.array(index).and_then(|digest| Ok(TreeRoot { digest, mac: row.array(index + 1)? }));
        let is_ours = |root: &TreeRoot| keys.is_root_mac(generation, &root.digest, &root.mac);
        columns.ok().filter(is_ours).ok_or_else(|| edited(EditedPart::Root))
    }

    /// The tree under whatever root is stored, or else under the top node, for a check to find what differs from it.
    pub(crate) fn unverified(sql: &mut dyn Sql, keys: &'k TreeKeys) -> Result<Self, StoreError> {
        let row = sql.first(
            "SELECT CASE WHEN length(digest) = 32 THEN digest END FROM tree_root WHERE only_row = 1 LIMIT 1",
            &[],
        )?;
        let root = match row.and_then(|row| row.array(0).ok()) {
            Some(root) => root,
            None => keys.node_digest(0, 0, &read_node(sql, 0, 0)?),
        };
        Ok(Self { root, ..Self::empty(keys) })
    }

    /// Takes those of `entries` out that are not as their leaves have them, and returns how they, and leaves without an entry, differ.
    pub(crate) fn verify(
        &self,
        kind: EntryKind,
        entries: &mut BTreeMap<EntryKey, EntryRows>,
        leaves: &BTreeMap<EntryKey, Leaf>,
    ) -> Vec<StoreEdit> {
        let edit = |key: &EntryKey, kind| StoreEdit { part: key.into(), kind };
        let is_gone = |key: &&EntryKey| key.kind == kind && !entries.contains_key(*key);
        let mut edits: Vec<_> = leaves.keys().filter(is_gone).map(|key| edit(key, EditKind::Removed)).collect();
        entries.retain(|key, rows| {
            let found = match leaves.get(key) {
                None => EditKind::Added,
                Some(leaf) if self.covers(leaf, rows) => return true,
                Some(_) => EditKind::Changed,
            };
            edits.push(edit(key, found));
            false
        });
        edits
    }

    /// The leaf of an entry, if it has one.
    pub(crate) fn leaf(&mut self, sql: &mut dyn Sql, key: &EntryKey) -> Result<Option<Leaf>, StoreError> {
        let leaves = self.bucket(sql, self.keys.bucket(key))?;
        Ok(leaves.iter().find(|leaf| leaf.key == *key).cloned())
    }

    /// The leaves of a name, by part.
    pub(crate) fn parts(&mut self, sql: &mut dyn Sql, kind: EntryKind, name: &str) -> Result<Vec<Leaf>, StoreError> {
        let leaves = self.bucket(sql, self.keys.bucket(&EntryKey::new(kind, name, 0)))?;
        Ok(leaves.iter().filter(|leaf| leaf.key.kind == kind && leaf.key.name == name).cloned().collect())
    }

    pub(crate) fn keys(&self) -> &'k TreeKeys {
        self.keys
    }

    /// Whether `rows` are those of the leaf.
    pub(crate) fn covers(&self, leaf: &Leaf, rows: &EntryRows) -> bool {
        self.keys.entry_mac(&leaf.key, rows) == leaf.mac
    }

    /// The leaves of a bucket, in the order of their keys.
    fn bucket(&mut self, sql: &mut dyn Sql, number: u32) -> Result<&[Leaf], StoreError> {
        if !self.buckets.contains_key(&number) {
            self.read_path(sql, number)?;
            let expected = self.expected(sql, LEVELS, number)?;
            let leaves = if expected == ZERO { Some(Vec::new()) } else { read_leaves(sql, number)? };
            match leaves.filter(|leaves| self.keys.bucket_digest(number, leaves) == expected) {
                Some(leaves) => self.buckets.insert(number, leaves),
                None => return Err(edited(EditedPart::Bucket(number))),
            };
        }
        Ok(&self.buckets[&number])
    }

    /// Reads the nodes above a bucket with one statement, the top first.
    fn read_path(&mut self, sql: &mut dyn Sql, bucket: u32) -> Result<(), StoreError> {
        let [middle, lowest] = [bucket / FANOUT / FANOUT, bucket / FANOUT];
        if self.root == ZERO || self.nodes.contains_key(&(LEVELS - 1, lowest)) {
            return Ok(());
        }
        let select = format!(
            "SELECT level, position, {} FROM tree_node
             WHERE level = 0 AND position = 0 OR level = 1 AND position = ?1 OR level = 2 AND position = ?2
             ORDER BY level LIMIT {NODES_OF_PATH_MAX}",
            sql.bounded("children")
        );
        for row in sql.rows(&select, params![middle, lowest])? {
            let place = (row.number(0)?, row.number(1)?);
            if !self.nodes.contains_key(&place) {
                // What is no node at all is not what it must be.
                self.keep_node(sql, place, row.blob(2).unwrap_or_default().to_vec())?;
            }
        }
        Ok(())
    }

    /// Keeps the children of a node if they are what the level above says.
    fn keep_node(&mut self, sql: &mut dyn Sql, place: (u32, u32), children: Children) -> Result<(), StoreError> {
        let (level, position) = place;
        let expected = self.expected(sql, level, position)?;
        if children.len() != NODE_SIZE || self.keys.node_digest(level, position, &children) != expected {
            return Err(edited(EditedPart::Node { level, position }));
        }
        self.nodes.insert(place, children);
        Ok(())
    }

    /// The digest that a node, or a bucket at level [`LEVELS`], must have.
    fn expected(&mut self, sql: &mut dyn Sql, level: u32, position: u32) -> Result<TreeDigest, StoreError> {
        let Some(above) = level.checked_sub(1) else { return Ok(self.root) };
        let children = self.node(sql, above, position / FANOUT)?;
        Ok(child(children, position % FANOUT))
    }

    fn node(&mut self, sql: &mut dyn Sql, level: u32, position: u32) -> Result<&Children, StoreError> {
        if !self.nodes.contains_key(&(level, position)) {
            let expected = self.expected(sql, level, position)?;
            let children = if expected == ZERO { no_children() } else { read_node(sql, level, position)? };
            self.keep_node(sql, (level, position), children)?;
        }
        Ok(&self.nodes[&(level, position)])
    }

    /// All leaves, verified against the root as a whole.
    pub(crate) fn all_leaves(&self, sql: &mut dyn Sql) -> Result<BTreeMap<EntryKey, Leaf>, StoreError> {
        let survey = self.survey(sql)?;
        match survey.edits.into_iter().next() {
            Some(edit) => Err(StoreError::Edited(edit)),
            None => Ok(survey.leaves),
        }
    }
}

fn no_children() -> Children {
    vec![0; NODE_SIZE]
}

/// One of a node's digests; 0 where a node is too short to have it.
fn child(children: &[u8], index: u32) -> TreeDigest {
    let start = index as usize * ZERO.len();
    children.get(start..).and_then(|rest| rest.first_chunk()).copied().unwrap_or(ZERO)
}

fn read_node(sql: &mut dyn Sql, level: u32, position: u32) -> Result<Children, StoreError> {
    let children = sql.bounded("children");
    let select = format!("SELECT {children} FROM tree_node WHERE level = ?1 AND position = ?2 LIMIT 1");
    let row = sql.first(&select, params![level, position])?;
    Ok(row.map_or_else(no_children, |row| row.blob(0).unwrap_or_default().to_vec()))
}

/// A row of `tree_leaf`.
struct LeafRow {
    bucket: u32,
    leaf: Leaf,
}

/// Rows of one path that are read: three, and room for others in their place.
const NODES_OF_PATH_MAX: u32 = 16;
/// The most leaves of a bucket. More are an edit: an app has 65,536 versions at most, and a few others share a bucket with it.
const LEAVES_MAX: u32 = 131_072;

fn select_leaves(sql: &dyn Sql) -> String {
    let (name, mac) = (sql.bounded("name"), sql.bounded("mac"));
    format!("SELECT bucket, kind, {name}, part, active, {mac} FROM tree_leaf")
}

impl LeafRow {
    /// A row that cannot be one of ours is none: its bucket is then not what it must be.
    fn parse(row: &SqlRow) -> Option<Self> {
        let kind = EntryKind::of_number(row.integer(1).ok()?)?;
        let key = EntryKey::new(kind, row.text(2).ok()?, row.number(3).ok()?);
        let leaf = Leaf { key, active: row.flag(4).ok()?, mac: row.array(5).ok()? };
        Some(Self { bucket: row.number(0).ok()?, leaf })
    }
}

/// The leaves of a bucket, in the order of their keys; `None` if a row cannot be a leaf.
fn read_leaves(sql: &mut dyn Sql, bucket: u32) -> Result<Option<Vec<Leaf>>, StoreError> {
    let rows = sql.rows(&format!("{} WHERE bucket = ?1 LIMIT {LEAVES_MAX}", select_leaves(sql)), params![bucket])?;
    let leaves = rows.iter().map(|row| LeafRow::parse(row).map(|row| row.leaf)).collect::<Option<Vec<_>>>();
    Ok(leaves.map(|mut leaves| {
        leaves.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        leaves
    }))
}
