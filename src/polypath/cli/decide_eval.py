"""What `polypath decide eval` does: figures of one system beside the baseline, or of two systems against each other."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from polypath.cli.output import emit, results_only, say, table

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy
    from polypath.evaluate.stats import Estimate

PROBED = 50  # items on which flips are counted


def load_policy(model: str) -> TransformersPolicy:
    """The model, with threads prepared and nothing on stdout."""
    from polypath.core.environment import prepare_threads

    prepare_threads(None, None)
    from polypath.engines.transformers import TransformersPolicy

    with results_only():
        return TransformersPolicy.load(model)


def evaluate_file(file: str, model: str, readout: str, length: str, *, save: str, seed: int, as_json: bool) -> None:
    """Figures of the model on the file's items, or of the answers that the file holds."""
    from polypath.decide.probe import probe_readout, read_items
    from polypath.evaluate.answer_files import holds_answers, read_told, write_told
    from polypath.evaluate.decisions import answers_of, baseline_of, figures

    told, probe, name = None, None, readout
    if holds_answers(file):
        told, name = read_told(file), "answers"
    else:
        items = read_items(file)
        policy = load_policy(model)
        told = answers_of(policy, items, readout=readout, length=length)
        (probe,) = probe_readout(policy, items[:PROBED], readouts=[readout], length=length)
        if save:
            write_told(save, told, model=policy.name)
            say(f"wrote {save}")
    ours, words = figures(told, seed=seed), figures(baseline_of(told.items, seed=seed), seed=seed)
    if as_json:
        found: dict[str, Any] = {"model": plain(ours), "baseline": plain(words)}
        emit(found | ({"at_chance": probe.at_chance, "flips": probe.flips} if probe else {}))
        return
    print(figure_table(name, ours, words))
    if probe:
        say(f"{probe.verdict()} (on the first {probe.n} items)")
    say("Intervals are 95 %, over contrast groups or states. TF-IDF learnt from the other items, in folds.")


def compare_files(first: str, second: str, *, seed: int, as_json: bool) -> None:
    """Second minus first on the same items."""
    from polypath.evaluate.answer_files import read_told
    from polypath.evaluate.decisions import compare, figures

    a, b = read_told(first), read_told(second)
    difference, test = compare(a, b, seed=seed)
    one, other = figures(a, seed=seed), figures(b, seed=seed)
    if as_json:
        emit({"first": plain(one), "second": plain(other), "difference": plain(difference), "mcnemar": asdict(test)})
        return
    rows = [(name, one[name].value, other[name].value, d.value, interval(d), d.n) for name, d in difference.items()]
    print(table(("figure", first, second, "difference", "95 % interval", "n"), rows))
    print(f"McNemar: only {first} right {test.only_first}, only {second} right {test.only_second}, p = {test.p:.4g}")
    say("Differences are paired, over the same resampled groups. McNemar's test takes items as independent.")


def plain(found: dict[str, Estimate]) -> dict[str, dict[str, Any]]:
    """Estimates as JSON data."""
    return {name: asdict(own) for name, own in found.items()}


def interval(own: Estimate) -> str:
    """Its bounds, or a dash where there are none."""
    return f"[{own.low:.3f}, {own.high:.3f}]" if own.low == own.low else "-"


def figure_table(name: str, ours: dict[str, Estimate], words: dict[str, Estimate]) -> str:
    """Figures that have something behind them, the system's beside the baseline's."""
    rows = [
        (key, own.n, own.value, interval(own), words[key].value, interval(words[key]))
        for key, own in ours.items()
        if own.n
    ]
    return table(("figure", "n", name, "95 % interval", "TF-IDF", "95 % interval"), rows)
