"""The ways in which a message can break the contract.

ContractError
├── BadSubject        a subject or a token that the contract does not allow
├── Undecodable       bytes that are not one of our messages
│   └── UnknownTag    a well-formed message of a type this version does not know
└── MessageTooLarge   more bytes than the bus carries in one message
"""


class ContractError(Exception):
    """A message or subject breaks the contract."""


class BadSubject(ContractError):
    """A subject or one of its tokens is not of the agreed form."""

    def __init__(self, text: str, expected: str) -> None:
        super().__init__(f"{text!r} is not usable in a subject: expected {expected}")
        self.text = text
        self.expected = expected


class Undecodable(ContractError):
    """The bytes are not one of our messages; they belong in DEAD."""

    def __init__(self, family: str, detail: str) -> None:
        super().__init__(f"not a {family} message: {detail}")
        self.family = family
        self.detail = detail


class UnknownTag(Undecodable):
    """The message names a type that a newer version may know; it is not rubbish."""

    def __init__(self, family: str, tag: str) -> None:
        super().__init__(family, f"its type {tag!r} is unknown to this version")
        self.tag = tag


class MessageTooLarge(ContractError):
    """The message would not fit on the bus; splitting it is the sender's business."""

    def __init__(self, subject: str, size: int, limit: int) -> None:
        super().__init__(
            f"message of {size} bytes for {subject} is over the bus limit of {limit} bytes: "
            "send it in parts or leave fields out"
        )
        self.subject = subject
        self.size = size
        self.limit = limit
