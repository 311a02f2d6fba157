"""Recorded commits as earlier releases wrote them: directories (TSK-10)."""

import json
from collections.abc import Mapping
from pathlib import Path

import google_crc32c

import statestores as ss
from statestores.arrow.file_access import checksum_of
from statestores.changelog import FileChangelog
from statestores.files.directory_lock import LOCK_FILE
from statestores.tasks.commits.commit_record import read_record
from statestores.tasks.commits.directory_record import OUTPUTS_DIRECTORY


def directory_of(
    record: Path, root: ss.StateRoot, target: Path, *, first_format: bool = False
) -> None:
    """Write what the file *record* holds as the directory *target*, in format 2, or 3 if it emits.

    Or in the first format, which has nothing of what is emitted.
    """
    found = read_record(record, root)
    assert found is not None
    target.mkdir()
    content: dict[str, object] = {"format": 2}
    stores = {}
    for name, part in found.parts.items():
        base = 0 if first_format else part.base_offset
        kind = root.store(name).specification.kind
        with FileChangelog.create(target / name, kind, first_offset=base) as log:
            log.append_batch(part.frame.batch, position=part.frame.position)
        (target / name / LOCK_FILE).unlink()
        [file] = (target / name).iterdir()
        size = file.stat().st_size
        stores[name] = {"base_offset": part.base_offset, "bytes": size, "crc32c": checksum_of(file)}
    if first_format:
        bases = {name: part.base_offset for name, part in found.parts.items()}
        content = {"format": 1, "base_offsets": bases}
    else:
        content |= {"stores": stores}
        if found.outputs is not None:
            content |= {"format": 3, "outputs": _written(target / OUTPUTS_DIRECTORY, found.outputs)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["crc32c"] = google_crc32c.value(text.encode())
    (target / "commit.json").write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def _written(directory: Path, outputs: Mapping[str, bytes]) -> dict[str, object]:
    """Write *outputs* as files into *directory*; return what a record says of them."""
    directory.mkdir()
    said: dict[str, object] = {}
    for name, data in outputs.items():
        (directory / name).write_bytes(data)
        said[name] = {"bytes": len(data), "crc32c": google_crc32c.value(data)}
    return said
