"""Files that survive a kill: atomic replacement, and append-only JSON lines in strict JSON."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import math
import os
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

from polypath.core.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class TornLineWarning(UserWarning):
    """The last line of a file was cut off by a kill and has been left out."""


def to_json(value: Any) -> str:
    """One line of strict JSON: NaN is null, infinities are the texts "inf" and "-inf", arrays are lists."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):
        return json.dumps(_strict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def atomic_write(path: Path, content: str | Iterable[bytes]) -> None:
    """Replace a file as a whole: a kill leaves the old content or the new, never a part. Raises UserError when full."""
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        with temporary.open("wb") as file:
            file.writelines([_bytes(content)] if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_directory(path.parent)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk into a UserError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        what = "the disk is full; what was written before is intact"
        raise UserError(str(path), what, "Free some space and resume the run.") from error


class JsonlWriter:
    """Appends rows; every `write` is one write, flushed to the disk, so a kill tears the last line at most.

    A line that an earlier kill has torn is removed when the file is opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        _mend(self._fd)

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append all rows or, when the disk is full, none of them (UserError)."""
        block = b"".join(_bytes(to_json(row)) + b"\n" for row in rows)
        size = os.fstat(self._fd).st_size
        with disk_errors(self.path):
            try:
                rest = memoryview(block)
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
                os.fsync(self._fd)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, size)
                raise

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """All rows; a torn last line is left out with a TornLineWarning. Raises UserError for any other bad line."""
    return [row for _, row, _ in numbered_rows(Path(path))]


def numbered_rows(path: Path) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    """Line number (from 1), row and raw line of every row; blank lines are passed over."""
    with open_for_reading(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("not an object")
            except ValueError as error:  # includes bad JSON and bad UTF-8
                if not line.endswith(b"\n"):
                    message = f"{path}:{number}: the last line is torn and is left out"
                    warnings.warn(message, TornLineWarning, stacklevel=3)
                    return
                where = f"{path}:{number}"
                raise UserError(where, f"is not a JSON object ({error})", "Repair or remove this line.") from error
            yield number, row, line


@contextlib.contextmanager
def open_for_reading(path: Path) -> Iterator[BinaryIO]:
    """The file in binary mode, unpacked when its name ends in .gz.

    Raises UserError when it is not there, or is packed and damaged.
    """
    opened: Any = gzip.GzipFile if path.suffix.lower() == ".gz" else open
    try:
        file = opened(path, "rb")
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror})", "Is the path right?") from error
    with file:
        try:
            yield file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(str(path), f"is no whole gzip file ({error})", "Is it still being written?") from error


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write only as an escape
        return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return _strict(value.tolist()) if hasattr(value, "tolist") else value


def _mend(fd: int) -> None:
    """Make the file end with a whole line."""
    size = os.fstat(fd).st_size
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        start = max(0, start - 65536)
        tail = os.pread(fd, size - start, start)
    last = tail[tail.rfind(b"\n") + 1 :]
    try:
        json.loads(last)
    except ValueError:
        os.ftruncate(fd, size - len(last))
    else:
        os.write(fd, b"\n")


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
