"""Decide what becomes of admission's certificates: made, renewed, handed to a new authority.

Pure but for the making of keys: what is kept goes in, what should be kept comes out. An API
server must trust a certificate before it meets it, so a new authority is first only trusted,
beside its predecessor; once that has reached the API servers it signs; and when what its
predecessor signed is surely out of use, the predecessor is forgotten. A key never leaves here
but to be kept.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Kept", "Lives", "Pair", "advanced", "trusted_by"]

_BACKDATED: Final = dt.timedelta(minutes=5)
"""Clocks differ: a certificate is valid a little before it was made."""

_AUTHORITY_NAME: Final = "stromboli-admission-authority"
_SERVER_NAME: Final = "stromboli-admission"


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(…)"  # the key must not get into a log by accident


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """All that is remembered between two looks."""

    authority: Pair | None = None
    former: bytes = b""
    """The certificate of the authority before it, as long as it is trusted."""
    server: Pair | None = None


class Lives(msgspec.Struct, frozen=True, kw_only=True):
    """How long things last. What has less than a third of its life left is replaced."""

    authority: dt.timedelta
    server: dt.timedelta
    overlap: dt.timedelta
    """How long what a former authority signed may still be met."""


def advanced(
    kept: Kept, *, now: dt.datetime, lives: Lives, hosts: Sequence[str], is_trusted: bool
) -> Kept:
    """What should be kept from now on; equal to `kept` when nothing is due.

    `is_trusted` says that API servers have had time to learn of the present authority.
    """
    authority, former = kept.authority, _alive(kept.former, now)
    if authority is None or not _is_good(authority.certificate, now, dt.timedelta(0)):
        authority = _new_authority(now, lives.authority)
        former = b""
    elif not former and not _is_good(authority.certificate, now, lives.authority / 3):
        former = authority.certificate
        authority = _new_authority(now, lives.authority)
    server = kept.server
    if server is None or not _serves(server, now, hosts, authority.certificate, former):
        server = _new_server(authority, now, lives.server, hosts)
    elif _signed(authority.certificate, server.certificate):
        if not _is_good(server.certificate, now, lives.server / 3):
            server = _new_server(authority, now, lives.server, hosts)
        elif former and now - _made_at(server.certificate) >= lives.overlap:
            former = b""
    elif is_trusted and authority == kept.authority:
        server = _new_server(authority, now, lives.server, hosts)
    return Kept(authority=authority, former=former, server=server)


def trusted_by(kept: Kept) -> bytes:
    """The bundle of authorities that clients must trust, as PEM."""
    return (kept.authority.certificate if kept.authority else b"") + kept.former


def _alive(certificate: bytes, now: dt.datetime) -> bytes:
    return certificate if certificate and _is_good(certificate, now, dt.timedelta(0)) else b""


def _read(certificate: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return None


def _is_good(certificate: bytes, now: dt.datetime, at_least: dt.timedelta) -> bool:
    """Can it be read, and does it last that much longer?"""
    read = _read(certificate)
    return read is not None and read.not_valid_after_utc - now > at_least


def _made_at(certificate: bytes) -> dt.datetime:
    read = x509.load_pem_x509_certificate(certificate)
    return read.not_valid_before_utc + _BACKDATED


def _signed(authority: bytes, certificate: bytes) -> bool:
    issuer, issued = _read(authority), _read(certificate)
    if issuer is None or issued is None:
        return False
    try:
        issued.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _serves(
    server: Pair, now: dt.datetime, hosts: Sequence[str], authority: bytes, former: bytes
) -> bool:
    """Whether clients that trust these authorities and call these hosts accept it today."""
    read = _read(server.certificate)
    if read is None or not _is_good(server.certificate, now, dt.timedelta(0)):
        return False
    try:
        key = serialization.load_pem_private_key(server.key, password=None)
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return (
        key.public_key() == read.public_key()
        and all(_general_name(host) in names for host in hosts)
        and (_signed(authority, server.certificate) or _signed(former, server.certificate))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _new_authority(now: dt.datetime, life: dt.timedelta) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities with the same name and different keys would confuse those who look an
    # issuer up by name.
    name = _name(f"{_AUTHORITY_NAME}-{x509.random_serial_number():x}"[:64])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key.public_key(), now=now, until=now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _new_server(
    authority: Pair, now: dt.datetime, life: dt.timedelta, hosts: Sequence[str]
) -> Pair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not the elliptic one that we made")
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + life, issuer.not_valid_after_utc)
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    certificate = (
        _builder(_name(_SERVER_NAME), issuer.subject, key.public_key(), now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    now: dt.datetime,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
