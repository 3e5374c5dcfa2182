"""`polypath measure` of a rollouts file of 50 000 rows: 3125 prompts of 16 answers of about 60 words, with verdicts.

CPU seconds and the peak of resident memory are those of the command's own process. The measures are of texts, labels,
verdicts, hashed embeddings and similarities; once by prompt, and once as one set of all rows for those that need no
similarity of all pairs. Run: OMP_NUM_THREADS=1 python benchmarks/rollouts_file.py [--quick]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from peers import amount, run

GROUP, LIMIT = 16, 3.0  # rollouts of a prompt, GiB
TEXT = ("distinct_2", "self_bleu", "compression_ratio", "ngram_diversity", "self_repetition", "ngram_vendi")
LABELS = ("pairwise_difference", "hill", "entropy_corrected", "distinct_correct", "pass_at_k:k=8", "distinct_at_k:k=8")
VECTORS = ("vendi", "vendi_correct", "pairwise_cosine", "log_det", "order_parameter")
PAIRS = ("rouge_l", "route_diversity", "chamfer", "internal_diversity", "yield_size")
WHOLE = (*TEXT[:5], *LABELS[:4], "vendi", "pairwise_cosine", "order_parameter")


def write(path: Path, n: int) -> None:
    """Rows in which answers to one prompt share words, as those of a model do."""
    rng = np.random.default_rng(0)
    words = np.array(["let", "x", "be", "then", "add", "check", "solve", "=", *(f"word{i}" for i in range(4000))])
    frequent = 1 / np.arange(1, len(words) + 1)
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            prompt, answer = i // GROUP, int(rng.integers(6))
            own = np.random.default_rng(prompt * 7 + answer).choice(words, 30, p=frequent / frequent.sum())
            rest = rng.choice(words, int(rng.integers(15, 45)), p=frequent / frequent.sum())
            row = {"prompt": f"Problem {prompt}", "text": " ".join([*own, *rest]), "canonical": f"form {answer}"}
            file.write(json.dumps({**row, "correct": answer < 3, "reward": float(answer < 3)}) + "\n")


def file(quick: bool) -> None:
    n = 800 if quick else 50_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rollouts.jsonl")
        write(path, n)
        for by, names in (("prompt", (*TEXT, *LABELS, *VECTORS, *PAIRS)), ("all", WHOLE)):
            chosen = [part for name in names for part in ("-m", name)]
            command = [sys.executable, "-m", "polypath", "measure", str(path), "--embed", "hash", "--group-by", by]
            with Path(folder, "out.json").open("w+") as out:
                process = subprocess.Popen([*command, *chosen, "--json"], env=os.environ, stdout=out)
                _, status, used = os.wait4(process.pid, 0)
                out.seek(0)
                means = json.load(out)["means"]
            assert status == 0 and all(means[name]["n"] for name in names)  # noqa: S101
            task = f"`measure` of {n} rows ({path.stat().st_size / 2**20:.0f} MiB), {len(names)} measures, by {by}"
            cpu = used.ru_utime + used.ru_stime
            amount(task, "GiB at the peak", used.ru_maxrss / 2**20, LIMIT, f"{cpu:.0f} CPU s")


if __name__ == "__main__":
    run(__doc__, {"file": file})
