//! Runs a job in this process, with an engine over the local store.

use leafseal_engine::{
    Caller, DocumentDecryption, DocumentEncryption, DocumentRewrap, Engine, Error, FileOptions, Progress as Step,
    Selection,
};
use leafseal_service::{decrypt_options, encrypt_options, other_case, rewrap_options};

use super::{TransformBackend, TransformJob, TransformReport, ValueOperation, is_blank};
use crate::failure::CommandOutcome;
use crate::input::LineBlock;
use crate::progress::TerminalProgress;

/// An engine in this process.
pub(crate) struct Local {
    engine: Engine,
    job: TransformJob,
    selection: Option<Selection>,
}

/// A document in progress, with any operation.
enum LocalRewriting {
    Encrypt(DocumentEncryption),
    Decrypt(DocumentDecryption),
    Rewrap(DocumentRewrap),
}

impl LocalRewriting {
    fn step(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        match self {
            Self::Encrypt(work) => work.step(document, out),
            Self::Decrypt(work) => work.step(document, out),
            Self::Rewrap(work) => work.step(document, out),
        }
    }

    fn position(&self) -> usize {
        match self {
            Self::Encrypt(work) => work.position(),
            Self::Decrypt(work) => work.position(),
            Self::Rewrap(work) => work.position(),
        }
    }

    fn report(&self) -> TransformReport {
        let (count, report) = match self {
            Self::Encrypt(work) => (work.count(), work.report()),
            Self::Decrypt(work) => (work.count(), work.report()),
            Self::Rewrap(work) => (work.count(), work.report()),
        };
        TransformReport { count, ..report.into() }
    }
}

impl Local {
    /// Compiles the job's selectors once.
    pub(crate) fn new(engine: Engine, job: TransformJob) -> CommandOutcome<Self> {
        if job.select.is_empty() {
            return Ok(Self { engine, job, selection: None });
        }
        let mut builder = engine.selection_builder().other_case(other_case(job.other_case()));
        job.select.iter().try_for_each(|selector| builder.add(selector)).map_err(Error::from)?;
        Ok(Self { engine, job, selection: Some(builder.finish()) })
    }

    fn begin(&self, size: usize) -> Result<LocalRewriting, Error> {
        let Self { engine, job, selection } = self;
        let (caller, selection) = (&Caller::Owner, selection.as_ref());
        match job.operation {
            ValueOperation::Encrypt => {
                let options = encrypt_options(&job.encrypt_options());
                engine.encrypt_document(caller, &options, selection, size).map(LocalRewriting::Encrypt)
            }
            ValueOperation::Decrypt => {
                let options = decrypt_options(&job.decrypt_options());
                engine.decrypt_document(caller, &options, selection, size).map(LocalRewriting::Decrypt)
            }
            ValueOperation::Rewrap => {
                let options = rewrap_options(&job.rewrap_options());
                engine.rewrap_document(caller, &options, selection, size).map(LocalRewriting::Rewrap)
            }
        }
    }

    fn line(&self, document: &[u8], out: &mut Vec<u8>) -> CommandOutcome<TransformReport> {
        let mut work = self.begin(document.len())?;
        while work.step(document, out)? == Step::More {}
        let report = work.report();
        self.job.check(&report)?;
        Ok(report)
    }
}

impl TransformBackend for Local {
    fn document(&self, document: Vec<u8>, progress: &TerminalProgress) -> CommandOutcome<(Vec<u8>, TransformReport)> {
        let mut out = Vec::with_capacity(document.len());
        let mut work = self.begin(document.len())?;
        while work.step(&document, &mut out)? == Step::More {
            progress.set(work.position() as u64);
        }
        Ok((out, work.report()))
    }

    fn lines(&self, block: &LineBlock, out: &mut Vec<u8>) -> CommandOutcome<TransformReport> {
        // A long run uses rotated and disabled keys as a server would.
        self.engine.maintain()?;
        let (mut report, failures_max) = (TransformReport::default(), self.engine.settings().failure_paths_max);
        for (number, line, line_break) in block.lines() {
            if is_blank(line) {
                out.extend_from_slice(line);
            } else {
                // A line is appended to earlier ones: on failure only its own output is removed.
                let start = out.len();
                let of_line = self.line(line, out).map_err(|failure| {
                    out.truncate(start);
                    failure.at(format_args!("line {number}"))
                })?;
                report.add(of_line.at_line(number), failures_max);
            }
            out.extend_from_slice(line_break);
        }
        Ok(report)
    }

    fn file(&self, content: Vec<u8>) -> CommandOutcome<Vec<u8>> {
        let (caller, app) = (&Caller::Owner, self.job.app.as_str());
        let mut out = Vec::new();
        match self.job.operation {
            ValueOperation::Encrypt => {
                let options = encrypt_options(&self.job.encrypt_options());
                let options = FileOptions { scheme: options.scheme, curve: options.curve, context: options.context };
                let mut work = self.engine.encrypt_file(caller, app, &options)?;
                while work.step(&content, &mut out)? == Step::More {}
            }
            ValueOperation::Decrypt => {
                let options = decrypt_options(&self.job.decrypt_options());
                let mut work = self.engine.decrypt_file(caller, app)?.with(options.context, options.accept)?;
                while work.step(&content, &mut out)? == Step::More {}
            }
            ValueOperation::Rewrap => unreachable!("the command line has no rewrap of files"),
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use leafseal_client::{Field, OptionValue, OwnedOptions};
    use leafseal_engine::{EntryPoint, RequestOrigin};
    use leafseal_testkit::{CaseRequest, DecisionCase, DecisionFixture, decision_cases};

    use super::*;

    fn job(case: &DecisionCase) -> TransformJob {
        let operation = match case.request {
            CaseRequest::Encrypt | CaseRequest::SkipSealed | CaseRequest::Reseal => ValueOperation::Encrypt,
            CaseRequest::Decrypt => ValueOperation::Decrypt,
            CaseRequest::Rewrap => ValueOperation::Rewrap,
            CaseRequest::Inspect | CaseRequest::PublicKeys => unreachable!("no job"),
        };
        let mut options = OwnedOptions::default();
        options.insert(Field::SkipSealed, OptionValue::Flag(case.request == CaseRequest::SkipSealed));
        if case.request == CaseRequest::Reseal {
            options.insert(Field::Reseal, OptionValue::Text("symmetric"));
            options.insert(Field::Role, OptionValue::Text("health"));
        }
        TransformJob { operation, app: case.app.to_owned(), select: Vec::new(), options, strict: false }
    }

    #[test]
    fn each_job_gives_the_decisions_of_the_table() {
        let fixture = DecisionFixture::new();
        let engine = fixture.engine.at(RequestOrigin::of(EntryPoint::Cli));
        for case in decision_cases(EntryPoint::Cli) {
            let job = job(case);
            let is_plain = matches!(case.request, CaseRequest::Encrypt | CaseRequest::SkipSealed);
            let document = if is_plain { "\"a\"" } else { &fixture.sealed };
            let local = Local::new(engine.clone(), job).expect("no selectors");
            let done = local.document(document.as_bytes().to_vec(), &TerminalProgress::bytes("test", None));
            let expected = case.expected(EntryPoint::Cli);
            assert_eq!(done.is_ok(), expected.iter().all(|words| words.ends_with(" granted")), "{}", case.name);
            assert_eq!(fixture.decisions.take(), expected, "{}", case.name);
        }
    }
}
