//! Allowed imports: the table of crates, and the libraries that only some crates may use.
//!
//! The table lists the crates that a crate may import. A new edge changes the design and needs a decision record. `deny.toml` checks
//! transitive third-party dependencies.

use super::{Finding, Repository};
use crate::metadata::{DependencyUse, Package, short};

/// Crate, and the crates that its shipped code may import.
const EDGES: [(&str, &[&str]); 27] = [
    ("lanes-macros", &[]),
    ("lanes", &["lanes-macros"]),
    ("crypto", &["lanes"]),
    ("audit", &["crypto"]),
    ("envelope", &["lanes", "crypto"]),
    ("document", &["config"]),
    ("errors", &[]),
    ("config", &[]),
    ("keystore", &["config", "crypto", "errors"]),
    ("custody", &["config", "crypto", "keystore", "net"]),
    ("pool", &[]),
    ("engine", &["audit", "config", "lanes", "crypto", "envelope", "document", "keystore", "errors", "pool"]),
    ("protocol", &["config", "errors"]),
    ("net", &["config", "crypto", "errors"]),
    ("http", &["config", "errors", "net"]),
    ("service", &["engine", "protocol"]),
    ("server", &["config", "engine", "protocol", "service", "net", "http"]),
    ("client", &["config", "protocol"]),
    ("relay", &["errors", "client", "config", "document", "net", "http"]),
    ("load", &["client", "config"]),
    ("cli", &["config", "custody", "engine", "service", "net", "server", "client", "relay", "load"]),
    ("bindings", &["crypto", "client", "protocol"]),
    ("python", &["config", "engine", "client", "protocol", "service"]),
    (
        "testkit",
        &[
            "lanes", "crypto", "envelope", "document", "keystore", "pool", "engine", "protocol", "net", "http",
            "server", "client",
        ],
    ),
    ("experiments", &["client", "config", "load"]),
    ("conversations", &[]),
    ("xtask", &["errors", "protocol", "conversations"]),
];

/// Crate, and the crates that its tests may import in addition; `*` means every crate.
const TEST_EDGES: [(&str, &[&str]); 4] = [
    ("*", &["testkit"]),
    ("server", &["client"]),
    ("client", &["conversations"]),
    ("relay", &["protocol", "server", "service"]),
];

/// Libraries of one kind, and the crates that may ship them.
struct LibraryEdge {
    /// Names; a `*` at the end matches any ending.
    names: &'static [&'static str],
    allowed_in: &'static [&'static str],
    instead: &'static str,
}

/// The first entry that names a library decides.
const LIBRARIES: [LibraryEdge; 11] = [
    LibraryEdge {
        names: &["tokio-boring"],
        allowed_in: &["http", "server", "client", "relay", "keystore", "custody"],
        instead: "only http, server, client, relay, custody (to key services) and keystore (to PostgreSQL) speak TLS",
    },
    LibraryEdge {
        names: &["boring"],
        allowed_in: &["crypto", "net", "http", "server", "client", "relay", "keystore", "custody", "cli"],
        instead: "use the crypto crate; only net, http, server, client, relay, keystore, custody (TLS) and cli (certificates) may use it \
                  besides",
    },
    LibraryEdge {
        names: &[
            "boring-*",
            "ring",
            "aws-lc-*",
            "openssl*",
            "graviola*",
            "rustls*",
            "s2n-tls*",
            "secp256k1*",
            "libsecp256k1*",
            "aes*",
            "ctr",
            "cbc",
            "ghash",
            "polyval",
            "chacha20*",
            "xchacha*",
            "p256",
            "p384",
            "p521",
            "k256",
            "elliptic-curve",
            "ecdsa",
            "rsa",
            "ed25519*",
            "x25519*",
            "curve25519*",
            "sha1",
            "sha2",
            "sha3",
            "blake2",
            "blake3",
            "hmac",
            "hkdf",
            "pbkdf2",
            "scrypt",
            "argon2",
            "orion",
            "sodiumoxide",
            "libsodium*",
            "dryoc",
        ],
        allowed_in: &["crypto"],
        instead: "use the crypto crate, which chooses the library for each primitive",
    },
    LibraryEdge {
        names: &["rusqlite", "libsqlite3-sys", "tokio-postgres", "postgres*"],
        allowed_in: &["keystore"],
        instead: "store through the keystore crate",
    },
    LibraryEdge {
        names: &["tokio", "tokio-*"],
        allowed_in: &[
            "keystore",
            "custody",
            "net",
            "http",
            "server",
            "client",
            "relay",
            "load",
            "cli",
            "python",
            "experiments",
        ],
        instead: "keep this crate free of a runtime; network code belongs in custody, net, http, server, client, relay, load, cli, python \
                  and the store on PostgreSQL",
    },
    LibraryEdge {
        names: &["hyper", "hyper-*", "http-body*"],
        allowed_in: &["net", "http", "server", "relay", "custody"],
        instead: "only http, server, relay, custody and the operator port of net speak HTTP",
    },
    LibraryEdge {
        names: &["prometheus*"],
        allowed_in: &["net"],
        instead: "count with atomics where it happens, and write the counts through net's metrics",
    },
    LibraryEdge {
        names: &["napi", "napi-*"],
        allowed_in: &["bindings"],
        instead: "only the bindings speak with Node; keep what they convert in protocol or crypto",
    },
    LibraryEdge {
        names: &["pyo3", "pyo3-*", "arrow-*"],
        allowed_in: &["python"],
        instead: "only the binding for Python speaks with it; keep what it converts in engine or protocol",
    },
    LibraryEdge {
        names: &["jni", "jni-*"],
        allowed_in: &["bindings"],
        instead: "only the bindings speak with Java; keep what they convert in crypto",
    },
    LibraryEdge {
        names: &["rand", "fastrand", "getrandom"],
        allowed_in: &["crypto", "load", "experiments"],
        instead: "take the generator as a parameter, or from `leafseal_crypto::random`, which a copy of the process does not repeat",
    },
];

/// Compares the edges of the workspace with the tables above.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.packages.iter().flat_map(|package| check_package(repository, package)).collect()
}

fn check_package(repository: &Repository, package: &Package) -> Vec<Finding> {
    let members: Vec<&str> = repository.packages.iter().map(|member| member.name.as_str()).collect();
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == package.name) else {
        let what = format!("crate {} is not in the table of crates", package.name);
        return found(
            repository,
            package,
            "name",
            what,
            "add it to EDGES in xtask/src/tidy/edges.rs, with a decision record",
        );
    };
    let mut findings = lints(repository, package);
    for dependency in &package.dependencies {
        let name = short(&dependency.name);
        let (is_ours, is_shipped) = (members.contains(&name), dependency.used_by == DependencyUse::Shipped);
        if is_ours && !allowed.contains(&name) && (is_shipped || !tests_may_import(&package.name, name)) {
            let what = format!("{} may not import {name}", package.name);
            let instead = format!("it may import [{}]: move the code, or decide on a new edge", allowed.join(", "));
            findings.extend(found(repository, package, &dependency.name, what, &instead));
        }
        if let Some(library) = library(&dependency.name).filter(|_| is_shipped && !is_ours)
            && !library.allowed_in.contains(&package.name.as_str())
        {
            let what = format!("{} may not use {name}", package.name);
            findings.extend(found(repository, package, &dependency.name, what, library.instead));
        }
    }
    findings
}

fn tests_may_import(package: &str, name: &str) -> bool {
    // A crate that imports itself enables its own features for tests.
    package == name || TEST_EDGES.iter().any(|(who, whom)| (*who == "*" || *who == package) && whom.contains(&name))
}

fn library(name: &str) -> Option<&'static LibraryEdge> {
    let is_named = |pattern: &&str| pattern.strip_suffix('*').map_or(*pattern == name, |start| name.starts_with(start));
    LIBRARIES.iter().find(|library| library.names.iter().any(is_named))
}

fn lints(repository: &Repository, package: &Package) -> Vec<Finding> {
    let manifest = repository.find(&manifest_path(package));
    if manifest.is_some_and(|source| source.text.contains("[lints]\nworkspace = true")) {
        return Vec::new();
    }
    found(
        repository,
        package,
        "",
        "no lints".into(),
        "write `[lints]` and `workspace = true`, so that every crate keeps the same",
    )
}

fn manifest_path(package: &Package) -> String {
    format!("{}/Cargo.toml", package.folder)
}

/// A finding at the line of the package's manifest that begins with `key`.
fn found(repository: &Repository, package: &Package, key: &str, what: String, instead: &str) -> Vec<Finding> {
    let path = manifest_path(package);
    let text = repository.find(&path).map_or("", |source| source.text.as_str());
    let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '=', '.', '\n']));
    let line = text.lines().position(|line| !key.is_empty() && is_key(line)).map_or(1, |index| index + 1);
    vec![Finding { path, line, what, instead: instead.to_owned() }]
}

#[cfg(test)]
mod tests {
    use super::{super::sample::package, *};
    use crate::source::SourceFile;

    const MANIFEST: &str =
        "[lints]\nworkspace = true\n\n[dependencies]\nleafseal-crypto.workspace = true\nring = \"0.17\"\n";

    /// The findings for one package that depends on `dependencies`, in a workspace with every crate of the table.
    fn edges(folder: &str, dependencies: &[(&str, DependencyUse)]) -> String {
        let mut packages = vec![package(folder, dependencies)];
        let others = EDGES.iter().filter(|(name, _)| !folder.ends_with(name));
        packages.extend(others.map(|(name, _)| package(&format!("crates/{name}"), &[])));
        let sources = packages.iter().map(|package| SourceFile::new(&manifest_path(package), MANIFEST)).collect();
        let findings = check(&Repository::new(sources, packages, Vec::new()));
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn edges_of_the_table_pass_and_others_are_named() {
        assert_eq!(
            edges(
                "crates/engine",
                &[("leafseal-crypto", DependencyUse::Shipped), ("leafseal-pool", DependencyUse::Shipped)]
            ),
            ""
        );
        let text = edges("crates/document", &[("leafseal-crypto", DependencyUse::Shipped)]);
        assert!(
            text.starts_with("crates/document/Cargo.toml:5: document may not import crypto; it may import [config]"),
            "{text}"
        );
        assert!(
            edges("crates/cli", &[("leafseal-crypto", DependencyUse::Shipped)]).contains("cli may not import crypto")
        );
        assert!(
            edges("bindings/node/wire", &[("leafseal-engine", DependencyUse::Shipped)])
                .contains("bindings may not import engine")
        );
    }

    #[test]
    fn tests_may_import_the_test_kit_and_little_else() {
        assert_eq!(edges("crates/pool", &[("leafseal-testkit", DependencyUse::Test)]), "");
        assert_eq!(edges("crates/server", &[("leafseal-client", DependencyUse::Test)]), "");
        assert!(
            edges("crates/pool", &[("leafseal-testkit", DependencyUse::Shipped)])
                .contains("pool may not import testkit")
        );
        assert!(
            edges("crates/pool", &[("leafseal-crypto", DependencyUse::Test)]).contains("pool may not import crypto")
        );
    }

    #[test]
    fn crypto_stacks_stay_in_crypto() {
        assert_eq!(
            edges(
                "crates/crypto",
                &[("boring-sys", DependencyUse::Shipped), ("secp256k1-sys", DependencyUse::Shipped)]
            ),
            ""
        );
        assert_eq!(edges("crates/envelope", &[("p256", DependencyUse::Test)]), "");
        assert_eq!(
            edges("crates/server", &[("boring", DependencyUse::Shipped), ("tokio-boring", DependencyUse::Shipped)]),
            ""
        );
        let text = edges("crates/envelope", &[("ring", DependencyUse::Shipped)]);
        assert!(
            text.starts_with("crates/envelope/Cargo.toml:6: envelope may not use ring; use the crypto crate"),
            "{text}"
        );
        for name in
            ["aws-lc-rs", "openssl-sys", "aes-gcm", "boring", "boring-sys", "secp256k1", "tokio-boring", "tokio"]
        {
            assert!(edges("crates/engine", &[(name, DependencyUse::Shipped)]).contains("engine may not use"), "{name}");
        }
        assert!(
            edges("crates/server", &[("boring-sys", DependencyUse::Shipped)]).contains("server may not use boring-sys")
        );
        assert!(
            edges("crates/cli", &[("tokio-boring", DependencyUse::Shipped)]).contains("cli may not use tokio-boring")
        );
    }

    #[test]
    fn stores_and_runtimes_stay_where_they_belong() {
        assert_eq!(
            edges(
                "crates/keystore",
                &[("rusqlite", DependencyUse::Shipped), ("tokio-postgres", DependencyUse::Shipped)]
            ),
            ""
        );
        assert!(
            edges("crates/server", &[("tokio-postgres", DependencyUse::Shipped)])
                .contains("store through the keystore")
        );
        assert_eq!(
            edges("bindings/node/wire", &[("napi", DependencyUse::Shipped), ("napi-build", DependencyUse::Shipped)]),
            ""
        );
        assert!(
            edges("crates/client", &[("napi-derive", DependencyUse::Shipped)])
                .contains("only the bindings speak with Node")
        );
        assert_eq!(edges("bindings/java/native", &[("jni-sys", DependencyUse::Shipped)]), "");
        let python = [
            ("leafseal-engine", DependencyUse::Shipped),
            ("pyo3", DependencyUse::Shipped),
            ("tokio", DependencyUse::Shipped),
        ];
        assert_eq!(edges("bindings/python", &python), "");
        assert!(edges("crates/engine", &[("pyo3", DependencyUse::Shipped)]).contains("only the binding for Python"));
        assert!(
            edges("crates/crypto", &[("jni", DependencyUse::Shipped)]).contains("only the bindings speak with Java")
        );
        assert_eq!(
            edges("crates/relay", &[("tokio", DependencyUse::Shipped), ("tokio-util", DependencyUse::Shipped)]),
            ""
        );
        assert!(edges("crates/engine", &[("rusqlite", DependencyUse::Shipped)]).contains("store through the keystore"));
        assert!(edges("crates/pool", &[("tokio", DependencyUse::Shipped)]).contains("free of a runtime"));
        assert!(edges("crates/document", &[("rand", DependencyUse::Shipped)]).contains("generator as a parameter"));
    }

    #[test]
    fn unknown_crates_and_missing_lints_are_named() {
        let text = edges("crates/shiny", &[]);
        assert!(text.contains("crate shiny is not in the table"), "{text}");
        let bare = Repository::new(
            vec![SourceFile::new("crates/pool/Cargo.toml", "[package]\n")],
            vec![package("crates/pool", &[])],
            vec![],
        );
        assert_eq!(check(&bare).len(), 1);
    }
}
