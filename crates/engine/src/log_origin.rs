//! How an audit log is named: by its store, its engine, the root of its key, and a random id.

use std::fmt;

use leafseal_keystore::{StoreId, is_signer};

/// Hexadecimal digits of a log's id.
const ID_SIZE: usize = 16;

/// Names a log among those of one store. No two logs have the same, so that none has the key of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogName {
    /// The engine that writes it.
    pub engine: String,
    /// The root under which its key is.
    pub epoch: u32,
    /// Random.
    pub id: String,
}

impl LogName {
    /// The name of the key that signs the log: no engine can have such a name.
    pub fn signer(&self) -> String {
        self.signer_of("audit")
    }

    /// The name of the key that signs how far the log has the changes of its store.
    pub fn changes_signer(&self) -> String {
        self.signer_of("changes")
    }

    fn signer_of(&self, purpose: &str) -> String {
        format!("{purpose}+{}+{}", self.engine, self.id)
    }

    /// The origin of the log's checkpoints, and the name of its public key.
    pub fn origin(&self, store: StoreId) -> String {
        format!("leafseal/{store}/{self}")
    }

    /// The parts of an origin. Whether it is of a store is to be compared with [`LogName::origin`].
    pub fn of_origin(origin: &str) -> Option<Self> {
        let ["leafseal", _, engine, epoch, id] = origin.split('/').collect::<Vec<_>>()[..] else { return None };
        let is_id = id.len() == ID_SIZE && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let epoch = epoch.parse().ok().filter(|_| is_id && is_signer(engine))?;
        Some(Self { engine: engine.to_owned(), epoch, id: id.to_owned() })
    }

    /// The name of the log's folder.
    pub fn folder(&self) -> String {
        format!("{}-{}-{}", self.engine, self.epoch, self.id)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.engine, self.epoch, self.id)
    }
}

#[cfg(test)]
mod tests {
    use leafseal_audit::{ExportFormat, export_record};
    use leafseal_keystore::ChangeKind;

    use super::*;

    /// `renew-client` has no activity of its own.
    #[test]
    fn each_change_of_a_keystore_has_a_class_when_it_is_exported() {
        for kind in ChangeKind::ALL {
            let record =
                format!(r#"{{"time":"2026-11-28T09:00:00.000000Z","kind":"change","change":"{}"}}"#, kind.as_str());
            let line = export_record(ExportFormat::Ocsf, "o", 0, record.as_bytes());
            let is_known = !line.contains("\"activity_id\":99") || *kind == ChangeKind::RenewClient;
            assert!(is_known, "{line}");
        }
    }

    #[test]
    fn an_origin_is_read_as_it_was_written() {
        let name = LogName { engine: "engine-0".to_owned(), epoch: 3, id: "0123456789abcdef".to_owned() };
        let store: StoreId = StoreId::parse("00112233445566778899aabbccddeeff").expect("an id");
        let origin = name.origin(store);
        assert_eq!(LogName::of_origin(&origin), Some(name));
        for other in [
            "leafseal/x/engine/1",
            "leafseal/x/e/1/0123456789abcdeg",
            "other/x/e/1/0123456789abcdef",
            "leafseal/x/e+/1/0123456789abcdef",
        ] {
            assert_eq!(LogName::of_origin(other), None, "{other}");
        }
    }
}
