"""The report in a real browser: drawn, navigable by its address, and silent on the network."""

import re
import shutil
import subprocess

import pytest
from conftest import HOSTILE

from polypath.evaluate.runs import find_runs, load_run
from polypath.report.build import build_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
]
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=3000"),
]


@pytest.fixture(scope="module")
def page(study, tmp_path_factory):
    report = build_report([load_run(path) for path in find_runs([study])], title="Report", baseline="grpo")
    return report.write(tmp_path_factory.mktemp("page") / "report.html")


def dump(address, tmp_path):
    """The DOM after scripts ran, and the addresses that the browser asked for."""
    log = tmp_path / "net.json"
    command = [
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--log-net-log={log}",
        "--dump-dom",
        address,
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    text = log.read_text(encoding="utf-8")
    return dom, set(re.findall(r'"url":\s*"([^"]+)"', text))


def test_the_group_of_the_address_is_shown(page, tmp_path):
    dom, urls = dump(f"{page.as_uri()}#group=3", tmp_path)
    assert 'data-group="3"' in dom
    view = dom[dom.index('id="group-view"') : dom.index("<footer")]
    assert "3 1 2 3 21 &gt;" in view and view.count('class="card"') == 3
    assert re.search(r'class="chip"[^>]*>A<', view)
    # the hostile completion is visible as text, and nothing of it took effect
    assert HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in view
    assert "<title>Report</title>" in dom and "<img" not in dom
    assert dom.count("<figure") >= 4 and dom.count("<polyline") >= 4
    assert not [url for url in urls if "example.invalid" in url]


def test_the_page_asks_the_network_for_nothing(page, tmp_path):
    def hosts(address):
        return {url.split("/")[2] for url in dump(address, tmp_path)[1] if url.startswith("http")}

    blank, loud = tmp_path / "blank.html", tmp_path / "loud.html"
    blank.write_text("<!doctype html><title>x</title>", encoding="utf-8")
    loud.write_text('<!doctype html><title>x</title><img src="http://example.invalid/x.png">', encoding="utf-8")
    own = hosts(blank.as_uri())  # what the browser itself asks for
    assert "example.invalid" in hosts(loud.as_uri()) - own  # a request would be seen
    assert hosts(page.as_uri()) <= own
