//! Relative links in Markdown files refer to files or folders that exist.
//!
//! Anchors and links to other hosts are not checked.

use super::{Finding, Repository};
use crate::source::SourceFile;

/// Reports broken links.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let pages = repository.sources.iter().filter(|source| source.path.ends_with(".md"));
    pages.flat_map(|page| broken(repository, page)).collect()
}

fn broken(repository: &Repository, page: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (number, line) in page.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let missing = targets(line).filter(|_| !is_code).filter(|target| !exists(repository, page, target));
        findings.extend(missing.map(|target| {
            let what = format!("a link to `{target}`, which does not exist");
            Finding::new(page, number, what, "name the file that has taken its place")
        }));
    }
    findings
}

/// The targets of a line's links below the repository, without anchors.
pub(super) fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let paths = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
    paths.map(|link| link.split('#').next().unwrap_or_default()).filter(|path| !path.is_empty())
}

/// The path of a link's target in the repository; none if it is outside.
pub(super) fn resolve(page: &SourceFile, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn exists(repository: &Repository, page: &SourceFile, target: &str) -> bool {
    let Some(path) = resolve(page, target) else { return false };
    let folder = format!("{path}/");
    path.is_empty() || repository.sources.iter().any(|source| source.path == path || source.path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    #[test]
    fn links_lead_to_files_and_folders() {
        let file = ("crates/a/src/b.rs", "//! What this file is for.\n");
        let page = |text: &str| findings(check, &[("docs/x.md", text), file]);
        for good in [
            "../crates/a/src/b.rs",
            "../crates/a/src",
            "../crates/a/",
            "x.md#part",
            "#part",
            "https://example.com/y",
            "../",
        ] {
            assert_eq!(page(&format!("see [it]({good})\n")), "", "{good}");
        }
        assert_eq!(page("```\n[it](none.md)\n```\n"), "");
        for bad in ["none.md", "../crates/a/sr", "../../x.md", "crates/a/src/b.rs"] {
            assert!(page(&format!("\n[it]({bad})\n")).starts_with("docs/x.md:2: a link to"), "{bad}");
        }
        assert!(page("[a](x.md) and [b](y.md)\n").contains("`y.md`"));
    }
}
