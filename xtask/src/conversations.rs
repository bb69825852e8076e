//! `cargo xtask conversations`: checks those in `vectors/client` against the model of the clients, and generates more.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use leafseal_conversations::{Mode, generate_many, stale};

const USAGE: &str = "usage: cargo xtask conversations [--seed N --count N -o FILE]";

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => check(root),
        ["--seed", seed, "--count", count, "-o", path] => {
            let mut out = BufWriter::new(File::create(path)?);
            generate_many(seed.parse()?, count.parse()?, &mut out)?;
            Ok(out.flush()?)
        }
        _ => Err(USAGE.into()),
    }
}

fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let mode = if std::env::var_os("UPDATE").is_some() { Mode::Update } else { Mode::Check };
    let stale = stale(&root.join("vectors/client/conversations"), mode)?;
    if mode == Mode::Update || stale.is_empty() {
        return Ok(());
    }
    Err(format!("not what the model says, see `UPDATE=1 cargo xtask conversations`: {stale:?}").into())
}
