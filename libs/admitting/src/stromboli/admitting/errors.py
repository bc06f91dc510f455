"""What can be wrong with a review or with the settings of admission.

    AdmittingError (ValueError)
    ├── MalformedReview      bytes that are no AdmissionReview v1 request
    └── BadAdmissionConf     an --admission-conf file that can't be used

An object that breaks a rule is no error: it gets a `Verdict`.
"""

__all__ = ["AdmittingError", "BadAdmissionConf", "MalformedReview"]


class AdmittingError(ValueError):
    """Something handed to admission is not what it must be."""


class MalformedReview(AdmittingError):
    """There is no request in the bytes that could be answered by its uid."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(
            f"cannot read this as an AdmissionReview of admission.k8s.io/v1: {fault}; "
            "expected a JSON object with a request that has a uid"
        )


class BadAdmissionConf(AdmittingError):
    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(
            f"cannot use this admission configuration: {fault}; "
            "see docs/reference/admission.md for its form"
        )
