//! What changes of a keystore are in the Open Cybersecurity Schema Framework and the Elastic Common Schema.

use serde_json::{Value, json};

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeEffect {
    Create,
    Read,
    Update,
    Delete,
    Enable,
    Disable,
    Grant,
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangedThing {
    /// A client, or an API key.
    Caller,
    App,
    Version,
    Slot,
    Log,
    Keystore,
}

use ChangeEffect::{Create, Delete, Disable, Enable, Grant, Read, Update};
use ChangedThing::{App, Caller, Keystore, Log, Slot, Version};

/// Changes by name.
const CHANGES: [(&str, ChangeEffect, ChangedThing); 37] = [
    ("create-store", Create, Keystore),
    ("migrate", Update, Keystore),
    ("create-app", Create, App),
    ("import-escrow", Update, App),
    ("add-version", Create, Version),
    ("disable-app", Disable, App),
    ("enable-app", Enable, App),
    ("disable-version", Disable, Version),
    ("enable-version", Enable, Version),
    ("trim-versions", Delete, Version),
    ("set-accepted", Update, App),
    ("set-rotation", Update, App),
    ("schedule-deletion", Update, App),
    ("cancel-deletion", Update, App),
    ("delete", Delete, App),
    ("put-client", Grant, Caller),
    ("renew-client", Update, Caller),
    ("disable-client", Disable, Caller),
    ("enable-client", Enable, Caller),
    ("create-api-key", Create, Caller),
    ("revoke-api-key", Disable, Caller),
    ("make-token-secret", Update, Keystore),
    ("add-slot", Create, Slot),
    ("replace-slot", Update, Slot),
    ("remove-slot", Delete, Slot),
    ("rotate-root", Update, Keystore),
    ("remove-root-links", Update, Keystore),
    ("accept-generation", Update, Keystore),
    ("add-canary", Update, App),
    ("remove-canary", Update, App),
    ("open-canary", Read, App),
    ("begin-log", Create, Log),
    ("export", Read, App),
    ("extract", Read, Keystore),
    ("back-up", Read, Keystore),
    ("copy", Read, Keystore),
    ("record-use", Update, App),
];

/// A change by its name; unknown ones, and those that something else has edited, are of the keystore.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedChange(Option<(ChangeEffect, ChangedThing)>);

impl NamedChange {
    pub(crate) fn of(name: Option<&str>) -> Self {
        let found = CHANGES.iter().find(|(known, ..)| Some(*known) == name);
        Self(found.map(|(_, effect, thing)| (*effect, *thing)))
    }

    /// Class and activity: Account Change for callers, else Entity Management.
    pub(crate) fn ocsf_type(self) -> (u64, u64) {
        let Some((effect, thing)) = self.0 else { return (3004, 99) };
        match (thing, effect) {
            (Caller, Create) => (3001, 1),
            (Caller, Enable) => (3001, 2),
            (Caller, Disable) => (3001, 5),
            (Caller, Delete) => (3001, 6),
            (Caller, Grant) => (3001, 7),
            (Caller, Read | Update) => (3001, 99),
            (_, Create) => (3004, 1),
            (_, Read) => (3004, 2),
            (_, Update | Grant) => (3004, 3),
            (_, Delete) => (3004, 4),
            (_, Enable) => (3004, 8),
            (_, Disable) => (3004, 9),
        }
    }

    /// What was changed, as an OCSF user or managed entity, by the record's `app`, `version` and other names.
    pub(crate) fn ocsf_thing(
        self,
        app: Option<&str>,
        version: Option<u64>,
        client: Option<&str>,
        other: &str,
    ) -> Value {
        match self.0.map(|(_, thing)| thing) {
            Some(Caller) => match client {
                Some(client) => json!({ "name": client }),
                None => json!({ "uid": other }),
            },
            Some(App) => json!({ "name": app.unwrap_or_default(), "type": "app" }),
            Some(Version) => {
                let version = version.map_or_else(|| other.to_owned(), |version| version.to_string());
                json!({ "name": app.unwrap_or_default(), "type": "key version", "version": version })
            }
            Some(Slot) => json!({ "uid": other, "type": "key slot" }),
            Some(Log) => json!({ "uid": other, "type": "audit log" }),
            Some(Keystore) | None => json!({ "name": "keystore", "type": "keystore" }),
        }
    }

    /// Category and types.
    pub(crate) fn ecs_type(self) -> (&'static str, Vec<&'static str>) {
        let Some((effect, thing)) = self.0 else { return ("configuration", vec!["info"]) };
        let kind = match effect {
            Create => "creation",
            Read => "access",
            Delete => "deletion",
            Update | Enable | Disable | Grant => "change",
        };
        if thing == Caller { ("iam", vec!["user", kind]) } else { ("configuration", vec![kind]) }
    }
}
