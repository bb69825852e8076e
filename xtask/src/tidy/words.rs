//! Words that no file may contain: machine paths, hosts of package registries, notes of unfinished work, and names and phrases that were
//! replaced by standard terms.
//!
//! The patterns are concatenated from parts, so that this file passes its own rule.

use super::{Finding, Repository};
use crate::{lexer::words, source::SourceFile};

/// Folders that do not exist on every machine.
const MACHINE_FOLDERS: [&str; 6] = [
    concat!("/", "work", "/"),
    concat!("/", "farm", "/"),
    concat!("/", "root", "/"),
    concat!("/", "home", "/"),
    concat!("/", "tmp", "/"),
    concat!("/", "Users", "/"),
];

/// Hosts of package registries, as lock files name them.
const REGISTRIES: [&str; 8] = [
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("yarnpkg", ".com"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("repo.maven.", "apache.org"),
    concat!("repo1.", "maven.org"),
];

const UNDONE: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Replaced names, each with the standard term.
const REPLACED: [(&str, &str); 35] = [
    (concat!("in_", "work"), "in_flight"),
    (concat!("In", "Work"), "InFlight"),
    (concat!("Pa", "ce"), "WriteTimeout"),
    (concat!("Arri", "ving"), "FrameTimeout"),
    (concat!("Ap", "art"), "Offload"),
    (concat!("Apart", "Threads"), "OffloadThreads"),
    (concat!("held_body", "_timeout"), "buffered_body_timeout"),
    (concat!("hyg", "iene"), "hop_headers"),
    (concat!("Tri", "al"), "DemoUpstream"),
    (concat!("To", "ld"), "Snapshot, or what it is a report of"),
    (concat!("Relay", "Told"), "SharedRelayInformation"),
    (concat!("To", "ols"), "WorkerContext"),
    (concat!("Tool", "Box"), "SharedWorkerContext"),
    (concat!("Work", "shop"), "TransformContext"),
    (concat!("Se", "at"), "ListenerContext, ConnectionSlot"),
    (concat!("Po", "st"), "BoundListener"),
    (concat!("Err", "and"), "ForwardingPlan"),
    (concat!("Mi", "nt"), "LeafIssuer"),
    (concat!("Mint", "Error"), "LeafIssuerError"),
    (concat!("Ro", "om"), "Budget"),
    (concat!("Do", "or"), "StreamServer, Backend"),
    (concat!("Hu", "b"), "ServerState"),
    (concat!("Sho", "wn"), "Authenticated"),
    (concat!("Ma", "de"), "Created, Prepared"),
    (concat!("mi", "nt"), "new_leaf_issuer"),
    (concat!("to", "ld"), "reported"),
    (concat!("un", "told"), "unreported"),
    (concat!("assert_", "told"), "assert_reported"),
    (concat!("assert", "Told"), "assertReported"),
    (concat!("told_", "to_stop"), "stopped"),
    (concat!("Comp", "any"), "CompetingLoad"),
    (concat!("Prep", "ares"), "PreparedRow"),
    (concat!("pa", "ce"), "wait_for_backoff"),
    (concat!("do", "or"), "transport, listener"),
    (concat!("do", "ors"), "transports, listeners"),
];

/// Phrases that are hard to read, each with its replacement.
const PHRASES: [(&str, &str); 5] = [
    (concat!("an", "ew"), "again"),
    (concat!("in ", "work"), "in flight, in progress"),
    (concat!("but ", "for"), "except"),
    (concat!("gives ", "way"), "is displaced"),
    (concat!("key ", "store"), "keystore"),
];

/// The program's name until it was renamed: a package registry has another project under it. In any case of its letters.
const NAME_BEFORE: &str = concat!("field", "seal");

/// The only file that may contain the former name.
const CHANGELOG: &str = "CHANGELOG.md";

/// Programs that install packages from a registry.
const INSTALLERS: [&str; 14] =
    ["pip", "pip3", "pipx", "uv", "uvx", "poetry", "npm", "npx", "yarn", "pnpm", "bun", "cargo", "go", "micropip"];

/// The start of the names that our packages have in registries, which have none of them before the first release.
const PACKAGES: [&str; 4] = ["leafseal", "@leafseal/", "github.com/leafseal/", "artillery-engine-e3"];

/// Their subcommands that do.
const INSTALLS: [&str; 7] = ["install", "i", "add", "get", "binstall", "exec", "dlx"];

/// The flags that make cargo install from elsewhere.
const ELSEWHERE: [&str; 2] = ["--path", "--git"];

/// Extensions of files in which notes of unfinished work are ours.
const CODE: [&str; 9] = ["rs", "toml", "sh", "py", "js", "mjs", "ts", "java", "yml"];

/// Extensions of sources other than Rust whose names are checked.
const SCRIPTS: [&str; 6] = ["ts", "js", "mjs", "cjs", "py", "java"];

/// Files that a package manager writes.
const LOCKS: [&str; 6] =
    ["Cargo.lock", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "uv.lock", "poetry.lock"];

/// Reports machine paths, registries and the former name in all files, unfinished work and replaced words, and unexpected hosts in lock
/// files.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &repository.sources {
        findings.extend(former_name(source));
        if LOCKS.contains(&source.name()) {
            findings.extend(strange_hosts(source));
        } else {
            findings.extend(machine_paths(source));
            findings.extend(registries(source));
            findings.extend(installs(source));
            findings.extend(undone(source));
            findings.extend(replaced(source));
            findings.extend(phrases(source));
        }
    }
    findings
}

fn former_name(source: &SourceFile) -> Vec<Finding> {
    if source.path == CHANGELOG {
        return Vec::new();
    }
    let instead = "write leafseal";
    let text = source.text.to_ascii_lowercase();
    let in_text = text.match_indices(NAME_BEFORE).map(|(at, _)| source.line_of(at));
    let in_path = source.path.to_ascii_lowercase().contains(NAME_BEFORE).then_some(1);
    in_path.into_iter().chain(in_text).map(|line| Finding::new(source, line, "the former name", instead)).collect()
}

fn machine_paths(source: &SourceFile) -> Vec<Finding> {
    let instead = "write a path below the repository, `mktemp -d`, or the variable that holds it";
    let found = MACHINE_FOLDERS.iter().flat_map(|folder| source.text.match_indices(folder));
    let found = found.filter(|&(at, _)| is_absolute(source.text.as_bytes(), at));
    found
        .map(|(at, folder)| Finding::new(source, source.line_of(at), format!("the machine path {folder}"), instead))
        .collect()
}

/// Whether a path begins at `at`, rather than the middle of a longer one, of a URL, or of base64.
fn is_absolute(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|index| text[index]);
    !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.-+$})]*~".contains(&byte))
}

fn registries(source: &SourceFile) -> Vec<Finding> {
    let found = REGISTRIES.iter().flat_map(|host| source.text.match_indices(host));
    let instead = "leave the registry to the package manager's settings";
    found
        .map(|(at, host)| Finding::new(source, source.line_of(at), format!("the package registry {host}"), instead))
        .collect()
}

fn installs(source: &SourceFile) -> Vec<Finding> {
    let found = source.lines().filter_map(|(line, text)| Some((line, installed(text)?)));
    let instead = "refer to docs/guides/packages.md: no registry has our packages yet";
    found.map(|(line, package)| Finding::new(source, line, format!("an installation of {package}"), instead)).collect()
}

/// Our package that a command in this line would install from a registry.
fn installed(line: &str) -> Option<&str> {
    let words: Vec<&str> =
        line.split([' ', '\t', '`', '"', '\'', '(', ')', ',', '[', ']']).filter(|word| !word.is_empty()).collect();
    let program = words.iter().position(|word| INSTALLERS.contains(&word.rsplit('/').next().unwrap_or_default()))?;
    let command = &words[program..];
    let is_run_at_once = ["uvx", "npx"].contains(&command[0]);
    let installs = is_run_at_once || command.iter().skip(1).take(2).any(|word| INSTALLS.contains(word));
    if !installs || command.iter().any(|word| ELSEWHERE.contains(word)) {
        return None;
    }
    let is_file = |word: &str| [".whl", ".tgz", ".tar.gz", ".jar"].iter().any(|ending| word.ends_with(ending));
    command.iter().skip(1).copied().find(|word| PACKAGES.iter().any(|name| word.starts_with(name)) && !is_file(word))
}

fn undone(source: &SourceFile) -> Vec<Finding> {
    let ending = source.name().rsplit_once('.').map_or("", |(_, ending)| ending);
    if !CODE.contains(&ending) && source.name() != "Makefile" {
        return Vec::new();
    }
    let found = UNDONE.iter().flat_map(|word| words(&source.text, word).map(move |at| (at, word)));
    let instead = "do it now, or file an issue and leave no note";
    found.map(|(at, word)| Finding::new(source, source.line_of(at), *word, instead)).collect()
}

/// Old names in Rust and in scripts. Prose may use the words, so comments and other files are not checked.
fn replaced(source: &SourceFile) -> Vec<Finding> {
    let ending = source.name().rsplit_once('.').map_or("", |(_, ending)| ending);
    let code = match ending {
        "rs" => source.masked.code.clone(),
        _ if SCRIPTS.contains(&ending) => without_comment_lines(&source.text),
        _ => return Vec::new(),
    };
    let found = REPLACED.iter().flat_map(|(old, new)| words(&code, old).map(move |at| (at, old, new)));
    found
        .map(|(at, old, new)| {
            Finding::new(source, source.line_of(at), format!("the old name `{old}`"), format!("write {new}"))
        })
        .collect()
}

/// Blanks the lines of a script that begin like a comment or a docstring; offsets stay the same.
fn without_comment_lines(text: &str) -> String {
    let is_comment =
        |line: &str| ["//", "/*", "*", "#", "\"\"\""].iter().any(|mark| line.trim_start().starts_with(mark));
    let blank = |line: &str| line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect::<String>();
    let lines = text.split_inclusive('\n').map(|line| if is_comment(line) { blank(line) } else { line.to_owned() });
    lines.collect()
}

/// Phrases in Markdown and in Rust, comments and messages included.
fn phrases(source: &SourceFile) -> Vec<Finding> {
    if !source.is_rust() && !source.path.ends_with(".md") {
        return Vec::new();
    }
    let text = source.text.to_ascii_lowercase();
    let found = PHRASES.iter().flat_map(|(old, new)| words(&text, old).map(move |at| (at, old, new)));
    found
        .map(|(at, old, new)| {
            Finding::new(source, source.line_of(at), format!("the phrase `{old}`"), format!("write {new}"))
        })
        .collect()
}

/// Reports downloads in lock files from hosts other than the public registries: others may be unable to reach them.
fn strange_hosts(source: &SourceFile) -> Vec<Finding> {
    let is_download =
        |line: &str| line.starts_with("source = ") || line.starts_with("\"resolved\":") || line.contains("url = ");
    let is_public = |line: &str| !line.contains("://") || REGISTRIES.iter().any(|host| line.contains(host));
    let strange = source.lines().filter(|(_, line)| is_download(line.trim()) && !is_public(line));
    let instead = "lock again against the public registry";
    strange
        .map(|(line, _)| Finding::new(source, line, "a download from a host that is no public registry", instead))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn in_file(path: &str, text: &str) -> String {
        sample::findings(check, &[(path, text)])
    }

    #[test]
    fn machine_paths_are_found_at_their_start_only() {
        for folder in MACHINE_FOLDERS {
            let text = in_file("docs/a.md", &format!("see\n`{folder}x`"));
            assert!(text.starts_with("docs/a.md:2: the machine path"), "{text}");
            for part in ["https://host", "..", "$HOME", "crates", "abc+"] {
                assert_eq!(in_file("docs/a.md", &format!("{part}{folder}x")), "", "{part}{folder}");
            }
        }
        assert!(in_file("a.sh", &format!("P={}bin", MACHINE_FOLDERS[2])).contains("machine path"));
    }

    #[test]
    fn the_former_name_is_found_in_text_and_paths_outside_the_changelog() {
        for name in [NAME_BEFORE.to_owned(), NAME_BEFORE.to_uppercase(), format!("F{}", &NAME_BEFORE[1..])] {
            for path in ["a.rs", "a/Cargo.lock", "a.json", "docs/CHANGELOG.md"] {
                let finding = format!("{path}:2: the former name; write leafseal");
                assert_eq!(in_file(path, &format!("\n@{name}/wire")), finding);
            }
            assert_eq!(in_file(CHANGELOG, &name), "");
            assert_eq!(in_file(&format!("{name}/a.md"), ""), format!("{name}/a.md:1: the former name; write leafseal"));
        }
    }

    #[test]
    fn registries_stay_in_lock_files() {
        for host in REGISTRIES {
            let line = format!("source = \"https://{host}/a\"\n");
            assert!(in_file("a/Cargo.toml", &line).contains("the package registry"), "{host}");
            assert_eq!(in_file("a/Cargo.lock", &line), "", "{host}");
        }
    }

    #[test]
    fn no_document_installs_from_a_registry_what_is_not_there() {
        let packages = [
            "leafseal",
            "'leafseal[spark]'",
            "\"leafseal\"",
            "leafseal==0.1.0",
            "@leafseal/client",
            "artillery-engine-e3",
        ];
        let commands = [
            "pip install",
            "pip3 install -U",
            "python3 -m pip install",
            ".venv/bin/pip install",
            "uv add",
            "uv pip install",
            "uvx",
            "poetry add",
            "npm install --save-dev",
            "npm i -g",
            "npx",
            "yarn add",
            "pnpm add",
            "cargo add",
            "cargo install --locked",
            "go get",
        ];
        for (command, package) in commands.iter().flat_map(|command| packages.map(|package| (command, package))) {
            let text = in_file("docs/a.md", &format!("Run\n`{command} {package}`."));
            assert!(text.starts_with("docs/a.md:2: an installation of "), "{command} {package}: {text}");
        }
        for fine in [
            "npm install ../leafseal-client-0.1.0.tgz",
            "npm install ../leafseal/target/leafseal-wire-0.1.0.tgz ../leafseal/target/leafseal-client-0.1.0.tgz",
            "pip install ../../target/wheels/leafseal-*.whl",
            "pip install \"$(ls target/wheels/leafseal-*.whl)[spark]\"",
            "cargo install --locked --path crates/cli leafseal-cli",
            "cargo test -p leafseal-cli",
            "go test ./leafseal",
            "the installed leafseal",
        ] {
            assert_eq!(in_file("docs/a.md", fine), "", "{fine}");
        }
    }

    #[test]
    fn lock_files_name_public_hosts_only() {
        let lock = "  \"resolved\": \"https://mirror.example/a.tgz\",\n  \"url\": \"https://github.com/sponsors/a\"\n";
        let text = in_file("a/package-lock.json", lock);
        assert!(text.starts_with("a/package-lock.json:1: a download"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn undone_work_is_found_in_code() {
        for word in UNDONE {
            assert!(in_file("a.rs", &format!("// {word}: later")).contains("do it now"), "{word}");
            assert_eq!(in_file("a.rs", &format!("// {word}S")), "", "{word}");
            assert_eq!(in_file("a.json", word), "", "{word}");
        }
    }

    #[test]
    fn replaced_names_are_found_only_in_code() {
        for (old, new) in REPLACED {
            assert_eq!(
                in_file("a.rs", &format!("struct {old};")),
                format!("a.rs:1: the old name `{old}`; write {new}")
            );
            assert_eq!(in_file("a.rs", &format!("// {old} it was")), "");
            assert_eq!(in_file("a.md", old), "");
            for script in ["a.ts", "a.mjs", "a.py"] {
                let finding = format!("{script}:2: the old name `{old}`; write {new}");
                assert_eq!(in_file(script, &format!("// {old}é\nf({old})\n")), finding);
            }
        }
    }

    #[test]
    fn phrases_are_found_in_prose_and_messages() {
        for (old, new) in PHRASES {
            let finding = format!("the phrase `{old}`; write {new}");
            assert_eq!(in_file("a.rs", &format!("// It is\n// {old} so.")), format!("a.rs:2: {finding}"));
            assert_eq!(in_file("a.md", &format!("It is {old} so.\n")), format!("a.md:1: {finding}"));
            assert_eq!(in_file("a.md", &format!("It is {old}s so.\n")), "");
        }
    }
}
