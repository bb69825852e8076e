//! The work that requests count before a network thread runs them.

use leafseal_engine::pool::{Admission, Pool, PoolClock, PoolSettings};
use leafseal_engine::{request_work, values_work};
use leafseal_protocol::PathBinding;
use leafseal_service::{AnswerReceiver, Answered, Effort, Reply, RequestJob, Rope, Share};

use super::*;

const WORK_MAX: Duration = Duration::from_millis(50);

struct Receiver;

impl AnswerReceiver for Receiver {
    fn takes(&self, _: &Rope) -> bool {
        true
    }

    fn receive(self: Box<Self>, _: Answered, _: Effort) {}
}

/// Stands still: no slice ends because a busy machine takes the processor away.
struct Still(Instant);

impl PoolClock for Still {
    fn now(&self) -> Instant {
        self.0
    }
}

/// The counted work of a request that the thread which submits it has ended; `None` if it leaves the request to a worker.
fn taken(fixture: &Fixture, frame: &[u8]) -> Option<Duration> {
    let pool = Pool::manual(PoolSettings::default(), Arc::new(Still(Instant::now())));
    let cancellation = Arc::new(Cancellation::new());
    let request =
        fixture.service.request(&fixture.caller, frame.to_vec(), 9, Instant::now(), Arc::clone(&cancellation), None);
    let job = RequestJob::new(request, Arc::clone(&cancellation), Share::alone(1 << 30), Reply::new(Receiver));
    let admission = Admission { tenant: 1, client: 0, connection: 0, bytes: 1, cancellation };
    let submitted = pool.submit_inline(Arc::new(job), admission, WORK_MAX).expect("there is room");
    (!submitted.is_left).then_some(submitted.inline_work)
}

fn symmetric(context: Option<&str>) -> EncryptOptions<'_> {
    let (scheme, keying) = (Some(Scheme::Symmetric), Some(Keying::Field));
    EncryptOptions { scheme, keying, context, ..EncryptOptions::new("acme") }
}

/// The frames of each call that takes a context, over the same values.
fn bound_calls(fixture: &Fixture, count: usize, context: &str) -> Vec<(&'static str, Vec<u8>)> {
    let (seal, open) =
        (symmetric(Some(context)), DecryptOptions { context: Some(context), ..DecryptOptions::new("acme") });
    let texts = vec![Scalar::from("text"); count];
    let answer = encrypt(fixture, &seal, &texts);
    let sealed = values(&answer);
    let document = |values: &[Scalar<'_>]| {
        let texts: Vec<_> = values.iter().map(|value| format!("\"{}\"", text_of(value))).collect();
        format!("[{}]", texts.join(",")).into_bytes()
    };
    vec![
        ("encrypt", frame(|out| request::encrypt(9, &seal, texts.iter().copied(), out))),
        ("decrypt", frame(|out| request::decrypt(9, &open, sealed.iter().copied(), out))),
        ("encrypt_document", frame(|out| request::encrypt_document(9, &seal, None, &document(&texts), out))),
        ("decrypt_document", frame(|out| request::decrypt_document(9, &open, None, &document(&sealed), out))),
    ]
}

/// Each value is authenticated with the context of the request.
#[test]
fn the_bytes_of_a_context_count_for_each_value() {
    let fixture = fixture();
    let long = "x".repeat(1_024);
    // A longer message is read.
    let reading = request_work(2_048) - request_work(0) + values_work(0, 2_048, 0);
    for count in [1, 7, 50] {
        let more = values_work(count, 0, 1_024) - values_work(count, 0, 1);
        let [short, long] = ["x", &long].map(|context| bound_calls(&fixture, count as usize, context));
        for ((call, short), (_, long)) in short.iter().zip(&long) {
            let [short, long] = [short, long].map(|frame| taken(&fixture, frame).expect("it is ended"));
            let counted = long - short;
            assert!((more..=more + reading * 2).contains(&counted), "{call} of {count}: {counted:?} for {more:?}");
        }
    }
}

/// Contexts of each value, and paths, are not counted: workers process such requests.
#[test]
fn values_that_are_bound_each_to_its_own_are_left_to_workers() {
    let fixture = fixture();
    let one = [Scalar::from("text")];
    let seal = symmetric(None);
    let by_path = EncryptOptions { bind: Some(PathBinding::Path), ..seal };
    let calls = [
        frame(|out| request::encrypt_bound(9, &seal, &["row 1"], one.iter().copied(), out)),
        frame(|out| request::encrypt_document(9, &by_path, None, br#"{"a":"text"}"#, out)),
    ];
    assert!(taken(&fixture, &frame(|out| request::encrypt(9, &seal, one.iter().copied(), out))).is_some());
    for frame in calls {
        result(&run(&fixture, frame.clone()).0);
        assert_eq!(taken(&fixture, &frame), None);
    }
}

/// A request that fails takes as much from the turn as one that does not: its work is counted before it begins.
#[test]
fn a_request_that_fails_after_some_values_is_counted_as_a_whole() {
    let fixture = fixture();
    for options in [EncryptOptions::new("acme"), symmetric(None)] {
        let answer = encrypt(&fixture, &options, &[Scalar::from("text"); 20]);
        let good = values(&answer);
        // As long, and no envelope of any version.
        let malformed = format!("{}!!:$", &text_of(&good[0])[..text_of(&good[0]).len() - 4]);
        let mut failing = good.clone();
        failing[13] = Scalar::from(malformed.as_str());
        assert_eq!(fault(&decrypt(&fixture, &failing)), ("invalid_envelope".to_owned(), Some(13), None));
        let of = DecryptOptions::new("acme");
        let [good, failing] = [good, failing].map(|values| {
            taken(&fixture, &frame(|out| request::decrypt(9, &of, values.iter().copied(), out))).expect("it is ended")
        });
        assert_eq!(failing, good);
        assert!(good > values_work(20, 0, 0) + request_work(0));
    }
}

/// Beyond 16 KiB no message is read, however little work it is otherwise.
#[test]
fn long_messages_are_left_to_workers() {
    let fixture = fixture();
    let seal = symmetric(None);
    let of_size = |size: usize| {
        let text = "x".repeat(size);
        frame(|out| request::encrypt(9, &seal, [Scalar::from(text.as_str())].into_iter(), out))
    };
    let around = of_size(10_000).len() - 10_000;
    _ = run(&fixture, of_size(1));
    for (size, is_ended) in [(16 << 10, true), ((16 << 10) + 1, false)] {
        let frame = of_size(size - around);
        assert_eq!(frame.len(), size);
        assert_eq!(taken(&fixture, &frame).is_some(), is_ended, "{size} bytes");
    }
}
