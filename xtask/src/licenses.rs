//! `licenses`: the notices of the libraries in the program. The archive, the Debian package and the image contain them, because licences
//! require their text to be included with every copy.
//!
//! The texts are read from the source of each package, including C libraries inside it. Equal texts are written once.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{
    metadata::{self, ThirdParty},
    source::relative,
};

/// A program of a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleasedProgram {
    /// Its name.
    pub name: &'static str,
    /// The package that holds it, and the features that it is built with.
    package: (&'static str, &'static [&'static str]),
}

/// The programs of a release.
pub(crate) const PROGRAMS: [ReleasedProgram; 2] = [
    ReleasedProgram { name: "leafseal", package: ("leafseal-cli", &[]) },
    ReleasedProgram { name: "leafseal-tpm2", package: ("leafseal-custody", &["tpm2-program"]) },
];

/// Our own licence, the text of [`OWN_EXPRESSION`].
const OWN: &str = "LICENSE";

/// The licence that requires only its own text and no notice from the package.
const OWN_EXPRESSION: &str = "Apache-2.0";

/// Prefixes of the names of files with licence texts, in capitals.
const NAMES: [&str; 6] = ["COPYING", "COPYRIGHT", "LICENCE", "LICENSE", "NOTICE", "UNLICENSE"];

/// Extensions of files that are code or data and not licence texts.
const NO_TEXTS: [&str; 10] = ["c", "cc", "h", "html", "json", "py", "rs", "sh", "toml", "yml"];

/// The beginning of the notices; `{program}` is the name of the program.
const HEAD: &str = "\
Third-party software in Leafseal

The program `{program}` is built from the packages below, which belong to their authors. Each line has the name of a package, its version
and the licence that it declares, as an SPDX expression. The files below it are its licence texts, those of C libraries inside the package
included; their numbers are those of the texts at the end. Some packages only generate code while the program is built.

The notices of the Rust standard library, which the program contains too, are in rust-standard-library.html.gz.
";

/// Why the notices cannot be written.
#[derive(Debug)]
pub(crate) enum LicenseError {
    /// Cargo could not resolve the packages.
    Metadata(cargo_metadata::Error),
    /// A file or folder cannot be read.
    Read(PathBuf, io::Error),
    /// Packages without a licence text.
    Missing(Vec<String>),
    /// The notices cannot be written.
    Write(io::Error),
}

impl fmt::Display for LicenseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(error) => write!(f, "licenses: {error}"),
            Self::Read(path, error) => write!(f, "licenses: cannot read {}: {error}", path.display()),
            Self::Missing(packages) => write!(
                f,
                "licenses: no licence text in the source of {}, nor in another package of the same repository: choose another \
                 package, or add a fallback to xtask/src/licenses.rs",
                packages.join(", ")
            ),
            Self::Write(error) => write!(f, "licenses: cannot write the notices: {error}"),
        }
    }
}

impl std::error::Error for LicenseError {}

/// A licence text, and the path of its file below the folder of its package.
#[derive(Clone, Debug)]
struct License {
    path: String,
    text: String,
}

/// A package with the licence texts in its source.
#[derive(Clone, Debug)]
struct Licensed {
    library: ThirdParty,
    licenses: Vec<License>,
}

/// Writes the notices of a program built for `target` from the repository at `root`.
///
/// # Errors
/// Fails, without writing anything, if a package has no licence text or its source cannot be read.
pub(crate) fn write(
    root: &Path,
    program: ReleasedProgram,
    target: &str,
    out: &mut impl Write,
) -> Result<(), LicenseError> {
    let libraries = metadata::libraries(root, program.package, target).map_err(LicenseError::Metadata)?;
    let packages = libraries.into_iter().map(licensed).collect::<Result<Vec<_>, _>>()?;
    let own = read_text(&root.join(OWN))?;
    let notices = notices(&packages, &own).map_err(LicenseError::Missing)?.replacen("{program}", program.name, 1);
    out.write_all(notices.as_bytes()).and_then(|()| out.flush()).map_err(LicenseError::Write)
}

fn licensed(library: ThirdParty) -> Result<Licensed, LicenseError> {
    Ok(Licensed { licenses: licenses(&library.folder)?, library })
}

/// Returns the licence texts in a folder and its subfolders, by path.
fn licenses(folder: &Path) -> Result<Vec<License>, LicenseError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        let unreadable = |error| LicenseError::Read(current.clone(), error);
        for entry in fs::read_dir(&current).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && is_license(&entry.path()) {
                found.push(License { path: relative(folder, &entry.path()), text: read_text(&entry.path())? });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn is_license(path: &Path) -> bool {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (name, ending) = (part(path.file_name()).to_ascii_uppercase(), part(path.extension()).to_ascii_lowercase());
    NAMES.iter().any(|begin| name.starts_with(begin)) && !NO_TEXTS.contains(&ending.as_str())
}

/// Reads a text without blank lines at its ends and without trailing white space.
fn read_text(path: &Path) -> Result<String, LicenseError> {
    let bytes = fs::read(path).map_err(|error| LicenseError::Read(path.to_owned(), error))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n").trim_matches('\n').to_owned())
}

/// Renders the notices: the packages with the numbers of their texts, then each text once.
///
/// # Errors
/// The packages without a text.
fn notices(packages: &[Licensed], own: &str) -> Result<String, Vec<String>> {
    let mut list = String::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut missing = Vec::new();
    for package in packages {
        let ThirdParty { name, version, license, .. } = &package.library;
        let found = texts_of(package, packages, own);
        if found.is_empty() {
            missing.push(format!("{name} {version} ({license})"));
        }
        line(&mut list, format_args!("\n{name} {version}: {license}"));
        for (label, text) in found {
            let number = *numbers.entry(words(text)).or_insert_with(|| {
                texts.push(text);
                texts.len()
            });
            line(&mut list, format_args!("  [{number}] {label}"));
        }
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut notices = format!("{HEAD}{list}");
    for (index, text) in texts.into_iter().enumerate() {
        line(&mut notices, format_args!("\n===== [{}] =====\n\n{text}", index + 1));
    }
    Ok(notices)
}

fn line(out: &mut String, text: fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes all text");
}

/// Normalizes white space, so that copies of a text with different line breaks are equal.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the texts for a package, each with its origin: those in its source, or those of another package of its repository with the
/// same licence, or the licence that needs no notice from the package.
fn texts_of<'a>(package: &'a Licensed, packages: &'a [Licensed], own: &'a str) -> Vec<(String, &'a str)> {
    let library = &package.library;
    let is_sibling = |other: &&Licensed| {
        let same = (&other.library.repository, &other.library.license) == (&library.repository, &library.license);
        same && !library.repository.is_empty() && !other.licenses.is_empty()
    };
    if !package.licenses.is_empty() {
        labelled(package, "")
    } else if let Some(sibling) = packages.iter().find(is_sibling) {
        labelled(sibling, &format!(" of {}", sibling.library.name))
    } else if offers_own(&library.license) {
        vec![(OWN_EXPRESSION.to_owned(), own)]
    } else {
        Vec::new()
    }
}

fn labelled<'a>(package: &'a Licensed, suffix: &str) -> Vec<(String, &'a str)> {
    package.licenses.iter().map(|it| (format!("{}{suffix}", it.path), it.text.as_str())).collect()
}

/// Whether the expression is a choice that includes our own licence.
fn offers_own(expression: &str) -> bool {
    let choices = expression.split(" OR ").flat_map(|part| part.split('/'));
    !expression.contains(['(', ')']) && choices.map(str::trim).any(|choice| choice == OWN_EXPRESSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::root;

    fn package(name: &str, license: &str, texts: &[(&str, &str)]) -> Licensed {
        let library = ThirdParty {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.to_owned(),
            ..ThirdParty::default()
        };
        let licenses = texts.iter().map(|&(path, text)| License { path: path.to_owned(), text: text.to_owned() });
        Licensed { library, licenses: licenses.collect() }
    }

    fn of_repository(mut package: Licensed, repository: &str) -> Licensed {
        repository.clone_into(&mut package.library.repository);
        package
    }

    #[test]
    fn equal_texts_are_written_once() {
        let packages = [
            package("a", "MIT", &[("LICENSE", "Copyright A\nall of it")]),
            package("b", "MIT", &[("COPYING", "Copyright A all\nof it"), ("deps/c/LICENSE", "Copyright C")]),
        ];
        let notices = notices(&packages, "own").expect("texts for all");
        assert!(notices.contains("\na 1.0.0: MIT\n  [1] LICENSE\n"), "{notices}");
        assert!(notices.contains("\nb 1.0.0: MIT\n  [1] COPYING\n  [2] deps/c/LICENSE\n"), "{notices}");
        assert!(notices.ends_with("\n===== [1] =====\n\nCopyright A\nall of it\n\n===== [2] =====\n\nCopyright C\n"));
    }

    #[test]
    fn a_package_without_a_text_has_that_of_its_repository() {
        let (with, without) = (package("a", "MIT", &[("LICENSE", "Copyright A")]), package("b", "MIT", &[]));
        let same = [of_repository(with.clone(), "https://a"), of_repository(without.clone(), "https://a")];
        let text = notices(&same, "own").expect("texts for all");
        assert!(text.contains("\nb 1.0.0: MIT\n  [1] LICENSE of a\n"), "{text}");
        let other = [of_repository(with.clone(), "https://a"), of_repository(without.clone(), "https://b")];
        assert_eq!(notices(&other, "own"), Err(vec!["b 1.0.0 (MIT)".to_owned()]));
        assert_eq!(notices(&[with, without], "own"), Err(vec!["b 1.0.0 (MIT)".to_owned()]));
    }

    #[test]
    fn apache_needs_only_its_own_text() {
        for license in ["Apache-2.0", "MIT OR Apache-2.0", "MIT/Apache-2.0", "Apache-2.0 / MIT"] {
            let text = notices(&[package("a", license, &[])], "own").expect("a text");
            assert!(text.contains("\n  [1] Apache-2.0\n") && text.ends_with("\n\nown\n"), "{text}");
        }
        for license in ["", "MIT", "Apache-2.0 AND MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "BSD-3-Clause"] {
            assert!(notices(&[package("a", license, &[])], "own").is_err(), "{license}");
        }
    }

    #[test]
    fn files_of_licences_are_known_by_their_names() {
        for name in ["LICENSE", "License-MIT.txt", "deps/x/COPYING", "LICENSE.BSD-3-Clause", "NOTICE.md", "licence"] {
            assert!(is_license(Path::new(name)), "{name}");
        }
        for name in ["license.rs", "notice.h", "README.md", "src/lib.rs", "MY-LICENSE"] {
            assert!(!is_license(Path::new(name)), "{name}");
        }
    }

    /// Detects a new dependency without a text before a release is built.
    #[test]
    fn every_library_of_each_program_has_a_text() {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let [notices, of_tpm2] = PROGRAMS.map(|program| {
            let mut out = Vec::new();
            write(&root(), program, &target, &mut out).unwrap_or_else(|error| panic!("{error}"));
            String::from_utf8(out).expect("UTF-8")
        });
        assert!(of_tpm2.contains("`leafseal-tpm2`") && of_tpm2.contains("\ntss-esapi "));
        for file in ["deps/boringssl/LICENSE", "jemalloc/COPYING", "zstd/LICENSE", "depend/secp256k1/COPYING"] {
            assert!(notices.contains(&format!("] {file}\n")), "{file}");
        }
        assert!(!notices.contains("\nleafseal-"));
    }
}
