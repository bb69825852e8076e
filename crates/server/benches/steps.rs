//! How long a worker is busy before it may yield, if one value, gap or file is 100 MB, or filters visit much: the steps of such
//! requests, one by one, in CPU time of the thread, so that other load on the machine counts as little as possible.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_engine::Settings;
use leafseal_engine::pool::Cancellation;
use leafseal_protocol::{
    DecryptFileOptions, DecryptOptions, DocumentResult, EncryptFileOptions, EncryptOptions, FileResult, FrameLimits,
    Message, Scalar, ValuesResult, request,
};
use leafseal_service::{EngineService, PartStep, PeerIdentity, PlannedRequest, RequestStep, Service, WrittenOutput};
use leafseal_testkit::engine;
use rustix::time::{ClockId, clock_gettime};

const SIZE: usize = 100_000_000;
const ID: u32 = 1;

struct Bench {
    service: EngineService,
    caller: Arc<leafseal_engine::Caller>,
}

impl Bench {
    /// Runs a request on one thread and prints the times of its steps.
    fn row(&self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut frame = Vec::new();
        write(&mut frame);
        let cancellation = Arc::new(Cancellation::new());
        let mut request = self.service.request(&self.caller, frame, ID, Instant::now(), cancellation, None);
        let (mut answer, mut times) = (Vec::new(), Vec::new());
        let is_spread = loop {
            match timed(&mut times, || request.step(&mut answer)).expect("a step") {
                RequestStep::More => {}
                RequestStep::Done => break false,
                RequestStep::Spread { .. } => break true,
            }
        };
        let mut fields = request.fields();
        let mut is_planned = !is_spread;
        while !is_planned {
            let planned = timed(&mut times, || request.work().next_part()).expect("a part");
            is_planned = matches!(planned, PlannedRequest::Last(_) | PlannedRequest::None);
            if let PlannedRequest::Part(mut part) | PlannedRequest::Last(mut part) = planned {
                let mut out = Vec::new();
                while timed(&mut times, || part.step(&mut out)).expect("a step") == PartStep::More {}
                answer.extend_from_slice(&out);
                fields += part.fields();
            }
        }
        if is_spread {
            let (written, mut tail) = (WrittenOutput { size: answer.len(), fields }, Vec::new());
            request.work().finish(&mut answer, written, &mut tail);
            answer.extend_from_slice(&tail);
        }
        let began = cpu_time();
        drop(request);
        print_row(name, times, cpu_time() - began);
        answer
    }
}

fn timed<T>(times: &mut Vec<Duration>, step: impl FnOnce() -> T) -> T {
    let began = cpu_time();
    let result = step();
    times.push(cpu_time() - began);
    result
}

/// CPU time that this thread has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

fn print_row(name: &str, mut times: Vec<Duration>, freed: Duration) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let total: Duration = times.iter().sum();
    println!(
        "{name:34} {:7} steps {:6.0} ms  p50 {:5.0} µs  p99 {:5.0} µs  p99.9 {:5.0} µs  longest {:6.0} µs  freed in {:5.0} µs",
        times.len(),
        total.as_secs_f64() * 1e3,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        freed.as_secs_f64() * 1e6,
    );
}

fn result(answer: &[u8]) -> leafseal_protocol::RawValue<'_> {
    match Message::parse(answer) {
        Ok(Message::Response { result: Ok(result), .. }) => result,
        other => panic!("{other:?}"),
    }
}

fn main() {
    let fixture = engine(Settings::default(), "bench", None);
    let service = EngineService::new(fixture.engine.clone(), FrameLimits::default(), usize::MAX);
    service.maintain();
    let peer = PeerIdentity { name: "bench".to_owned(), certificate_sha256: [0; 32] };
    let caller = service
        .authenticate(&peer, leafseal_engine::RequestOrigin::of(leafseal_engine::EntryPoint::Rpc))
        .expect("granted");
    let bench = Bench { service, caller };
    let (encrypt, decrypt) = (EncryptOptions::new("acme"), DecryptOptions::new("acme"));
    let text = "x".repeat(SIZE);

    let list = [Scalar::from(text.as_str())];
    let answer = bench.row("encrypt, a string", |out| request::encrypt(ID, &encrypt, list.into_iter(), out));
    let sealed = ValuesResult::decode(result(&answer)).expect("values").values;
    let sealed = sealed.strings().next().expect("a value").expect("a string").as_str();
    let envelope = [Scalar::from(sealed)];
    drop(bench.row("decrypt, a string", |out| request::decrypt(ID, &decrypt, envelope.into_iter(), out)));

    for (name, token) in [("a string", "x".repeat(SIZE)), ("an escaped string", "\\n".repeat(SIZE / 2))] {
        let document = format!("[\"{token}\"]");
        let name = format!("document, {name}");
        let answer = bench.row(&format!("encrypt a {name}"), |out| {
            request::encrypt_document(ID, &encrypt, None, document.as_bytes(), out);
        });
        let sealed = DocumentResult::decode(result(&answer)).expect("a document").document.to_vec();
        drop(bench.row(&format!("decrypt a {name}"), |out| {
            request::decrypt_document(ID, &decrypt, None, &sealed, out);
        }));
    }
    let document = format!("{{\"a\":\"{text}\",\"b\":1,\"c\":{}2}}", " ".repeat(SIZE));
    drop(bench.row("encrypt a document, long gaps", |out| {
        request::encrypt_document(ID, &encrypt, Some(&["$.b"]), document.as_bytes(), out);
    }));

    let answer = bench.row("encrypt a file", |out| {
        request::encrypt_file(ID, &EncryptFileOptions::new("acme"), text.as_bytes(), out);
    });
    let file = FileResult::decode(result(&answer)).expect("a file").data.to_vec();
    drop(bench.row("decrypt a file", |out| request::decrypt_file(ID, &DecryptFileOptions::new("acme"), &file, out)));
    filters(&bench);
}

/// Selectors whose work has nothing to do with how much they select.
fn filters(bench: &Bench) {
    let list = |count: usize| (0..count).map(|at| format!("{{\"a\":{at}}}")).collect::<Vec<_>>().join(",");
    let records = format!("[{}]", list(300_000));
    let nested = format!("[[{}]]", list(300_000));
    let equal = format!("[[{0}],[{0}]]", list(300_000));
    let mut random = 88_172_645_463_325_252_u64;
    let letters = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random.is_multiple_of(2) { 'a' } else { 'c' }
    });
    let text = format!("[\"{}\"]", letters.take(100_000).collect::<String>());
    let escaped = format!("[\"{}\"]", "\\u00e9".repeat(2_000_000));
    let patterns: Vec<_> = (0..32).map(|at| format!("$[?match('x', '[\\\\p{{L}}-]+ \\\\p{{Lu}} {at}')]")).collect();
    let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
    let names =
        |at: usize| (0..5).map(|n| format!("'{}'", format!("{at}_{n}_").repeat(160))).collect::<Vec<_>>().join(",");
    let long: Vec<_> = (0..64).map(|at| format!("$[{}]", names(at))).collect();
    let long: Vec<_> = long.iter().map(String::as_str).collect();
    let encrypt = EncryptOptions::new("acme");
    for (name, document, select) in [
        ("filter, 300,000 records", &records, &["$[?@.a == 7]"][..]),
        ("filters in a filter", &nested, &["$[?@[?@[?@ == 2999] && count(@..*) == 1]]"][..]),
        ("filter, two lists compared", &equal, &["$[?@ != $[0]]"][..]),
        ("filter, a pattern with many states", &text, &["$[?search(@, 'a[ac]{60}[^ac]')]"][..]),
        ("filter, 12 MB of escapes measured", &escaped, &["$[?length(@) == 1]"][..]),
        ("filter, 32 patterns compiled", &text, &patterns[..]),
        ("64 selectors of 4,000 bytes", &text, &long[..]),
    ] {
        let row = |out: &mut Vec<u8>| request::encrypt_document(ID, &encrypt, Some(select), document.as_bytes(), out);
        drop(bench.row(name, row));
    }
}
