"""Exceptions: a bad argument, a bad file or a claim that cannot be made raises one of these."""


class DippError(ValueError):
    """A bad argument or file. The message is one clear line that names the argument and says what to do."""


class MiscomputedError(DippError):
    """A kernel did not compute what the reference computes: a stale cache, or a broken device.

    It ends an encoding before anything of it is released, whatever else goes on, and is never a reason to try again:
    an encoder that is run until it passes has another law. The odometer charges the encoding all the same.
    """


class InconsistentError(DippError):
    """No honest encoder makes such a file: its numbers do not follow from its model, or its indices from its code."""


class NoCertificateError(DippError):
    """The mechanism has no differential-privacy guarantee, so no ε is stated for it."""
