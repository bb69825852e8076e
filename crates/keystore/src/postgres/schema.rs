//! The tables in PostgreSQL's words. They are in a schema of their own, `leafseal`, apart from those of other applications.
//!
//! Names sort by their bytes, as in SQLite, whatever the language of the database. `mark` is random and new with each change: after a
//! failover to a standby that had lost changes, the same `generation` may stand for others. Since version 3 the MAC of the tree does
//! that, and the generation is beside it, so that every change and poll of an older program fails in the database.

use std::collections::BTreeMap;

use crate::sql::schema::TableDefinitions;
use crate::sql::value::{SqlValue, Type};

/// The schema, and the name of its notifications.
pub(super) const SCHEMA: &str = "leafseal";

/// The comment on the table `store`, by which a store is recognised. Dumps keep it.
pub(super) const MARK: &str = "Leafseal keystore FSK1";

/// A public key is unique over the whole store: a key shared by two apps would let one open the other's envelopes.
const FIRST: &str = r#"
    CREATE TABLE store (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        schema_version BIGINT NOT NULL,
        store_id BYTEA NOT NULL CHECK (length(store_id) = 16),
        root_key_id BYTEA NOT NULL CHECK (length(root_key_id) = 8),
        generation BIGINT NOT NULL,
        mark BIGINT NOT NULL DEFAULT 0
    );
    COMMENT ON TABLE store IS 'Leafseal keystore FSK1';
    CREATE TABLE app (
        name TEXT COLLATE "C" PRIMARY KEY,
        created_at BIGINT NOT NULL CHECK (created_at >= 0),
        disabled BOOLEAN NOT NULL
    );
    CREATE TABLE key_version (
        app TEXT COLLATE "C" NOT NULL REFERENCES app (name),
        version BIGINT NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
        created_at BIGINT NOT NULL CHECK (created_at >= 0),
        disabled BOOLEAN NOT NULL,
        PRIMARY KEY (app, version)
    );
    CREATE TABLE key_pair (
        app TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        curve TEXT COLLATE "C" NOT NULL CHECK (curve IN ('r1', 'k1')),
        public_key BYTEA NOT NULL UNIQUE,
        wrapped_private_key BYTEA NOT NULL,
        PRIMARY KEY (app, version, curve),
        FOREIGN KEY (app, version) REFERENCES key_version (app, version)
    );
    CREATE TABLE client (
        name TEXT COLLATE "C" PRIMARY KEY,
        created_at BIGINT NOT NULL CHECK (created_at >= 0),
        disabled BOOLEAN NOT NULL,
        may_encrypt BOOLEAN NOT NULL,
        may_decrypt BOOLEAN NOT NULL,
        all_apps BOOLEAN NOT NULL,
        any_role BOOLEAN NOT NULL,
        certificate_sha256 BYTEA CHECK (length(certificate_sha256) = 32)
    );
    CREATE TABLE client_app (
        client TEXT COLLATE "C" NOT NULL REFERENCES client (name),
        app TEXT COLLATE "C" NOT NULL REFERENCES app (name),
        PRIMARY KEY (client, app)
    );
    CREATE TABLE client_role (
        client TEXT COLLATE "C" NOT NULL REFERENCES client (name),
        role TEXT COLLATE "C" NOT NULL,
        PRIMARY KEY (client, role)
    );
"#;

/// The additions of version 2 to version 1.
const SECOND: &str = r#"
    CREATE TABLE api_key (
        id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) = 16),
        app TEXT COLLATE "C" NOT NULL REFERENCES app (name),
        created_at BIGINT NOT NULL CHECK (created_at >= 0),
        revoked_at BIGINT CHECK (revoked_at >= 0),
        secret_sha256 BYTEA NOT NULL CHECK (length(secret_sha256) = 32),
        may_encrypt BOOLEAN NOT NULL,
        may_decrypt BOOLEAN NOT NULL,
        may_inspect BOOLEAN NOT NULL,
        may_issue_tokens BOOLEAN NOT NULL,
        any_role BOOLEAN NOT NULL
    );
    CREATE TABLE api_key_role (
        api_key TEXT COLLATE "C" NOT NULL REFERENCES api_key (id),
        role TEXT COLLATE "C" NOT NULL,
        PRIMARY KEY (api_key, role)
    );
    CREATE TABLE secret (
        purpose TEXT COLLATE "C" PRIMARY KEY,
        wrapped BYTEA NOT NULL
    );
"#;

/// The additions of version 3 to version 2: key slots, what is planned for apps, the history of changes, and the
/// authenticated tree. Whoever may use the other
/// tables may use these.
const THIRD: &str = r#"
    CREATE TABLE client_certificate (
        client TEXT COLLATE "C" NOT NULL REFERENCES client (name),
        sha256 BYTEA NOT NULL CHECK (length(sha256) = 32),
        accepted_until BIGINT NOT NULL CHECK (accepted_until >= 0),
        PRIMARY KEY (client, sha256)
    );
    CREATE TABLE symmetric_key (
        app TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        key_id BYTEA NOT NULL UNIQUE CHECK (length(key_id) = 16),
        wrapped_root BYTEA NOT NULL,
        PRIMARY KEY (app, version),
        FOREIGN KEY (app, version) REFERENCES key_version (app, version)
    );
    CREATE TABLE app_accept (
        app TEXT COLLATE "C" PRIMARY KEY REFERENCES app (name),
        accepts_public_key BOOLEAN NOT NULL,
        accepts_symmetric BOOLEAN NOT NULL,
        accepts_from_public_key BOOLEAN NOT NULL
    );
    CREATE TABLE client_accept (
        client TEXT COLLATE "C" PRIMARY KEY REFERENCES client (name),
        accepts_public_key BOOLEAN NOT NULL,
        accepts_symmetric BOOLEAN NOT NULL,
        accepts_from_public_key BOOLEAN NOT NULL
    );
    CREATE TABLE api_key_accept (
        api_key TEXT COLLATE "C" PRIMARY KEY REFERENCES api_key (id),
        accepts_public_key BOOLEAN NOT NULL,
        accepts_symmetric BOOLEAN NOT NULL,
        accepts_from_public_key BOOLEAN NOT NULL
    );
    CREATE TABLE slot (
        id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) = 16),
        kind TEXT COLLATE "C" NOT NULL,
        key_name TEXT COLLATE "C" NOT NULL,
        created_at BIGINT NOT NULL CHECK (created_at >= 0),
        public_key BYTEA NOT NULL,
        wrapped_secrets BYTEA NOT NULL,
        wrapped_mac_key BYTEA NOT NULL,
        epoch BIGINT NOT NULL,
        sealed_root BYTEA NOT NULL,
        root_mac BYTEA NOT NULL CHECK (length(root_mac) = 32)
    );
    CREATE TABLE root_link (
        from_root BYTEA PRIMARY KEY CHECK (length(from_root) = 8),
        epoch BIGINT NOT NULL,
        expires_at BIGINT NOT NULL CHECK (expires_at >= 0),
        sealed BYTEA NOT NULL
    );
    CREATE TABLE app_life (
        app TEXT COLLATE "C" PRIMARY KEY REFERENCES app (name),
        delete_at BIGINT CHECK (delete_at >= 0),
        was_disabled BOOLEAN NOT NULL,
        rotate_after BIGINT CHECK (rotate_after >= 0),
        used_at BIGINT CHECK (used_at >= 0)
    );
    CREATE TABLE store_change (
        name TEXT COLLATE "C" PRIMARY KEY,
        number BIGINT NOT NULL CHECK (number >= 1),
        changed_at BIGINT NOT NULL CHECK (changed_at >= 0),
        kind TEXT COLLATE "C" NOT NULL,
        app TEXT COLLATE "C",
        client TEXT COLLATE "C",
        version BIGINT,
        detail TEXT COLLATE "C",
        command TEXT COLLATE "C" NOT NULL,
        engine TEXT COLLATE "C",
        os_user TEXT COLLATE "C",
        os_uid BIGINT,
        host TEXT COLLATE "C"
    );
    CREATE TABLE change_count (
        name TEXT COLLATE "C" PRIMARY KEY,
        number BIGINT NOT NULL CHECK (number >= 1)
    );
    CREATE TABLE audit_log (
        engine TEXT COLLATE "C" PRIMARY KEY,
        log_id TEXT COLLATE "C" NOT NULL CHECK (length(log_id) = 16),
        epoch BIGINT NOT NULL,
        opened_at BIGINT NOT NULL CHECK (opened_at >= 0)
    );
    CREATE TABLE app_canary (
        app TEXT COLLATE "C" NOT NULL REFERENCES app (name),
        digest BYTEA NOT NULL CHECK (length(digest) = 32),
        created_at BIGINT NOT NULL CHECK (created_at >= 0),
        scheme TEXT COLLATE "C" NOT NULL,
        PRIMARY KEY (app, digest)
    );
    CREATE TABLE tree_root (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        digest BYTEA NOT NULL CHECK (length(digest) = 32),
        mac BYTEA NOT NULL CHECK (length(mac) = 32),
        generation BIGINT NOT NULL
    );
    CREATE TABLE tree_node (
        level BIGINT NOT NULL,
        position BIGINT NOT NULL,
        children BYTEA NOT NULL,
        PRIMARY KEY (level, position)
    );
    CREATE TABLE tree_leaf (
        bucket BIGINT NOT NULL,
        kind BIGINT NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        part BIGINT NOT NULL,
        active BOOLEAN NOT NULL,
        mac BYTEA NOT NULL CHECK (length(mac) = 32),
        PRIMARY KEY (bucket, kind, name, part)
    );
    DO $$ DECLARE held record; BEGIN
        FOR held IN SELECT grantee, privilege_type FROM information_schema.role_table_grants
            WHERE table_schema = 'leafseal' AND table_name = 'app' AND grantee <> current_user
        LOOP EXECUTE format(
            'GRANT %s ON client_certificate, symmetric_key, app_accept, client_accept, api_key_accept, slot, root_link, app_life,
                store_change, change_count, audit_log, app_canary, tree_root, tree_node, tree_leaf TO %s',
            held.privilege_type,
            CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END); END LOOP;
    END $$;
"#;

/// All of them.
pub(super) const TABLES: TableDefinitions = TableDefinitions {
    first: FIRST,
    second: SECOND,
    third: THIRD,
    moved: "ALTER TABLE store DROP COLUMN generation, DROP COLUMN mark",
};

/// Describes the tables of a store, with what hangs on them, line by line.
pub(super) const DESCRIBE: &str = include_str!("describe.sql");

/// The lines for a store as this program makes it, each after the first and the last schema that have it. A test keeps them true.
const LINES: &str = include_str!("schema.txt");

/// Those of one schema.
pub(super) fn lines(schema: u32) -> BTreeMap<String, SqlValue> {
    let of_schema = |line: &str| {
        let (schemas, line) = line.split_once(' ')?;
        let (first, last) = schemas.split_once('-')?;
        let has_it = (first.parse().ok()?..=last.parse().ok()?).contains(&schema);
        has_it.then(|| (line.to_owned(), SqlValue::Null(Type::Text)))
    };
    LINES.lines().filter_map(of_schema).collect()
}

/// Table, its columns that refer to another, that other, and its columns.
pub(super) const REFERENCES: [[&str; 4]; 14] = [
    ["key_version", "app", "app", "name"],
    ["key_pair", "app, version", "key_version", "app, version"],
    ["symmetric_key", "app, version", "key_version", "app, version"],
    ["client_app", "client", "client", "name"],
    ["client_app", "app", "app", "name"],
    ["client_role", "client", "client", "name"],
    ["client_certificate", "client", "client", "name"],
    ["api_key", "app", "app", "name"],
    ["api_key_role", "api_key", "api_key", "id"],
    ["app_life", "app", "app", "name"],
    ["app_accept", "app", "app", "name"],
    ["app_canary", "app", "app", "name"],
    ["client_accept", "client", "client", "name"],
    ["api_key_accept", "api_key", "api_key", "id"],
];
