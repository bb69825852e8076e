//! JSON Lines: blocks of lines are processed by threads and written in order. At most two limited blocks per thread are in memory, so that
//! input of any length is possible.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{TransformBackend, TransformReport};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{Blocks, LineBlock};
use crate::output::OpenOutput;
use crate::progress::TerminalProgress;

/// Blocks per thread, in progress or waiting.
const BLOCKS_PER_THREAD: usize = 2;

/// A processed block: its text, and its report or the failure that ended it.
struct ProcessedBlock {
    text: Vec<u8>,
    size: u64,
    result: CommandOutcome<TransformReport>,
}

type BlockOrder = (LineBlock, Sender<ProcessedBlock>);

/// Transforms every line of `blocks` on `threads` threads and writes them in order; returns the combined report, with up to `failures_max`
/// paths.
///
/// # Errors
/// The first failure in the order of the input. The lines before it have been written.
pub(crate) fn transform_lines(
    backend: &dyn TransformBackend,
    mut blocks: Blocks,
    threads: usize,
    failures_max: usize,
    output: &mut OpenOutput,
) -> CommandOutcome<TransformReport> {
    let progress = TerminalProgress::bytes("lines", blocks.size());
    let (orders, work) = channel::<BlockOrder>();
    let work = Mutex::new(work);
    let blocks_max = threads * BLOCKS_PER_THREAD;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work_on(backend, &work));
        }
        // Moved in, so that the threads end when this function returns.
        let orders = orders;
        let mut pending: VecDeque<Receiver<ProcessedBlock>> = VecDeque::with_capacity(blocks_max);
        let mut report = TransformReport::default();
        loop {
            let block = match blocks.next() {
                Ok(Some(block)) => block,
                end => {
                    // Lines read before are processed first; the error of an unreadable line comes after them.
                    for done in pending {
                        report.add(write(&done, output, &progress)?, failures_max);
                    }
                    return end.map(|_| report);
                }
            };
            if pending.len() == blocks_max
                && let Some(done) = pending.pop_front()
            {
                report.add(write(&done, output, &progress)?, failures_max);
            }
            let (sender, receiver) = channel();
            // Cannot fail: the receiver outlives this scope.
            let _ = orders.send((block, sender));
            pending.push_back(receiver);
        }
    })
}

fn work_on(backend: &dyn TransformBackend, work: &Mutex<Receiver<BlockOrder>>) {
    loop {
        let order = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((block, sender)) = order else { return };
        let mut text = Vec::with_capacity(2 * block.text.len());
        let result = backend.lines(&block, &mut text);
        // The receiver is gone after an earlier block failed.
        let _ = sender.send(ProcessedBlock { text, size: block.text.len() as u64, result });
    }
}

fn write(
    done: &Receiver<ProcessedBlock>,
    output: &mut OpenOutput,
    progress: &TerminalProgress,
) -> CommandOutcome<TransformReport> {
    let panicked = || CommandFailure::internal("a thread ended before its work was done".to_owned());
    let done = done.recv().map_err(|_| panicked())?;
    output.write(&done.text)?;
    progress.add(done.size);
    done.result
}
