"""What the gateway refuses before it asks Kubernetes anything, and the sentence it says."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api import kinds
from stromboli.contracts.intents import (
    BINDS_PER_PART,
    CONTRACT,
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    PatchObject,
    PatchType,
    PodBinding,
    Verb,
)
from stromboli.contracts.outcomes import Reason
from stromboli.contracts.permissions import ROWS, Row, row_for
from stromboli.gateway.applying import with_uid
from stromboli.gateway.checks import check
from stromboli.gateway.refusals import Refusal

OWNER = {"uid": "job-uid", "controller": True}


def envelope(service: str = "controllers", **other: Any) -> dict[str, Any]:
    return {"id": "i", "key": "vcjob/ns/mpi", "service": service, **other}


def manifest(kind: str = "pod", name: str = "mpi-0", **metadata: Any) -> bytes:
    known = kinds.by_token(kind)
    meta = {"name": name, "ownerReferences": [OWNER], **metadata}
    if known.namespaced:
        meta.setdefault("namespace", "ns")
    return msgspec.json.encode(
        {"apiVersion": known.api_version, "kind": known.kind, "metadata": meta}
    )


def create(kind: str = "pod", **other: Any) -> CreateObject:
    fields: dict[str, Any] = {
        "kind": kind,
        "namespace": "ns" if kinds.by_token(kind).namespaced else "",
        "name": "mpi-0",
        "owner_uid": "job-uid",
        "manifest": manifest(kind),
    }
    return CreateObject(**envelope(**{**fields, **other}))


def patch(body: object, *, kind: str = "pod", **other: Any) -> PatchObject:
    fields: dict[str, Any] = {
        "kind": kind,
        "namespace": "ns" if kinds.by_token(kind).namespaced else "",
        "name": "mpi-0",
        "uid": "pod-uid",
        "patch": body if isinstance(body, bytes) else msgspec.json.encode(body),
    }
    return PatchObject(**envelope(**{**fields, **other}))


def json_patch(*operations: object, **other: Any) -> PatchObject:
    return patch(list(operations), patch_type=PatchType.JSON, **other)


def bind(*binds: tuple[str, str, str], **other: Any) -> BindGang:
    fields: dict[str, Any] = {"namespace": "ns", "name": "mpi-pg", "attempt": "1"}
    bindings = tuple(PodBinding(*one) for one in binds)
    return BindGang(**envelope("scheduler", **{**fields, **other}), binds=bindings)


def judged(intent: AnyIntent) -> Refusal | None:
    return check(intent, intent.subject())


def sound(row: Row) -> AnyIntent:
    """An intent that this row is there for."""
    kind = kinds.by_token(row.kind)
    place: dict[str, Any] = {
        **envelope(row.service),
        "kind": row.kind,
        "namespace": "ns" if kind.namespaced else "",
        "name": "mpi-0",
    }
    match row.verb:
        case Verb.CREATE if row.ownerless:
            bare = manifest(row.kind, ownerReferences=None)
            return CreateObject(**place, manifest=bare)
        case Verb.CREATE:
            return CreateObject(**place, owner_uid="job-uid", manifest=manifest(row.kind))
        case Verb.PATCH:
            body: dict[str, Any] = {}
            for field in row.fields:
                inner = body
                *above, last = field.split(".")
                for step in above:
                    inner = inner.setdefault(step, {})
                inner[last] = {"x": 1}
            encoded = msgspec.json.encode(body)
            return PatchObject(**place, uid="u", subresource=row.subresource, patch=encoded)
        case Verb.DELETE:
            return DeleteObject(**place, uid="u")
        case Verb.EVICT:
            return EvictPod(**place, uid="u")
        case Verb.BIND:
            return BindGang(**place, attempt="1", binds=(PodBinding("a", "u", "n"),))
        case Verb.GENERATE:
            owner: dict[str, Any] = {"owner_kind": "vcjob", "owner_name": "mpi", "owner_uid": "u"}
            return GenerateSecret(**place, **owner, recipe="ssh-key-pair")
        case Verb.FENCE:
            raise AssertionError("a fence needs no row")


# Who may ask for what.


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda r: f"{r.service}-{r.verb}-{r.kind}-{r.subresource}"
)
def test_every_row_lets_a_sound_intent_pass(row: Row):
    assert judged(sound(row)) is None


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.service}-{r.verb}-{r.kind}")
def test_what_one_service_may_ask_for_another_may_not(row: Row):
    for service in ("admission", "operator", "gateway", "nobody"):
        stranger = msgspec.structs.replace(sound(row), service=service)

        refusal = judged(stranger)

        assert row_for(service, row.verb, row.kind, row.subresource) is None
        assert refusal is not None
        assert refusal.reason is Reason.NOT_ALLOWED
        assert refusal.message.startswith(f"{service} may not {row.verb} {row.kind}")


def test_an_intent_on_a_subject_that_is_not_its_own_is_refused():
    """NATS lets a service publish on its own subjects only: the subject says who speaks."""
    intent = create()
    arrived_on = intent.subject().replace("controllers", "scheduler")

    assert check(intent, arrived_on) == Refusal(
        Reason.NOT_ALLOWED,
        f"it came on {arrived_on} but says it belongs to {intent.subject()}",
    )


def test_an_intent_in_a_partition_that_is_not_its_keys_is_refused():
    refusal = check(create(), "vc.intent.1.controllers.create.pod")

    assert refusal is not None
    assert refusal.reason is Reason.NOT_ALLOWED


def test_a_fence_may_come_from_any_service_on_its_own_subject():
    fence = Fence(**envelope("scheduler"), contract=CONTRACT)

    assert check(fence, "vc.intent.0.scheduler.fence.-") is None
    assert check(fence, "vc.intent.0.controllers.fence.-") is not None


@pytest.mark.parametrize("spoken", [CONTRACT - 1, CONTRACT + 1])
def test_a_service_of_another_release_is_not_heard_and_learns_why(spoken: int):
    refusal = judged(Fence(**envelope("scheduler"), contract=spoken))

    assert refusal is not None
    assert f"version {spoken}" in refusal.message
    assert f"version {CONTRACT}" in refusal.message


def test_the_subresource_is_part_of_what_is_allowed():
    refusal = judged(patch({"status": {}}, kind="vcjob"))

    assert refusal is not None
    assert refusal.reason is Reason.NOT_ALLOWED
    assert refusal.message.startswith("controllers does not own status of vcjob")
    assert judged(patch({"status": {}}, kind="vcjob", subresource="status")) is None
    scale = judged(patch({}, kind="vcjob", subresource="scale"))
    assert scale == Refusal(Reason.NOT_ALLOWED, "controllers may not patch vcjob/scale")


# Names and places.


def test_an_intent_without_a_key_is_refused_because_it_would_have_no_order():
    assert judged(create(key="")) == Refusal(
        Reason.BAD_REQUEST, "it has no key, and without one it has no order"
    )


@pytest.mark.parametrize(
    ("intent", "sentence"),
    [
        (create(namespace=""), "pod needs a namespace, got ''"),
        (
            create("queue", namespace="ns", manifest=manifest("queue")),
            "queue needs no namespace, got 'ns'",
        ),
    ],
)
def test_an_object_stands_in_a_namespace_or_in_none_as_its_kind_wants(
    intent: AnyIntent, sentence: str
):
    assert judged(intent) == Refusal(Reason.BAD_REQUEST, sentence)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/status", "a%2fstatus", "a?x=1", "A", "-a", "a\n", "a" * 254]
)
def test_a_name_that_is_none_is_refused_wherever_it_stands(name: str):
    """An empty one would delete a whole collection, a slash would reach a subresource."""
    refusal = Refusal(Reason.BAD_REQUEST, f"{name!r} is not a name in Kubernetes")
    place: dict[str, Any] = {"kind": "pod", "namespace": "ns", "name": name}

    assert judged(DeleteObject(**envelope(), **place, uid="u")) == refusal
    assert judged(create(name=name, manifest=manifest(name=name))) == refusal
    assert judged(patch({}, name=name)) == refusal
    assert judged(EvictPod(**envelope("scheduler"), **place, uid="u")) == refusal
    if name:
        assert judged(create(namespace=name)) == refusal


@pytest.mark.parametrize("uid_of", ["delete", "evict", "patch"])
def test_without_a_uid_nobody_knows_which_object_was_meant(uid_of: str):
    place: dict[str, Any] = {"kind": "pod", "namespace": "ns", "name": "a", "uid": ""}
    intents: dict[str, AnyIntent] = {
        "delete": DeleteObject(**envelope(), **place),
        "evict": EvictPod(**envelope("scheduler"), **place),
        "patch": PatchObject(**envelope(), **place, patch=b"{}"),
    }
    refusal = judged(intents[uid_of])

    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.message.endswith("needs the uid of what is meant")


# Creating.


@pytest.mark.parametrize(
    "other",
    [
        manifest(name="other"),
        manifest(namespace="other"),
        manifest("configmap"),
        manifest(namespace=""),
        b"{}",
    ],
    ids=["name", "namespace", "kind", "no namespace", "nothing"],
)
def test_a_manifest_is_of_the_kind_and_name_that_the_intent_claims(other: bytes):
    refusal = judged(create(manifest=other))

    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.message.endswith("the intent says ('v1', 'Pod', 'ns', 'mpi-0')")


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"[]", b"null", b'"x"', b"{", b"\xff", b'{"metadata": 5}', b"[" * 5000],
)
def test_a_manifest_that_is_no_object_is_refused(rubbish: bytes):
    refusal = judged(create(manifest=rubbish))

    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.message.startswith("its manifest is")


@pytest.mark.parametrize(
    "owners",
    [
        None,
        [],
        [{"uid": "job-uid"}],
        [{"uid": "job-uid", "controller": False}],
        [{"uid": "other", "controller": True}],
        [OWNER, {"uid": "other", "controller": True}],
    ],
)
def test_what_is_created_belongs_to_the_owner_that_the_intent_names(owners: object):
    refusal = judged(create(manifest=manifest(ownerReferences=owners)))

    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.message.startswith("pod needs the controller owner 'job-uid', has [")


def test_an_owner_that_is_not_named_does_not_count():
    unnamed = create(owner_uid="", manifest=manifest(ownerReferences=[]))
    refusal = judged(unnamed)

    assert refusal is not None
    assert refusal.message == "pod needs the controller owner '', has []"


def test_other_owners_beside_the_controller_do_no_harm():
    assert judged(create(manifest=manifest(ownerReferences=[{"uid": "x"}, OWNER]))) is None


@pytest.mark.parametrize("field", ["recipe", "owner_kind", "owner_name", "owner_uid"])
def test_a_secret_is_made_by_a_recipe_and_for_an_owner(field: str):
    (row,) = (row for row in ROWS if row.verb is Verb.GENERATE)
    refusal = judged(msgspec.structs.replace(sound(row), **{field: ""}))

    assert refusal is not None
    assert refusal.message.startswith("it needs a recipe and an owner, has (")


# Patching.


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"statusx": 1}, "statusx"),
        ({"spec": {"x": 1}}, "spec.x"),
        ({"metadata": {"finalizers": []}}, "metadata.finalizers"),
        ({"metadata": {"resourceVersion": "5"}}, "metadata.resourceVersion"),
        ({"metadata": {"labelsx": {"a": "b"}}}, "metadata.labelsx.a"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {}}, "metadata"),
        ({"metadata": []}, "metadata"),
        ({"metadata.labels": {"a": "b"}}, "metadata.labels.a"),
        ({"metadata": {"labels": {"a": "b"}, "annotationsx": None}}, "metadata.annotationsx"),
    ],
)
def test_a_patch_touches_only_fields_that_its_sender_owns(body: object, field: str):
    assert judged(patch(body)) == Refusal(
        Reason.NOT_ALLOWED,
        f"controllers does not own {field} of pod (it owns metadata.annotations, metadata.labels)",
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": {"labels": {"a.b/c": "d"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"labels": {}, "annotations": {"x": None}}},
    ],
)
def test_a_patch_within_owned_fields_passes(body: object):
    assert judged(patch(body)) is None


def test_an_applied_object_may_say_what_it_is():
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mpi-0", "namespace": "ns", "uid": "pod-uid", "labels": {"a": "b"}},
    }

    assert judged(patch(body, patch_type=PatchType.APPLY)) is None


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            {"metadata": {"uid": "other"}},
            "its patch says that metadata.uid is 'other', the intent says 'pod-uid'",
        ),
        (
            {"metadata": {"uid": None}},
            "its patch says that metadata.uid is None, the intent says 'pod-uid'",
        ),
        (
            {"metadata": {"name": "other"}},
            "its patch says that metadata.name is 'other', the intent says 'mpi-0'",
        ),
        (
            {"metadata": {"namespace": "other"}},
            "its patch says that metadata.namespace is 'other', the intent says 'ns'",
        ),
        ({"kind": "Secret"}, "its patch says that kind is 'Secret', the intent says 'Pod'"),
        ({"apiVersion": "v2"}, "its patch says that apiVersion is 'v2', the intent says 'v1'"),
    ],
)
def test_a_patch_names_no_other_object_than_its_intent(body: object, sentence: str):
    for patch_type in (PatchType.MERGE, PatchType.APPLY):
        assert judged(patch(body, patch_type=patch_type)) == Refusal(Reason.BAD_REQUEST, sentence)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
        {"op": "add", "path": "/metadata/labels/a.b~1c~0d", "value": "c"},
        {"op": "remove", "path": "/metadata/annotations"},
        {"op": "test", "path": "/spec/nodeName", "value": "n"},
        {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/b"},
    ],
)
def test_a_json_patch_within_owned_fields_passes(operation: object):
    assert judged(json_patch(operation)) is None


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        ({"op": "replace", "path": "/spec/nodeName", "value": "n"}, "spec.nodeName"),
        ({"op": "add", "path": "/metadata/labelsx/a", "value": "n"}, "metadata.labelsx.a"),
        ({"op": "add", "path": "/metadata~1labels/a", "value": "n"}, "metadata/labels.a"),
        ({"op": "add", "path": "/metadata.labels/a", "value": "n"}, "metadata.labels.a"),
        ({"op": "replace", "path": "/metadata/uid", "value": "x"}, "metadata.uid"),
        ({"op": "remove", "path": "/metadata"}, "metadata"),
        ({"op": "remove", "path": "/metadata/"}, "metadata."),
        ({"op": "remove", "path": "/"}, ""),
        ({"op": "copy", "from": "/spec/x", "path": "/metadata/labels/a"}, "spec.x"),
        ({"op": "move", "from": "/metadata/uid", "path": "/metadata/labels/a"}, "metadata.uid"),
        ({"op": "TEST", "path": "/spec/nodeName"}, "spec.nodeName"),
    ],
)
def test_a_json_patch_touches_only_fields_that_its_sender_owns(operation: object, field: str):
    harmless = {"op": "add", "path": "/metadata/labels/x", "value": "y"}

    assert judged(json_patch(harmless, operation)) == Refusal(
        Reason.NOT_ALLOWED,
        f"controllers does not own {field} of pod (it owns metadata.annotations, metadata.labels)",
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"5", b'"x"', b"\xff", b"[" * 5000, b'{"a":' * 5000],
)
@pytest.mark.parametrize("patch_type", PatchType)
def test_a_patch_that_is_none_is_refused(body: bytes, patch_type: PatchType):
    refusal = judged(patch(body, patch_type=patch_type))

    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.message.startswith("its patch can't be read: ")


@pytest.mark.parametrize(
    ("body", "patch_type"),
    [
        ([], PatchType.MERGE),
        ({}, PatchType.JSON),
        ([{"op": "add"}], PatchType.JSON),
        ([{"op": "remove", "path": ""}], PatchType.JSON),
        ([{"op": "remove", "path": "metadata/labels"}], PatchType.JSON),
        ([{"op": "copy", "from": "", "path": "/metadata/labels"}], PatchType.JSON),
    ],
)
def test_a_patch_of_another_form_than_its_type_is_refused(body: object, patch_type: PatchType):
    refusal = judged(patch(body, patch_type=patch_type))

    assert refusal is not None
    assert refusal.message.startswith("its patch can't be read: ")


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "labels", "uid", "spec", "status", "op", "path", "from"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(body=documents, patch_type=st.sampled_from(PatchType))
def test_whatever_passes_changes_nothing_but_owned_fields_of_the_object_that_was_meant(
    body: object, patch_type: PatchType
):
    intent = patch(body, patch_type=patch_type)
    if judged(intent) is not None:
        return
    sent: Any = msgspec.json.decode(with_uid(intent))

    if patch_type is PatchType.JSON:
        assert sent[0] == {"op": "test", "path": "/metadata/uid", "value": "pod-uid"}
        changed = [operation["path"] for operation in sent[1:] if operation["op"] != "test"]
        assert all(path.split("/")[1:3][0] == "metadata" for path in changed)
    else:
        assert sent["metadata"]["uid"] == "pod-uid"
        assert set(sent) <= {"metadata", "apiVersion", "kind"}
        owned = {"uid", "labels", "annotations", "name", "namespace"}
        assert set(sent["metadata"]) <= owned


# Binding.


def test_a_part_of_a_gang_that_says_who_goes_where_passes():
    assert judged(bind(("a", "u1", "n1"), ("b", "u2", "n1"), part=1, parts=2)) is None


@pytest.mark.parametrize(("part", "parts"), [(1, 1), (2, 2), (-1, 2), (0, 0), (0, -1)])
def test_a_part_is_one_of_the_parts(part: int, parts: int):
    assert judged(bind(("a", "u", "n"), part=part, parts=parts)) == Refusal(
        Reason.BAD_REQUEST, f"part {part} of {parts} does not exist"
    )


@pytest.mark.parametrize("count", [0, BINDS_PER_PART + 1])
def test_a_part_is_neither_empty_nor_too_large(count: int):
    binds = [(f"p{n}", f"u{n}", "n") for n in range(count)]

    assert judged(bind(*binds)) == Refusal(
        Reason.BAD_REQUEST, f"a part holds 1 to {BINDS_PER_PART} binds, this one {count}"
    )
    assert judged(bind(*[(f"p{n}", f"u{n}", "n") for n in range(BINDS_PER_PART)])) is None


@pytest.mark.parametrize(
    "one", [("", "u", "n"), ("a", "", "n"), ("a", "u", ""), ("a/x", "u", "n"), ("a", "u", "../n")]
)
def test_a_bind_names_a_pod_its_uid_and_a_node(one: tuple[str, str, str]):
    refusal = judged(bind(("b", "v", "n"), one))

    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.message.startswith("every bind needs a pod's name, its uid and a node, not ")


@pytest.mark.parametrize("twice", [("a", "u2", "n"), ("b", "u1", "n")])
def test_a_pod_is_not_bound_twice(twice: tuple[str, str, str]):
    assert judged(bind(("a", "u1", "n"), twice)) == Refusal(
        Reason.BAD_REQUEST, "a pod is bound twice in one part"
    )
