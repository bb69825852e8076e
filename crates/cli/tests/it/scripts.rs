//! Runs `vectors/cli/*.txt`: each contains files, commands and their output in one text.
//!
//! A script begins with its purpose. `== NAME` begins a file, up to the next `==` or command. `$ COMMAND` is run by a shell in an empty
//! folder with `leafseal` in its path and `$KEYS` for `vectors/keys`; the lines after it, up to the next command or file, are its standard
//! output and standard error together. `[N]` as the last of them is the exit code, unless it is 0. `[..]` matches any text within a line, a
//! line `...` any lines. A line that begins with `// ` is a comment.

use crate::common;
use std::path::Path;
use std::process::Command;

struct Script {
    files: Vec<(String, String)>,
    steps: Vec<Step>,
}

struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn parse(text: &str) -> Script {
    let mut script = Script { files: Vec::new(), steps: Vec::new() };
    enum Within {
        Purpose,
        File,
        Step,
    }
    let mut within = Within::Purpose;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("// ") {
            within = Within::Purpose;
        } else if let Some(name) = line.strip_prefix("== ") {
            script.files.push((name.to_owned(), String::new()));
            within = Within::File;
        } else if let Some(command) = line.strip_prefix("$ ") {
            script.steps.push(Step { line: number + 1, command: command.to_owned(), expected: Vec::new() });
            within = Within::Step;
        } else {
            match within {
                Within::Purpose => {}
                Within::File => script.files.last_mut().expect("begun").1.push_str(&format!("{line}\n")),
                Within::Step => script.steps.last_mut().expect("begun").expected.push(line.to_owned()),
            }
        }
    }
    // Blank lines before the next command are ignored, after files and after output.
    for (_, content) in &mut script.files {
        content.truncate(content.trim_end_matches('\n').len());
        content.push('\n');
    }
    for step in &mut script.steps {
        while step.expected.last().is_some_and(String::is_empty) {
            step.expected.pop();
        }
    }
    script
}

/// Whether `line` matches `pattern`, in which `[..]` is any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let Some(mut rest) = line.strip_prefix(parts.next().expect("one part")) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    true
}

fn matches(expected: &[String], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((any, rest)) if any == "..." => (0..=found.len()).any(|skipped| matches(rest, &found[skipped..])),
        Some((first, rest)) => {
            found.split_first().is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others))
        }
    }
}

/// The differences between the script and the output.
fn run(path: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let script = parse(&std::fs::read_to_string(path).expect("read"));
    assert!(!script.steps.is_empty(), "{}: no command", path.display());
    let folder = tempfile::tempdir().expect("folder");
    for (name, content) in &script.files {
        std::fs::write(folder.path().join(name), content).expect("written");
    }
    let programs = Path::new(common::PROGRAM).parent().expect("a folder");
    let paths = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    for step in &script.steps {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{}", step.command)]).current_dir(folder.path()).env("PATH", &paths);
        command.env("KEYS", common::root().join("vectors/keys"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEAFSEAL")) {
            command.env_remove(name);
        }
        let ran = common::finish(&mut command, b"");
        let mut text = String::from_utf8_lossy(&ran.stdout).replace(&*folder.path().to_string_lossy(), "HERE");
        if ran.code != 0 {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[{}]\n", ran.code));
        }
        let found: Vec<&str> = text.trim_end_matches('\n').lines().collect();
        let place = format!("{}:{}", path.display(), step.line);
        if !matches(&step.expected, &found) {
            problems.push(format!("{place}: $ {}\nprinted\n{text}", step.command));
        }
    }
    problems
}

#[test]
fn scripts_print_the_expected_output() {
    let folder = common::root().join("vectors/cli");
    let mut scripts: Vec<_> =
        std::fs::read_dir(&folder).expect("scripts").map(|entry| entry.expect("entry").path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    scripts.sort();
    assert!(scripts.len() >= 6, "scripts are missing in {}", folder.display());
    let problems: Vec<String> = scripts.iter().flat_map(|script| run(script)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn patterns() {
    assert!(line_matches("a[..]c", "abbc") && line_matches("a[..]", "a") && line_matches("[..]b[..]", "abc"));
    assert!(!line_matches("a[..]c", "ab") && !line_matches("a", "ab") && !line_matches("[..]x[..]", "abc"));
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert!(matches(&lines(&["a", "...", "c"]), &["a", "b", "b", "c"]));
    assert!(!matches(&lines(&["a", "...", "c"]), &["a", "b"]));
    assert!(!matches(&lines(&[]), &["a"]));
}
