"""The one exception that dipp raises for a bad argument, a bad file or a claim it cannot make."""


class DippError(ValueError):
    """One clear line that names the argument and says what to do."""


class NoCertificateError(DippError):
    """The code has no differential-privacy guarantee, so it refuses to state one."""
