"""Certificates that Fieldseal would not issue: of a strange authority, or expired."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def fresh(cls) -> "Authority":
        """One that the engine has never heard of."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("another authority")
        builder = _builder(name, name, key.public_key(), _now() - DAY, _now() + DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, certificate: Path, key: Path) -> "Authority":
        """From PEM files."""
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
        return cls(x509.load_pem_x509_certificate(certificate.read_bytes()), private)

    def write(self, folder: Path) -> Path:
        path = folder / "other-ca.pem"
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, folder: Path, file: str, like: x509.Certificate, end: datetime.datetime) -> tuple[Path, Path]:
        """A client certificate with the names of `like`, valid for the day before `end`; paths of certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(like.subject, self.certificate.subject, key.public_key(), end - DAY, end)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        for extension in like.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, extension.critical)
        issued = builder.sign(self.key, hashes.SHA256())
        paths = folder / f"{file}.pem", folder / f"{file}.key"
        paths[0].write_bytes(issued.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths


def yesterday() -> datetime.datetime:
    return _now() - DAY


def tomorrow() -> datetime.datetime:
    return _now() + DAY


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
