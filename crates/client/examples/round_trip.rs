//! Encrypts and decrypts a list of values and a document with the engine that `leafseal dev` starts.

use std::error::Error;
use std::path::Path;

use leafseal_client::{Client, ClientSettings, ClientTls, DecryptOptions, EncryptOptions, Scalar, Scheme, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    round_trip("127.0.0.1:3443", "app_dev", Path::new(".leafseal/certs")).await
}

/// Connects to the engine at `address` with the certificate of the client `dev`.
pub(crate) async fn round_trip(address: &str, app: &str, certs: &Path) -> Result<(), Box<dyn Error>> {
    let tls = ClientTls::from_files(&certs.join("ca.pem"), &certs.join("dev.pem"), &certs.join("dev.key"))?;
    // Cheap to clone: create one client per process.
    let client = Client::connect(ClientSettings::new(address, tls)).await?;
    let (encrypt, decrypt) = (EncryptOptions::new(app), DecryptOptions::new(app));

    // Values, in their order and with their types.
    let values = [Scalar::from("4111111111111111"), Scalar::Float(12.5), Scalar::Bool(true)];
    let sealed = client.encrypt(&encrypt, &values).await?;
    assert!(matches!(&sealed[0], Value::Str(text) if text.starts_with("ev:")));
    let sealed: Vec<Scalar> = sealed.iter().map(Value::as_scalar).collect();
    let opened = client.decrypt(&decrypt, &sealed).await?;
    assert_eq!(opened, [Value::Str("4111111111111111".into()), Value::Float(12.5), Value::Bool(true)]);

    // The same with a symmetric key, bound to their row: for values that only engines seal.
    let row = Some("card/7");
    let encrypt_row = EncryptOptions { scheme: Some(Scheme::Symmetric), context: row, ..encrypt };
    let sealed = client.encrypt(&encrypt_row, &values).await?;
    let sealed: Vec<Scalar> = sealed.iter().map(Value::as_scalar).collect();
    assert_eq!(client.decrypt(&DecryptOptions { context: row, ..decrypt }, &sealed).await?, opened);

    // The selected fields of a document. Every other byte stays unchanged.
    let payment = br#"{"card": {"number": "4111111111111111", "expiry": "12/29"}, "amount": 12.50}"#;
    let sealed = client.encrypt_document(&encrypt, Some(&["$.card.number"]), payment).await?;
    println!("{}", String::from_utf8_lossy(&sealed.json));
    let opened = client.decrypt_document(&decrypt, None, &sealed.json).await?;
    assert_eq!(opened.json, payment);
    Ok(())
}
