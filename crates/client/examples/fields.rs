//! Measures how many fields per second this client encrypts and decrypts, for comparison with clients in other languages.
//!
//! ```text
//! fields ADDRESS CA.pem CLIENT.pem CLIENT.key APP FIELDS IN_FLIGHT MILLISECONDS
//! ```
//!
//! Prints one line of JSON: `{"encrypt":FIELDS_PER_SECOND,"encrypt_cpu_ns":…,"decrypt":…,"decrypt_cpu_ns":…}`; `…_cpu_ns` is this process's
//! processor time for a field, on Linux. Every answer is decoded to owned values.

use std::path::Path;
use std::time::{Duration, Instant};

use leafseal_client::{Client, ClientError, ClientSettings, ClientTls, DecryptOptions, EncryptOptions, Scalar, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, ca, certificate, key, app, fields, in_flight, milliseconds] = arguments.as_slice() else {
        return Err("expected ADDRESS CA.pem CLIENT.pem CLIENT.key APP FIELDS IN_FLIGHT MILLISECONDS".into());
    };
    let tls = ClientTls::from_files(Path::new(ca), Path::new(certificate), Path::new(key))?;
    let client = Client::connect(ClientSettings::new(address.as_str(), tls)).await?;
    let load = Load {
        client: &client,
        app,
        in_flight: in_flight.parse()?,
        duration: Duration::from_millis(milliseconds.parse()?),
    };
    let fields: usize = fields.parse()?;
    let texts: Vec<String> = (0..fields).map(|index| format!("{:x<32}", format!("value number {index} "))).collect();
    let values: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
    let envelopes = client.encrypt(&EncryptOptions::new(app), &values).await?;
    let sealed: Vec<Scalar<'_>> = envelopes.iter().map(Value::as_scalar).collect();
    let (encrypted, encrypt_cpu) = load.measure(&values, true).await?;
    let (decrypted, decrypt_cpu) = load.measure(&sealed, false).await?;
    println!(
        "{{\"encrypt\":{encrypted:.0},\"encrypt_cpu_ns\":{encrypt_cpu:.1},\"decrypt\":{decrypted:.0},\"decrypt_cpu_ns\":{decrypt_cpu:.1}}}"
    );
    Ok(())
}

/// The processor time of this program's only thread in nanoseconds; 0 where the system does not report it.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

struct Load<'a> {
    client: &'a Client,
    app: &'a str,
    in_flight: usize,
    duration: Duration,
}

impl Load<'_> {
    /// Keeps requests in flight for the duration; returns fields per second, and nanoseconds of processor time for a field.
    async fn measure(&self, values: &[Scalar<'_>], is_encrypting: bool) -> Result<(f64, f64), ClientError> {
        let (began, time) = (Instant::now(), processor_time());
        let caller = async || {
            let mut fields = 0;
            while began.elapsed() < self.duration {
                fields += match is_encrypting {
                    true => self.client.encrypt(&EncryptOptions::new(self.app), values).await?.len(),
                    false => self.client.decrypt(&DecryptOptions::new(self.app), values).await?.len(),
                };
            }
            Ok::<usize, ClientError>(fields)
        };
        let mut callers = Vec::new();
        callers.resize_with(self.in_flight, || Box::pin(caller()));
        let mut total = 0;
        for fields in join_all(callers).await {
            total += fields?;
        }
        Ok((total as f64 / began.elapsed().as_secs_f64(), (processor_time() - time) / total as f64))
    }
}

/// Drives all futures at once and returns their results.
async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut results: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *result = Some(output);
            }
        }
        match results.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
