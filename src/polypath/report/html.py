"""The report as one HTML file that needs nothing else: no server, no network, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from polypath.core.files import to_json
from polypath.evaluate.compare import Comparison, Difference
from polypath.report.console import COLUMNS, describe_sample, interval, shown_metrics
from polypath.report.figure import Figure, number
from polypath.report.svg import render, swatch

LEGEND = (
    "Differences are paired over seeds and problems; the small figures below them are the single seeds. The interval "
    "resamples seeds and problems (bootstrap); t below it is over seeds, or over problems where there is one seed. "
    "Bold and coloured: the bootstrap interval excludes zero."
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(
    title: str,
    comparison: Comparison,
    figures: Sequence[Figure],
    curves: Sequence[Figure],
    groups: Sequence[dict[str, Any]],
    *,
    lead: str = "",
    pictures: Sequence[str] = (),
    footer: str = "",
) -> str:
    """The whole page. `pictures` are ready-made `<figure>` elements (the routes map); all else is escaped here."""
    sections = [
        ("result", "Result", _result(comparison)),
        ("figures", "Success and diversity", _grid(figures, "grid2", lead)),
        ("map", "On the map", f'<div class="grid3">{"".join(pictures)}</div>' if pictures else ""),
        ("differences", "Paired differences", _differences(comparison)),
        ("curves", "Over training", _grid(curves, "grid3")),
        ("browse", "Groups", _browser(len(groups)) if groups else ""),
    ]
    shown = [(name, heading, body) for name, heading, body in sections if body]
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in shown)
    bodies = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>' for name, heading, body in shown
    )
    assets = resources.files("polypath.report") / "page"
    css, js = (assets.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    script = f'<script type="application/json" id="groups">{inert(groups)}</script><script>{js}</script>'
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head>'
        f'<body><header><h1>{escape(title)}</h1><p class="soft">{_lines(describe_sample(comparison))}</p>'
        f"<nav>{links}</nav></header><main>{_legend(comparison.arms)}{bodies}</main>"
        f"<footer><p>{escape(footer)}</p></footer>{script if groups else ''}</body></html>\n"
    )


def inert(data: Any) -> str:
    """JSON that no HTML parser can leave: inside a script element nothing can close it.

    >>> inert("</script>")
    '"\\\\u003c/script>"'
    """
    text = to_json(data)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """A table of escaped cells that scrolls sideways where the screen is narrow."""
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in headers)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return _scroll(f"<caption class='small soft'>{escape(caption)}</caption>" if caption else "", head, body)


def figure_html(figure: Figure) -> str:
    """The picture with its caption and the same values as a table."""
    values = f"<details><summary>The values as a table</summary>{table(*figure.table())}</details>"
    return f'<figure id="{figure.id}"><figcaption>{escape(figure.title)}</figcaption>{render(figure)}{values}</figure>'


def _scroll(caption: str, head: str, body: str) -> str:
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _legend(arms: Iterable[str]) -> str:
    items = "".join(f"<span>{swatch(i)}{escape(arm)}</span>" for i, arm in enumerate(arms))
    return f'<div class="legend" aria-label="Arms">{items}</div>'


def _grid(figures: Sequence[Figure], grid: str, lead: str = "") -> str:
    if not figures:
        return ""
    text = f"<p>{escape(lead)}</p>" if lead else ""
    return f'{text}<div class="{grid}">{"".join(map(figure_html, figures))}</div>'


def _result(comparison: Comparison) -> str:
    metrics = shown_metrics(comparison)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["arm", *(COLUMNS.get(m, m) for m in metrics)])
    body = ""
    for i, arm in enumerate(comparison.arms):
        cells = ""
        for metric in metrics:
            e = comparison.spread(arm, metric)
            cells += f'<td>{number(e.value)}<span class="small">{escape(interval(e, sign=False))}</span></td>'
        body += f"<tr><td>{swatch(i)} {escape(arm)}</td>{cells}</tr>"
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    legend = "Means over seeds and problems, with 95 % bootstrap intervals over both."
    table_html = _scroll(f'<caption class="small soft">{legend}</caption>', head, body)
    return f'<div class="card">{table_html}</div>' + (f'<ul class="notes small">{notes}</ul>' if notes else "")


def _differences(comparison: Comparison) -> str:
    if not comparison.differences:
        return ""
    metrics = shown_metrics(comparison)
    cards = []
    for arm, baseline in dict.fromkeys((d.arm, d.baseline) for d in comparison.differences):
        rows = "".join(_difference_row(comparison.difference(arm, m, baseline=baseline)) for m in metrics)
        head = "".join(f'<th scope="col">{h}</th>' for h in ("", "difference", "95 % interval"))
        cards.append(f'<div class="card"><h3>{escape(arm)} − {escape(baseline)}</h3>{_scroll("", head, rows)}</div>')
    text = f'<p class="small soft">{escape(LEGEND)}</p>'
    return f'{text}<div class="grid2">{"".join(cards)}</div>'


def _difference_row(d: Difference) -> str:
    sure = " sure" if d.bootstrap.excludes_zero else ""
    judged = d.metric != "length" and sure
    direction = (" up" if d.value > 0 else " down") if judged else ""
    each = " ".join(number(x, sign=True) for x in d.per_seed.values()) if len(d.per_seed) > 1 else ""
    t = f"t {interval(d.t)}" if interval(d.t) else ""
    return (
        f"<tr><td>{escape(COLUMNS.get(d.metric, d.metric))}</td>"
        f'<td class="value{sure}{direction}">{number(d.value, sign=True)}<span class="small">{escape(each)}</span></td>'
        f'<td>{escape(interval(d.bootstrap))}<span class="small">{escape(t)}</span></td></tr>'
    )


def _browser(count: int) -> str:
    text = (
        "What the arms answered to the same prompt. Equal answers are counted once; a colour with its letter stands "
        "for one solution, in all arms. The address of this page remembers the group (#group=3)."
    )
    return (
        f'<p class="soft">{escape(text)}</p><div class="picker"><button id="group-back" type="button" '
        'aria-label="Previous group">←</button><button id="group-next" type="button" aria-label="Next group">→</button>'
        f'<label class="small soft" for="group-select">{count} groups</label><select id="group-select"></select></div>'
        '<div id="group-view" aria-live="polite"></div>'
    )
