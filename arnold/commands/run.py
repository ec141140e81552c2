"""One run of ``arnold``: from arguments to an exit code.

Exit codes: 0 ok; 1 a bug; 2 usage or bad input; 3 infeasible, or merely too big; 4 out of time with nothing
valid; 130 interrupted; 141 the reader of the output stopped reading.  Errors go to stderr as text; with ``--json`` they
are the one JSON document on stdout: ``{"error": {"kind", "message", "where", "fix"}}``, the kind is the class.
"""

import errno
import os
import sys
from collections.abc import Sequence

import click

from arnold.commands.command_table import arnold
from arnold.console.interrupts import INTERRUPTED
from arnold.console.output import emit_json, error_document, settle_streams, silence
from ground.errors import ArnoldError, InvalidInput, TooLarge
from ground.plugins import PluginFailed, failed_plugin

FAULT = 1
BROKEN_PIPE = 141

EXTRAS = {
    "pyarrow": "tables",
    "matplotlib": "plots",
    **dict.fromkeys(
        ("aiohttp", "httptools", "kubernetes", "prometheus_client", "starlette", "uvicorn", "yarl"), "kubernetes"
    ),
}
"""Library that is not always installed -> the extra it comes with, where no other way is open to the command."""


class _Fault(ArnoldError):
    """Arnold's own mistake."""

    exit_code = FAULT


class _SystemRefused(ArnoldError):
    """The system refused something that no file of the user's is to blame for: a full disk, mostly."""


class _NotInstalled(ArnoldError):
    """The command needs a library of an extra."""


class _UsageError(ArnoldError):
    """The command line itself is wrong."""


def run(args: Sequence[str]) -> int:
    """Run one command line and return the exit code; never raises."""
    as_json = "--json" in args  # known before the words are parsed, which may fail
    settle_streams()
    try:
        if "_ARNOLD_COMPLETE" in os.environ:
            arnold.main(list(args), prog_name="arnold")
        try:
            with arnold.make_context("arnold", list(args)) as context:
                code = arnold.invoke(context)
        except click.exceptions.Exit as end:
            code = end.exit_code
        except click.exceptions.NoArgsIsHelpError as missing:
            _say(missing.format_message())
            code = missing.exit_code
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)  # the interpreter closes it, and would complain
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _say("\nInterrupted.")
        return INTERRUPTED
    except Exception as error:
        explained = _explain(error)
        if isinstance(explained, _Fault | PluginFailed) and os.environ.get("ARNOLD_DEBUG"):
            import traceback

            traceback.print_exception(error)
        printed = False
        if as_json:
            try:
                emit_json(error_document(explained))
                printed = True
            except OSError:
                silence(sys.stdout)
        if not printed:
            _say(f"Error: {explained}")
        if isinstance(explained, _SystemRefused):
            silence(sys.stdout)
        return explained.exit_code
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> ArnoldError:
    """Return any exception as an error that says what, where and what to do."""
    match error:
        case ArnoldError():
            return error
        case click.ClickException():
            context = getattr(error, "ctx", None)
            path = context.command_path if context is not None else "arnold"
            return _UsageError(error.format_message(), where=path, fix=f"see `{path} --help`")
        case ModuleNotFoundError() if (library := (error.name or "").partition(".")[0]) in EXTRAS:
            extra = EXTRAS[library]
            fix = f"in a clone of Arnold: pip install '.[{extra}]'"
            return _NotInstalled(f"needs {library}, which comes with the extra {extra!r}", fix=fix)
        case _ if (blamed := failed_plugin(error)) is not None:
            return blamed
        case OSError(filename=str(name), errno=errno.ENAMETOOLONG | errno.ELOOP | errno.ENOTDIR | errno.EACCES):
            return InvalidInput(f"cannot be looked at: {error.strerror}", where=name, fix="check the path")
        case OSError():
            fix = "check the disk's space and the limits of the machine"
            return _SystemRefused(f"the system refused: {error.strerror or error}", fix=fix)
        case MemoryError():
            fix = "take a smaller cluster or job, or more memory"
            return TooLarge("this machine has not enough memory for it", fix=fix)
    return _Fault(
        f"Arnold failed unexpectedly: {type(error).__name__}: {error}",
        fix="report this as a bug with the command line and its input; ARNOLD_DEBUG=1 shows where it happened",
    )


def _say(sentence: str) -> None:
    """Print on stderr; where that cannot be written to, the exit code has to do."""
    try:
        click.echo(sentence, err=True)
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
