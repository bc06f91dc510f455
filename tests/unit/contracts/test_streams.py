from fnmatch import fnmatchcase

from stromboli.contracts.messages import DECLARED
from stromboli.contracts.partitions import PARTITIONS, job_key, partition_of
from stromboli.contracts.streams import PARTITION_CONSUMERS, STREAMS


def covers(pattern: str, subject: str) -> bool:
    return fnmatchcase(subject, pattern.replace(">", "*"))


def test_every_message_is_stored_by_exactly_one_stream():
    for message in DECLARED:
        subject = message.template.filter()
        stored_by = [s.name for s in STREAMS if any(covers(p, subject) for p in s.subjects)]

        assert len(stored_by) == 1, (message, stored_by)


def test_every_partition_has_one_consumer_and_their_filters_do_not_overlap():
    filters = {consumer.filter_subject for consumer in PARTITION_CONSUMERS}

    assert len(filters) == PARTITIONS
    assert {consumer.partition for consumer in PARTITION_CONSUMERS} == set(range(PARTITIONS))


def test_the_partition_of_a_key_never_changes_between_versions():
    """Intents in flight during an upgrade must keep their order."""
    assert partition_of(job_key("vcjob", "default", "mpi")) == 19
    assert partition_of("") == 0


def test_keys_spread_over_all_partitions():
    used = {partition_of(job_key("vcjob", "ns", f"job-{n}")) for n in range(1000)}

    assert used == set(range(PARTITIONS))
