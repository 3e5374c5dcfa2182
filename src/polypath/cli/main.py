"""The `polypath` command: commands imported on use, and the one place where an error becomes an exit code."""

from __future__ import annotations

import errno
import importlib
import traceback
from typing import Annotated, Any

import typer
import typer.core

from polypath import __version__
from polypath.cli.output import say
from polypath.core.errors import ExitCode, UserError, did_you_mean

COMMANDS = {
    "demo": "Show diversity collapse and its remedy from recorded rollouts, in seconds.",
    "train": "Train by a recipe: supervised, or by reinforcement, one run or a study of arms.",
    "sample": "Draw rollouts by a plan from any model, with their provenance.",
    "measure": "Pass@k, distinct solutions and diversity of a file of rollouts.",
    "decide": "Typed answers with probabilities over labels given at run time, from one forward pass.",
    "select": "A diverse, good subset of a dataset, with the reason for each pick.",
    "compare": "Compare runs, paired over prompts and seeds, with intervals.",
    "report": "Write one self-contained HTML page about a run.",
    "explain": "What goes wrong in a training run, the evidence, and what to try.",
    "credit": "The advantages that a credit method gives to a group in a JSON file.",
    "list": "What there is: methods, tasks, losses, recipes and every other named part.",
    "show": "One named thing: summary, composition, knobs with defaults, example, paper.",
    "check": "Check a recipe without running it, and say what it would cost.",
    "init": "Copy a commented recipe to a file of your own.",
    "doctor": "What is installed, what would be used, and what to install.",
}
OUT_OF_MEMORY = "Lower train.tokens_per_microbatch, rollout.group_size or train.prompts_per_step with -o"
# Typer has kept its parser's errors under different module names; their base class is found from a public one.
_UsageErrors: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class Commands(typer.core.TyperGroup):
    """Imports a command's module when it is first used, so that help and completion stay instant."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order in which a new user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, built from `command` (or the group `app`) and `EXAMPLE` of its module; None if unknown."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"polypath.cli.{cmd_name}")
        if hasattr(module, "app"):
            return typer.main.get_command(module.app)
        single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT)
        single.command(cmd_name, epilog=f"Example: {module.EXAMPLE}")(module.command)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The table of commands, from `COMMANDS` and not from the modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let `--debug` stand anywhere on the line."""
        if "--debug" in args:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or suggest the nearest. Raises UserError for an unknown name."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise UserError("polypath", f"there is no command '{args[0]}'", did_you_mean(args[0], COMMANDS))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the error boundary of the whole program (exit codes: `ExitCode`)."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _UsageErrors):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, BrokenPipeError):  # `polypath list | head`: the parser ends quietly
                raise
            text, code = explain(error)
            if ctx.params.get("debug"):
                say("".join(traceback.format_exception(error)).rstrip())
            elif code is ExitCode.FAILED and not getattr(error, "__notes__", None):
                text += "\nRun it again with --debug for the traceback."
            say(text)
            raise typer.Exit(code) from error


def explain(error: BaseException) -> tuple[str, ExitCode]:
    """One line on the cause, and any notes on the exception (such as where `run.log` is), with the exit code."""
    if isinstance(error, UserError):
        return str(error), ExitCode.USER_ERROR
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, KeyboardInterrupt):
        return f"Interrupted.{notes}", ExitCode.INTERRUPTED
    return f"polypath failed: {_cause(error)}.{notes}", ExitCode.FAILED


def _cause(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0].rstrip(".")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" ({error.filename})" if error.filename else ""
        return f"the disk is full{place}. Free some space and run the same command again"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in first:
        return f"out of memory on the host. {OUT_OF_MEMORY}"
    if type(error).__name__ == "OutOfMemoryError":
        return f"out of memory on the device. {OUT_OF_MEMORY}"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
app = typer.Typer(
    cls=Commands,
    name="polypath",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings=CONTEXT,
    epilog="Example: polypath demo",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"polypath {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of a failure; may stand anywhere.")
    ] = False,
) -> None:
    """Measure, reward and train for the number of different ways a language model has left."""


def main() -> None:
    """The console script. Exit codes: 0 done, 1 failed, 2 user error, 3 finished with failures, 130 interrupted."""
    app()
