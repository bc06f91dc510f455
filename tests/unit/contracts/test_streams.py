from fnmatch import fnmatchcase

from stromboli.contracts.intents import CreateObject
from stromboli.contracts.messages import DECLARED
from stromboli.contracts.partitions import PARTITIONS, job_key, partition_of
from stromboli.contracts.streams import INTENT_CONSUMER, STREAMS


def covers(pattern: str, subject: str) -> bool:
    return fnmatchcase(subject, pattern.replace(">", "*"))


def test_every_message_is_stored_by_exactly_one_stream():
    for message in DECLARED:
        subject = message.template.filter()
        stored_by = [s.name for s in STREAMS if any(covers(p, subject) for p in s.subjects)]

        assert len(stored_by) == 1, (message, stored_by)


def test_the_one_consumer_hands_out_the_intents_of_every_partition_there_ever_was():
    subject = CreateObject.template.filter(partition=31)

    assert covers(INTENT_CONSUMER.filter_subject, subject)
    assert partition_of(job_key("vcjob", "default", "mpi")) < PARTITIONS
