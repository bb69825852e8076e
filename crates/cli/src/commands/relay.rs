//! `relay`: HTTP in flight until it is told to stop; its file is read anew on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fieldseal_relay::route::HostPattern;
use fieldseal_relay::{AccessLog, Configuration, Relay, RelayError};
use fieldseal_server::{RelayDestination, RelayInformation};
use serde_json::json;

use super::serve::start_log;
use crate::arguments::RelayArguments;
use crate::context::Context;
use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::log;
use crate::output::print_json;
use crate::signals::{self, Signals};

/// The configuration's name in the folder.
pub const RELAY_FILE: &str = "relay.toml";
/// Largest such file in bytes.
const FILE_SIZE_MAX: u64 = 4 << 20;
/// After how long SDKs ask for the destinations again.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// `fieldseal relay`.
pub fn run(context: &Context, arguments: &RelayArguments) -> Outcome {
    let file = arguments.file.clone().unwrap_or_else(|| context.folder().join(RELAY_FILE));
    let configuration = read(&file)?;
    log::start(context.config().log);
    let configuration = fitted(configuration)?;
    warn(&configuration, &file);
    let access_log = Arc::new(LineWriter::start(&arguments.access_log, context.config().log.format)?);
    signals::runtime()?.block_on(async {
        let (mut hangups, mut signals) = (signals::hangups()?, Signals::listen()?);
        let relay = Relay::start(configuration, context.folder(), Some(Arc::new(log)))?;
        if arguments.form.json {
            print_json(&addresses(&relay))?;
        }
        loop {
            tokio::select! {
                _ = hangups.recv() => reload(&relay, &file),
                () = signals.next() => break,
            }
        }
        let mut stopping = tokio::task::spawn_blocking(move || relay.shutdown());
        let left = tokio::select! {
            left = &mut stopping => left,
            () = signals.next() => return Err(at_once()),
        };
        match left {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(left)) => {
                Err(Failure::failed(format!("{left} connections were not finished within relay.drain_timeout")))
            }
            Ok(Err(error)) => Err(Failure::internal(format!("the shutdown failed: {error}"))),
            Err(error) => Err(Failure::internal(format!("the shutdown failed: {error}"))),
        }
    })
}

/// Reads and checks the file.
///
/// # Errors
/// Everything that is wrong with it, a line each.
pub fn read(file: &Path) -> Outcome<Configuration> {
    let reading = |error: std::io::Error| {
        Failure::reading(file, &error).advise("fieldseal relay --help names the file; docs/relay.md says what it holds")
    };
    let size = std::fs::metadata(file).map_err(reading)?.len();
    if size > FILE_SIZE_MAX {
        return Err(Failure::usage(format!(
            "{}: larger than {FILE_SIZE_MAX} bytes: this is no configuration",
            file.display()
        )));
    }
    let text = std::fs::read_to_string(file).map_err(reading)?;
    Configuration::parse(&text).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("{}:{problem}", file.display())).collect();
        Failure::usage(lines.join("\n"))
    })
}

/// What the API tells SDKs of the outbound relay that DIR/relay.toml describes, if there is one. A file with something wrong in it is
/// the relay's affair: here it is only told of.
pub fn information(context: &Context) -> Option<RelayInformation> {
    let file = context.folder().join(RELAY_FILE);
    if !file.exists() {
        return None;
    }
    let configuration = match read(&file) {
        Ok(configuration) => configuration,
        Err(failure) => {
            tracing::warn!(%failure, "the API tells of no relay");
            return None;
        }
    };
    let outbound = configuration.outbound.first()?;
    let hosts = outbound.destinations.iter().flat_map(|destination| &destination.hosts);
    let told = |(index, host): (usize, &HostPattern)| RelayDestination {
        id: format!("{}-{index}", outbound.name),
        domain: host.to_string(),
    };
    let destinations = hosts.enumerate().map(told).collect();
    let certificate = context.path(&outbound.authority.certificate);
    let ca_pem = match std::fs::read(&certificate) {
        Ok(pem) => Some(pem),
        Err(error) => {
            tracing::warn!(file = %certificate.display(), %error, "the API does not tell the relay's authority");
            None
        }
    };
    Some(RelayInformation { destinations, ca_pem, poll_interval: POLL_INTERVAL })
}

/// Where a running relay is reached.
pub fn addresses(relay: &Relay) -> serde_json::Value {
    let mut told = json!({ "operator": relay.operator_address().to_string() });
    for address in relay.addresses() {
        told[&*address.listener] = address.address.to_string().into();
    }
    told
}

/// With bounds that fit the limit of descriptors.
fn fitted(mut configuration: Configuration) -> Outcome<Configuration> {
    let warning = descriptors::fit_relay(&mut configuration, descriptors::raise()).map_err(Failure::usage)?;
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(configuration)
}

fn reload(relay: &Relay, file: &Path) {
    let outcome = read(file).and_then(|configuration| {
        warn(&configuration, file);
        Ok(relay.reload(fitted(configuration)?)?)
    });
    match outcome {
        Ok(()) => tracing::info!(file = %file.display(), "relay reloaded: configuration and certificates"),
        Err(failure) => tracing::error!(%failure, "relay not reloaded: the previous configuration stays in use"),
    }
}

/// What is allowed in a file, and may yet not be meant.
fn warn(configuration: &Configuration, file: &Path) {
    for warning in &configuration.warnings {
        tracing::warn!(file = %file.display(), line = warning.line, "{}", warning.message);
    }
}

fn at_once() -> Failure {
    Failure::failed("a second signal came during the shutdown: requests in work were not waited for")
}

impl From<RelayError> for Failure {
    fn from(error: RelayError) -> Self {
        match &error {
            RelayError::Listen { address, error } => {
                let message = format!("cannot listen at {address}: {}", crate::failure::plain(error));
                Self::unreachable(message).advise("choose another address, or end what has it")
            }
            RelayError::File { path, error } => Self::reading(path, error),
            RelayError::Engine(error) => Self::from(error.clone()).at("section [engine]"),
            RelayError::Thread(_) => Failure::internal(error.to_string()),
            _ => Self::usage(error.to_string()),
        }
    }
}

/// Writes lines on a thread of its own.
struct LineWriter {
    lines: SyncSender<String>,
    /// Lines for which there was no room, and those that could not be written.
    dropped: Arc<AtomicU64>,
}

impl LineWriter {
    fn start(path: &PathBuf) -> Outcome<Self> {
        let (lines, waiting) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let of_thread = Arc::clone(&dropped);
        let out: Box<dyn Write + Send> = if path == Path::new("-") {
            // Checked here, so that a closed descriptor is told at the start.
            Output::standard()?.finish()?;
            Box::new(std::io::stdout())
        } else {
            let file = File::options().create(true).append(true).open(path);
            Box::new(file.map_err(|error| Failure::writing(path.display(), &error))?)
        };
        let thread = std::thread::Builder::new().name("fieldseal-access".to_owned());
        let started = thread.spawn(move || write_lines(&waiting, BufWriter::new(out), &of_thread));
        started.map_err(|error| Failure::internal(format!("no thread: {error}")))?;
        Ok(Self { lines, dropped })
    }
}

impl AccessLog for LineWriter {
    fn write(&self, line: &str) {
        if self.lines.try_send(format!("{line}\n")).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn write_lines(waiting: &Receiver<String>, mut out: BufWriter<Box<dyn Write + Send>>, dropped: &AtomicU64) {
    let (mut is_broken, mut told) = (false, 0);
    while let Ok(first) = waiting.recv() {
        let (mut written, mut lines) = (out.write_all(first.as_bytes()), 1);
        while let Ok(line) = waiting.try_recv() {
            written = written.and_then(|()| out.write_all(line.as_bytes()));
            lines += 1;
        }
        written = written.and_then(|()| out.flush());
        if let (Err(error), false) = (&written, is_broken) {
            tracing::error!(%error, "the access log cannot be written");
        }
        is_broken = written.is_err();
        if is_broken {
            // Of those some may have been written: what is lost is told as no less than it is.
            dropped.fetch_add(lines, Ordering::Relaxed);
        }
        let lost = dropped.load(Ordering::Relaxed);
        if lost > told && !is_broken {
            let lost = lost - told;
            tracing::warn!(lost, "lines of the access log were dropped: they came faster than they can be written");
        }
        told = lost;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn lines_for_which_there_is_no_room_are_counted() {
        let (lines, waiting) = sync_channel(2);
        let writer = LineWriter { lines, dropped: Arc::default() };
        (0..5).for_each(|_| writer.write("{}"));
        assert_eq!((writer.dropped(), waiting.try_iter().count()), (3, 2));
    }

    #[test]
    fn lines_that_a_file_does_not_take_are_counted() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (lines, waiting) = sync_channel(10);
        let writer = LineWriter { lines, dropped: Arc::default() };
        (0..4).for_each(|_| writer.write("{}"));
        let dropped = Arc::clone(&writer.dropped);
        drop(writer);
        write_lines(&waiting, BufWriter::new(Box::new(Full)), &dropped);
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
    }
}
