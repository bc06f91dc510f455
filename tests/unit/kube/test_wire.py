import msgspec
import pytest

from stromboli.kube.wire import EventType, decode_page, decode_watch_line, read_meta


def test_a_page_keeps_its_items_as_bytes() -> None:
    page = decode_page(
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"12","continue":"abc",'
        b'"remainingItemCount":7},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}'
    )

    assert [bytes(item) for item in page.items] == [
        b'{"metadata":{"name":"a"}}',
        b'{"metadata":{"name":"b"}}',
    ]
    assert (page.resource_version, page.continue_token, page.remaining) == ("12", "abc", 7)


def test_a_list_that_go_encoded_as_null_is_empty() -> None:
    page = decode_page(b'{"metadata":{"resourceVersion":"3"},"items":null}')

    assert page.items == []
    assert page.continue_token == ""


def test_a_watch_line_names_its_object() -> None:
    event = decode_watch_line(
        b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"n",'
        b'"uid":"u","resourceVersion":"9","creationTimestamp":null},"spec":{}}}'
    )

    assert event.type is EventType.MODIFIED
    assert (event.name, event.namespace, event.uid, event.resource_version) == ("a", "n", "u", "9")
    assert msgspec.json.decode(event.object)["kind"] == "Pod"


def test_a_bookmark_has_only_a_version() -> None:
    event = decode_watch_line(
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
        b'{"resourceVersion":"77","creationTimestamp":null},"spec":{"containers":null}}}'
    )

    assert (event.type, event.name, event.resource_version) == (EventType.BOOKMARK, "", "77")


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"type":"RENAMED","object":{}}', b'{"type":"ADDED"}']
)
def test_a_line_that_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_watch_line(line)


def test_metadata_with_nulls_and_unknown_fields_can_be_read() -> None:
    meta = read_meta(
        b'{"metadata":{"name":"a","deletionTimestamp":null,"finalizers":["x/y"],"managedFields":[]}}'
    )

    assert (meta.name, meta.deletion_timestamp, meta.finalizers) == ("a", None, ("x/y",))
