//! What of the stored tree others have changed: each node and each bucket is compared with what the stored level above says, so that one
//! edit does not hide another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{BUCKETS, Children, FANOUT, LEAVES_MAX, LEVELS, Leaf, LeafRow, NODE_SIZE, StoreTree, TreeDigest, ZERO};
use super::{child, no_children, select_leaves};
use crate::StoreError;
use crate::edit::{EditKind, EditedPart, StoreEdit};
use crate::scan::TreeWalk;
use crate::sql::table::EntryKey;
use crate::sql::value::{FOREVER, Sql, SqlRow, params};

/// Buckets of a tree with the nodes above them, as they are stored.
pub(crate) struct TreeSurvey {
    pub(crate) leaves: BTreeMap<EntryKey, Leaf>,
    /// Nodes and buckets that are not what the level above says.
    pub(crate) edits: Vec<StoreEdit>,
    /// Rows that were read.
    pub(crate) row_count: u64,
    /// There are more leaves than the limit: the last of those that were read may be missing others of their bucket.
    pub(crate) is_cut: bool,
}

/// Links that are looked at.
const LINKS_MAX: u32 = 1_000;

/// Nodes that a step reads: twice as many as there are.
const STORED_NODES_MAX: u32 = 2 * (1 + FANOUT + FANOUT * FANOUT);

/// The nodes of each level by position.
type StoredNodes = Vec<BTreeMap<u32, Children>>;

/// Buckets of a step at first, and at most: the nodes above them have 128 KiB.
const FIRST_WIDTH: u32 = 64;
const WIDTH_MAX: u32 = 4096;

impl TreeWalk {
    pub(crate) const fn new(leaf_count: u32) -> Self {
        Self { bucket: 0, width: FIRST_WIDTH, leaf_count }
    }

    pub(crate) fn is_at_start(self) -> bool {
        self.bucket == 0
    }

    pub(crate) fn is_at_end(self) -> bool {
        self.bucket >= BUCKETS
    }

    pub(crate) fn end(&mut self) {
        self.bucket = BUCKETS;
    }

    /// Leaves the next buckets out.
    pub(crate) fn skip(&mut self) {
        self.bucket += self.width;
    }

    /// The next buckets; `None` behind the last one.
    pub(crate) fn next(&mut self, sql: &mut dyn Sql, tree: &StoreTree<'_>) -> Result<Option<TreeSurvey>, StoreError> {
        if self.bucket >= BUCKETS {
            return Ok(None);
        }
        let mut row_count = 0;
        let survey = loop {
            let end = self.bucket.saturating_add(self.width).min(BUCKETS);
            let survey = tree.survey_range(sql, self.bucket..end, LEAVES_MAX)?;
            row_count += survey.row_count;
            if !survey.is_cut || self.width == 1 {
                break survey;
            }
            self.width = (self.width / 8).max(1);
        };
        self.bucket += self.width;
        let aimed = u64::from(self.width) * u64::from(self.leaf_count) / (survey.leaves.len() as u64).max(1);
        self.width = u32::try_from(aimed).unwrap_or(WIDTH_MAX).clamp(1, WIDTH_MAX);
        Ok(Some(TreeSurvey { row_count, ..survey }))
    }
}

impl StoreTree<'_> {
    /// Reads the whole tree.
    pub(crate) fn survey(&self, sql: &mut dyn Sql) -> Result<TreeSurvey, StoreError> {
        let strays = Self::strays(sql, u32::MAX)?;
        let mut survey = self.survey_range(sql, 0..BUCKETS, u32::MAX)?;
        survey.edits.extend(strays);
        survey.edits.sort_unstable();
        survey.edits.dedup();
        Ok(survey)
    }

    /// Rows of the tree's tables outside of the tree: at most `limit` of each.
    pub(crate) fn strays(sql: &mut dyn Sql, limit: u32) -> Result<Vec<StoreEdit>, StoreError> {
        let mut edits = BTreeSet::new();
        if sql.count("SELECT count(*) FROM tree_root", &[])? != 1 {
            edits.insert(EditedPart::Root);
        }
        let of_level = |level: u32| format!("level = {level} AND position >= 0 AND position < {}", FANOUT.pow(level));
        let in_tree: Vec<String> = (0..LEVELS).map(of_level).collect();
        let nodes = format!(
            "SELECT level, position FROM tree_node WHERE level IS NULL OR position IS NULL OR NOT ({}) LIMIT ?1",
            in_tree.join(" OR ")
        );
        for row in sql.rows(&nodes, params![limit])? {
            let (level, position) = (row.number(0).unwrap_or(LEVELS), row.number(1).unwrap_or(BUCKETS));
            edits.insert(EditedPart::Node { level, position });
        }
        let leaves = "SELECT bucket FROM tree_leaf WHERE bucket IS NULL OR bucket < 0 OR bucket >= ?1 LIMIT ?2";
        for row in sql.rows(leaves, params![BUCKETS, limit])? {
            edits.insert(EditedPart::Bucket(row.number(0).unwrap_or(BUCKETS)));
        }
        Ok(edits.into_iter().map(changed).collect())
    }

    /// Whether the row that describes the store, and links between its roots, are not what they must be.
    pub(crate) fn edits_of_store(&self, sql: &mut dyn Sql, epoch: u32) -> Result<Vec<StoreEdit>, StoreError> {
        let (store, root) = (sql.bounded("store_id"), sql.bounded("root_key_id"));
        let rows = sql.rows(&format!("SELECT only_row, {store}, {root} FROM store LIMIT 2"), &[])?;
        let ours = params![1_u32, self.keys.store.0, self.keys.root_key.0];
        let mut edits = Vec::new();
        if !matches!(&rows[..], [row] if row.0 == ours) {
            edits.push(changed(EditedPart::Root));
        }
        // Each leads to another of the roots after the first.
        let from = sql.bounded("from_root");
        let links = sql.rows(&format!("SELECT {from}, epoch, expires_at FROM root_link LIMIT {LINKS_MAX}"), &[])?;
        let mut epochs = BTreeSet::new();
        let is_link = |row: &SqlRow| {
            let to = row.number(1).unwrap_or_default();
            let from = row.array(0).ok().filter(|from| *from != self.keys.root_key.0);
            // A link, and the statement that the root before it has ended.
            let ends = row.unix_s(2).map(|time| time == FOREVER);
            from.is_some() && (2..=epoch).contains(&to) && ends.is_ok_and(|is_end| epochs.insert((to, is_end)))
        };
        if !links.iter().all(is_link) {
            let part = EditedPart::Row { table: "root_link" };
            edits.push(StoreEdit { part, kind: EditKind::Added });
        }
        Ok(edits)
    }

    /// Reads some buckets, with at most `limit` leaves, and the nodes above them.
    pub(crate) fn survey_range(
        &self,
        sql: &mut dyn Sql,
        buckets: Range<u32>,
        limit: u32,
    ) -> Result<TreeSurvey, StoreError> {
        let mut edits = BTreeSet::new();
        let nodes = stored_nodes(sql, &buckets, &mut edits)?;
        let node_count = nodes.iter().map(BTreeMap::len).sum::<usize>();
        let expected = self.survey_nodes(&nodes, &buckets, &mut edits);
        let select = format!("{} WHERE bucket >= ?1 AND bucket < ?2 LIMIT ?3", select_leaves(sql));
        let rows = sql.rows(&select, params![buckets.start, buckets.end, limit])?;
        let row_count = (rows.len() + node_count) as u64;
        let is_cut = rows.len() >= limit as usize;
        let mut found: BTreeMap<u32, Vec<Leaf>> = BTreeMap::new();
        for row in rows {
            match LeafRow::parse(&row) {
                Some(row) => found.entry(row.bucket).or_default().push(row.leaf),
                None => drop(edits.insert(EditedPart::Bucket(row.number(0).unwrap_or(BUCKETS)))),
            }
        }
        for &number in found.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
            let mut leaves = found.get(&number).cloned().unwrap_or_default();
            leaves.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            if self.keys.bucket_digest(number, &leaves) != *expected.get(&number).unwrap_or(&ZERO) {
                edits.insert(EditedPart::Bucket(number));
            }
        }
        let leaves = found.into_values().flatten().map(|leaf| (leaf.key.clone(), leaf)).collect();
        Ok(TreeSurvey { leaves, edits: edits.into_iter().map(changed).collect(), row_count, is_cut })
    }

    /// Compares each node with what the one above says, and returns what the lowest say of the buckets.
    fn survey_nodes(
        &self,
        stored: &StoredNodes,
        buckets: &Range<u32>,
        edits: &mut BTreeSet<EditedPart>,
    ) -> BTreeMap<u32, TreeDigest> {
        let mut expected: BTreeMap<u32, TreeDigest> = BTreeMap::from([(0, self.root)]);
        let none = no_children();
        for (level, nodes) in (0..).zip(stored) {
            let mut below = BTreeMap::new();
            let below_range = positions(level + 1, buckets);
            for &position in nodes.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
                let children = nodes.get(&position).unwrap_or(&none);
                let digest = expected.get(&position).copied().unwrap_or(ZERO);
                let is_stray = digest == ZERO && nodes.contains_key(&position);
                if is_stray || self.keys.node_digest(level, position, children) != digest {
                    edits.insert(EditedPart::Node { level, position });
                }
                let digests = (0..FANOUT).map(|index| (position * FANOUT + index, child(children, index)));
                below.extend(digests.filter(|(number, digest)| *digest != ZERO && below_range.contains(number)));
            }
            expected = below;
        }
        expected
    }
}

fn changed(part: EditedPart) -> StoreEdit {
    StoreEdit { part, kind: EditKind::Changed }
}

/// The nodes of a level above some buckets; of level [`LEVELS`] the buckets themselves.
fn positions(level: u32, buckets: &Range<u32>) -> Range<u32> {
    let below = FANOUT.pow(LEVELS - level);
    buckets.start / below..buckets.end.div_ceil(below)
}

fn stored_nodes(
    sql: &mut dyn Sql,
    buckets: &Range<u32>,
    edits: &mut BTreeSet<EditedPart>,
) -> Result<StoredNodes, StoreError> {
    let of_level = |level: u32| {
        let Range { start, end } = positions(level, buckets);
        format!("level = {level} AND position >= {start} AND position < {end}")
    };
    let condition: Vec<String> = (0..LEVELS).map(of_level).collect();
    let select = format!(
        "SELECT level, position, {} FROM tree_node WHERE {} LIMIT {STORED_NODES_MAX}",
        sql.bounded("children"),
        condition.join(" OR ")
    );
    let mut levels: StoredNodes = vec![BTreeMap::new(); LEVELS as usize];
    for row in sql.rows(&select, &[])? {
        let (level, position) = (row.number(0).unwrap_or(LEVELS), row.number(1).unwrap_or(BUCKETS));
        match (levels.get_mut(level as usize), row.blob(2)) {
            (Some(nodes), Ok(children)) if children.len() == NODE_SIZE => {
                // Which of two is read could depend on the statement.
                if nodes.insert(position, children.to_vec()).is_some() {
                    edits.insert(EditedPart::Node { level, position });
                }
            }
            _ => drop(edits.insert(EditedPart::Node { level, position })),
        }
    }
    Ok(levels)
}
