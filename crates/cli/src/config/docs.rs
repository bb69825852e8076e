//! `docs/configuration.md` as the table of keys has it. Compiled for its test alone, which holds the file against this text.

use super::{Config, KEYS};

/// What stands before the tables.
const HEAD: &str = r#"# Configuration

Everything works without a configuration. What differs from the defaults stands in one TOML file, `fieldseal.toml` in the folder
that `--dir` names (default `.fieldseal`), or wherever `--config FILE` points. Over the file go environment variables, over those
`--set KEY=VALUE`, over that the flags of a command.

    [engine]
    keying = "session"
    session_age_max = "30s"

    [server]
    address = "0.0.0.0:3443"

The same by environment: `FIELDSEAL_ENGINE_KEYING=session`; by flag: `--set engine.keying=session`.

- `fieldseal config check` reports everything that would stop `serve`, and `relay` where it has a file, all faults at once: keys
  (`file:line: key: what it takes`), a missing folder, the keystore and its root key, certificates and keys. `--for serve` or `--for relay`
  checks one of them alone.
- `fieldseal config show` prints every key, its value, and where the value comes from.
- Times carry their unit: `500ms`, `15s`, `2m`, `1h`. Sizes are bytes, or carry one: `64KiB`, `256MiB`, `1GiB`.
- Relative paths start at the folder that `--dir` names.
- On SIGHUP a running engine reloads its certificates, private keys and client authorities (of the API too), `log.level`, the paths of
  these files, and what the API returns about DIR/relay.toml: all of it, or nothing, and the log says which. `server.reload_check` does the
  same when one of the files changes. Open connections keep their certificates. Changing any other key requires a restart; the log names
  those that have changed.

Five more environment variables have no key: `FIELDSEAL_DIR` and `FIELDSEAL_CONFIG` stand for the flags `--dir` and `--config`;
`FIELDSEAL_ROOT_KEY` holds the text of the root key, in place of its file; two force a path through the CPU, for comparisons and where
a fault of one is suspected. What the CPU lacks is refused, and `fieldseal info` tells what serves.

- `FIELDSEAL_LANES`, for AES-GCM of values up to 512 bytes: `auto`, `portable` (the library's own code), `aesni`, `vaes256`, `vaes512`,
  `armv8`; `aes-gcm-lanes` of `info`.
- `FIELDSEAL_CURVES`, for fresh keys: `auto`, `library`, `portable` (tables, with instructions that every CPU has), `adx`;
  `encapsulation` of `info`.

`auto`, the default, takes the fastest that the CPU has and that gives known answers; with `FIELDSEAL_LANES=portable` fresh keys are
made by `portable` too, unless `FIELDSEAL_CURVES` says otherwise.

## Descriptors

`serve`, `dev`, `relay`, `load` and `bench` raise the soft limit of open descriptors to the hard one. The bounds on connections must fit
below it together, with what the process opens besides. Where they do not, `serve`, `dev` and `relay` reduce them in proportion, and log a
warning with the sum's parts and the limit that they need; `config check` prints the same warning, and refuses a limit that is of no use at
all. So one port that is flooded leaves descriptors to every other port, the operator port included. Set the limit with `LimitNOFILE=`
(systemd), `--ulimit nofile=` (Docker) or `ulimit -n`.

## Exit codes

| code | means |
|---|---|
| 0 | done |
| 1 | the work failed: decrypt failed, not JSON, unknown app, not allowed, faults found in the store |
| 2 | wrong usage or configuration, or an input that cannot be read; what was asked for was not done |
| 3 | the store or the engine cannot be reached, or cannot answer now |
| 4 | the output could not be written, as on a full disk |
| 5 | a fault of Fieldseal itself |
| 130, 143 | interrupted: `bench` (130), or a command with `-o FILE` (130 by SIGINT, 143 by SIGTERM), which wrote nothing |
| 141 | whoever read the output has gone, as `head` does; nothing is said |

`-o FILE` is atomic: on failure, and after SIGINT, SIGTERM or SIGHUP, the existing file is unchanged and no part of the new one is left. On
Linux the new file has no name until it is complete (`O_TMPFILE`), where the file system allows it, so that SIGKILL and a loss of power
leave nothing either. Replacing an existing file takes one more step: the complete file is named `.FILE.fieldseal-XXXXXX.tmp` and then
renamed; a kill between these two system calls leaves it under that name. On other file systems (NFS among them) the draft has that name
while it is written, and only SIGKILL or a loss of power leaves it. On standard output a JSON document begins only when all of it is ready,
and JSON Lines come out in whole lines: those before the one that failed. Exit 4 or 141 means that what came out may be cut
anywhere.
"#;

/// What a section is for.
const SECTIONS: [(&str, &str); 9] = [
    ("engine", "Encryption, keys in memory, and how work is cut."),
    ("document", "Bounds of JSON documents and selectors."),
    ("keystore", "Where keys lie, and the bounds of the store."),
    ("server", "The listener of `serve` and `dev`."),
    (
        "api",
        "The [HTTPS API](api.md) of `serve` and `dev`. It shares `server.*` from the queue on: workers, memory, `admission_wait`.",
    ),
    ("operator", "The [operator port](metrics.md) of `serve` and `dev`: probes and metrics over plain HTTP."),
    ("client", "Commands with `--connect`."),
    ("input", "What commands read from files and standard input."),
    ("log", "The log of `serve`, `relay`, `probe` and `dev`, on standard error."),
];

/// The whole document in Markdown.
fn markdown() -> String {
    let defaults = Config::default();
    let mut out = HEAD.to_owned();
    for (section, about) in SECTIONS {
        out.push_str(&format!("\n## [{section}]\n\n{about}\n\n| key | default | takes | |\n|---|---|---|---|\n"));
        for key in KEYS.iter().filter(|key| key.parts().0 == section) {
            let default = match key.default_text {
                Some(text) => text.to_owned(),
                None => format!("`{}`", key.kind.write(&(key.get)(&defaults))),
            };
            let (name, kind, about) = (key.parts().1, key.kind.to_string(), key.about);
            out.push_str(&format!("| `{name}` | {default} | {kind} | {about} |\n"));
        }
    }
    out
}

/// `UPDATE=1 cargo test -p fieldseal-cli configuration` writes the file anew.
#[test]
fn the_documentation_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let expected = markdown();
    assert!(KEYS.iter().all(|key| SECTIONS.iter().any(|(section, _)| *section == key.parts().0)));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "docs/configuration.md is not what the code says: run this test with UPDATE=1");
}
