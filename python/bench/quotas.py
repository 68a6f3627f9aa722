# SPDX-License-Identifier: Apache-2.0
"""CPU quotas of processes, by control groups of version 1 or 2. Needs root."""
import contextlib
import os
import pathlib
import tempfile
import time

PERIOD = 50_000 # of quotas [µs]


class Quotas:
    """Control groups of this process and its children: those of workers have a quota. All of them together come before
    other work of the machine, which gets what is left."""

    def __init__(self):
        at = pathlib.Path("/sys/fs/cgroup")
        controllers = at / "cgroup.controllers"
        self._unified = controllers.exists() and "cpu" in controllers.read_text().split()
        if not self._unified:
            at /= "cpu"
        for old in at.glob("gneiss-*"): # of a run that was killed; one that is in use stays
            _remove(old, 0)
        self._at = pathlib.Path(tempfile.mkdtemp(prefix="gneiss-", dir=at))
        if self._unified:
            for folder in (at, self._at):
                (folder / "cgroup.subtree_control").write_text("+cpu")
        name, weight = ("cpu.weight", "10000") if self._unified else ("cpu.shares", "102400") # a hundred defaults
        (self._at / name).write_text(weight)
        self._add("others", os.getpid())

    def limit(self, name, process, share):
        """Limits a process to a share of a core, which it gets before processes that have a smaller one."""
        quota = f"{round(share * PERIOD)}"
        of = self._add(name, process)
        if self._unified:
            (of / "cpu.max").write_text(f"{quota} {PERIOD}")
            (of / "cpu.weight").write_text(str(max(1, round(100 * share))))
        else:
            (of / "cpu.cfs_period_us").write_text(str(PERIOD))
            (of / "cpu.cfs_quota_us").write_text(quota)
            (of / "cpu.shares").write_text(str(max(2, round(1024 * share))))

    def close(self):
        """Removes the groups. Processes in them have to be gone, but for this one."""
        (self._at.parent / "cgroup.procs").write_text(str(os.getpid()))
        _remove(self._at)

    def _add(self, name, process):
        of = self._at / name
        of.mkdir(exist_ok=True)
        (of / "cgroup.procs").write_text(str(process))
        return of


def _remove(group, seconds=5):
    end = time.monotonic() + seconds
    for folder in [*(path for path in group.iterdir() if path.is_dir()), group]:
        while True:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            if time.monotonic() >= end:
                break
            time.sleep(0.05)
