"""The command line: the only package that knows all parts.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 run-time error, 2 wrong usage or
no capture, 3 a damaged capture or lost packets, 4 a diagnosis with the severity of `--fail-on`, 130 interrupted.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from zmtpscope import compiled
from zmtpscope.cli.filters import BadFilter
from zmtpscope.cli.parameters import names_a_file
from zmtpscope.cli.terminal import notify
from zmtpscope.option_texts import nearest
from zmtpscope.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = (
    "analyze",
    "cat",
    "diagram",
    "check",
    "demo",
    "export",
    "fields",
    "follow",
    "keys",
    "live",
    "probe",
    "read",
    "scan",
    "stats",
    "top",
    "tui",
)
"""Commands. Each is a function in the module of the same name, imported when the command is used."""

RUN_TIME_ERROR, USAGE, INTERRUPTED = 1, 2, 130


class ClosedPipe(Exception):
    """The program that reads standard output has closed the pipe."""


COMMAND_OF = dict.fromkeys(("-i", "-D", "-L", "--list-interfaces"), "live")
"""Command to suggest for an option that `read` does not have."""


class Commands(click.Group):
    """The group of all commands. A command ends without an error if the program that reads standard output has closed
    the pipe."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the command `read` before arguments that name no command."""
        options = {name for option in self.get_params(ctx) for name in option.opts}
        if args and args[0] not in options.union(COMMANDS):
            if not ctx.resilient_parsing:  # completion prints no errors
                self._check_first(ctx, args)
            args = ["read", *args]
        return super().parse_args(ctx, args)

    def _check_first(self, ctx: click.Context, args: list[str]) -> None:
        """Check the arguments of a call without a command name as those of `read`.

        If they are invalid, raise a usage error that suggests a valid command line.
        """
        import shlex

        first = args[0]
        typed = shlex.join(args)
        if first.startswith("-") and (place := self._command_behind_options(args)) is not None:
            typed = shlex.join([args[place], *args[:place], *args[place + 1 :]])
            ctx.fail(f"name the command first; type: zmtpscope {typed}")
        if first in COMMAND_OF:
            ctx.fail(f"name a command first; type: zmtpscope {COMMAND_OF[first]} {typed}")
        if first.startswith("-") or names_a_file(first):
            return
        if "://" in first:
            ctx.fail(f"name a command first; to identify the peer, type: zmtpscope probe {typed}")
        ctx.fail(f"no command or file named {first!r}{nearest(first, COMMANDS)}")

    def _command_behind_options(self, args: list[str]) -> int | None:
        """Return the index of a command name that follows options, or None.

        It must be neither a file nor the value of an option, and no file may precede it.
        """
        options = [each for name in ("read", "live") for each in _command(name).params]
        with_value = {name for each in options if not getattr(each, "is_flag", True) for name in each.opts}
        places = iter(range(len(args)))
        for place in places:
            word = args[place]
            if word in with_value:
                next(places, None)
            elif word == "--" or not word.startswith("-"):
                return place if word in COMMANDS and not os.path.exists(word) else None
        return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file"), *super().shell_complete(ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ClosedPipe from None


def _command(name: str) -> click.Command:
    command: click.Command = getattr(importlib.import_module(f"zmtpscope.cli.{name}"), name)
    return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 1 error while running, 2 usage or not a capture, 3 capture damaged or cut short.",
)
@click.version_option(__version__, "-v", "--version", message=f"zmtpscope %(version)s ({compiled.state()})")
def zmtpscope() -> None:
    """Analyse ZeroMQ traffic: any capture, any port, every version of ZMTP.

    `zmtpscope FILE...` is short for `zmtpscope read FILE...`; `zmtpscope demo` shows what the output looks like."""


def main() -> None:
    # numpy's linear algebra is never used here, but would start its threads
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.putenv("OPENBLAS_NUM_THREADS", "1")  # past os.environ, which child processes inherit
    # few objects are in cycles, and the default collection frequency takes a quarter of the run time
    gc.set_threshold(500_000, 4, 50)
    code = run()
    gc.freeze()  # the process ends: a last collection takes an eighth of the time for a tiny capture
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    if sys.stdout is None:
        notify("zmtpscope: standard output is closed (>&-): nothing can be printed; discard it with >/dev/null")
        return RUN_TIME_ERROR
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # escape characters that the terminal or locale cannot show, instead of failing
            stream.reconfigure(errors="backslashreplace")
    try:
        code = zmtpscope.main(arguments, prog_name="zmtpscope", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "zmtpscope"
        notify(f"{command}: {error.format_message().rstrip('.')} (see {command} --help)")
        for line in error.shown if isinstance(error, BadFilter) else ():
            notify(line)
        return USAGE
    except click.ClickException as error:
        notify(f"zmtpscope: {error.format_message()}")
        return error.exit_code
    except compiled.Outdated as error:
        notify(f"zmtpscope: {error}")
        return RUN_TIME_ERROR
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (ClosedPipe, BrokenPipeError):
        # otherwise the interpreter reports an error when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        notify("zmtpscope: out of memory; use --body none to keep no message bodies")
        return RUN_TIME_ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        notify(f"zmtpscope: {where}{error.strerror or error}")
        return RUN_TIME_ERROR
    return code if isinstance(code, int) else 0
