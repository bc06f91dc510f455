"""Certificates are replaced in time, and never met by an API server that does not trust them."""

import datetime as dt

from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.gateway.certifying import Kept, Lives, Pair, advanced, trusted_by

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
HOSTS = ("127.0.0.1", "stromboli-admission.stromboli-system.svc")
LIVES = Lives(
    authority=dt.timedelta(days=300), server=dt.timedelta(days=90), overlap=dt.timedelta(hours=1)
)


def step(kept: Kept, *, days: float = 0, is_trusted: bool = True) -> Kept:
    now = NOW + dt.timedelta(days=days)
    return advanced(kept, now=now, lives=LIVES, hosts=HOSTS, is_trusted=is_trusted)


def authorities(bundle: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle)


def is_trusted(server: Pair | None, bundle: bytes) -> bool:
    assert server is not None
    certificate = x509.load_pem_x509_certificate(server.certificate)
    for authority in authorities(bundle):
        if authority.subject == certificate.issuer:
            certificate.verify_directly_issued_by(authority)
            return True
    return False


def ends(pair: Pair) -> dt.datetime:
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc


def test_from_nothing_an_authority_and_a_certificate_for_every_host_are_made():
    kept = step(Kept())

    assert kept.server is not None
    certificate = x509.load_pem_x509_certificate(kept.server.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == [HOSTS[0]]
    assert names.get_values_for_type(x509.DNSName) == [HOSTS[1]]
    assert is_trusted(kept.server, trusted_by(kept))
    assert len(authorities(trusted_by(kept))) == 1


def test_nothing_is_replaced_before_two_thirds_of_its_life():
    kept = step(Kept())

    assert step(kept, days=59) == kept


def test_a_certificate_with_less_than_a_third_left_is_replaced_by_the_same_authority():
    kept = step(Kept())
    later = step(kept, days=61)

    assert later.server != kept.server
    assert later.authority == kept.authority
    assert later.former == b""


def test_a_new_authority_is_trusted_before_it_signs_and_the_former_until_after():
    old = step(step(Kept()), days=190)
    introduced = step(old, days=201, is_trusted=True)
    assert introduced.authority != old.authority
    assert introduced.server == old.server
    assert len(authorities(trusted_by(introduced))) == 2

    not_settled = step(introduced, days=201, is_trusted=False)
    assert not_settled == introduced

    signed = step(introduced, days=201.001, is_trusted=True)
    assert signed.server != introduced.server
    assert is_trusted(signed.server, trusted_by(introduced))
    assert len(authorities(trusted_by(signed))) == 2

    assert step(signed, days=201.01) == signed
    forgotten = step(signed, days=201.1)
    assert len(authorities(trusted_by(forgotten))) == 1
    assert is_trusted(forgotten.server, trusted_by(forgotten))


def test_a_gateway_that_was_off_for_years_begins_anew():
    kept = step(Kept())
    later = step(kept, days=4000)

    assert later.authority != kept.authority
    assert is_trusted(later.server, trusted_by(later))
    assert later.former == b""


def test_another_host_needs_another_certificate():
    kept = step(Kept())
    moved = advanced(kept, now=NOW, lives=LIVES, hosts=("10.0.0.1",), is_trusted=True)

    assert moved.server != kept.server
    assert moved.authority == kept.authority


def test_a_pair_that_does_not_belong_together_and_rubbish_are_replaced():
    kept, other = step(Kept()), step(Kept())
    assert kept.server is not None
    assert other.server is not None
    mixed = Kept(authority=kept.authority, server=Pair(kept.server.certificate, other.server.key))
    rubbish = Kept(authority=Pair(b"no", b"no"), former=b"no", server=Pair(b"no", b"no"))

    for broken in (mixed, rubbish):
        repaired = step(broken)
        assert is_trusted(repaired.server, trusted_by(repaired))
        assert step(repaired) == repaired


def test_a_key_does_not_show_itself():
    kept = step(Kept())

    assert "PRIVATE" not in repr(kept)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.01, 40), min_size=1, max_size=60), st.data())
def test_whenever_it_is_looked_at_what_serves_is_trusted_by_what_was_registered(
    pauses: list[float], data: st.DataObject
):
    """Unless what served before has ended meanwhile, which leaves nothing better to do."""
    day = 0.0
    kept = step(Kept())
    registered = trusted_by(kept)
    for pause in pauses:
        day += pause
        before, now = kept, NOW + dt.timedelta(days=day)
        settled = trusted_by(kept) == registered and data.draw(st.booleans())
        kept = step(kept, days=day, is_trusted=settled)
        assert kept.server is not None
        assert before.server is not None
        assert ends(kept.server) > now
        assert is_trusted(kept.server, trusted_by(kept))
        if is_trusted(before.server, registered) and ends(before.server) > now:
            assert is_trusted(kept.server, registered)
        if data.draw(st.booleans()):
            registered = trusted_by(kept)
