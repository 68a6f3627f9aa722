# SPDX-License-Identifier: Apache-2.0
"""Armada's batch and compute workers as actors of Ray, and the driver's view of them.

`gn.train(data, program="armada", local="3x2")` and `gneiss-armada train DATASET --local 3x2` use it: three batch and
two compute workers, processes of this machine; with `address=` those of a running cluster. The loop, the plan,
evaluations and checkpoints are the program's, in the calling process, which makes no batch and no gradient. Its bits
are those of one process: a frame is a function of (dataset, flags, number), so that another actor makes it again when
one dies.
"""
import collections
import importlib.metadata
import os
import secrets
import shutil
import signal
import socket
import statistics
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
MEDIANS = 5           # a wait of more medians than that is for a worker that is late
FIRST_SECONDS = 60    # deadline before there is a median
DUPLICATE_SECONDS = 1 # least deadline before another batch worker makes the same batch, too
REPLACE_SECONDS = 5   # least deadline before a worker is ended, and replaced
LATE_SECONDS = 60     # a batch worker that is late for longer is replaced
BYTES_A_SECOND = 50 << 20 # of parameters, in deadlines


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

    def make(self, number):
        """Returns (requests, bytes) read so far with the seconds that it took, and the frame of a batch."""
        begin = time.monotonic()
        frame = self._actor.make(number)
        return (self._actor.read_counts, time.monotonic() - begin), frame


class ComputeWorker(_Worker):
    """Holds the model, and computes the batches of some replicas. A call of an earlier generation is refused."""

    _make = staticmethod(_core.ComputeActor)
    _generation = 0
    _begun = False

    def begin(self, generation, epoch, plateau, steps, values, state):
        """Continues after `steps` steps with these parameters, by the optimizer of an epoch."""
        self._generation = generation
        self._actor.begin(epoch, plateau, steps, values, state)
        self._begun = True

    def join(self, generation):
        """Enters a generation, and returns the number of steps made; -1 without parameters."""
        self._generation = generation
        return self._actor.steps if self._begun else -1

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


class _Late(Exception):
    """Workers have not answered within the deadline."""

    def __init__(self, slots, seconds, doing):
        super().__init__(slots, seconds, doing)
        self.slots, self.seconds, self.doing = slots, seconds, doing


class _Pace:
    """How long a kind of work takes, as the last ones did."""

    def __init__(self):
        self._seconds = collections.deque(maxlen=99)

    def add(self, seconds):
        self._seconds.append(seconds)

    def deadline(self, least):
        """Returns the seconds after which a worker is late."""
        return max(least, MEDIANS * statistics.median(self._seconds)) if self._seconds else FIRST_SECONDS


class _Slot:
    """A place for an actor: the one there now, and how many there were."""

    def __init__(self, role, index):
        self.role, self.index = role, index
        self.lives = 0
        self.actor = self.name = self.host = self.process = self.opened = None
        self.states = {}  # of a batch worker: (epoch, state) requested last, by logical worker
        self.late = None  # of a batch worker: since when, and the answer that it owes

    def __str__(self):
        return f"{self.name} on {self.host}"


class _Request:
    """A batch that an actor was asked for."""

    def __init__(self, slot, number):
        self.slot, self.actor, self.name = slot, slot.actor, slot.name
        worker, *state = number[:3]
        self.first = slot.states.get(worker) != state # of a state, whose partitions it loads
        slot.states[worker] = state
        self.answer, self.frame = slot.actor.make.options(num_returns=2).remote(number)


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
        self._frames = {}                  # number: requests of it
        self._reads = {}                   # by actor
        self.frames = {}                   # made, by actor
        self._generation = 0
        self._begun = None                 # the parameters that replicas began with
        self._log = []                     # steps since: (step, numbers)
        self._done = 0                     # steps that all compute workers have made
        self._results = (0, [])            # statistics of the step made last
        self._deaths = 0                   # since the last step
        self._missed = 0                   # deadlines since the last step
        self._pace = {"first": _Pace(), "batch": _Pace(), "step": _Pace()}
        self._transfer = 3 * gradient_bytes / BYTES_A_SECOND # seconds for parameters with their state
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
                self._submit(number)

    def step(self, step, numbers):
        """Makes a step by the batches of these numbers, in the order of replicas. Returns their statistics."""
        self._log.append((step, numbers))
        result = self._until_done(lambda: self._advance(step))
        self._deaths = self._missed = 0
        with self._lock:
            for number in numbers:
                self._frames.pop(number, None)
        return result

    def end(self):
        """Returns values and optimizer state after the last step."""
        def read():
            self._advance(self._done)
            return self._answers([(self._compute[0], self._compute[0].actor.current.remote())], "its parameters",
                                 self._transfer)[0]
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
        return self._results[1] if self._results[0] == step else None

    def _once(self, step, numbers):
        frames = [self._frame(number) for number in numbers]
        begin = time.monotonic()
        workers = [self._compute[r % len(self._compute)] for r in range(len(numbers))]
        results = [slot.actor.differentiate.options(num_returns=2).remote(self._generation, step, number, frame)
                   for slot, number, frame in zip(workers, numbers, frames)]
        gradients = [values for values, _ in results]
        steps = [slot.actor.step.remote(self._generation, step, numbers[-1], *gradients) for slot in self._compute]
        self._results = step, self._answers([(slot, of) for slot, (_, of) in zip(workers, results)],
                                            [f"the gradients of {_text(number)}" for number in numbers])
        self._answers(list(zip(self._compute, steps)), f"step {step} after {_text(numbers[-1])}")
        self._done = step
        self._pace["step"].add(time.monotonic() - begin)

    def _answers(self, asked, doing, more=0):
        """Returns the answers of (compute worker, reference). `doing`: what is asked, of all or of each; `more`:
        seconds for it beyond those of a step. Raises _Late."""
        doing = [doing] * len(asked) if isinstance(doing, str) else doing
        seconds = self._seconds("step", REPLACE_SECONDS) + more
        there = self._session.wait([reference for _, reference in asked], len(asked), seconds)
        late = [(slot, text) for (slot, reference), text in zip(asked, doing) if reference not in there]
        if late:
            raise _Late([slot for slot, _ in late], seconds, late[0][1])
        return [self._get(slot, reference, text) for (slot, reference), text in zip(asked, doing)]

    def _seconds(self, pace, least):
        """Returns a deadline, twice as long with each that was missed since the last step: the machine may be slow."""
        return self._pace[pace].deadline(least) * 2 ** min(self._missed, 8)

    # Frames.

    def _frame(self, number):
        """Returns the reference of a frame that is made."""
        self._look_after_late()
        while True:
            with self._lock:
                if not self._frames.get(number):
                    self._submit(number)
                asked = list(self._frames[number])
                others = self._others(asked)
            kind = "first" if asked[-1].first else "batch"
            seconds = self._seconds(kind, DUPLICATE_SECONDS if others else REPLACE_SECONDS)
            done = self._first_of(asked, seconds)
            if done is None:
                self._miss(number, asked[-1].slot, seconds)
                continue
            try:
                read, took = self._get(done.slot, done.answer, _text(number))
            except self._session.Gone:
                with self._lock:
                    self._frames[number].remove(done)
                    if self._others([done]):
                        self._submit(number, [done]) # another one makes it
                if done.slot.actor is done.actor:
                    self._replace(done.slot, f"died at {_text(number)}")
                continue
            with self._lock:
                self.frames[done.name] = self.frames.get(done.name, 0) + 1
                self._reads[done.name] = read
            self._pace["first" if done.first else "batch"].add(took)
            return done.frame

    def _first_of(self, asked, seconds):
        """Returns the request that is answered first. None: the worker asked last has made nothing for `seconds`."""
        while True:
            with self._lock:
                queue = [of for requests in self._frames.values() for of in requests if of.actor is asked[-1].actor]
            before = len(self._session.there([of.answer for of in queue]))
            there = self._session.wait([of.answer for of in asked], 1, seconds)
            if there:
                return next(of for of in asked if of.answer in there)
            if len(self._session.there([of.answer for of in queue])) == before:
                return None

    def _submit(self, number, but=()):
        """Asks for a batch: the worker of its logical worker, or the next one that is not late, nor in `but`."""
        home = number[0] % len(self._batch)
        free = self._others(but) or self._batch
        slot = min(free, key=lambda of: (of.index - home) % len(self._batch))
        self._frames.setdefault(number, []).append(_Request(slot, number))

    def _others(self, requests):
        """Returns the batch workers that are not late, and not of these requests."""
        return [slot for slot in self._batch if slot.late is None and slot not in [of.slot for of in requests]]

    def _miss(self, number, slot, seconds):
        """Goes on without the answer of a batch worker: others make its batches, too. Without one, it is replaced."""
        what = f"has not answered for {seconds:.3g} s ({_text(number)})"
        self._missed += 1
        with self._lock:
            mine = {of: next((r for r in requests if r.slot is slot), None) for of, requests in self._frames.items()}
            mine = {of: request for of, request in mine.items() if request is not None}
            others = self._others([mine[number]])
            if others:
                slot.late = time.monotonic(), mine[number].answer
                for of in mine:
                    if not any(request.slot.late is None for request in self._frames[of]):
                        self._submit(of, self._frames[of])
        if others:
            self._warn(f"{slot} {what}; other batch workers make its batches, too")
        else:
            self._replace(slot, what)

    def _look_after_late(self):
        """Takes back batch workers that answer again, and replaces those that have not for long."""
        for slot in self._batch:
            if slot.late is None:
                continue
            since, answer = slot.late
            if self._session.there([answer]):
                slot.late = None
                try:
                    self._get(slot, answer, "a late batch")
                    self._say(f"{slot} answers again")
                except self._session.Gone:
                    self._replace(slot, "died")
            elif time.monotonic() - since > LATE_SECONDS:
                self._replace(slot, f"has not answered for {LATE_SECONDS} s")

    # Deaths.

    def _until_done(self, work):
        """Returns the result of `work`, which is repeated after a compute worker has died or a frame is lost."""
        mend, late = False, None
        while True:
            try:
                if mend:
                    self._mend(late)
                return work()
            except self._session.Gone:
                mend, late = True, None
            except _Late as missed:
                mend, late = True, missed
                self._missed += 1

    def _mend(self, late):
        """Replaces compute workers that died or are late. The group takes the state of the one that made most steps;
        without one, that which it began with, and the steps since are made again."""
        self._generation += 1
        joining, steps = [], {}
        for slot in self._compute:
            if late is not None and slot in late.slots:
                self._replace(slot, f"has not answered for {late.seconds:.3g} s ({late.doing})")
            else:
                joining.append((slot, slot.actor.join.remote(self._generation)))
        for slot, reference in joining:
            try:
                steps[slot] = self._answers([(slot, reference)], f"generation {self._generation}")[0]
            except self._session.Gone:
                self._replace(slot, f"died after step {self._done}")
            except _Late as missed:
                self._replace(slot, f"has not answered for {missed.seconds:.3g} s ({missed.doing})")
        if len(steps) == len(self._compute): # frames are lost, with the node that held them
            with self._lock:
                self._frames.clear()
            self._count_death("a frame was lost")
        at = max(steps.values(), default=-1)
        if at < self._begun[2]:
            self._done = self._begun[2]
            self._send_begun()
            return
        furthest = max(steps, key=steps.get)
        values, state = self._answers([(furthest, furthest.actor.current.remote())], "its parameters",
                                      self._transfer)[0]
        epoch, plateau = self._begun[:2]
        self._send((epoch, plateau, at, values, state), [s for s in self._compute if steps.get(s) != at])
        self._done = at

    def _send_begun(self):
        self._send(self._begun, self._compute)

    def _send(self, parameters, slots):
        epoch, plateau, steps, values, state = parameters
        values, state = self._session.put(values), self._session.put(state) # once, for all
        self._answers([(slot, slot.actor.begin.remote(self._generation, epoch, plateau, steps, values, state))
                       for slot in slots], f"the parameters of step {steps}", self._transfer)

    def _replace(self, slot, why):
        """Ends the actor of a place, and starts another."""
        self._count_death(f"{slot} {why}")
        self._warn(f"{slot} {why}; another takes its place")
        self._session.end(slot.actor, slot.process if self._own else None)
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
            slot.actor, slot.name, slot.opened, slot.states, slot.late = actor, name, opened, {}, None

    def _await_opened(self, slots):
        for slot in slots:
            if not self._session.wait([slot.opened], 1, START_SECONDS):
                raise Error(f"{slot.name} was not up within {START_SECONDS} s: the cluster has no room for it, or the "
                            "machine is busy")
            try:
                slot.process, slot.host = self._get(slot, slot.opened, "opening the dataset")
            except self._session.Gone as gone:
                raise Error(f"{slot.name} died before it had opened the dataset: {_first_line(gone)}") from None
            self._say(f"{slot.name} is process {slot.process} on {slot.host}")

    def _get(self, slot, reference, doing):
        """Returns what a worker answered. Its errors name it, and what it did."""
        return self._session.get(reference, f"{slot.name} on {{ip}}, {doing}")

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

    def end(self, actor, process=None):
        """Ends an actor, if it lives. Ray needs 5 s for one that is stopped; `process`, of this machine, is ended at
        once."""
        if actor is not None:
            self._ray.kill(actor, no_restart=True)
        if process is not None and process in _descendants(self._started):
            os.kill(process, signal.SIGKILL)

    def put(self, value):
        """Returns a reference of an array."""
        return self._ray.put(value)

    def there(self, references):
        """Returns those of the references whose values are there, or never will be."""
        return self._ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)[0] \
            if references else []

    def wait(self, references, count, seconds):
        """Returns `count` of the references that are there, or those after `seconds`: of time in which this process
        ran, too."""
        while True:
            piece = min(seconds, 0.5)
            found = self._ray.wait(references, num_returns=count, timeout=piece, fetch_local=False)[0]
            seconds -= piece
            if len(found) >= count or seconds <= 0:
                return found

    def get(self, reference, where):
        """Returns a value that is there. Raises `Gone` for a dead actor or a lost object, or what the actor raised,
        with `where` before it."""
        try:
            return self._ray.get(reference, timeout=START_SECONDS)
        except self._ray.exceptions.RayTaskError as failed:
            cause = failed.cause
            if isinstance(cause, self.Gone):
                raise cause from None
            where = where.format(ip=failed.ip)
            if type(cause).__module__ in ("builtins", Error.__module__):
                cause.args = (f"{where}: {cause}",)
                raise cause from None
            raise Error(f"{where}: {type(cause).__name__}: {cause}") from None
        except self._ray.exceptions.GetTimeoutError:
            raise Error(f"{where.format(ip='its host')}: its answer did not arrive within {START_SECONDS} s") from None

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


def _descendants(processes):
    """Returns the ids of processes and of all that they started."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat", encoding="utf-8", errors="replace") as file:
                    parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
            except OSError: # no longer there
                pass
    found, rest = set(), list(processes)
    while rest:
        process = rest.pop()
        found.add(process)
        rest.extend(parents.get(process, []))
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


def _text(number):
    """Returns a batch as an error names it."""
    _, epoch, state, turn, index = number
    return f"epoch {epoch}, state {state}, pass {turn}, batch {index}"


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
