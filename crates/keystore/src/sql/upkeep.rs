//! Looks for apps whose keys are to be rotated or deleted, and does it.
//!
//! A pass goes through the leaves of the authenticated tree, some at each call, so that neither apps that fail nor rows that something else
//! has planted keep it from the others. What an app is due for is read from verified rows, and checked again in the change that acts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use super::life::DueDeletion;
use super::session::StoreSession;
use super::stored::Compared;
use super::table::{EntryKey, EntryKind, EntryRows};
use super::tree::Leaf;
use super::{SqlBackend, SqlKeystore, apps, life};
use crate::edit::{EditedPart, StoreEdit};
use crate::history::{ChangeKind, ChangeNote};
use crate::life::{AppLife, Upkeep};
use crate::scan::TreeWalk;
use crate::{AppName, StoreError};

/// Leaves that a step aims at.
const LEAVES_AIMED: u32 = 1_000;
/// Rows after which a call ends: those of some 5,000 apps. With 100,000 apps, every twentieth call begins a pass.
const ROWS_PER_CALL: u64 = 50_000;
/// What a call does at most; a deletion, which reads all grants and API keys, costs as much as ten rotations.
const EFFORT_PER_CALL: u32 = 100;
const DELETION_EFFORT: u32 = 10;

/// Where the next call goes on.
#[derive(Debug)]
pub(super) struct UpkeepPass {
    walk: TreeWalk,
    due: VecDeque<(AppName, Due)>,
}

impl Default for UpkeepPass {
    fn default() -> Self {
        Self { walk: TreeWalk::new(LEAVES_AIMED), due: VecDeque::new() }
    }
}

/// What an app is due for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Deletion,
    Rotation,
}

/// When something is due.
#[derive(Debug, Clone, Copy)]
struct DueRules {
    now: u64,
    /// The age for apps without a rule of their own, in seconds; 0 for never.
    rotate_after: u64,
    /// How long a deletion is put off.
    put_off: Duration,
}

/// What a step of a pass found.
#[derive(Default)]
struct UpkeepStep {
    due: Vec<(AppName, Due)>,
    edits: Vec<StoreEdit>,
    row_count: u64,
}

impl UpkeepStep {
    /// Looks at the apps of some buckets.
    fn read(session: &mut StoreSession<'_>, walk: &mut TreeWalk, rules: DueRules) -> Result<Self, StoreError> {
        let mut step = Self::default();
        let Some(tree) = &session.tree else {
            walk.end();
            return Ok(step);
        };
        let Some(survey) = walk.next(session.sql, tree)? else { return Ok(step) };
        step.row_count += survey.row_count;
        let mut read = |kind, leaves: &BTreeMap<EntryKey, Leaf>| {
            let found = match kind {
                EntryKind::KeyVersion => Compared::read_parts(session.sql, tree, kind, leaves)?,
                _ => Compared::read(session.sql, tree, kind, leaves)?,
            };
            step.row_count += found.row_count;
            step.edits.extend(found.edits);
            Ok::<_, StoreError>(found.entries)
        };
        let mut lives = BTreeMap::new();
        for (key, rows) in read(EntryKind::Life, &survey.leaves)? {
            lives.insert(key.name, life::row(&rows)?.life);
        }
        let of_app = |name: &str| lives.get(name).copied().unwrap_or_default();
        let age = |life: AppLife| life.rotation.seconds(rules.rotate_after);
        let may_rotate = |name: &str| of_app(name).delete_at.is_none() && age(of_app(name)) > 0;
        let mut of_apps = survey.leaves.clone();
        of_apps.retain(|key, _| key.kind == EntryKind::App && may_rotate(&key.name));
        let enabled: Vec<String> = read(EntryKind::App, &of_apps)?
            .into_iter()
            .filter(|(_, rows)| is_enabled(rows))
            .map(|(key, _)| key.name)
            .collect();
        let newest = newest_versions(&survey.leaves, &enabled);
        for (key, rows) in read(EntryKind::KeyVersion, &newest)? {
            let created_at = rows.head()?.unix_s(2)?;
            if created_at.saturating_add(age(of_app(&key.name))) <= rules.now {
                step.due.push((apps::app_name(&key.name)?, Due::Rotation));
            }
        }
        for (name, _) in lives.iter().filter(|(_, life)| life.delete_at.is_some_and(|at| at <= rules.now)) {
            step.due.push((apps::app_name(name)?, Due::Deletion));
        }
        step.due.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(step)
    }
}

fn is_enabled(rows: &EntryRows) -> bool {
    rows.head().and_then(|row| row.flag(2)).is_ok_and(|disabled| !disabled)
}

/// The leaves of the newest versions of some apps.
fn newest_versions(leaves: &BTreeMap<EntryKey, Leaf>, apps: &[String]) -> BTreeMap<EntryKey, Leaf> {
    let newest = |app: &String| {
        let key = |part| EntryKey::new(EntryKind::KeyVersion, app, part);
        leaves.range(key(0)..=key(u32::MAX)).next_back().map(|(key, leaf)| (key.clone(), leaf.clone()))
    };
    apps.iter().filter_map(newest).collect()
}

/// An edit as the fault of its app.
fn of_app(edit: StoreEdit) -> Option<(AppName, StoreError)> {
    let (EditedPart::App(name) | EditedPart::KeyVersion { app: name, .. }) = &edit.part else { return None };
    Some((AppName::parse(name).ok()?, StoreError::Edited(edit)))
}

impl<B: SqlBackend> SqlKeystore<B> {
    /// Goes on with a pass.
    pub(super) fn keep_up(&self, rotate_after: u64, put_off: Duration) -> Result<Upkeep, StoreError> {
        let rules = DueRules { now: self.now(), rotate_after, put_off };
        let mut pass = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut done, mut row_count, mut effort) = (Upkeep::default(), 0, 0);
        loop {
            while let Some((app, due)) = pass.due.pop_front() {
                self.act((app, due), rules, &mut done);
                effort += if due == Due::Deletion { DELETION_EFFORT } else { 1 };
                if effort >= EFFORT_PER_CALL {
                    return Ok(done);
                }
            }
            if pass.walk.is_at_end() {
                *pass = UpkeepPass::default();
                return Ok(Upkeep { is_complete: true, ..done });
            }
            if row_count >= ROWS_PER_CALL {
                return Ok(done);
            }
            let read = self.read(|session| {
                let mut walk = pass.walk;
                UpkeepStep::read(session, &mut walk, rules).map(|step| (step, walk))
            });
            let (step, walk) = match read {
                Ok(read) => read,
                // What does not read at all must not keep the next calls from the rest.
                Err(error @ (StoreError::Storage(_) | StoreError::Inconsistent(_))) => {
                    pass.walk.skip();
                    return Err(error);
                }
                Err(other) => return Err(other),
            };
            row_count += step.row_count;
            pass.walk = walk;
            pass.due.extend(step.due);
            done.failed.extend(step.edits.into_iter().filter_map(of_app));
        }
    }

    fn act(&self, (app, due): (AppName, Due), rules: DueRules, done: &mut Upkeep) {
        let outcome = match due {
            Due::Deletion => {
                let delete = |session: &mut StoreSession<'_>| life::delete_due(session, &app, rules.now, rules.put_off);
                self.change(ChangeNote::of(ChangeKind::Delete).app(&app), delete).map(|due| match due {
                    DueDeletion::NotDue => {}
                    DueDeletion::PutOff(at) => done.put_off.push((app.clone(), at)),
                    DueDeletion::Done => done.deleted.push(app.clone()),
                })
            }
            Due::Rotation => {
                let rotate = |session: &mut StoreSession<'_>| self.rotate_due(session, &app, rules.rotate_after);
                self.change(ChangeNote::of(ChangeKind::AddVersion).app(&app), rotate).map(|version| {
                    done.rotated.extend(version.map(|version| (app.clone(), version)));
                })
            }
        };
        if let Err(error) = outcome {
            done.failed.push((app, error));
        }
    }
}
