"""`polypath decide`: typed questions about a state, answered with probabilities from one forward pass."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.cli.output import emit, results_only, say, table
from polypath.core.errors import UserError

if TYPE_CHECKING:
    from polypath.decide.answers import Answer
    from polypath.decide.types import Question

EXAMPLE = 'polypath decide ask state.json --choice "bug,feature,question"'
ASKED = "For example: --choice bug,feature,question"
app = typer.Typer(
    name="decide",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Example: {EXAMPLE}",
)


@app.callback()
def group() -> None:
    """Typed answers with probabilities over labels given at run time, from one forward pass."""


@app.command("ask", epilog=f"Example: {EXAMPLE}")
def ask(
    state: Annotated[str, typer.Argument(help="A JSON or text file, or - for stdin; may be a System One request.")],
    choice: Annotated[list[str] | None, typer.Option(help="Labels, separated by commas.")] = None,
    yesno: Annotated[list[str] | None, typer.Option(help="A question that is answered yes or no.")] = None,
    score: Annotated[list[str] | None, typer.Option(help="Levels, the lowest first, separated by commas.")] = None,
    instructions: Annotated[str, typer.Option(help="What choices and scores are about.")] = "",
    model: Annotated[str, typer.Option(help="An alias, a directory or a hub id.")] = "smollm2",
    readout: Annotated[str, typer.Option(help="label_tree, letter or yes_no.")] = "label_tree",
    length: Annotated[str, typer.Option(help="A label's score: sum or mean of its log-probabilities.")] = "sum",
    calibration: Annotated[str, typer.Option(help="A calibration file, fitted for this model and readout.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print a System One response.")] = False,
) -> None:
    """Answer all questions about one state in one forward pass."""
    text, questions = read_request(state, choice or [], yesno or [], score or [], instructions)
    from polypath.core.environment import prepare_threads

    prepare_threads(None, None)
    from polypath.decide import readout as readouts
    from polypath.decide.calibrate import Calibration, identity_of, load_calibration
    from polypath.decide.wire import emit_system_one
    from polypath.engines.transformers import TransformersPolicy

    with results_only():
        policy = TransformersPolicy.load(model)
    fitted = load_calibration(calibration, identity_of(policy, readout, length)) if calibration else Calibration({})
    heat = fitted.temperature if calibration else lambda _: 1.0
    answers = readouts.ask(policy, text, questions, readout=readout, length=length, temperature=heat)
    if as_json:
        tokens = len(policy.tokenizer(text)["input_ids"])
        emit(emit_system_one(answers, model=policy.name, tokens=tokens))
        return
    print(table(("question", "option", "probability"), rows(answers)))
    if not calibration:
        say("These probabilities are not calibrated, and nobody has checked that this model knows the answers.")


@app.command("eval", epilog="Example: polypath decide eval labelled.jsonl")
def evaluate(
    files: Annotated[list[str], typer.Argument(help="JSON lines with labels; two files with answers are compared.")],
    model: Annotated[str, typer.Option(help="An alias, a directory or a hub id.")] = "smollm2",
    readout: Annotated[str, typer.Option(help="label_tree, letter or yes_no.")] = "label_tree",
    length: Annotated[str, typer.Option(help="A label's score: sum or mean of its log-probabilities.")] = "sum",
    save: Annotated[str, typer.Option(help="Write the items with the model's answers, to compare later.")] = "",
    seed: Annotated[int, typer.Option(help="Of intervals, the baseline's folds and the noise floor.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Accuracy, calibration and selective risk with intervals, beside a TF-IDF baseline on the same items.

    FILES are System One requests with labels {question: label}. Lines that hold answers need no model.
    """
    from polypath.cli import decide_eval

    if len(files) > 2:
        raise UserError("decide eval", f"{len(files)} files", "Give one, or two with answers to compare.")
    if len(files) == 2:
        decide_eval.compare_files(files[0], files[1], seed=seed, as_json=as_json)
        return
    decide_eval.evaluate_file(files[0], model, readout, length, save=save, seed=seed, as_json=as_json)


@app.command("serve", epilog="Example: polypath decide serve --model smollm2 --port 8000")
def serve(
    model: Annotated[str, typer.Option(help="An alias, a directory or a hub id.")] = "smollm2",
    readout: Annotated[str, typer.Option(help="label_tree, letter or yes_no.")] = "label_tree",
    length: Annotated[str, typer.Option(help="A label's score: sum or mean of its log-probabilities.")] = "sum",
    calibration: Annotated[str, typer.Option(help="A calibration file, fitted for this model and readout.")] = "",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token: Annotated[str, typer.Option(envvar="POLYPATH_TOKEN", help="The key that clients must send.")] = "",
    alias: Annotated[list[str] | None, typer.Option(help="A further model name that clients may send.")] = None,
    questions: Annotated[int, typer.Option(min=1, help="Most questions of a request.")] = 400,
    waiting: Annotated[int, typer.Option(min=1, help="Most requests that wait; the next is told 503.")] = 256,
    body_bytes: Annotated[int, typer.Option(min=1, help="Most bytes of a request.")] = 2_000_000,
) -> None:
    """Answer System One (/v1/systemone) and OpenAI Decisions (/v1/decisions) clients from one model."""
    from polypath.cli import decide_serve

    decide_serve.serve(
        model,
        readout=readout,
        length=length,
        calibration=calibration,
        host=host,
        port=port,
        token=token,
        aliases=alias or [],
        questions=questions,
        waiting=waiting,
        body_bytes=body_bytes,
    )


def rows(answers: dict[str, Answer]) -> list[tuple[str, str, float]]:
    """A line for every option, the most probable first within its question."""
    found = []
    for key, answer in answers.items():
        pairs = zip(answer.question.options, answer.probabilities, strict=True)
        found += [(key, option.label, float(p)) for option, p in sorted(pairs, key=lambda pair: -pair[1])]
    return found


def read_request(
    source: str, choice: list[str], yesno: list[str], score: list[str], instructions: str
) -> tuple[str, dict[str, Question]]:
    """The state and its questions, from the file, from options, or both. Raises UserError when nothing is asked."""
    from polypath.decide.types import Choice, Score, YesNo, options, plain
    from polypath.decide.wire import parse_system_one

    body = read_state(source)
    questions: dict[str, Question] = {}
    if isinstance(body, dict) and "questions" in body and "state" in body:
        state, questions = parse_system_one(body)
    else:
        state = plain(body, source)
    for i, text in enumerate(yesno):
        questions[f"yesno{i or ''}"] = YesNo(text)
    for i, text in enumerate(choice):
        questions[f"choice{i or ''}"] = Choice(options(text.split(","), "--choice"), instructions)
    for i, text in enumerate(score):
        questions[f"score{i or ''}"] = Score(options(text.split(","), "--score"), instructions)
    if not questions:
        raise UserError("decide ask", "nothing is asked", ASKED)
    return state, questions


def read_state(source: str) -> Any:
    """JSON where it parses, else text. Raises UserError for a file that cannot be read, or broken JSON in *.json."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(source, f"cannot be read ({error})", "Name a JSON or text file, or - for stdin.") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if source.endswith(".json"):
            place = f"{source}:{error.lineno}"
            raise UserError(place, f"is no JSON ({error.msg})", "Mend it, or name it .txt.") from error
        return text
