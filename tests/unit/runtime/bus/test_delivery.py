import pytest

from stromboli.runtime.bus.delivery import Place, place_of

PLACE = Place(deliveries=2, stream_sequence=30, consumer_sequence=4, timestamp_ns=1700, pending=9)


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.STATE.reader.2.30.4.1700.9",
        "$JS.ACK.hub.ACCHASH.STATE.reader.2.30.4.1700.9",
        "$JS.ACK._.ACCHASH.STATE.reader.2.30.4.1700.9.random",
    ],
)
def test_the_place_of_a_delivery_is_read_from_its_reply_subject(reply: str):
    assert place_of(reply) == PLACE


@pytest.mark.parametrize("reply", ["", "_INBOX.gateway.x", "$JS.FC.STATE.reader.x"])
def test_another_reply_subject_is_refused(reply: str):
    with pytest.raises(ValueError, match="JetStream delivery"):
        place_of(reply)
