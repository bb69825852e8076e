//! The tables in SQLite's words, and what marks a file as a store.

use rusqlite::Connection;

use crate::sql::schema::TableDefinitions;

/// `FSK1`, in the header of the file, where `file` and others look for it.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"FSK1");

/// A public key is unique over the whole store: a key shared by two apps would let one open the other's envelopes.
const FIRST: &str = "
    CREATE TABLE store (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        schema_version INTEGER NOT NULL,
        store_id BLOB NOT NULL CHECK (length(store_id) = 16),
        root_key_id BLOB NOT NULL CHECK (length(root_key_id) = 8),
        generation INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE app (
        name TEXT PRIMARY KEY,
        created_at INTEGER NOT NULL CHECK (created_at >= 0),
        disabled INTEGER NOT NULL CHECK (disabled IN (0, 1))
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE key_version (
        app TEXT NOT NULL REFERENCES app (name),
        version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
        created_at INTEGER NOT NULL CHECK (created_at >= 0),
        disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
        PRIMARY KEY (app, version)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE key_pair (
        app TEXT NOT NULL,
        version INTEGER NOT NULL,
        curve TEXT NOT NULL CHECK (curve IN ('r1', 'k1')),
        public_key BLOB NOT NULL UNIQUE,
        wrapped_private_key BLOB NOT NULL,
        PRIMARY KEY (app, version, curve),
        FOREIGN KEY (app, version) REFERENCES key_version (app, version)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE client (
        name TEXT PRIMARY KEY,
        created_at INTEGER NOT NULL CHECK (created_at >= 0),
        disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
        may_encrypt INTEGER NOT NULL CHECK (may_encrypt IN (0, 1)),
        may_decrypt INTEGER NOT NULL CHECK (may_decrypt IN (0, 1)),
        all_apps INTEGER NOT NULL CHECK (all_apps IN (0, 1)),
        any_role INTEGER NOT NULL CHECK (any_role IN (0, 1)),
        certificate_sha256 BLOB CHECK (length(certificate_sha256) = 32)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE client_app (
        client TEXT NOT NULL REFERENCES client (name),
        app TEXT NOT NULL REFERENCES app (name),
        PRIMARY KEY (client, app)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE client_role (
        client TEXT NOT NULL REFERENCES client (name),
        role TEXT NOT NULL,
        PRIMARY KEY (client, role)
    ) STRICT, WITHOUT ROWID;
";

/// The additions of version 2 to version 1.
const SECOND: &str = "
    CREATE TABLE api_key (
        id TEXT PRIMARY KEY CHECK (length(id) = 16),
        app TEXT NOT NULL REFERENCES app (name),
        created_at INTEGER NOT NULL CHECK (created_at >= 0),
        revoked_at INTEGER CHECK (revoked_at >= 0),
        secret_sha256 BLOB NOT NULL CHECK (length(secret_sha256) = 32),
        may_encrypt INTEGER NOT NULL CHECK (may_encrypt IN (0, 1)),
        may_decrypt INTEGER NOT NULL CHECK (may_decrypt IN (0, 1)),
        may_inspect INTEGER NOT NULL CHECK (may_inspect IN (0, 1)),
        may_issue_tokens INTEGER NOT NULL CHECK (may_issue_tokens IN (0, 1)),
        any_role INTEGER NOT NULL CHECK (any_role IN (0, 1))
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE api_key_role (
        api_key TEXT NOT NULL REFERENCES api_key (id),
        role TEXT NOT NULL,
        PRIMARY KEY (api_key, role)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE secret (
        purpose TEXT PRIMARY KEY,
        wrapped BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// The additions of version 3 to version 2: certificates that a renewal has replaced, symmetric keys, accepted
/// envelopes, key slots, what is planned for apps, the
/// history of changes, and the authenticated tree.
const THIRD: &str = "
    CREATE TABLE client_certificate (
        client TEXT NOT NULL REFERENCES client (name),
        sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
        accepted_until INTEGER NOT NULL CHECK (accepted_until >= 0),
        PRIMARY KEY (client, sha256)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE symmetric_key (
        app TEXT NOT NULL,
        version INTEGER NOT NULL,
        key_id BLOB NOT NULL UNIQUE CHECK (length(key_id) = 16),
        wrapped_root BLOB NOT NULL,
        PRIMARY KEY (app, version),
        FOREIGN KEY (app, version) REFERENCES key_version (app, version)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE app_accept (
        app TEXT PRIMARY KEY REFERENCES app (name),
        accepts_public_key INTEGER NOT NULL CHECK (accepts_public_key IN (0, 1)),
        accepts_symmetric INTEGER NOT NULL CHECK (accepts_symmetric IN (0, 1)),
        accepts_from_public_key INTEGER NOT NULL CHECK (accepts_from_public_key IN (0, 1))
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE client_accept (
        client TEXT PRIMARY KEY REFERENCES client (name),
        accepts_public_key INTEGER NOT NULL CHECK (accepts_public_key IN (0, 1)),
        accepts_symmetric INTEGER NOT NULL CHECK (accepts_symmetric IN (0, 1)),
        accepts_from_public_key INTEGER NOT NULL CHECK (accepts_from_public_key IN (0, 1))
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE api_key_accept (
        api_key TEXT PRIMARY KEY REFERENCES api_key (id),
        accepts_public_key INTEGER NOT NULL CHECK (accepts_public_key IN (0, 1)),
        accepts_symmetric INTEGER NOT NULL CHECK (accepts_symmetric IN (0, 1)),
        accepts_from_public_key INTEGER NOT NULL CHECK (accepts_from_public_key IN (0, 1))
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE slot (
        id TEXT PRIMARY KEY CHECK (length(id) = 16),
        kind TEXT NOT NULL,
        key_name TEXT NOT NULL,
        created_at INTEGER NOT NULL CHECK (created_at >= 0),
        public_key BLOB NOT NULL,
        wrapped_secrets BLOB NOT NULL,
        wrapped_mac_key BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        sealed_root BLOB NOT NULL,
        root_mac BLOB NOT NULL CHECK (length(root_mac) = 32)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE root_link (
        from_root BLOB PRIMARY KEY CHECK (length(from_root) = 8),
        epoch INTEGER NOT NULL,
        expires_at INTEGER NOT NULL CHECK (expires_at >= 0),
        sealed BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE app_life (
        app TEXT PRIMARY KEY REFERENCES app (name),
        delete_at INTEGER CHECK (delete_at >= 0),
        was_disabled INTEGER NOT NULL CHECK (was_disabled IN (0, 1)),
        rotate_after INTEGER CHECK (rotate_after >= 0),
        used_at INTEGER CHECK (used_at >= 0)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE store_change (
        name TEXT PRIMARY KEY,
        number INTEGER NOT NULL CHECK (number >= 1),
        changed_at INTEGER NOT NULL CHECK (changed_at >= 0),
        kind TEXT NOT NULL,
        app TEXT,
        client TEXT,
        version INTEGER,
        detail TEXT,
        command TEXT NOT NULL,
        engine TEXT,
        os_user TEXT,
        os_uid INTEGER,
        host TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE change_count (
        name TEXT PRIMARY KEY,
        number INTEGER NOT NULL CHECK (number >= 1)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE audit_log (
        engine TEXT PRIMARY KEY,
        log_id TEXT NOT NULL CHECK (length(log_id) = 16),
        epoch INTEGER NOT NULL,
        opened_at INTEGER NOT NULL CHECK (opened_at >= 0)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE app_canary (
        app TEXT NOT NULL REFERENCES app (name),
        digest BLOB NOT NULL CHECK (length(digest) = 32),
        created_at INTEGER NOT NULL CHECK (created_at >= 0),
        scheme TEXT NOT NULL,
        PRIMARY KEY (app, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tree_root (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        digest BLOB NOT NULL CHECK (length(digest) = 32),
        mac BLOB NOT NULL CHECK (length(mac) = 32),
        generation INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tree_node (
        level INTEGER NOT NULL,
        position INTEGER NOT NULL,
        children BLOB NOT NULL,
        PRIMARY KEY (level, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tree_leaf (
        bucket INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        name TEXT NOT NULL,
        part INTEGER NOT NULL,
        active INTEGER NOT NULL CHECK (active IN (0, 1)),
        mac BLOB NOT NULL CHECK (length(mac) = 32),
        PRIMARY KEY (bucket, kind, name, part)
    ) STRICT, WITHOUT ROWID;
";

/// All of them.
pub(super) const TABLES: TableDefinitions =
    TableDefinitions { first: FIRST, second: SECOND, third: THIRD, moved: "ALTER TABLE store DROP COLUMN generation" };

/// The content of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileContent {
    /// Nothing: new, or left by a kill before the first change.
    Blank,
    /// A store of some version.
    Store,
    /// Another program's tables.
    Foreign,
}

/// Returns the kind of the file's content. Fails with SQLite's "not a database" if it is not a database.
pub(super) fn identify(connection: &Connection) -> Result<FileContent, rusqlite::Error> {
    let application_id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let object_count: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application_id, object_count) {
        (APPLICATION_ID, _) => FileContent::Store,
        (0, 0) => FileContent::Blank,
        _ => FileContent::Foreign,
    })
}

/// Marks the file as a store.
pub(super) fn mark(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)
}
