//! What a change has written about itself: the entries of its row, and of the number of changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::{EntryKey, EntryKind, EntryRows};
use super::value::{Sql, SqlRow, SqlValue, Type};
use crate::StoreError;
use crate::history::{ChangeAuthor, ChangeKind, ChangeNote};

/// The one name of the number of changes.
const COUNT: &str = "changes";

/// What a change will have written about itself.
#[derive(Debug, Clone)]
pub(crate) struct ChangeRecord {
    pub(crate) note: ChangeNote,
    pub(crate) author: Arc<ChangeAuthor>,
    /// Unix seconds.
    pub(crate) at: u64,
    /// Rows that stay.
    pub(crate) count_max: u32,
}

/// The entry with the number of changes.
pub(super) fn count_key() -> EntryKey {
    EntryKey::new(EntryKind::ChangeCount, COUNT, 0)
}

/// The name of a change: its generation, so that names sort as generations do.
pub(super) fn name(generation: u64) -> String {
    format!("{generation:020}")
}

/// The entry of a change.
pub(super) fn key(name: &str) -> EntryKey {
    EntryKey::new(EntryKind::Change, name, 0)
}

/// The number of changes, by its entry.
pub(super) fn number_of(rows: Option<&EntryRows>) -> Result<u64, StoreError> {
    rows.map_or(Ok(0), |rows| rows.head()?.unix_s(1))
}

impl ChangeRecord {
    /// That of a store that is made.
    pub(crate) fn first(author: ChangeAuthor, at: u64) -> Self {
        Self { note: ChangeNote::of(ChangeKind::CreateStore), author: Arc::new(author), at, count_max: 1 }
    }

    /// The entries that a change adds, or replaces. `before`: the number of changes before it.
    pub(super) fn entries(&self, generation: i64, before: u64) -> [(EntryKey, EntryRows); 2] {
        let ChangeNote { kind, app, client, version, detail } = &self.note;
        let ChangeAuthor { command, engine, user, uid, host } = self.author.as_ref();
        let (name, number) = (name(generation.cast_unsigned()), before + 1);
        let text = |text: &Option<String>| SqlValue::optional(text.as_deref(), Type::Text);
        let columns = vec![
            name.as_str().into(),
            number.into(),
            self.at.into(),
            kind.as_str().into(),
            text(app),
            text(client),
            SqlValue::optional(*version, Type::Integer),
            text(detail),
            command.as_str().into(),
            text(engine),
            text(user),
            SqlValue::optional(*uid, Type::Integer),
            text(host),
        ];
        let count = vec![COUNT.into(), number.into()];
        [(key(&name), columns), (count_key(), count)]
            .map(|(key, columns)| (key, EntryRows(vec![vec![SqlRow(columns)]])))
    }

    /// Writes them beside `entries`, all of a store, which will be in a new tree with these.
    pub(super) fn add_to(
        &self,
        sql: &mut dyn Sql,
        generation: i64,
        entries: &mut BTreeMap<EntryKey, EntryRows>,
    ) -> Result<(), StoreError> {
        let before = number_of(entries.get(&count_key()))?;
        for (key, rows) in self.entries(generation, before) {
            let table = key.kind.tables()[0];
            if let Some(replaced) = entries.insert(key, rows.clone()) {
                table.delete(sql, replaced.head()?)?;
            }
            table.insert(sql, rows.head()?)?;
        }
        Ok(())
    }
}
