# SPDX-License-Identifier: Apache-2.0
"""Armada's batch and compute workers as actors of Ray, and the driver's view of them.

`gn.train(data, program="armada", local="3x2")` and `gneiss-armada train DATASET --local 3x2` use it: three batch and
two compute workers, processes of this machine; with `address=` those of a running cluster. The loop, the plan,
evaluations and checkpoints are the program's, in the calling process, which makes no batch and no gradient. Its bits
are those of one process: a frame is a function of (dataset, flags, number), so that another actor makes it again when
one dies.
"""
import importlib.metadata
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

from . import _core
from ._errors import Error

__all__ = ["BatchWorker", "Cluster", "ComputeWorker", "check"]

LEAST_RAY = (2, 60)
START_SECONDS = 300 # on a busy machine, a process of Ray needs tens of seconds
DEATHS_WITHOUT_A_STEP = 5


def check():
    """Raises Error unless Ray is there."""
    install = "pip install gneiss-graph[armada]"
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise Error(f"--local and --address need Ray, which drives the workers: {install}") from None
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST_RAY:
        raise Error(f"--local and --address need Ray {'.'.join(map(str, LEAST_RAY))} or newer, and {version} is "
                    f"installed: {install}")


class _Worker:
    """A process with an actor of C++. Ray creates it; `open` may raise what the dataset or the flags raise."""

    _actor = None

    def open(self, config, threads, *more):
        """Opens the dataset by the text of a config.toml. Returns the process's id and its host."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
            file.write(config)
            file.flush()
            self._actor = self._make(file.name, threads, *more)
        return os.getpid(), socket.gethostname()


class BatchWorker(_Worker):
    """Makes the batches of logical workers."""

    _make = staticmethod(_core.BatchActor)

    def make(self, numbers):
        """Returns [requests, bytes] read so far, then a frame for each number: (worker, epoch, state, pass, index)."""
        frames = []
        for number in numbers:
            frame = self._actor.make(number)
            frames.append(frame if len(numbers) == 1 else frame.copy()) # the next one overwrites it
        return self._actor.read_counts, *frames


class ComputeWorker(_Worker):
    """Holds the model, and computes the batches of some replicas. A call of an earlier generation is refused."""

    _make = staticmethod(_core.ComputeActor)
    _generation = 0

    def begin(self, generation, epoch, plateau, steps, values, state):
        """Continues after `steps` steps with these parameters, by the optimizer of an epoch."""
        self._generation = generation
        self._actor.begin(epoch, plateau, steps, values, state)

    def join(self, generation):
        """Enters a generation, and returns the number of steps made."""
        self._generation = generation
        return self._actor.steps

    def differentiate(self, generation, step, number, frame):
        """Returns gradients and statistics of a batch of step `step`."""
        self._check(generation, step)
        return self._actor.differentiate(frame, number)

    def step(self, generation, step, last, *gradients):
        """Makes a step by gradients in the order of replicas."""
        self._check(generation, step)
        self._actor.step(list(gradients), last)

    def current(self):
        """Returns values and optimizer state."""
        return self._actor.current()

    def _check(self, generation, step):
        if generation != self._generation or step != self._actor.steps + 1:
            raise _Stale(f"step {step} of generation {generation}, after step {self._actor.steps} of generation "
                         f"{self._generation}")


class _Stale(Exception):
    """A call of a driver that has gone on without this actor."""


class _Slot:
    """A place for an actor: the one there now, and how many there were."""

    def __init__(self, role, index):
        self.role, self.index = role, index
        self.lives = 0
        self.actor = self.name = self.host = None


class Cluster:
    """Batch and compute workers, as gneiss-armada's loop calls them. One driver; `request` by any thread."""

    def __init__(self, *, local, address, config, batch_workers, replicas, threads, graph_bytes, feature_bytes,
                 in_flight, gradient_bytes, memory_bytes, say, warn):
        check()
        batch, compute = _core.parse_counts(local) if local else (batch_workers, replicas)
        self._batch = [_Slot("batch", i) for i in range(batch)]
        self._compute = [_Slot("compute", i) for i in range(min(compute, replicas))]
        if compute > replicas:
            warn(f"{compute} compute workers for {replicas} replicas: {compute - replicas} of them would have nothing "
                 "to do, and are not started")
        processes = len(self._batch) + len(self._compute)
        self._threads = threads or (1 if address else max(1, len(os.sched_getaffinity(0)) // processes))
        self._config, self._say, self._warn = config, say, warn
        self._batch_memory = (graph_bytes, feature_bytes)
        self._lock = threading.Lock()
        self._frames = {}                  # number: (slot, actor, counts, frame), requested
        self._reads = {}                   # by actor
        self.frames = {}                   # made, by actor
        self._generation = 0
        self._begun = None                 # the parameters that replicas began with
        self._log = []                     # steps since: (step, numbers)
        self._done = 0                     # steps that all compute workers have made
        self._pending = (0, [])            # statistics of the step in flight
        self._deaths = 0                   # since the last step
        self._own = not address
        self._session = _Session(address, processes, self._threads, self._object_store(in_flight, gradient_bytes, memory_bytes))
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    # What the loop calls.

    def begin(self, epoch, plateau, steps, values, state):
        """Has all replicas continue with these parameters."""
        self._begun = (epoch, plateau, steps, values, state)
        self._log = []
        self._done = steps
        self._until_done(self._send_begun)

    def request(self, number):
        """Has a frame made that a later step needs."""
        with self._lock:
            if number not in self._frames:
                self._submit(number, number[0] % len(self._batch))

    def step(self, step, numbers):
        """Makes a step by the batches of these numbers, in the order of replicas. Returns their statistics."""
        self._log.append((step, numbers))
        result = self._until_done(lambda: self._advance(step))
        self._deaths = 0
        with self._lock:
            for number in numbers:
                self._frames.pop(number, None)
        return result

    def end(self):
        """Returns values and optimizer state after the last step."""
        def read():
            self._advance(self._done)
            return self._get(self._compute[0].actor.current.remote())
        return self._until_done(read)

    def read_counts(self):
        """Returns the requests and bytes that batch workers have read."""
        with self._lock:
            return tuple(map(sum, zip((0, 0), *self._reads.values())))

    def close(self):
        """Ends the actors and, if it is this driver's, the cluster, with all of its processes."""
        if self._session is not None:
            for slot in self._batch + self._compute:
                self._session.end(slot.actor)
            self._session.close()
            self._session = None

    # Steps.

    def _advance(self, step):
        """Makes the steps of the log up to `step` that are not made. Returns the statistics of the last one."""
        for number, batches in self._log:
            if number > self._done:
                self._once(number, batches)
        if self._pending[0] != step:
            return None
        return self._get(self._pending[1])

    def _once(self, step, numbers):
        frames = [self._frame(number) for number in numbers]
        results = [self._compute[r % len(self._compute)].actor.differentiate.options(num_returns=2).remote(
                       self._generation, step, number, frame)
                   for r, (number, frame) in enumerate(zip(numbers, frames))]
        self._pending = (step, [statistics for _, statistics in results])
        gradients = [values for values, _ in results]
        self._get([slot.actor.step.remote(self._generation, step, numbers[-1], *gradients) for slot in self._compute])
        self._done = step

    def _frame(self, number):
        """Returns the reference of a frame that is made."""
        retry = 0
        while True:
            with self._lock:
                if number not in self._frames:
                    self._submit(number, (number[0] + retry) % len(self._batch))
                slot, actor, counts, frame = self._frames[number]
                name = slot.name
            try:
                read = self._get(counts)
            except self._session.Gone:
                with self._lock:
                    del self._frames[number]
                if slot.actor is actor:
                    self._replace(slot)
                retry += 1 # another one makes it
                continue
            with self._lock:
                self.frames[name] = self.frames.get(name, 0) + 1
                self._reads[name] = read
            return frame

    def _submit(self, number, at):
        slot = self._batch[at]
        counts, frame = slot.actor.make.options(num_returns=2).remote([number])
        self._frames[number] = (slot, slot.actor, counts, frame)

    # Deaths.

    def _until_done(self, work):
        """Returns the result of `work`, which is repeated after a compute worker has died or a frame is lost."""
        while True:
            try:
                return work()
            except self._session.Gone:
                self._mend()

    def _mend(self):
        """Replaces compute workers that died. The group takes the state of the one that made most steps; without one,
        that which it began with, and the steps since are made again."""
        self._generation += 1
        steps = {}
        for slot in self._compute:
            try:
                steps[slot.index] = self._get(slot.actor.join.remote(self._generation))
            except self._session.Gone:
                self._replace(slot)
        if len(steps) == len(self._compute): # frames are lost, with the node that held them
            with self._lock:
                self._frames.clear()
            self._count_death("a frame was lost")
        at = max(steps.values(), default=0)
        if not steps or at < self._begun[2]:
            self._done = self._begun[2]
            self._send_begun()
            return
        furthest = self._compute[max(steps, key=steps.get)]
        values, state = self._get(furthest.actor.current.remote())
        epoch, plateau = self._begun[:2]
        self._send((epoch, plateau, at, values, state), [s for s in self._compute if steps.get(s.index) != at])
        self._done = at

    def _send_begun(self):
        self._send(self._begun, self._compute)

    def _send(self, parameters, slots):
        epoch, plateau, steps, values, state = parameters
        values, state = self._session.put(values), self._session.put(state) # once, for all
        self._get([slot.actor.begin.remote(self._generation, epoch, plateau, steps, values, state) for slot in slots])

    def _replace(self, slot):
        self._count_death(f"{slot.name} on {slot.host} died")
        self._warn(f"{slot.name} on {slot.host} died; another takes its place")
        self._launch(slot)
        self._await_opened([slot])

    def _count_death(self, text):
        self._deaths += 1
        if self._deaths > DEATHS_WITHOUT_A_STEP * (len(self._batch) + len(self._compute)):
            raise Error(f"{text}, the last of {self._deaths} deaths without a step between them")

    # Processes.

    def _start(self):
        slots = self._batch + self._compute
        for slot in slots:
            self._launch(slot)
        self._await_opened(slots)

    def _launch(self, slot):
        kind, more = (BatchWorker, self._batch_memory) if slot.role == "batch" else (ComputeWorker, ())
        slot.lives += 1
        name = f"{slot.role}-{slot.index}" + (f".{slot.lives}" if slot.lives > 1 else "")
        actor = self._session.start(kind, 1 if self._own else self._threads)
        opened = actor.open.remote(self._config, self._threads, *more)
        with self._lock:
            slot.actor, slot.name, slot.opened = actor, name, opened

    def _await_opened(self, slots):
        for slot in slots:
            try:
                process, slot.host = self._get(slot.opened, START_SECONDS)
            except self._session.Late:
                raise Error(f"{slot.name} was not up within {START_SECONDS} s: the cluster has no room for it, or the "
                            "machine is busy") from None
            except self._session.Gone as gone:
                raise Error(f"{slot.name} died before it had opened the dataset: {_first_line(gone)}") from None
            self._say(f"{slot.name} is process {process} on {slot.host}")

    def _get(self, references, timeout=None):
        return self._session.get(references, timeout)

    @staticmethod
    def _object_store(in_flight, gradient_bytes, memory_bytes):
        """Returns the bytes of Ray's object store: a quarter of --memory, and at least gradients and small frames."""
        least = (128 << 20) + 8 * gradient_bytes
        return max(least, min(memory_bytes // 4, 2 << 30))


class _Session:
    """A connection to Ray: a cluster of its own, or a running one."""

    def __init__(self, address, processes, threads, object_store):
        self._ready, self._leave = threading.Event(), threading.Event()
        self._failure = None
        self._started = set()
        self._folder = None
        self._saved = {}
        self._address, self._processes, self._threads, self._store = address, processes, threads, object_store
        # Ray's processes end with the thread that started them, and only the main thread's handlers would be replaced.
        self._thread = threading.Thread(target=self._hold, name="gneiss-armada", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def _hold(self):
        try:
            if self._address:
                self._join()
            else:
                self._begin()
        except Exception as error: # pylint: disable=broad-except
            self._failure = error if isinstance(error, (Error, ValueError)) else Error(self._why(error))
            self._stop()
            self._ready.set()
            return
        self._ready.set()
        self._leave.wait()
        self._stop()

    def _why(self, error):
        where = f"the Ray cluster at {self._address}" if self._address else "a Ray cluster of its own"
        return f"cannot use {where}: {type(error).__name__}: {_first_line(error)}"

    def _environment(self, values):
        for name, value in values.items():
            self._saved[name] = os.environ.get(name)
            os.environ[name] = value

    def _import(self):
        import ray # pylint: disable=import-outside-toplevel
        self._ray = ray
        failures = ray.exceptions
        self.Late = failures.GetTimeoutError
        self.Gone = _gone(failures)
        # It prints to stdout, which is the program's, when a worker dies. The driver says so itself.
        ray._private.worker._worker_logs_enabled = False # pylint: disable=protected-access
        return ray

    def _begin(self):
        if "ray" in sys.modules and sys.modules["ray"].is_initialized():
            raise Error("--local starts a Ray cluster of its own, and this process is connected to another: use "
                        "--address, or ray.shutdown() before")
        self._environment({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token(), "RAY_USAGE_STATS_ENABLED": "0",
                           "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"})
        ray = self._import()
        self._folder = tempfile.mkdtemp(prefix="gneiss-armada-", dir=_short_folder())
        before = _children()
        try:
            ray.init(address="local", num_cpus=self._processes, object_store_memory=self._store,
                     include_dashboard=False, log_to_driver=False, logging_level="CRITICAL", _temp_dir=self._folder,
                     _system_config={"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000,
                                     "health_check_failure_threshold": 3})
        finally:
            self._started = _children() - before

    def _join(self):
        # A token is the default here, too: RAY_AUTH_MODE=disabled joins a cluster without one.
        self._environment({"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token"), "RAY_USAGE_STATS_ENABLED": "0"})
        ray = self._import()
        self._joined = not ray.is_initialized()
        if self._joined:
            ray.init(address=self._address, log_to_driver=False, logging_level="CRITICAL")
        cpus, needed = ray.cluster_resources().get("CPU", 0), self._processes * self._threads
        if cpus < needed:
            raise Error(f"the Ray cluster at {self._address} has {cpus:.0f} CPUs, and {self._processes} processes of "
                        f"{self._threads} threads need {needed}: --local BxC and --threads ask for fewer")

    def _stop(self):
        ray = getattr(self, "_ray", None)
        if ray is not None and (self._folder is not None or getattr(self, "_joined", False)):
            ray.shutdown()
        _end(self._started)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        for name, value in self._saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def start(self, kind, cpus):
        """Returns a new actor, which Ray does not restart by itself."""
        return self._ray.remote(kind).options(num_cpus=cpus, max_restarts=0, max_task_retries=0,
                                              scheduling_strategy="SPREAD").remote()

    def end(self, actor):
        """Ends an actor, if it lives."""
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    def put(self, value):
        """Returns a reference of an array."""
        return self._ray.put(value)

    def get(self, references, timeout=None):
        """Returns values. Raises `Gone` for a dead actor or a lost object, `Late`, or what the actor raised."""
        try:
            return self._ray.get(references, timeout=timeout)
        except self._ray.exceptions.RayTaskError as failed:
            cause = failed.cause
            if isinstance(cause, self.Gone):
                raise cause from None
            where = f"{failed.function_name} on {failed.ip}"
            if type(cause).__module__ in ("builtins", Error.__module__):
                cause.args = (f"{where}: {cause}",)
                raise cause from None
            raise Error(f"{where}: {type(cause).__name__}: {cause}") from None

    def close(self):
        """Ends the connection and, if it is this session's, the cluster."""
        self._leave.set()
        self._thread.join()


def _gone(failures):
    return _Stale, failures.RayActorError, failures.ObjectLostError, failures.WorkerCrashedError, failures.NodeDiedError


_token_of_process = None


def _token():
    """Returns this process's token: Ray reads it once."""
    global _token_of_process # pylint: disable=global-statement
    if _token_of_process is None:
        _token_of_process = secrets.token_hex(32)
    return _token_of_process


def _short_folder():
    """Returns a folder whose name leaves room for the sockets below it, of at most 107 bytes."""
    folder = tempfile.gettempdir()
    return folder if len(folder) < 24 else "/tmp"


def _children():
    """Returns the ids of this process's children."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                found.update(map(int, file.read().split()))
        except OSError: # no longer there
            pass
    return found


def _alive(process):
    """True if a child of this process lives. Reaps it otherwise."""
    try:
        return os.waitpid(process, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def _end(processes, seconds=5):
    """Ends children of this process by their ids."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            for process in filter(_alive, processes):
                os.kill(process, number)
        end = time.monotonic() + seconds
        while any(map(_alive, processes)):
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        else:
            return


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
