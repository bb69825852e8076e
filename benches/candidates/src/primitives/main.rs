//! Times the primitives that Leafseal needs over every library that was considered for them.
//!
//! Before a row is measured all libraries must return the same bytes, so a library that computes something else, or
//! nothing, cannot win. Results: `docs/decisions/0001-crypto-libraries.md`.

use std::time::Duration;

use leafseal_candidates::{Arguments, Contender, Effort, Row};

use crate::operations::{Case, Inputs, OPERATIONS, Operation};

mod aws_lc;
mod base64s;
mod boringssl;
mod graviola;
mod libsecp256k1;
mod openssl;
mod operations;
mod ring;
mod rust_crypto;

fn main() {
    let arguments = Arguments::from_command_line();
    let inputs = Inputs::fixed();
    let mut cases = Vec::new();
    cases.extend(boringssl::cases(inputs));
    cases.extend(openssl::cases(inputs));
    cases.extend(aws_lc::cases(inputs));
    cases.extend(ring::cases(inputs));
    cases.extend(graviola::cases(inputs));
    cases.extend(rust_crypto::cases(inputs));
    cases.extend(libsecp256k1::cases(inputs));
    cases.extend(base64s::cases(inputs));
    let rows = OPERATIONS.iter().map(|&operation| row(operation, &mut cases)).collect();
    let effort = Effort { rounds: arguments.rounds, sample: Duration::from_millis(2) };
    arguments.run(rows, effort);
}

/// Moves the cases of `operation` into a row, having checked that they agree.
fn row(operation: Operation, cases: &mut Vec<Case>) -> Row {
    let mut contenders = Vec::new();
    let mut agreed: Option<(Vec<u8>, &str)> = None;
    for mut case in cases.extract_if(.., |case| case.operation == operation) {
        let mut output = vec![0; operation.output_len()];
        (case.run)(&mut output);
        let (expected, first) = agreed.get_or_insert_with(|| (output.clone(), case.library));
        assert!(*expected == output, "{} and {first} disagree on {operation:?}", case.library);
        contenders.push(Contender::new(case.library, move || (case.run)(&mut output)));
    }
    Row { label: operation.label(), bytes: operation.bytes(), contenders }
}
