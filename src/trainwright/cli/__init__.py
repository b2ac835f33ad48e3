"""The command line: finds the verb, imports only what it needs, turns errors into sentences and exit codes.

Verbs live in one file each and hold no logic. ``--help`` imports none of them.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import time
from typing import Any

from trainwright import plain_json
from trainwright.cli.verbs import GROUPS, VERBS
from trainwright.errors import InputError, TrainwrightError, did_you_mean
from trainwright.runs.exit_codes import Exit

_PATIENCE = 1.0  # seconds in which a verb that was interrupted may say what goes on


def main(arguments: list[str] | None = None) -> None:
    """Run one verb and leave with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _interrupt_once()
    _mend_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the verb had begun
        code = Exit.INTERRUPTED
    except BrokenPipeError:  # `trainwright … | head`: the reader has seen enough
        _silence()
        code = Exit.YES
    except OSError as error:  # the disk that standard output goes to is full
        _silence()
        print(f"trainwright: what was to be printed cannot be written: {error.strerror}", file=sys.stderr)
        code = Exit.UNREACHABLE
    sys.exit(code)


def _interrupt_once() -> None:
    """The first Ctrl-C ends a verb in order. One that follows within a second is the same wish; a later one ends it.

    A second exception while the first is being told would end in a traceback, and hide that the run goes on.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as in a job in the background
        return
    first: list[float] = []

    def interrupted(number: int, frame: object) -> None:
        if not first:
            first.append(time.monotonic())
            raise KeyboardInterrupt
        if time.monotonic() - first[0] > _PATIENCE:
            os._exit(Exit.INTERRUPTED)

    signal.signal(signal.SIGINT, interrupted)


def _mend_streams() -> None:
    """A stream that was closed goes nowhere, lest the next file opened gets its number and what is printed.

    A character that the terminal's encoding does not have is written as its escape.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # opening takes the lowest free number, which is this one
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    wants_json = _wants_json(arguments)
    if arguments[:1] == ["--version"]:
        from trainwright import __version__

        print(__version__)
        return Exit.YES
    import typer  # after the cheap part: a failed import of trainwright itself should not wait for it

    try:
        result = _application()(args=arguments, prog_name="trainwright", standalone_mode=False)
    except TrainwrightError as error:
        _complain(error.to_dict() if wants_json else _sentence(error), wants_json)
        return error.exit_code
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort) as stop:
        if isinstance(stop.__cause__, EOFError):  # typer takes a file that ended too early for a person who left
            return _unexpected(stop.__cause__, wants_json)
        print(file=sys.stderr)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  # the last line of defence: no verb may end in a traceback
        return _unexpected(error, wants_json)
    return result if isinstance(result, int) else Exit.YES


def _unexpected(error: Exception, wants_json: bool) -> int:
    usage = getattr(error, "format_message", None)  # what typer's own parser raises
    if usage is not None:
        _complain(
            {"error": usage(), "exit_code": Exit.BAD_INPUT} if wants_json else f"trainwright: {usage()}", wants_json
        )
        return Exit.BAD_INPUT
    if os.environ.get("TRAINWRIGHT_DEBUG"):
        raise error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OSError) and error.errno is not None:  # disk full, permission: the machine's, not ours
        told = _of_the_machine(error)
        _complain(
            {"error": told, "exit_code": Exit.UNREACHABLE} if wants_json else f"trainwright: {told}", wants_json
        )
        return Exit.UNREACHABLE
    way_out = "this is a defect of trainwright; TRAINWRIGHT_DEBUG=1 shows where"
    _complain(
        {"error": text, "way_out": way_out, "exit_code": Exit.INTERNAL}
        if wants_json
        else f"trainwright: {text}\n{way_out}",
        wants_json,
    )
    return Exit.INTERNAL


def _of_the_machine(error: OSError) -> str:
    """The file and what is wrong with it, without numbers that only a C program knows."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    try:
        os.getcwd()
    except OSError:
        return "the folder that you stand in is gone; cd to another one"
    return str(error.strerror or error)


def _sentence(error: TrainwrightError) -> str:
    if isinstance(error, InputError):
        return "\n".join(map(str, error.problems))
    return f"trainwright: {error.message}" + (f"\n{error.way_out}" if error.way_out else "")


def _complain(what: dict[str, Any] | str, wants_json: bool) -> None:
    """JSON goes to standard output, where a program reads; text to standard error, where a person looks."""
    if wants_json:
        print(plain_json.dumps(what, indent=2))
    else:
        print(what, file=sys.stderr)


def _wants_json(arguments: list[str]) -> bool:
    following = dict(zip(arguments, [*arguments[1:], ""], strict=True))
    return "--output=json" in arguments or "json" in (following.get("--output"), following.get("-o"))


def _application() -> Any:
    import typer
    from typer.core import TyperGroup
    from typer.main import get_command

    class Verbs(TyperGroup):
        """Lists verbs from a table and imports a verb only to run it or to show its own help."""

        def list_commands(self, ctx: Any) -> list[str]:
            return [*VERBS, *GROUPS]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in GROUPS:
                group = typer.Typer(help=GROUPS[cmd_name].summary, rich_markup_mode=None, add_completion=False)
                for name, verb in GROUPS[cmd_name].verbs.items():
                    group.command(name)(_load(verb.function))
                return get_command(group)
            if cmd_name not in VERBS:
                return None
            single = typer.Typer(rich_markup_mode=None, add_completion=False)
            single.command(cmd_name)(_load(VERBS[cmd_name].function))
            return get_command(single)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and not args[0].startswith("-") and args[0] not in VERBS and args[0] not in GROUPS:
                known = [*(name for name, verb in VERBS.items() if not verb.hidden), *GROUPS]
                ctx.fail(f"no such verb: {args[0]}; {did_you_mean(args[0], known)}")
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            rows = [(name, verb.summary) for name, verb in VERBS.items() if not verb.hidden]
            rows += [(name, group.summary) for name, group in GROUPS.items()]
            with formatter.section("Verbs"):
                formatter.write_dl(rows)

    application = typer.Typer(
        cls=Verbs,
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Plan, launch, watch, checkpoint and register the training of large models.",
        epilog="Every verb takes --help and --output json. Exit: 0 yes, 1 no, 2 bad input, 3 no access, 4 defect.",
    )

    @application.callback()
    def options(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
        """Only documents ``--version``, which is answered before the verbs are read."""

    return get_command(application)


def _load(function: str) -> Any:
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)
