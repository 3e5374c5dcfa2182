"""Threads are chosen before torch is loaded, and the environment's own settings win."""

import os
import subprocess
import sys

import pytest

from polypath.core.environment import physical_cores, prepare_threads, versions

VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "TOKENIZERS_PARALLELISM", "HF_HUB_DISABLE_TELEMETRY")


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the test sets is undone
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return monkeypatch


def test_small_models_get_one_thread_and_large_ones_the_cores(clean: pytest.MonkeyPatch) -> None:
    assert prepare_threads(4_999_999) == 1
    assert [os.environ[name] for name in VARIABLES] == ["1", "PASSIVE", "false", "1"]
    clean.delenv("OMP_NUM_THREADS")
    assert prepare_threads(5_000_000) == min(physical_cores(), 8)
    clean.delenv("OMP_NUM_THREADS")
    assert prepare_threads() == min(physical_cores(), 8)


def test_what_is_set_wins_and_what_is_asked_wins_over_it(clean: pytest.MonkeyPatch) -> None:
    for name, value in zip(VARIABLES, ("3", "ACTIVE", "true", "0"), strict=True):
        clean.setenv(name, value)
    assert prepare_threads(1) == 3
    assert prepare_threads(1, threads=2) == 2
    assert [os.environ[name] for name in VARIABLES] == ["2", "ACTIVE", "true", "0"]


def test_torch_that_is_loaded_already_is_told(clean: pytest.MonkeyPatch) -> None:
    class Torch:
        threads = 0

        def set_num_threads(self, threads: int) -> None:
            self.threads = threads

    torch = Torch()
    clean.setitem(sys.modules, "torch", torch)
    prepare_threads(threads=5)
    assert torch.threads == 5


def test_there_is_at_least_one_core() -> None:
    assert 1 <= physical_cores() <= (os.cpu_count() or 1)


def test_versions_come_without_imports() -> None:
    program = (
        "import sys; from polypath.core.environment import versions; print(sorted(versions()));"
        "print({'torch', 'transformers', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"{sorted(versions())}\nset()\n"
    assert {"python", "polypath", "numpy"} <= versions().keys()
