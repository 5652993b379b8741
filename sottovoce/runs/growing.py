"""A saved run that is read on while its log grows, whoever writes it."""

from __future__ import annotations

from sottovoce.core.errors import SottovoceError
from sottovoce.core.files import bytes_of, opened
from sottovoce.core.validation import shown
from sottovoce.runs.log import Key, check, damaged
from sottovoce.runs.run import Run
from sottovoce.runs.run_directory import LOG, in_use


class GrowingRun:
    """A run that was read from its directory, and the place in its log up to which it was read."""

    def __init__(self, run: Run) -> None:
        """Take a run from `load_run`."""
        assert run.folder is not None, "read from there"
        self.run, self._folder = run, run.folder
        lines = bytes_of(self._folder / LOG).splitlines(keepends=True)
        self._read = sum(map(len, lines[: run.lines]))

    def grow(self) -> set[Key]:
        """Apply the lines that were written since; return the discussions that changed.

        Raises:
            OSError: the log is gone.
            RecordError: one of the lines is damaged.
        """
        with opened(self._folder / LOG) as file:
            file.seek(self._read)
            data = file.read()
        lines = [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
        changed = {key for line in lines for key in self._apply(line)}
        if not lines and self.run.status == "running" and not in_use(self._folder):  # its process was killed
            changed = {key for key, record in self.run.records.items() if record.status == "running"}
            self.run.status = "stopped"
            self.run.close()
        return changed

    def _apply(self, data: bytes) -> list[Key]:
        try:
            line = check(data)
            if why := self.run.misfit(line):
                raise ValueError(why)
            self.run.apply(line)
        except (SottovoceError, ValueError, KeyError, TypeError, IndexError) as error:
            raise damaged(self._folder, self.run.lines + 1, shown(str(error))) from error
        self._read, self.run.lines = self._read + len(data), self.run.lines + 1
        return [line.of] if hasattr(line, "of") else []
