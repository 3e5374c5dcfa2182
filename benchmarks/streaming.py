"""Selection at scale: `polypath select` of 10 000 rows from a Parquet file of 1 000 000 vectors of 384 numbers.

The file (1.5 GB) is written to a temporary directory and removed. CPU seconds and the peak of resident memory are those
of the command's own process; a part of that peak are pages of the memory-mapped vectors, which the system may drop.
Run: OMP_NUM_THREADS=1 python benchmarks/streaming.py [--quick]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from peers import amount, run

D, LIMIT = 384, 4.0  # numbers of a vector, GiB


def write(path: Path, n: int) -> None:
    """Vectors around 1000 centres, so that there is something to choose between."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1000, D)).astype(np.float32)
    kind = pa.list_(pa.float32(), D)
    with ParquetWriter(path, pa.schema({"id": pa.int64(), "vector": kind}), compression="NONE") as file:
        for start in range(0, n, 20_000):
            size = min(20_000, n - start)
            rows = centres[rng.integers(1000, size=size)] + rng.normal(size=(size, D)).astype(np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), D)
            file.write_table(pa.table({"id": np.arange(start, start + size), "vector": vectors}))


def parquet(quick: bool) -> None:
    n, k = (20_000, 200) if quick else (1_000_000, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "vectors.parquet"), Path(folder, "picks.jsonl")
        write(file, n)
        for method in ("k_center", "dpp"):
            command = [sys.executable, "-m", "polypath", "select", str(file), "--k", str(k), "--method", method]
            process = subprocess.Popen([*command, "--embed", "column:vector", "--out", str(out)], env=os.environ)
            _, status, used = os.wait4(process.pid, 0)
            assert status == 0 and sum(1 for _ in out.open()) == k  # noqa: S101
            out.unlink()
            peak = used.ru_maxrss / 2**20
            cpu = used.ru_utime + used.ru_stime
            amount(f"{method}: {k} of {n} x {D} from Parquet", "GiB at the peak", peak, LIMIT, f"{cpu:.0f} CPU s")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 * 2**20  # noqa: S101


if __name__ == "__main__":
    run(__doc__, {"parquet": parquet})
