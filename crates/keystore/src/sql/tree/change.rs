//! Changes of the authenticated tree.

use super::{BUCKETS, FANOUT, LEVELS, Leaf, StoreTree, TreeDigest, TreeRoot, ZERO};
use crate::StoreError;
use crate::memory::StoreSighting;
use crate::sql::table::{EntryKey, EntryRows, insert_rows};
use crate::sql::value::{Sql, SqlRow, params};

impl StoreTree<'_> {
    /// Notes what the rows of an entry are from now on.
    pub(crate) fn put(
        &mut self,
        sql: &mut dyn Sql,
        key: &EntryKey,
        active: bool,
        rows: &EntryRows,
    ) -> Result<(), StoreError> {
        let number = self.keys.bucket(key);
        let leaf = Leaf { key: key.clone(), active, mac: self.keys.entry_mac(key, rows) };
        self.bucket(sql, number)?;
        let leaves = self.buckets.entry(number).or_default();
        match leaves.binary_search_by(|known| known.key.cmp(key)) {
            Ok(index) if leaves[index] == leaf => return Ok(()),
            Ok(index) => leaves[index] = leaf.clone(),
            Err(index) => leaves.insert(index, leaf.clone()),
        }
        self.changed.insert((number, key.clone()), Some(leaf));
        Ok(())
    }

    /// Whether there is anything to write.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Notes that an entry is no more.
    pub(crate) fn remove(&mut self, sql: &mut dyn Sql, key: &EntryKey) -> Result<(), StoreError> {
        let number = self.keys.bucket(key);
        self.bucket(sql, number)?;
        self.buckets.entry(number).or_default().retain(|leaf| leaf.key != *key);
        self.changed.insert((number, key.clone()), None);
        Ok(())
    }

    /// Writes the changed leaves, the nodes above them and the root, for the state `generation`.
    pub(crate) fn write(mut self, sql: &mut dyn Sql, generation: i64, epoch: u32) -> Result<StoreSighting, StoreError> {
        self.write_leaves(sql)?;
        let mut changed: Vec<u32> = self.changed.keys().map(|(bucket, _)| *bucket).collect();
        changed.dedup();
        let mut digests: Vec<(u32, TreeDigest)> = changed
            .into_iter()
            .map(|number| (number, self.keys.bucket_digest(number, &self.buckets[&number])))
            .collect();
        for level in (0..LEVELS).rev() {
            digests = self.write_level(sql, level, &digests)?;
        }
        if let Some((_, root)) = digests.first() {
            self.root = *root;
        }
        sql.execute("DELETE FROM tree_root", &[])?;
        let mac = self.keys.root_mac(generation, &self.root);
        let insert = "INSERT INTO tree_root (only_row, digest, mac, generation) VALUES (1, ?1, ?2, ?3)";
        sql.execute(insert, params![self.root, mac, generation])?;
        Ok(TreeRoot { digest: self.root, mac }.sighting(generation, epoch))
    }

    fn write_leaves(&self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        for ((bucket, key), _) in self.changed.iter().filter(|(_, leaf)| leaf.is_none()) {
            let delete = "DELETE FROM tree_leaf WHERE bucket = ?1 AND kind = ?2 AND name = ?3 AND part = ?4";
            sql.execute(delete, params![*bucket, u32::from(key.kind as u8), key.name.as_str(), key.part])?;
        }
        let rows: Vec<SqlRow> = self.changed.values().flatten().map(|leaf| self.row(leaf)).collect();
        let columns = "tree_leaf (bucket, kind, name, part, active, mac)";
        let conflict =
            "ON CONFLICT (bucket, kind, name, part) DO UPDATE SET active = excluded.active, mac = excluded.mac";
        insert_rows(sql, columns, conflict, &rows)
    }

    fn row(&self, leaf: &Leaf) -> SqlRow {
        let Leaf { key, active, mac } = leaf;
        let (bucket, kind) = (self.keys.bucket(key), u32::from(key.kind as u8));
        SqlRow(params![bucket, kind, key.name.as_str(), key.part, *active, *mac].to_vec())
    }

    /// Sets children of one level and returns the digests of their nodes.
    fn write_level(
        &mut self,
        sql: &mut dyn Sql,
        level: u32,
        changed: &[(u32, TreeDigest)],
    ) -> Result<Vec<(u32, TreeDigest)>, StoreError> {
        debug_assert!(changed.iter().all(|(position, _)| *position < BUCKETS));
        let mut digests: Vec<(u32, TreeDigest)> = Vec::new();
        let mut rows = Vec::new();
        for group in changed.chunk_by(|one, other| one.0 / FANOUT == other.0 / FANOUT) {
            let position = group[0].0 / FANOUT;
            self.node(sql, level, position)?;
            let children = self.nodes.get_mut(&(level, position)).expect("just read");
            for (below, digest) in group {
                let start = (below % FANOUT) as usize * ZERO.len();
                children[start..start + ZERO.len()].copy_from_slice(digest);
            }
            let digest = self.keys.node_digest(level, position, children);
            digests.push((position, digest));
            if digest == ZERO {
                sql.execute("DELETE FROM tree_node WHERE level = ?1 AND position = ?2", params![level, position])?;
            } else {
                rows.push(SqlRow(params![level, position, children.as_slice()].to_vec()));
            }
        }
        let conflict = "ON CONFLICT (level, position) DO UPDATE SET children = excluded.children";
        insert_rows(sql, "tree_node (level, position, children)", conflict, &rows)?;
        Ok(digests)
    }
}
