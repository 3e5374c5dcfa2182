"""Credit by the policy's own entropy: the loop computes it where a method asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from polypath.cli.train import summarise
from polypath.core.rundir import RunDir
from polypath.train.run import RunRequest, load_recipe, run


@pytest.mark.parametrize("method", ["top_entropy", "d3s", "unlikeliness", "kl_cov", "pkpo"])
def test_methods_by_token_and_with_other_losses_train(recipe: Path, tmp_path: Path, method: str) -> None:
    request = RunRequest(load_recipe(str(recipe), (f"credit={method}", "train.steps=2")), tmp_path / "run")
    run(request, summarise=summarise, show_progress=False)
    rows = RunDir(tmp_path / "run").read_metrics()
    assert len(rows) == 2 and any(row.get("grad_norm", 0.0) > 0 for row in rows)
