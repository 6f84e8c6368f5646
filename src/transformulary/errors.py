"""What goes wrong and is the user's to mend: one line each, exit status 2 on the command line.

Every message says what is wrong, with the numbers; why it matters; what to do.
`assert` is for our own mistakes.
"""


class UserError(ValueError):
    """Something the caller can mend.  The command line prints it as one line and exits with 2."""


class ConfigError(UserError):
    """A configuration that is impossible, contradictory, or has a key nobody knows; `field` is ours that is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class AlgorithmError(UserError):
    """An input outside the domain of an algorithm of the paper, or a value that line cannot compute."""


class CheckpointError(UserError):
    """A checkpoint whose files or tensors are not the ones its format and config call for."""


class TokenError(UserError):
    """Text that a vocabulary cannot spell, or token ids that it does not have."""


class DataError(UserError):
    """A text file or data set that cannot be read or is too small to use."""


class CandidateError(UserError):
    """A candidate of `conform` that cannot be run, or gives nothing that could be compared."""


class MissingExtra(UserError, ImportError):
    """An optional dependency is needed; the message is the exact `pip install` line."""


def require(module: str, extra: str, what: str) -> None:
    """Raise MissingExtra unless `module` can be imported; `what` names the feature that needs it."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise MissingExtra(f"{what} needs {module}, which is not installed: pip install 'transformulary[{extra}]'")
