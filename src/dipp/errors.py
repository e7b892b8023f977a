"""Exceptions: a bad argument, a bad file or a claim that cannot be made raises one of these."""


class DippError(ValueError):
    """A bad argument or file. The message is one clear line that names the argument and says what to do."""


class NoCertificateError(DippError):
    """The mechanism has no differential-privacy guarantee, so no ε is stated for it."""
