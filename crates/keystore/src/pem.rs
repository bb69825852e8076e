//! Keys as PEM: private ones in (SEC1 as RFC 5915 and PKCS#8 as RFC 5958 have them), public ones out (RFC 5480).
//!
//! A PEM names its curve and may contain its public key: both are compared with the request. Text outside the blocks is ignored
//! (RFC 7468, 2). Buffers that held a private key are wiped; base64 is decoded in constant time.

use base64ct::{Base64, Encoding};
use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, OctetStringRef};
use der::{Decode, Reader, SliceReader, Tag, TagNumber, Tagged};
use leafseal_crypto::{Curve, EcContext, PrivateKey, PublicKey, Secret};
use zeroize::Zeroizing;

/// Longest PEM in bytes. One key with the longest explanatory text that openssl writes is under 2 KiB.
pub const PEM_SIZE_MAX: usize = 64 << 10;
/// Base64 characters a line (RFC 7468, 2).
const LINE_SIZE: usize = 64;

/// RFC 5480, 2.1.1.
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// RFC 5480, 2.1.1.1.
const SECP256R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// SEC 2, A.2.1.
const SECP256K1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.10");

/// Why a PEM cannot be read as a private key. Contains nothing of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Longer than [`PEM_SIZE_MAX`].
    #[error("too long for the PEM of one private key")]
    TooLarge,
    /// Not UTF-8, so no PEM.
    #[error("not a PEM: it is not text (for DER, run openssl pkey -inform DER -in FILE -out KEY.pem)")]
    NotText,
    /// No PEM block.
    #[error("no private key: expected a PEM block EC PRIVATE KEY or PRIVATE KEY")]
    NoKey,
    /// More than one private key: which one is meant?
    #[error("more than one private key: give each a file of its own")]
    SeveralKeys,
    /// A block begins and does not end.
    #[error("the PEM is truncated: a block has no end line")]
    Truncated,
    /// A block's content is not base64.
    #[error("the PEM is damaged: a block is not base64")]
    NotBase64,
    /// A block that is no EC private key.
    #[error("a PEM block {0}: expected one EC PRIVATE KEY or PRIVATE KEY and nothing else")]
    OtherBlock(&'static str),
    /// The key is encrypted under a pass phrase.
    #[error("the private key is encrypted: run openssl pkey -in FILE -out KEY.pem, import KEY.pem, destroy it")]
    Encrypted,
    /// Not the DER that the block's label promises.
    #[error("the private key is damaged: its content is not the DER that its PEM label names")]
    Malformed,
    /// A PKCS#8 key of another algorithm, such as RSA or Ed25519.
    #[error("the private key is not an elliptic-curve key")]
    NotEllipticCurve,
    /// Neither P-256 nor secp256k1.
    #[error("the private key is on another curve: only P-256 (r1) and secp256k1 (k1) are supported")]
    OtherCurve,
    /// The curve's numbers instead of its name.
    #[error(
        "the private key has explicit curve parameters: run openssl ec -in FILE -param_enc named_curve -out KEY.pem"
    )]
    ExplicitParameters,
    /// The other of the two curves.
    #[error("this is a {} key where a {} key is expected", name(*.found), name(*.expected))]
    WrongCurve {
        /// The requested curve.
        expected: Curve,
        /// The curve that the PEM names.
        found: Curve,
    },
    /// Not a scalar between 1 and the group order − 1.
    #[error("the private key is out of range for its curve")]
    InvalidScalar,
    /// The public key inside does not belong to the private key.
    #[error("the public key inside does not belong to the private key")]
    PublicKeyMismatch,
}

/// Everything that `der` reports is the same to us; its errors carry positions, not content.
impl From<der::Error> for ImportError {
    fn from(_: der::Error) -> Self {
        Self::Malformed
    }
}

fn name(curve: Curve) -> &'static str {
    match curve {
        Curve::P256 => "P-256 (r1)",
        Curve::Secp256k1 => "secp256k1 (k1)",
    }
}

/// Parses the one private key in `pem`: a block `EC PRIVATE KEY` (SEC1), which `EC PARAMETERS` may precede, or a block
/// `PRIVATE KEY` (PKCS#8). A SEC1 key that names no curve is taken to be on `curve`. `context` derives the public key, to hold it
/// against the one inside.
///
/// # Errors
/// [`ImportError`].
pub fn parse_private_key_pem(pem: &str, curve: Curve, context: &EcContext) -> Result<PrivateKey, ImportError> {
    if pem.len() > PEM_SIZE_MAX {
        return Err(ImportError::TooLarge);
    }
    let mut key = None;
    for block in blocks(pem)? {
        let found = match block.label {
            PemLabel::EcParameters => {
                check_curve(AnyRef::from_der(&block.der)?, curve)?;
                continue;
            }
            PemLabel::Sec1 => parse_sec1(&block.der, curve, context)?,
            PemLabel::Pkcs8 => parse_pkcs8(&block.der, curve, context)?,
        };
        if key.replace(found).is_some() {
            return Err(ImportError::SeveralKeys);
        }
    }
    key.ok_or(ImportError::NoKey)
}

/// The PEM of a SubjectPublicKeyInfo with a named curve and an uncompressed point, as `openssl ec -pubout` writes it.
pub fn public_key_pem(public: &PublicKey) -> String {
    pem("PUBLIC KEY", &Base64::encode_string(&public.spki_der()))
}

/// A PEM block. Its text is written in place, so that no copy of it is left behind.
pub(crate) fn pem(label: &str, base64: &str) -> String {
    let boundaries = 2 * (label.len() + "-----BEGIN -----\n".len());
    let mut pem = String::with_capacity(boundaries + base64.len() + base64.len().div_ceil(LINE_SIZE));
    pem.push_str("-----BEGIN ");
    pem.push_str(label);
    pem.push_str("-----\n");
    let mut rest = base64;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_SIZE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END ");
    pem.push_str(label);
    pem.push_str("-----\n");
    pem
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PemLabel {
    EcParameters,
    Sec1,
    Pkcs8,
}

impl PemLabel {
    fn parse(label: &str) -> Result<Self, ImportError> {
        match label {
            "EC PARAMETERS" => Ok(Self::EcParameters),
            "EC PRIVATE KEY" => Ok(Self::Sec1),
            "PRIVATE KEY" => Ok(Self::Pkcs8),
            "ENCRYPTED PRIVATE KEY" => Err(ImportError::Encrypted),
            // Repeated from here and not from the input, of which an error holds nothing.
            "PUBLIC KEY" => Err(ImportError::OtherBlock("PUBLIC KEY")),
            "CERTIFICATE" => Err(ImportError::OtherBlock("CERTIFICATE")),
            "RSA PRIVATE KEY" => Err(ImportError::OtherBlock("RSA PRIVATE KEY")),
            "OPENSSH PRIVATE KEY" => Err(ImportError::OtherBlock("OPENSSH PRIVATE KEY")),
            _ => Err(ImportError::OtherBlock("of another kind")),
        }
    }
}

struct PemBlock {
    label: PemLabel,
    der: Zeroizing<Vec<u8>>,
}

/// The label in a boundary line such as `-----BEGIN LABEL-----`.
fn boundary<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    line.strip_prefix("-----")?.strip_prefix(kind)?.strip_prefix(' ')?.strip_suffix("-----")
}

/// The blocks of a PEM in their order, decoded.
fn blocks(pem: &str) -> Result<Vec<PemBlock>, ImportError> {
    let mut blocks = Vec::new();
    let mut lines = pem.lines().map(str::trim_ascii_end);
    while let Some(line) = lines.next() {
        let Some(begin) = boundary(line, "BEGIN") else { continue };
        let label = PemLabel::parse(begin)?;
        // Capacity for everything, because a growing string would leave copies behind.
        let mut base64 = Zeroizing::new(String::with_capacity(pem.len()));
        loop {
            let line = lines.next().ok_or(ImportError::Truncated)?;
            if line.starts_with("Proc-Type: 4,ENCRYPTED") {
                return Err(ImportError::Encrypted);
            }
            match boundary(line, "END") {
                Some(end) if end == begin => break,
                Some(_) => return Err(ImportError::Truncated),
                None => base64.push_str(line),
            }
        }
        let mut der = Zeroizing::new(vec![0; base64.len()]);
        let size = Base64::decode(base64.as_bytes(), &mut der).map_err(|_| ImportError::NotBase64)?.len();
        der.truncate(size);
        blocks.push(PemBlock { label, der });
    }
    Ok(blocks)
}

/// ECParameters (RFC 5480, 2.1.1): only a name, and only that of `expected`.
fn check_curve(parameters: AnyRef<'_>, expected: Curve) -> Result<(), ImportError> {
    let found = match parameters.tag() {
        Tag::ObjectIdentifier => match parameters.decode_as::<ObjectIdentifier>()? {
            SECP256R1 => Curve::P256,
            SECP256K1 => Curve::Secp256k1,
            _ => return Err(ImportError::OtherCurve),
        },
        Tag::Sequence => return Err(ImportError::ExplicitParameters),
        _ => return Err(ImportError::Malformed),
    };
    if found == expected { Ok(()) } else { Err(ImportError::WrongCurve { expected, found }) }
}

/// The value inside an explicit context-specific tag, when that comes next.
fn explicit<'a>(reader: &mut SliceReader<'a>, number: u32) -> Result<Option<AnyRef<'a>>, der::Error> {
    let wanted = Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
    if reader.is_finished() || Tag::peek(reader)? != wanted {
        return Ok(None);
    }
    let outer: AnyRef<'a> = reader.decode()?;
    AnyRef::from_der(outer.value()).map(Some)
}

/// ECPrivateKey (RFC 5915, 3): SEQUENCE { 1, OCTET STRING, [0] ECParameters OPTIONAL, [1] BIT STRING OPTIONAL }.
fn parse_sec1(der: &[u8], curve: Curve, context: &EcContext) -> Result<PrivateKey, ImportError> {
    let mut reader = SliceReader::new(der)?;
    let (version, scalar, parameters, public) = reader.sequence(|inner| {
        let version: u8 = inner.decode()?;
        let scalar: &OctetStringRef = inner.decode()?;
        Ok::<_, der::Error>((version, scalar, explicit(inner, 0)?, explicit(inner, 1)?))
    })?;
    reader.finish()?;
    if version != 1 {
        return Err(ImportError::Malformed);
    }
    if let Some(parameters) = parameters {
        check_curve(parameters, curve)?;
    }
    // The length is that of the group order, leading zeros included (RFC 5915, 3).
    let scalar = Secret::from_slice(scalar.as_bytes()).ok_or(ImportError::Malformed)?;
    let private = PrivateKey::from_scalar(curve, scalar).map_err(|_| ImportError::InvalidScalar)?;
    if let Some(public) = public {
        let point: BitStringRef<'_> = public.decode_as()?;
        // None where the last byte has unused bits, which a point never has.
        let point = point.as_bytes().ok_or(ImportError::Malformed)?;
        check_public_key(&private, point, context)?;
    }
    Ok(private)
}

/// OneAsymmetricKey (RFC 5958, 2): SEQUENCE { 0 or 1, SEQUENCE { id-ecPublicKey, ECParameters }, OCTET STRING holding an
/// ECPrivateKey, [0] attributes OPTIONAL, [1] IMPLICIT BIT STRING OPTIONAL }.
fn parse_pkcs8(der: &[u8], curve: Curve, context: &EcContext) -> Result<PrivateKey, ImportError> {
    let mut reader = SliceReader::new(der)?;
    let (version, algorithm, parameters, sec1, public) = reader.sequence(|inner| {
        let version: u8 = inner.decode()?;
        let (algorithm, parameters) = inner.sequence(|inner| {
            let algorithm: ObjectIdentifier = inner.decode()?;
            let parameters: Option<AnyRef<'_>> = if inner.is_finished() { None } else { Some(inner.decode()?) };
            Ok::<_, der::Error>((algorithm, parameters))
        })?;
        let sec1: &OctetStringRef = inner.decode()?;
        let mut public = None;
        while !inner.is_finished() {
            let field: AnyRef<'_> = inner.decode()?;
            if matches!(field.tag(), Tag::ContextSpecific { number: TagNumber(1), .. }) {
                public = Some(field.value());
            }
        }
        Ok::<_, der::Error>((version, algorithm, parameters, sec1, public))
    })?;
    reader.finish()?;
    if version > 1 {
        return Err(ImportError::Malformed);
    }
    if algorithm != EC_PUBLIC_KEY {
        return Err(ImportError::NotEllipticCurve);
    }
    check_curve(parameters.ok_or(ImportError::Malformed)?, curve)?;
    let private = parse_sec1(sec1.as_bytes(), curve, context)?;
    if let Some(bits) = public {
        // The content of a BIT STRING starts with the number of unused bits, here none (X.690, 8.6.2).
        let point = bits.strip_prefix(&[0]).ok_or(ImportError::Malformed)?;
        check_public_key(&private, point, context)?;
    }
    Ok(private)
}

fn check_public_key(private: &PrivateKey, point: &[u8], context: &EcContext) -> Result<(), ImportError> {
    match PublicKey::from_sec1(private.curve(), point) {
        Ok(public) if public == context.public_key(private) => Ok(()),
        _ => Err(ImportError::PublicKeyMismatch),
    }
}
