"""Files of rows, of any of the usual kinds: each row with the place it stands at."""

from __future__ import annotations

import csv
import io
import json
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, missing_extra
from polypath.core.eval_logs import inspect_rows, inspect_samples
from polypath.core.files import numbered_rows, open_for_reading
from polypath.core.store import parquet_table

Row = tuple[str, dict[str, Any]]  # where it stands, and its columns
READABLE = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".eval")


def read_rows(path: Path) -> Iterable[Row]:
    """(where, row) of a JSONL, JSON, CSV, TSV, Parquet or .eval file, or of a dataset that `datasets` saved.

    Text files may be packed with gzip, as in rows.jsonl.gz. Raises UserError for what cannot be read.
    """
    if path.is_dir():
        return _saved_dataset(path)
    kind = ending(path)
    if kind == ".eval":
        return inspect_rows(path)
    if kind in (".jsonl", ".ndjson"):
        return ((f"{path}:{number}", row) for number, row, _ in numbered_rows(path))
    if kind == ".parquet":
        return _numbered(path, _batches(parquet_table(path)))
    if kind not in (".csv", ".tsv", ".json"):
        fix = f"Use {', '.join(READABLE[:-1])} or {READABLE[-1]}; text files may be packed (.jsonl.gz)."
        raise UserError(str(path), f"cannot read files named '*{path.suffix}'", fix)
    text = _text(path)
    return _json_rows(path, text) if kind == ".json" else _csv_rows(path, text, "\t" if kind == ".tsv" else ",")


def _text(path: Path) -> str:
    """A whole text file: UTF-8, or UTF-16 where it says so in its first two bytes."""
    with open_for_reading(path) as file:
        raw = file.read()
    try:
        return raw.decode("utf-16" if raw[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(str(path), f"is not UTF-8 text ({error})", "Convert it to UTF-8.") from error


def ending(path: Path) -> str:
    """The ending that says what a file holds, without the one that says that it is packed.

    >>> ending(Path("rows.JSONL.gz"))
    '.jsonl'
    """
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def is_saved_dataset(path: Path) -> bool:
    """Whether a directory is what `Dataset.save_to_disk` or `DatasetDict.save_to_disk` writes."""
    return any((path / name).is_file() for name in ("state.json", "dataset_dict.json"))


def _batches(table: Any) -> Iterator[list[dict[str, Any]]]:
    """The rows of an Arrow table, some thousands at a time: as Python objects they take several times the memory."""
    return (batch.to_pylist() for batch in table.to_batches(max_chunksize=4096))


def _numbered(path: Path, batches: Iterable[list[dict[str, Any]]]) -> Iterator[Row]:
    count = 0
    for batch in batches:
        for row in batch:
            yield f"{path} row {count}", row
            count += 1


def _json_rows(path: Path, text: str) -> list[Row]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise UserError(
            str(path), f"is not JSON ({error})", "For one object per line use the ending .jsonl."
        ) from error
    if isinstance(rows, dict) and {"eval", "samples"} <= rows.keys():  # inspect's other format of logs
        return list(inspect_samples(str(path), rows["samples"] or [], rows["eval"]))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(str(path), "is not a JSON list of objects", "For one object per line use the ending .jsonl.")
    return [(f"{path} row {count}", row) for count, row in enumerate(rows)]


def _csv_rows(path: Path, text: str, delimiter: str) -> list[Row]:
    csv.field_size_limit(sys.maxsize)  # a completion may be longer than the 131 072 characters of the default
    if delimiter == ",":
        delimiter = _delimiter(text.partition("\n")[0])
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = []
    try:
        twice = [name for name, count in Counter(reader.fieldnames or ()).items() if count > 1]
        if twice:
            raise UserError(f"{path}:1", f"has two columns named '{twice[0]}'", "Give every column a name of its own.")
        for row in reader:
            where = f"{path}:{reader.line_num}"
            if None in row or None in row.values():
                what = f"has not {len(reader.fieldnames or [])} columns as the header"
                raise UserError(where, what, "Quote its commas.")
            rows.append((where, dict(row)))
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}", f"is not CSV ({error})", "Save it as .jsonl.") from error
    return rows


def _delimiter(header: str) -> str:
    """What separates the columns of a file named .csv: spreadsheets also write semicolons and tabs.

    >>> _delimiter("prompt;text"), _delimiter("prompt,text;more"), _delimiter("text")
    (';', ',', ',')
    """
    return next((mark for mark in ",;\t" if mark in header), ",")


def _saved_dataset(path: Path) -> Iterator[Row]:
    """Rows of the Arrow files that a dataset's state names."""
    if (path / "dataset_dict.json").is_file():
        splits = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8")).get("splits", [])
        fix = f"Name one: {', '.join(str(path / split) for split in splits)}."
        raise UserError(str(path), f"is a dataset with {len(splits)} splits", fix)
    if not (path / "state.json").is_file():
        raise UserError(str(path), "is a directory and no saved dataset", "Give one of its files.")
    try:
        from pyarrow import ipc, memory_map
    except ImportError:
        raise missing_extra(str(path), "pyarrow", "measure") from None
    names = [item["filename"] for item in json.loads((path / "state.json").read_text(encoding="utf-8"))["_data_files"]]
    for name in names:
        if not (path / name).is_file():
            raise UserError(str(path / name), "is missing, though the dataset's state.json names it", "Save it anew.")
    yield from _numbered(
        path, (batch.to_pylist() for name in names for batch in ipc.open_stream(memory_map(str(path / name))))
    )
