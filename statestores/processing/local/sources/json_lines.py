"""Files of JSON lines as a source: one value a line, and files that may grow."""

import logging
from dataclasses import dataclass
from typing import IO, Any

from statestores.errors import SerializationError, StoreCorruptedError
from statestores.processing.local.sources.file_reader import (
    FileProgress,
    FileReader,
    check_same,
    proof_of,
)
from statestores.processing.local.sources.file_set import FileSet, FoundFile
from statestores.processing.local.sources.file_source import FileSource
from statestores.processing.local.sources.record_fields import RecordFields
from statestores.processing.local.sources.source import (
    Place,
    SourceOutput,
    SourceReader,
)
from statestores.processing.topic import Topic
from statestores.serdes import JsonSerde, json
from statestores.spi import KeyValueStore

_LOGGER = logging.getLogger("statestores.processing")
_SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class JsonLines(FileSource):
    """JSON lines of a file, of a directory (``*.jsonl``, ``*.ndjson``) or of a pattern.

    Files may grow: what is appended is read. A last line without a newline counts once it is whole.
    Blank lines are none. New files are found, and come after those that are there.
    """

    def reader(
        self, topic: Topic[Any, Any], store: KeyValueStore[str, Any], output: SourceOutput
    ) -> SourceReader:
        """Open it, where the last commit has left each file."""
        fields = self.fields(topic)
        files = FileSet(self.path, _SUFFIXES)
        is_json = isinstance(topic.value, JsonSerde) and fields.takes_all
        return _LineReader(files, store, output, fields, keeps_lines=is_json)


class _LineReader(FileReader):
    """Reads lines."""

    def __init__(
        self,
        files: FileSet,
        store: KeyValueStore[str, Any],
        output: SourceOutput,
        fields: RecordFields,
        *,
        keeps_lines: bool,
    ) -> None:
        super().__init__(files, store, output)
        self._fields = fields
        self._keeps_lines = keeps_lines
        """Whether a line is the value as it lies in the topic, once it is known to be JSON."""
        self._file: IO[bytes] | None = None
        self._told: set[str] = set()

    def open_file(self, file: FoundFile, progress: FileProgress) -> None:
        """Open *file* behind the lines that were taken."""
        self._file = file.path.open("rb")
        check_same(file.path, self._file, progress, self._file.seek(0, 2))
        self._file.seek(progress.byte)

    def read_file(self, file: FoundFile, progress: FileProgress, limit: int) -> tuple[int, bool]:
        """Take up to *limit* lines."""
        descriptor = self._file
        if descriptor is None:
            return 0, True
        source, output, done = str(file.path), self.output, 0
        keeps_lines, fields, decode = self._keeps_lines, self._fields, json.decode
        is_over = False
        while done < limit:
            line = descriptor.readline()
            if not line.endswith(b"\n") and not self._is_whole(line):
                self._tell(source, progress, line)
                is_over = True
                break
            data = line.strip()
            if data:
                place = Place(source, progress.next, progress.byte, file.name)
                try:
                    row = decode(data)
                    record = fields.record(row, output.wall_ms, data if keeps_lines else None)
                except Exception as error:  # noqa: BLE001  # selectors may raise anything
                    output.refuse(error, place, data)
                else:
                    output.take(record, place)
                progress.next += 1
                done += 1
            progress.byte += len(line)
        progress.checksum = proof_of(descriptor, progress.byte)
        if descriptor.seek(0, 2) < progress.byte:
            raise StoreCorruptedError(
                f"{source!r} has shrunk while it was read, to less than the {progress.byte} bytes "
                "that were; files may only grow"
            )
        descriptor.seek(progress.byte)
        return done, is_over

    def close_file(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_whole(self, line: bytes) -> bool:
        """Whether a line without its newline cannot grow: a number may, an object may not."""
        data = line.strip()
        if not data or data[:1] not in b'{["':
            return False
        try:
            json.decode(data)
        except SerializationError:
            return False
        return True

    def _tell(self, source: str, progress: FileProgress, rest: bytes) -> None:
        """Say once of a file that its end is not read yet."""
        if rest.strip() and source not in self._told:
            self._told.add(source)
            _LOGGER.warning(
                "the last line of %s, from byte %d on, has no newline and is not whole; it is read "
                "when it is",
                source,
                progress.byte,
            )
