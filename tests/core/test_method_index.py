"""Methods written in YAML are entries of the index."""

from pathlib import Path

from polypath.core import registry
from polypath.core.document import packaged
from polypath.core.index import method_entry


def test_a_method_file_becomes_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "darling.yaml"
    path.write_text(
        """
paper: {arxiv: "2509.02534", seed: "0.52", confidence: exact}
summary: Quality times distinctness.
traits: [zero_mean, duplicates_share]
knobs:
  floor: 1e-1
  count: 3
  mode: soft
  bound: null
  scale: {default: 1, type: float, help: Width of the kernel.}
credit: []
""",
        encoding="utf-8",
    )
    entry = method_entry(path)
    assert (entry.kind, entry.name, entry.target) == ("credit", "darling", "polypath.methods:darling.yaml")
    assert (entry.paper, entry.traits) == ("arXiv:2509.02534 [0.52]", ("duplicates_share", "zero_mean"))
    assert entry.knobs == {
        "floor": {"type": "float", "default": 0.1},
        "count": {"type": "int", "default": 3},
        "mode": {"type": "str | dict", "default": "soft"},
        "bound": {"type": "Any", "default": None},
        "scale": {"type": "float", "default": 1, "help": "Width of the kernel."},
    }


def test_citations_of_every_form(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    for paper, citation in (
        ("{arxiv: '1.2', seed: ''}", "arXiv:1.2"),
        ("{title: A Name, arxiv: '', seed: '0.1'}", "A Name [0.1]"),
        ("plain words", "plain words"),
        ("null", ""),
    ):
        path.write_text(f"paper: {paper}\n")
        assert method_entry(path).paper == citation


def test_every_packaged_method_is_in_the_index() -> None:
    known = {entry.name: entry for entry in registry.entries("credit")}
    for name, path in packaged("methods").items():
        assert known[name] == method_entry(path)
