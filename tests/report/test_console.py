"""The terminal's table."""

from polypath.evaluate.runs import compare_runs
from polypath.report.console import aligned, render


def test_table_differences_frontier_and_notes(study):
    text = render(compare_runs([study], baseline="grpo", samples=200))
    lines = text.splitlines()
    assert lines[0].split() == ["arm", "pass@1", "pass@4", "pass@16", "distinct", "coverage", "differ", "length"]
    assert [line.split("  ")[0] for line in lines[2:5]] == ["start", "grpo", "rarity 1"]
    assert "3 seed(s), 12 problems, 32 samples of each problem." in text
    assert "grpo - start" in lines and "rarity 1 - grpo" in lines
    row = next(line for line in lines[lines.index("grpo - start") :] if line.startswith("distinct"))
    assert row.split()[1].startswith("-") and row.endswith("*=")
    assert "On the Pareto line, from accurate to diverse: grpo" in text


def test_one_seed_is_descriptive_and_has_no_seed_signs(study):
    text = render(compare_runs([study / arm / "seed-0" for arm in ("grpo", "rarity 1")], samples=200))
    assert "Note: rarity 1 - grpo: 1 paired seed(s), descriptive only." in text
    assert not any(line.endswith("=") for line in text.splitlines())


def test_columns_are_aligned():
    assert aligned(["arm", "n"], [["a", "1"], ["bcde", "22"]]).splitlines() == [
        "arm    n",
        "--------",
        "a      1",
        "bcde  22",
    ]
