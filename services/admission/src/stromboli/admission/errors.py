"""What can be wrong with admission's surroundings.

AdmissionError
├── UnusableCertificate     the certificate files are missing, unreadable or no pair
├── UnusableConf            the file of resource groups can't be used
└── QueueOutOfReach         nobody could say whether a queue exists
"""

__all__ = ["AdmissionError", "QueueOutOfReach", "UnusableCertificate", "UnusableConf"]


class AdmissionError(Exception):
    """Something around the rules is not as it should be; the sentence says what to do."""


class UnusableCertificate(AdmissionError):
    """Nothing can be served with these files."""

    def __init__(self, certificate: str, key: str, why: str) -> None:
        super().__init__(
            f"the certificate {certificate} with the key {key} can't be used: {why}; expected a "
            "PEM certificate and its key (the gateway writes them, or name your own files)"
        )


class UnusableConf(AdmissionError):
    """The file given as --admission-conf makes no sense."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"--admission-conf {path} can't be used: {why}")


class QueueOutOfReach(AdmissionError):
    """The API server did not answer about a queue."""

    def __init__(self, queue: str, why: str) -> None:
        super().__init__(
            f"queue {queue!r} is not known yet and could not be looked up ({why}); try again"
        )
        self.queue = queue
