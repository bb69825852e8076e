//! `store history`: what was changed in the keystore, when and by whom.

use std::collections::VecDeque;

use leafseal_engine::admin::{HistoryEntry, Keystore, StoreChange};
use serde_json::{Value, json};

use crate::arguments::AnswerFormat;
use crate::failure::CommandOutcome;
use crate::output::{print, print_json};

/// Changes that are read at once.
const PAGE_SIZE: u32 = 1_000;

/// Prints the last changes, newest first.
pub(super) fn show(store: &dyn Keystore, last: u32, form: AnswerFormat) -> CommandOutcome {
    let mut entries = VecDeque::new();
    let mut after = 0;
    while let Some(history) = store.history() {
        let page = history.changes(after, PAGE_SIZE)?;
        let is_last = page.entries.len() < PAGE_SIZE as usize;
        after = page.up_to;
        entries.extend(page.entries);
        entries.drain(..entries.len().saturating_sub(last as usize));
        if is_last {
            break;
        }
    }
    for entry in entries.iter().rev() {
        match entry {
            _ if form.json => print_json(&to_json(entry))?,
            HistoryEntry::Change(change) => print(&to_text(change))?,
            HistoryEntry::Edited(generation) => {
                print(&format!("the change to generation {generation} was edited by something other than Leafseal\n"))?;
            }
        }
    }
    Ok(())
}

fn to_json(entry: &HistoryEntry) -> Value {
    match entry {
        HistoryEntry::Change(change) => json!({
            "number": change.number, "generation": change.generation, "changed_at": change.at, "change": change.kind,
            "app": change.app, "client": change.client, "version": change.version, "detail": change.detail,
            "command": change.author.command, "engine": change.author.engine,
            "user": change.author.user, "uid": change.author.uid, "host": change.author.host,
        }),
        HistoryEntry::Edited(generation) => json!({ "generation": generation, "edited": true }),
    }
}

fn to_text(change: &StoreChange) -> String {
    let author = &change.author;
    let user = author.user.clone().or_else(|| author.uid.map(|uid| format!("user {uid}"))).unwrap_or_default();
    let version = change.version.map(|version| format!(" version {version}"));
    let parts = [
        change.app.as_ref().map(|app| format!(" app {app}")),
        version,
        change.client.as_ref().map(|client| format!(" client {client}")),
        change.detail.as_ref().map(|detail| format!(" ({detail})")),
        Some(format!("  {}: {user}", author.command)),
        author.host.as_ref().map(|host| format!(" on {host}")),
    ];
    let time = leafseal_engine::audit::unix_time_text(change.at);
    format!("{}  {time}  {}{}\n", change.number, change.kind, parts.into_iter().flatten().collect::<String>())
}
