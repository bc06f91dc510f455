"""A certificate authority of one's own, a server certificate, and one for the administrator.

Made at the first start and kept in the data directory, so that kubeconfigs stay valid over
restarts. The server certificate is made anew when the host changes or its time runs out.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "ServerFiles", "pki_in"]

_CA_LIFE: Final = dt.timedelta(days=3650)
_LEAF_LIFE: Final = dt.timedelta(days=365)
_RENEW_BEFORE: Final = dt.timedelta(days=30)


class ServerFiles(msgspec.Struct, frozen=True):
    ca: Path
    certificate: Path
    key: Path
    admin_certificate: Path
    admin_key: Path


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _subject(user: str, groups: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


class Authority:
    """Signs certificates; what it signed is trusted by whoever trusts its own certificate."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @classmethod
    def created(cls) -> "Authority":
        key = _key()
        name = _subject("stromboli-sandbox-ca")
        now = dt.datetime.now(dt.UTC)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + _CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    def issue(
        self, user: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> tuple[bytes, bytes]:
        """A certificate and its key as PEM: for a server if it has hosts, else for a user."""
        key = _key()
        now = dt.datetime.now(dt.UTC)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            x509.CertificateBuilder()
            .subject_name(_subject(user, groups))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + _LEAF_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def pki_in(directory: Path, host: str) -> ServerFiles:
    """The certificate files of a data directory, made or renewed where needed."""
    directory.mkdir(parents=True, exist_ok=True)
    files = ServerFiles(
        ca=directory / "ca.crt",
        certificate=directory / "server.crt",
        key=directory / "server.key",
        admin_certificate=directory / "admin.crt",
        admin_key=directory / "admin.key",
    )
    authority = _authority(files.ca, directory / "ca.key")
    hosts = list(dict.fromkeys([host, "127.0.0.1", "localhost", "kubernetes.default.svc"]))
    if not _is_good(files.certificate, hosts):
        certificate, key = authority.issue("stromboli-sandbox", hosts=hosts)
        _write(files.key, key)
        _write(files.certificate, certificate)
    if not _is_good(files.admin_certificate, ()):
        certificate, key = authority.issue("stromboli-admin", groups=("system:masters",))
        _write(files.admin_key, key)
        _write(files.admin_certificate, certificate)
    return files


def _authority(certificate_file: Path, key_file: Path) -> Authority:
    if certificate_file.exists() and key_file.exists():
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return Authority(certificate, key)
    authority = Authority.created()
    _write(key_file, _pem(authority.key))
    _write(certificate_file, authority.certificate.public_bytes(serialization.Encoding.PEM))
    return authority


def _is_good(file: Path, hosts: Sequence[str]) -> bool:
    """True if the certificate exists, is not about to expire, and names these hosts."""
    if not file.exists():
        return False
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    remaining = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    if remaining < _RENEW_BEFORE:
        return False
    if not hosts:
        return True
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return all(_general_name(host) in names for host in hosts)


def _write(file: Path, content: bytes) -> None:
    scratch = file.with_suffix(".tmp")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    scratch.rename(file)
