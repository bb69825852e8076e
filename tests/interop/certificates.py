"""Certificates that Leafseal would not issue: from an unknown authority, expired, or of other servers."""

import datetime
import ipaddress
import ssl
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
        """An authority that the engine does not trust."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("another authority")
        builder = _builder(name, name, key.public_key(), _now() - DAY, _now() + DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_signs_certificates(), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, certificate: Path, key: Path) -> "Authority":
        """Loads an authority from PEM files."""
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
        return cls(x509.load_pem_x509_certificate(certificate.read_bytes()), private)

    def write(self, folder: Path) -> Path:
        path = folder / "other-ca.pem"
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, folder: Path, file: str, like: x509.Certificate, end: datetime.datetime) -> tuple[Path, Path]:
        """Creates a client certificate with the names of `like`, valid for the day before `end`; returns the paths of certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(like.subject, self.certificate.subject, key.public_key(), end - DAY, end)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        for extension in like.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, extension.critical)
        return self._write(folder, file, builder, key)

    def issue_server(
        self, folder: Path, file: str, hosts: list[str], end: datetime.datetime | None = None
    ) -> "Server":
        """A certificate of a server at `hosts`, names or addresses, valid for the two days before `end`."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = end or tomorrow()
        builder = _builder(_name(hosts[0]), self.certificate.subject, key.public_key(), end - 2 * DAY, end)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(authority, critical=False)
        return Server(*self._write(folder, file, builder, key))

    def write_key(self, folder: Path) -> Path:
        path = folder / "other-ca.key"
        path.write_bytes(_private_pem(self.key))
        return path

    def _write(
        self, folder: Path, file: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey
    ) -> tuple[Path, Path]:
        paths = folder / f"{file}.pem", folder / f"{file}.key"
        paths[0].write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(_private_pem(key))
        return paths


@dataclass(frozen=True)
class Server:
    """Paths of a server's certificate and key."""

    certificate: Path
    key: Path

    def context(self, *alpn: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


def yesterday() -> datetime.datetime:
    return _now() - DAY


def tomorrow() -> datetime.datetime:
    return _now() + DAY


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, form, serialization.NoEncryption())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signs_certificates() -> x509.KeyUsage:
    off = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only")
    return x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **dict.fromkeys(off, False))


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
