"""The controller is followed up to the root, and never round in circles."""

from stromboli.api.batch import Job
from stromboli.api.kinds import controller_reference
from stromboli.api.meta import ObjectMeta, OwnerReference
from stromboli.api.owners import controller_of, is_controlled_by, root_owner


def owner(name: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(
        api_version="v1", kind="Thing", name=name, uid=f"uid-{name}", controller=controller
    )


def thing(name: str, *owners: OwnerReference) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", owner_references=owners)


def root_name(start: ObjectMeta, *known: ObjectMeta) -> str | None:
    found = root_owner(
        start,
        lambda namespace, reference: next(
            (meta for meta in known if (meta.namespace, meta.name) == (namespace, reference.name)),
            None,
        ),
    )
    return found.name if found else None


def test_only_the_owner_that_controls_counts():
    pod = thing("pod", owner("other", controller=False), owner("job"))

    assert controller_of(pod) == owner("job")
    assert controller_of(thing("pod", owner("other", controller=False))) is None


def test_the_root_is_the_topmost_controller():
    pod = thing("pod", owner("set"))

    assert root_name(pod, thing("set", owner("deployment")), thing("deployment")) == "deployment"


def test_an_owner_that_nobody_knows_is_the_root_itself():
    assert root_name(thing("pod", owner("set"))) == "set"


def test_an_owner_that_was_recreated_is_not_followed():
    impostor = ObjectMeta(
        name="set", namespace="ns", uid="another", owner_references=(owner("deployment"),)
    )

    assert root_name(thing("pod", owner("set")), impostor) == "set"


def test_an_object_without_a_controller_has_no_root():
    assert root_name(thing("pod")) is None


def test_a_circle_of_owners_ends():
    assert root_name(thing("a", owner("b")), thing("b", owner("a")), thing("a", owner("b"))) == "b"


def test_a_chain_without_end_ends():
    chain = [thing(str(index), owner(str(index + 1))) for index in range(1000)]

    assert int(root_name(*chain) or 0) < 100


def test_what_a_job_makes_is_controlled_by_that_job_and_no_namesake():
    job = Job(metadata=ObjectMeta(name="train", uid="u-1"))
    namesake = Job(metadata=ObjectMeta(name="train", uid="u-2"))
    pod = ObjectMeta(name="train-0", owner_references=(controller_reference(job),))

    assert controller_reference(job) == OwnerReference(
        api_version="batch.volcano.sh/v1alpha1",
        kind="Job",
        name="train",
        uid="u-1",
        controller=True,
        block_owner_deletion=True,
    )
    assert is_controlled_by(pod, job)
    assert not is_controlled_by(pod, namesake)
    assert not is_controlled_by(ObjectMeta(), job)
