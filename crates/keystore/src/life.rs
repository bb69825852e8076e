//! The life of an app's keys: rotation by age, and deletion after a delay.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{AppName, StoreError};

/// When an app's keys are rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RotationRule {
    /// As the engines' settings have it for all apps.
    #[default]
    Default,
    /// By commands alone.
    Never,
    /// Once the newest version is so old.
    After(Duration),
}

impl RotationRule {
    /// The age in seconds; 0 for never.
    pub(crate) fn seconds(self, default: u64) -> u64 {
        match self {
            Self::Default => default,
            Self::Never => 0,
            Self::After(time) => time.as_secs(),
        }
    }
}

/// What is planned for an app, and when it was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppLife {
    /// When its keys are deleted, in Unix seconds.
    pub delete_at: Option<u64>,
    /// When they are rotated.
    pub rotation: RotationRule,
    /// When an engine last recorded that it had opened envelopes of the app, in Unix seconds. Coarse: [`KeyLife::record_use`].
    pub used_at: Option<u64>,
}

/// How an app is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionPlan {
    /// The time until the keys are gone, in which the deletion can be cancelled.
    pub delay: Duration,
    /// Refuse an app that was used so recently.
    pub unused_for: Duration,
}

/// What [`KeyLife::record_use`] did.
#[derive(Debug, Default)]
pub struct UseRecord {
    /// Apps whose use was recorded.
    pub count: usize,
    /// Apps whose record something else has edited.
    pub failed: Vec<(AppName, StoreError)>,
}

/// What [`KeyLife::upkeep`] did.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// Apps that have a new version.
    pub rotated: Vec<(AppName, u32)>,
    /// Apps that are gone, with their keys, API keys and places in grants.
    pub deleted: Vec<AppName>,
    /// Apps that were due to be deleted, and in use after that was planned: they are due at this time, in Unix seconds.
    pub put_off: Vec<(AppName, u64)>,
    /// Apps that were due and could not be changed, or of which it cannot be known.
    pub failed: Vec<(AppName, StoreError)>,
    /// All apps were looked at since a pass began; otherwise the next call goes on.
    pub is_complete: bool,
}

/// The part of a store that rotates and deletes keys when their time has come. Every change is one transaction, in which it is checked
/// again that it is due: of several processes that call at once, one acts.
pub trait KeyLife {
    /// What is planned for the apps, and their last use, for those that have either.
    ///
    /// # Errors
    /// As [`Keystore::list_apps`](crate::Keystore::list_apps).
    fn lives(&self) -> Result<BTreeMap<AppName, AppLife>, StoreError>;

    /// Disables an app at once, and has it deleted after the delay; returns when, in Unix seconds. Its record of use is cleared.
    ///
    /// # Errors
    /// [`StoreError::UsedRecently`], [`StoreError::DeletionPending`], [`StoreError::UnknownApp`], [`StoreError::OldSchema`],
    /// [`StoreError::Busy`], [`StoreError::Full`].
    fn schedule_deletion(&self, app: &AppName, plan: DeletionPlan) -> Result<u64, StoreError>;

    /// Cancels the deletion of an app, which is as it was before.
    ///
    /// # Errors
    /// [`StoreError::NoDeletion`]; and as [`KeyLife::schedule_deletion`].
    fn cancel_deletion(&self, app: &AppName) -> Result<(), StoreError>;

    /// Sets when an app's keys are rotated.
    ///
    /// # Errors
    /// [`StoreError::UnknownApp`], [`StoreError::OldSchema`], [`StoreError::Busy`], [`StoreError::Full`].
    fn set_rotation(&self, app: &AppName, rule: RotationRule) -> Result<(), StoreError>;

    /// Records that envelopes of these apps were opened, in one change and only for those whose record is older than `interval`; apps that
    /// are not there are left out.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Full`].
    fn record_use(&self, apps: &[AppName], interval: Duration) -> Result<UseRecord, StoreError>;

    /// Rotates and deletes what is due, some apps at a time: each call goes on behind the last one. `rotate_after`: for apps that have no
    /// rule of their own. An app that was in use after its deletion was planned is not deleted: that is put off for `put_off`, in which a
    /// further use must have been recorded.
    ///
    /// # Errors
    /// [`StoreError::Busy`], and those of reading. Those of one app are in the result.
    fn upkeep(&self, rotate_after: Option<Duration>, put_off: Duration) -> Result<Upkeep, StoreError>;
}
