//! `cargo xtask`: the project's own tools, in Rust.
//!
//! `tidy` checks style, `check` runs the checks that CI runs beside the tests, `generate` writes files that follow from the crates,
//! `licenses` the notices of a release, `examples` documents of any size. Tools that need more than a line of shell are here and not in
//! a script.

mod check;
mod conversations;
mod deny;
mod examples;
mod generate;
mod lexer;
mod licenses;
mod measurements;
mod metadata;
mod source;
mod tidy;

use std::{env, error::Error, io, process::ExitCode};

const HELP: &str = "\
usage: cargo xtask COMMAND

  tidy                  crate edges, import cycles, files, calls, words and lengths
  check                 fmt, clippy, tidy and deny, as CI runs them beside the tests
  licenses TARGET NAME  notices of the libraries in a program (leafseal, leafseal-tpm2) built for this target
  measurements          docs/measurements.md, from the results in benches/results
  generate [--check]    names and pages in other languages, from the crates; --check only compares
  conversations         checks the expectations in vectors/client/conversations; UPDATE=1 writes them
  conversations --seed N --count N -o FILE
                        more conversations, of these seeds, as JSON Lines
  examples --fields N   a JSON document of exactly N scalar values (1 to 10,000,000)
  examples --bytes N    a JSON document of exactly N bytes (at least 1,024)
  examples --lines N    N customer records, one per line (JSON Lines)
           --seed N     other values of the same kinds; the same seed gives the same bytes (default 1)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(HELP.into());
    };
    match command.as_str() {
        "tidy" => Ok(check::tidy(&source::root())?),
        "check" => Ok(check::check(&source::root())?),
        "licenses" => match rest {
            [target, name] => {
                let program = licenses::PROGRAMS.iter().find(|program| program.name == name).ok_or(HELP)?;
                Ok(licenses::write(&source::root(), *program, target, &mut io::stdout().lock())?)
            }
            _ => Err(HELP.into()),
        },
        "measurements" => {
            let root = source::root();
            measurements::write(&root, &source::load(&root)?)
        }
        "generate" => match rest {
            [] => generate::run(&source::root(), &source::load(&source::root())?, false),
            [only] if only == "--check" => generate::run(&source::root(), &source::load(&source::root())?, true),
            _ => Err(HELP.into()),
        },
        "examples" => {
            let order = examples::ExampleOrder::parse(rest)?;
            Ok(examples::write(&order, &mut io::BufWriter::new(io::stdout().lock()))?)
        }
        "conversations" => conversations::run(&source::root(), rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        unknown => Err(format!("unknown command {unknown}\n\n{HELP}").into()),
    }
}
