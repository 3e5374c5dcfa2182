"""The page: complete in itself, and inert whatever a model wrote."""

import json
import re
from html.parser import HTMLParser

import pytest
from conftest import HOSTILE

from polypath.evaluate.runs import find_runs, load_run
from polypath.report.build import build_report, write_report
from polypath.report.groups import group_of, training_groups, within
from polypath.report.html import inert


class Page(HTMLParser):
    """Tags, attributes and the text of scripts."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.scripts, self._in_script = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def report(study):
    return build_report([load_run(path) for path in find_runs([study])], title="<b>Report</b>", baseline="grpo")


@pytest.fixture(scope="module")
def html(report, tmp_path_factory):
    return report.write(tmp_path_factory.mktemp("page") / "report.html").read_text(encoding="utf-8")


def test_it_is_complete_and_small(html):
    assert len(html.encode()) < 5_000_000
    page = Page(html)
    assert {"passk", "frontier", "curve-correct", "curve-eval-distinct"} <= {
        a.get("id") for t, a in page.tags if t == "figure"
    }
    assert {"result", "differences", "browse"} <= {a.get("id") for t, a in page.tags if t == "section"}
    loads = [
        (t, a)
        for t, a in page.tags
        if a.keys() & {"src", "srcset", "data", "poster"} or t in ("link", "iframe", "object")
    ]
    assert loads == [] and "url(" not in html and "@import" not in html
    assert all(a["href"].startswith("#") for t, a in page.tags if "href" in a)
    assert "default-src 'none'" in html
    figures, tables = html.count("<figure "), html.count("The values as a table")
    assert figures == tables  # every picture has its table


def test_what_a_model_wrote_is_inert(html):
    page = Page(html)
    assert len(page.scripts) == 2  # the data and our own script: a hostile completion opened no third
    data = json.loads(page.scripts[0])
    assert any(row["text"] == HOSTILE for group in data for arm in group["arms"] for row in arm["rows"])
    assert "<img" not in html and "onerror=" not in re.sub(r"\\u003cimg.*?>", "", html)
    assert "&lt;b&gt;Report&lt;/b&gt;" in html


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028", "]]>", "a\\", '"', "\ud800"])
def test_inert_json_round_trips(text):
    encoded = inert({"x": text})
    assert json.loads(encoded) == {"x": text} and "<" not in encoded and "\u2028" not in encoded


def test_groups_count_equal_answers_once_and_agree_on_colours(report):
    group = report.groups[0]
    assert group["kind"] == "evaluation" and [arm["name"] for arm in group["arms"]] == [
        "start, seed 0",
        "grpo, seed 0",
        "rarity 1, seed 0",
    ]
    for arm in group["arms"]:
        assert sum(row["count"] for row in arm["rows"]) == arm["n"] == 32
        assert sum(n for _, n in arm["shares"]) == arm["correct"]
        for row in arm["rows"]:
            assert row["solution"] is None or row["text"].startswith(group["solutions"][row["solution"]])
    assert group["known"] == 4


def test_training_groups_show_advantages(study):
    groups = training_groups([load_run(study / "grpo" / "seed-1"), load_run(study / "grpo" / "seed-0")])
    assert [g["kind"] for g in groups] == ["training, step 0", "training, step 39"]
    assert groups[0]["arms"][0]["name"] == "grpo, seed 0"
    assert {row["advantage"] for row in groups[0]["arms"][0]["rows"]} <= {1.0, -0.4}


def test_groups_that_do_not_fit_are_left_out():
    groups = [{"prompt": "x" * 100}] * 5
    assert len(within(groups, 350)) == 3 and within(groups, 10) == []


def test_rollouts_that_were_not_judged_can_be_browsed():
    from polypath.core.record import Rollout

    group = group_of("evaluation", {"a": [Rollout("p", "g", 0, "t"), Rollout("p", "g", 1, "t")]})
    assert group["prompt"] == "p" and group["known"] is None
    assert group["arms"][0]["rows"] == [
        {
            "text": "t",
            "solution": None,
            "correct": None,
            "reward": None,
            "advantage": None,
            "status": "complete",
            "count": 2,
        }
    ]


def test_one_run_alone_makes_a_report(study, tmp_path):
    html = write_report([study / "grpo" / "seed-0"], tmp_path / "sub" / "one.html").read_text(encoding="utf-8")
    assert 'id="passk"' in html and 'id="differences"' not in html


@pytest.mark.slow
def test_png(report, tmp_path):
    pytest.importorskip("matplotlib")
    written = report.write_png(tmp_path / "png")
    assert {path.name for path in written} >= {"passk.png", "frontier.png", "curve-correct.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in written)
