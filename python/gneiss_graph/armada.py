# SPDX-License-Identifier: Apache-2.0
"""Armada's batch and compute workers, and owners of learned rows, as actors of Ray, and the driver's view of them.

`gn.train(data, program="armada", local="3x2")` and `gneiss-armada train DATASET --local 3x2` use it: three batch and
two compute workers, processes of this machine; with `address=` those of a running cluster. The loop, the plan,
evaluations and checkpoints are the program's, in the calling process, which makes no batch and no gradient. Its bits
are those of one process: a frame is a function of (dataset, flags, number), so that another actor makes it again when
one dies.
"""
import collections
import concurrent.futures
import contextlib
import functools
import importlib.metadata
import os
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

from . import _core
from ._errors import Error, OverBudget
from ._staging import source_of, stage

__all__ = ["AggregatedWorker", "BatchWorker", "Cluster", "ComputeWorker", "RowOwner", "check"]

LEAST_RAY = (2, 60)
START_SECONDS = 300 # on a busy machine, a process of Ray needs tens of seconds
DEATHS_WITHOUT_A_STEP = 5
MEDIANS = 5           # a wait of more medians than that is for a worker that is late
FIRST_SECONDS = 60    # deadline before there is a median
DUPLICATE_SECONDS = 1 # least deadline before another batch worker makes the same batch, too
REPLACE_SECONDS = 5   # least deadline before a worker is ended, and replaced
CLUSTER_SECONDS = 20  # the same of a compute worker with machines: Ray says first that one with a frame is gone
LATE_SECONDS = 60     # a batch worker that is late for longer is replaced
BYTES_A_SECOND = 50 << 20 # of parameters, in deadlines
HEAD_SECONDS = 8      # a head that refuses connections for longer is gone
QUESTION_SECONDS = 60 # an owner that answers a question later is late, though it answers the driver
SILENT_SECONDS = 1    # least deadline of a batch worker that is only asked whether it is there
# By default, an actor does one thing after another: two batch workers that ask each other would wait for ever.
GROUPS = {"owner": 2, "state": 1} # threads that answer other batch workers, and the driver
MAKING = {"make": 1} # the thread of a compute worker that makes its batches
LIVE_SECONDS = 10     # that the live line is a mean of


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

    def where(self):
        """Returns the process's id, its host, and Ray's id of the machine, whose object store holds its frames."""
        import ray # pylint: disable=import-outside-toplevel
        return os.getpid(), socket.gethostname(), ray.get_runtime_context().get_node_id()

    def open(self, version, config, threads, dataset, run, source, *more):
        """Opens the dataset by the text of a config.toml, which has to be that of the driver, by its checksum and the
        number of the run. source: (URL, path) of a dataset that is staged where it is absent; None: of no other."""
        if version != _core.version:
            raise Error(f"has version {_core.version} of gneiss-graph, and the driver {version}: install the same on "
                        "every machine")
        if source is not None and not os.path.exists(source[1]):
            stage(source[0], to=source[1])
        with os.fdopen(os.memfd_create("config.toml"), "w", encoding="utf-8") as file: # a full disk does not matter
            file.write(config)
            file.flush()
            self._actor = self._make(f"/proc/self/fd/{file.fileno()}", threads, *more)
        if self._actor.dataset != dataset:
            raise Error(f"has another dataset than the driver under the same path ({self._actor.dataset:016x}, not "
                        f"{dataset:016x}): every machine needs the same files")
        if self._actor.run != run:
            raise Error("reads another plan from the driver's flags")


class BatchWorker(_Worker):
    """Makes the batches of logical workers. With remote construction, it asks the owners of nodes, other batch workers,
    and is one: questions and answers are bytes that C++ writes and checks."""

    _make = staticmethod(_core.BatchActor)

    def __init__(self):
        self._owners = 0, None # number of what `connect` was called with, and that
        self._connected = threading.Condition()

    def make(self, group, delivery, connected=0):
        """Returns [(requests, bytes) read so far, seconds that it took, bytes, messages to owners], the frame of the
        rows that a group of batches shares, and the frames of the batches; of a group of 0, the ids of its nodes
        instead. delivery: which rows the cache of the compute worker has, and takes; None: it has no cache. connected:
        number of the owners that it waits for, those of `connect` or later ones; 0: it asks none. Raises
        _Unanswered."""
        begin = time.monotonic()
        ask = None
        if connected:
            with self._connected:
                if not self._connected.wait_for(lambda: self._owners[0] >= connected, START_SECONDS):
                    raise Error(f"does not know who owns which partitions after {START_SECONDS} s")
            ask = self._ask
        before = self._actor.traffic
        made = self._actor.make(group[:5], delivery, ask) if group[5] else (self._actor.nodes(group[:5], ask),)
        sent = tuple(now - was for now, was in zip(self._actor.traffic, before))
        return (self._actor.read_counts, time.monotonic() - begin, sum(of.nbytes for of in made), sent), *made

    def connect(self, number, owners):
        """Takes those who own the partitions of each logical worker: (name, actor); an actor of None: this one."""
        with self._connected:
            if number > self._owners[0]:
                self._owners = number, owners
                self._connected.notify_all()

    def answer(self, owner, question):
        """Returns the answer of a logical worker."""
        return self._actor.answer(owner, question)

    def _ask(self, questions):
        """Returns the answers to [(logical worker, question)]. If another takes the place of an owner meanwhile, it is
        asked again there."""
        import ray # pylint: disable=import-outside-toplevel
        answers, asked, number = {}, {}, 0
        while len(answers) < len(questions):
            if self._owners[0] != number:
                number, owners = self._owners
                end = time.monotonic() + QUESTION_SECONDS
                for at, (owner, question) in enumerate(questions):
                    name, actor = owners[owner]
                    if at not in answers and (at not in asked or asked[at][0] != name):
                        asked[at] = name, actor and actor.answer.options(concurrency_group="owner").remote(
                            owner, question)
            for at in [at for at, (_, reference) in asked.items() if reference is None]:
                answers[at] = self._actor.answer(*questions[at])
                del asked[at]
            references = [reference for _, reference in asked.values()]
            there = ray.wait(references, num_returns=len(references), timeout=0.5)[0] if references else []
            for at, (name, reference) in list(asked.items()):
                if reference in there:
                    try:
                        answers[at] = _take(ray, reference, f"{name}, a question for batch worker {questions[at][0]}")
                    except _gone(ray.exceptions):
                        if self._owners[0] == number:
                            raise _Unanswered(name, "died") from None
                    del asked[at]
                elif time.monotonic() > end and self._owners[0] == number:
                    raise _Unanswered(name, f"has not answered for {QUESTION_SECONDS} s")
        return [answers[at] for at in range(len(questions))]


class ComputeWorker(_Worker):
    """Holds the model, and computes the batches of some replicas. Learned rows are those of owners, which it asks. A
    call of an earlier generation is refused."""

    _make = staticmethod(_core.ComputeActor)
    _generation = 0
    _begun = False
    _owners = ()

    def begin(self, generation, epoch, plateau, steps, values, state, owners=()):
        """Continues after `steps` steps with these parameters, by the optimizer of an epoch. owners: [(name, actor)] of
        learned rows."""
        self._generation, self._owners = generation, owners
        self._actor.begin(epoch, plateau, steps, values, state)
        self._actor.empty_cache() # it may have begun with the step after the one that the driver made last
        self._begun = True

    def join(self, generation):
        """Enters a generation, and returns the number of steps made; -1 without parameters."""
        self._generation = generation
        self._actor.empty_cache()
        return self._actor.steps if self._begun else -1

    def differentiate(self, generation, step, number, frame, rows):
        """Returns the gradients of a batch of step `step`, (its statistics, None, what `_sizes` returns), and for each
        owner the gradients of its rows."""
        self._check(generation, step)
        read = functools.partial(self._read, generation, step) if self._owners else None
        gradients, sums, *learned = self._actor.differentiate(frame, rows, number, read)
        return gradients, (sums, None, self._sizes(learned)), *learned

    def step(self, generation, step, last, *gradients):
        """Makes a step by gradients in the order of replicas."""
        self._check(generation, step)
        self._actor.step(list(gradients), last)

    def current(self):
        """Returns values and optimizer state."""
        return self._actor.current()

    @staticmethod
    def _sizes(learned):
        """Returns for each owner the bytes to it, of places and later of gradients, and those of its rows."""
        return [(2 * places.nbytes + gradients.nbytes, gradients.nbytes) for places, gradients in learned]

    def _read(self, generation, step, places):
        """Returns the learned rows at these places of each owner."""
        import ray # pylint: disable=import-outside-toplevel
        asked = [actor.read.remote(generation, step, of) for (_, actor), of in zip(self._owners, places)]
        return [_take(ray, reference, f"{name}, the learned rows of step {step}")
                for (name, _), reference in zip(self._owners, asked)]

    def _check(self, generation, step):
        if generation != self._generation or step != self._actor.steps + 1:
            raise _Stale(f"step {step} of generation {generation}, after step {self._actor.steps} of generation "
                         f"{self._generation}")


class AggregatedWorker(ComputeWorker):
    """A compute worker that makes its batches itself, without batch workers: by a thread of its own, while another
    computes. Their frames stay in the process."""

    def __init__(self):
        self._making = threading.Lock() # of the maker
        self._known = threading.Lock()  # of the next two
        self._made = {}                 # group: future of the frame of its rows, frames, seconds
        self._used = set()              # groups of the epoch that were made and are computed

    def _make(self, config, threads, owners, *memory):
        self._maker = _core.BatchActor(config, threads, *memory)
        return _core.ComputeActor(config, threads, owners)

    def begin(self, *parameters):
        """Continues as a compute worker."""
        super().begin(*parameters)
        with self._known:
            self._made.clear()
            self._used.clear()

    def prepare(self, group):
        """Makes the frames of a group of batches, which are computed later."""
        with self._known:
            if group in self._used:
                return
        self._frames(group)

    def differentiate(self, generation, step, number, group, place):
        """Returns what a compute worker does for a batch of a group, in the place of None after the last batch of the
        group: [(requests, bytes) read so far, seconds that it took to make, bytes]."""
        rows, frames, seconds = self._frames(group)
        gradients, (sums, made, sizes), *learned = super().differentiate(generation, step, number, frames[place], rows)
        if place + 1 == len(frames):
            made = self._maker.read_counts, seconds, rows.nbytes + sum(of.nbytes for of in frames)
            with self._known:
                self._used.add(group)
                self._made.pop(group, None)
        return gradients, (sums, made, sizes), *learned

    def _frames(self, group):
        with self._known:
            made = self._made.get(group)
            first = made is None
            if first:
                made = self._made[group] = concurrent.futures.Future()
        if first:
            try:
                with self._making:
                    begin = time.monotonic()
                    rows, *frames = self._maker.make(group[:5])
                    made.set_result((rows, frames, time.monotonic() - begin))
            except BaseException as error: # of the other caller, too
                with self._known:
                    self._made.pop(group, None)
                made.set_exception(error)
        return made.result()


class RowOwner(_Worker):
    """Owns the learned rows of some partitions, and steps them: once by each number, and under its generation alone."""

    _make = staticmethod(_core.OwnerActor)
    _generation = 0
    _begun = False

    def begin(self, generation, epoch, plateau, steps, rows):
        """Continues after `steps` steps with these rows and their state, by the optimizer of an epoch."""
        self._generation = generation
        self._actor.begin(generation, epoch, plateau, steps, rows)
        self._begun = True

    def join(self, generation):
        """Enters a generation, and returns the number of steps made; -1 without rows."""
        self._generation = generation
        if self._begun:
            self._actor.join(generation)
        return self._actor.steps if self._begun else -1

    def read(self, generation, step, places):
        """Returns rows for a batch of step `step`."""
        self._check(generation, step)
        return self._actor.read(generation, step, places)

    def apply(self, generation, step, *gradients):
        """Makes a step by the gradients of its batches, in the order of replicas."""
        self._check(generation, step)
        self._actor.apply(generation, step, list(gradients))

    def rows(self):
        """Returns all rows with their state."""
        return self._actor.rows()

    def _check(self, generation, step):
        if generation != self._generation or step != self._actor.steps + 1:
            raise _Stale(f"learned rows of step {step} of generation {generation}, after step {self._actor.steps} of "
                         f"generation {self._generation}")


class _Stale(Exception):
    """A call of a driver that has gone on without this actor."""


class _Unanswered(Exception):
    """A batch worker has asked an owner in vain: its name, and why."""

    def __init__(self, owner, why):
        super().__init__(owner, why)
        self.owner, self.why = owner, why


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


# Sums at a time: batches that are made, and computed; seconds of batch workers to make them, and of the driver in which
# compute workers had work; bytes of frames, of gradients, of learned rows with theirs, and by link.
_Sums = collections.namedtuple("_Sums", "time made computed making computing frames gradients rows links")


class _Slot:
    """A place for an actor: the one there now, and how many there were."""

    def __init__(self, role, index):
        self.role, self.index = role, index
        self.lives = 0
        self.actor = self.name = self.host = self.process = self.found = self.opened = None
        self.states = {}  # of a batch worker: (epoch, state) requested last, by logical worker
        self.away = None  # of a batch worker that starts, or is late: since when, and the answer that it owes

    def __str__(self):
        return f"{self.name} on {self.host}" if self.host else self.name


class _Request:
    """A group of batches that an actor was asked for: (worker, epoch, state, pass, index of the first, number). With a
    number of 0, it was asked for the ids of the group's nodes."""

    def __init__(self, slot, group, delivery, connected):
        self.slot, self.actor, self.name = slot, slot.actor, slot.name
        self.done, self.size = False, 0
        worker, *state = group[:3]
        self.first = slot.states.get(worker) != state # of a state, whose partitions it loads
        slot.states[worker] = state
        self.answer, self.rows, *self.frames = slot.actor.make.options(num_returns=2 + group[5]).remote(
            group, delivery, connected)


class _Deliveries:
    """What is left out of frames for the caches of compute workers. For each of them, a planner is given the ids of a
    superbatch of groups to come; all of that it decides is a value, for as often as a frame is made. After a death, all
    caches begin empty."""

    def __init__(self, make, superbatch, replicas, workers):
        self._make, self._superbatch, self._replicas, self._workers = make, superbatch, replicas, workers
        self._epoch = None
        self._rounds = []  # of the epoch: (state, index of the first batch, groups of the batches)
        self._coming = []  # of each worker: the groups of each round that are not planned
        self._planners = []
        self.planned = {}  # deliveries of groups that are not yet used
        self._empty()

    def expect(self, first, groups):
        """Takes the groups of the batches of a round, from one on."""
        if not groups:
            return
        epoch, state = groups[0][1:3]
        if epoch != self._epoch or state <= self._rounds[-1][0]:
            self._epoch, self._rounds = epoch, []
            if any(self._coming) or self.planned: # it was not trained to its end
                self._empty()
        self._rounds.append((state, first, groups))
        self._add(groups)

    def restart(self, state, index):
        """Begins with empty caches at a batch of the epoch."""
        self._empty()
        for of_round, first, groups in self._rounds:
            if of_round >= state:
                self._add(groups[max(0, index - first):] if of_round == state else groups)

    def superbatch(self, group):
        """Returns the groups that are planned next for the cache that a group is for."""
        coming = self._coming[self._worker(group)]
        if not coming:
            raise Error(f"{_text(group)} was not expected")
        return coming[0][:self._superbatch]

    def plan(self, groups, ids):
        """Plans a superbatch by the ids of its groups' nodes. Returns the bytes of its deliveries."""
        worker = self._worker(groups[0])
        planner, coming = self._planners[worker], self._coming[worker]
        if planner.needs_window:
            planner.begin_window(ids)
        made = [planner.next(of) for of in ids]
        del coming[0][:len(groups)]
        if not coming[0]:
            coming.pop(0)
        self.planned.update(zip(groups, made))
        return sum(part.nbytes for delivery in made for part in delivery[1:])

    def _worker(self, group):
        return group[4] % self._replicas % self._workers

    def _empty(self):
        self._planners = [self._make() for _ in range(self._workers)]
        self._coming = [[] for _ in range(self._workers)]
        self.planned = {}

    def _add(self, groups):
        for worker, coming in enumerate(self._coming):
            of_worker = [group for group in dict.fromkeys(groups) if self._worker(group) == worker]
            if of_worker:
                coming.append(of_worker)


class Cluster:
    """Batch and compute workers, as gneiss-armada's loop calls them. One driver; `request` by any thread."""

    def __init__(self, *, local, address, config, dataset, run, batch_workers, replicas, group_batches,
                 compute_workers, threads, graph_bytes, feature_bytes, gradient_bytes, owners, row_bytes, memory_bytes,
                 superbatch, asks_owners, cache, say, warn):
        check()
        batch, compute = _core.parse_counts(local) if local else (batch_workers, replicas)
        self._aggregated = batch == 0      # compute workers make their batches
        self._batch = [_Slot("batch", i) for i in range(batch)]
        self._compute = [_Slot("compute", i) for i in range(compute_workers)]
        self._owners = [_Slot("owner", i) for i in range(owners)] # of learned rows
        if compute > replicas:
            warn(f"{compute} compute workers for {replicas} replicas: {compute - replicas} of them would have nothing "
                 "to do, and are not started")
        processes = len(self._batch) + len(self._compute) + len(self._owners)
        self._threads = threads or (1 if address else max(1, len(os.sched_getaffinity(0)) // processes))
        path = os.path.abspath(tomllib.loads(config)["dataset"])
        source = source_of(path)
        self._opening = (_core.version, config, self._threads, dataset, run, source and (source, path))
        self._say, self._warn = say, warn
        self._batch_options = (graph_bytes, feature_bytes, compute_workers)
        self._lock = threading.Lock()
        self._frames = {}                  # group: requests of it
        self._reads = {}                   # by actor
        self._machines, self._gone = {}, set() # ids of Ray, by actor; those that have left
        self.frames = {}                   # made, by actor
        self.links = {}                    # bytes of frames, gradients and learned rows: "batch-0 > compute-1"
        self._computed = 0                 # batches
        self._making = 0.0                 # seconds of batch workers
        self._sums = collections.deque()   # of the last seconds, for the live line
        self.frame_bytes = 0
        self.id_bytes = 0                  # of ids for the cache, and of what is planned by them
        self.traffic = (0,) * 5            # of batch workers with owners: messages, bytes of questions, of answers …
        self._asks_owners, self._logical = asks_owners, batch_workers
        self._connected = 0                # number of the owners that batch workers know
        self._deliveries = cache and _Deliveries(cache, superbatch, replicas, len(self._compute))
        self._generation = 0
        self._begun = None                 # the parameters that replicas began with
        self._log = []                     # steps since: (step, numbers)
        self._done = 0                     # steps that all compute workers have made
        self._begun_step = None            # what `_differentiate` returned for the step after it
        self._results = (0, [])            # statistics of the step made last
        self._deaths = 0                   # since the last step
        self._missed = 0                   # deadlines since the last step
        self.waited = (0.0, 0.0)           # seconds for frames, and for compute workers
        self._deferred = {}                # batches that are requested once there is room for them, a set in order
        self._replicas, self._gradient_bytes, self._row_bytes = replicas, gradient_bytes, row_bytes
        # groups that have to have room: those of a step, or of all workers, until their last batches are used
        self._least = replicas if group_batches == 1 else max(replicas, batch_workers * compute_workers)
        self._largest = 0                  # group so far [bytes]
        self._pace = {"first": _Pace(), "batch": _Pace(), "step": _Pace()}
        self._transfer = (3 * gradient_bytes + row_bytes) / BYTES_A_SECOND # seconds for parameters with their state
        self._own = not address
        store = max(self._shared() + (64 << 20), min(memory_bytes // 4, 2 << 30))
        least = len(self._compute) + len(self._owners) + (not self._aggregated)
        self._session = _Session(address, processes, least, self._threads, store)
        try:
            self._check_room()
            self._start()
        except BaseException:
            self.close()
            raise

    # What the loop calls.

    def begin(self, epoch, plateau, steps, values, state, rows):
        """Has all replicas, and the owners of learned rows, continue with these parameters. rows: of each owner."""
        self._begun = (epoch, plateau, steps, values, state, rows)
        self._begun_step = None
        self._log = []
        self._done = steps
        self._until_done(self._send_begun)
        self._sums.clear()
        self._add_sums()

    def expect(self, first, groups):
        """Takes the groups of the batches of a round, from one on: those that the cache has to expect."""
        with self._lock:
            self._deliveries.expect(first, groups)

    def request(self, group):
        """Has the frames of a group made that a later step needs."""
        if self._aggregated:
            with self._lock:
                actor = self._compute[group[4] % self._replicas % len(self._compute)].actor
            actor.prepare.options(concurrency_group="make").remote(group)
            return
        with self._lock:
            if group not in self._frames:
                self._deferred[group] = None
                self._submit_deferred()

    def step(self, step, batches, coming=()):
        """Makes a step by batches, (number, group, place there) in the order of replicas. Returns their statistics.
        coming: those of the next step. If their frames are there, compute workers begin with them at once."""
        self._log.append((step, batches))
        result = self._until_done(lambda: self._advance(step, coming))
        self._deaths = self._missed = 0
        with self._lock:
            self._submit_deferred()
        return result

    def end(self):
        """Returns values and optimizer state after the last step, and the rows of each owner."""
        def read():
            self._advance(self._done)
            asked = [(self._compute[0], self._compute[0].actor.current.remote(), "its parameters")]
            asked += [(slot, slot.actor.rows.remote(), "its learned rows") for slot in self._owners]
            (values, state), *rows = self._answers(asked, self._transfer)
            return values, state, rows
        return self._until_done(read)

    def read_counts(self):
        """Returns the requests and bytes that batch workers have read."""
        with self._lock:
            return tuple(map(sum, zip((0, 0), *self._reads.values())))

    def live_fields(self):
        """Returns fields of the live line, of the last seconds: batches of both roles, with the share of the time in
        which they wait for each other, and the bytes of frames, of gradients, of learned rows, and of the busiest
        link."""
        self._add_sums()
        while len(self._sums) > 2 and self._sums[-1].time - self._sums[1].time >= LIVE_SECONDS:
            self._sums.popleft()
        before, now = self._sums[0], self._sums[-1]
        seconds = max(now.time - before.time, 1e-9)
        makers = max(1, sum(slot.away is None for slot in self._batch))

        def role(name, batches, busy):
            return f"{name} {batches / seconds:.3g}/s waits {max(0, 1 - busy / seconds):.0%}"
        fields = [role("batch", now.made - before.made, (now.making - before.making) / makers),
                  role("compute", now.computed - before.computed, now.computing - before.computing),
                  f"frames {_bandwidth((now.frames - before.frames) / seconds)}",
                  f"gradients {_bandwidth((now.gradients - before.gradients) / seconds)}"]
        if self._owners:
            fields.append(f"rows {_bandwidth((now.rows - before.rows) / seconds)}")
        if self._aggregated: # no other worker makes frames, which stay where they are
            fields = [f"compute {(now.computed - before.computed) / seconds:.3g}/s", *fields[3:]]
        links = {link: size - before.links.get(link, 0) for link, size in now.links.items()}
        if links:
            busiest = max(links, key=links.get)
            fields.append(f"{busiest} {_bandwidth(links[busiest] / seconds)}")
        return "  ".join(fields)

    def close(self):
        """Ends the actors and, if it is this driver's, the cluster, with all of its processes."""
        if self._session is not None:
            for slot in self._batch + self._compute + self._owners:
                self._session.end(slot.actor, slot.process if self._own else None)
            self._session.close()
            self._session = None

    def _add_sums(self):
        with self._lock:
            asked = [(group[5], [of.answer for of in requests]) for group, requests in self._frames.items()
                     if group[5] and not any(of.done for of in requests)]
        there = set(self._session.there([answer for _, answers in asked for answer in answers]))
        ahead = sum(batches for batches, answers in asked if not there.isdisjoint(answers))
        with self._lock:
            rows = sum(size for link, size in self.links.items() if "owner" in link)
            gradients = sum(size for link, size in self.links.items() if link.startswith("compute") and
                            "owner" not in link)
            self._sums.append(_Sums(time.monotonic(), sum(self.frames.values()) + ahead, self._computed, self._making,
                                    self.waited[1], self.frame_bytes, gradients, rows, dict(self.links)))

    # Steps.

    def _advance(self, step, coming=()):
        """Makes the steps of the log up to `step` that are not made. Returns the statistics of the last one."""
        for number, batches in self._log:
            if number > self._done:
                self._once(number, batches, coming if number == step else ())
        return self._results[1] if self._results[0] == step else None

    def _once(self, step, batches, coming):
        asked = time.monotonic()
        numbers = [number for number, _, _ in batches]
        begun, self._begun_step = self._begun_step, None
        if begun is None or begun[:3] != (self._generation, step, batches):
            made = None if self._aggregated else self._all_made([group for _, group, _ in batches])
            begun = self._differentiate(step, batches, made)
        _, _, _, made, workers, results, more = begun
        begin = time.monotonic()
        gradients = [of[0] for of in results]

        def computed():
            found = self._answers([(slot, of[1], f"the gradients of {_text(number)}")
                                   for slot, of, number in zip(workers, results, numbers)], more)
            self._count(list(zip(workers, batches, found)))
            return [sums for sums, _, _ in found]
        if self._owners: # their calls wait for no gradients: they answer compute workers, and join a generation
            statistics_of = computed()
        steps = [slot.actor.step.remote(self._generation, step, numbers[-1], *gradients) for slot in self._compute]
        applied = [slot.actor.apply.remote(self._generation, step, *(of[2 + i] for of in results))
                   for i, slot in enumerate(self._owners)]
        if not self._owners: # they would be asked for rows before they have stepped them
            self._begin_step(step + 1, coming)
        self._results = step, statistics_of if self._owners else computed()
        self._answers([(slot, reference, f"step {step} after {_text(numbers[-1])}")
                       for slot, reference in zip(self._compute + self._owners, steps + applied)])
        self._done = step
        with self._lock:
            self._computed += len(batches)
            for slot, (_, group, place), of in zip(workers, batches, made or [None] * len(batches)):
                for other in self._compute:
                    self._add_to_link(slot, other, self._gradient_bytes)
                if of and place + 1 == group[5]:
                    self._add_to_link(of, slot, of.size)
                    self._frames.pop(group, None)
                    if self._deliveries:
                        self._deliveries.planned.pop(group, None)
        took = time.monotonic() - begin
        self._pace["step"].add(took)
        self.waited = self.waited[0] + begin - asked, self.waited[1] + took

    def _differentiate(self, step, batches, made):
        """Has the gradients of a step computed. made: requests of their frames; None: compute workers make them.
        Returns (generation, step, batches, made, compute workers, answers, seconds that these may take more)."""
        workers = [self._compute[r % len(self._compute)] for r in range(len(batches))]
        given = [(group, place) for _, group, place in batches]
        if made:
            given = [(of.frames[place], of.rows) for of, (_, place) in zip(made, given)]
        results = [slot.actor.differentiate.options(num_returns=2 + len(self._owners)).remote(
            self._generation, step, number, *of) for slot, (number, _, _), of in zip(workers, batches, given)]
        more = 0
        for slot, (_, group, _) in zip(workers, batches) if self._aggregated else ():
            worker, *state = group[:3]
            if slot.states.get(worker) != state: # it reads partitions
                slot.states[worker], more = state, FIRST_SECONDS
        return self._generation, step, batches, made, workers, results, more

    def _count(self, computed):
        """Counts the bytes of learned rows, and groups that compute workers have made: (compute worker, batch, what it
        answered with its statistics)."""
        with self._lock:
            for slot, (_, group, _), (_, made, sizes) in computed:
                for owner, (to, back) in zip(self._owners, sizes):
                    self._add_to_link(slot, owner, to)
                    self._add_to_link(owner, slot, back)
                if made:
                    self._reads[slot.name], took, size = made
                    self._making += took
                    self.frames[slot.name] = self.frames.get(slot.name, 0) + group[5]
                    self.frame_bytes += size

    def _begin_step(self, step, batches):
        """Has the gradients of the step after the one that is made computed, if all of its frames are there: so that
        compute workers do not wait for the driver in between."""
        if self._aggregated:
            self._begun_step = self._differentiate(step, batches, None) if batches else None
            return
        groups = [group for _, group, _ in batches]
        with self._lock:
            asked = [self._frames.get(group, []) for group in dict.fromkeys(groups)]
        there = set(self._session.there([of.answer for requests in asked for of in requests]))
        if groups and all(any(of.done or of.answer in there for of in requests) for requests in asked):
            self._begun_step = self._differentiate(step, batches, self._all_made(groups))

    def _add_to_link(self, source, destination, size):
        if source is not destination:
            link = f"{source.name} > {destination.name}"
            self.links[link] = self.links.get(link, 0) + size

    def _answers(self, asked, more=0):
        """Returns the answers of (compute worker or owner, reference, what is asked). `more`: seconds for them beyond
        those of a step. Raises _Late."""
        seconds = self._seconds("step", REPLACE_SECONDS if self._own else CLUSTER_SECONDS) + more
        there = self._session.wait([reference for _, reference, _ in asked], len(asked), seconds)
        late = [(slot, text) for slot, reference, text in asked if reference not in there]
        if late:
            raise _Late([slot for slot, _ in late], seconds, late[0][1])
        return [self._get(*of) for of in asked]

    def _seconds(self, pace, least):
        """Returns a deadline, twice as long with each that was missed since the last step: the machine may be slow."""
        return self._pace[pace].deadline(least) * 2 ** min(self._missed, 8)

    # Frames.

    def _all_made(self, groups):
        """Returns a request of each group, whose frames are made: none is lost while others are waited for."""
        while True:
            made = [self._made(group) for group in groups]
            with self._lock:
                if all(of in self._frames[group] for group, of in zip(groups, made)):
                    return made

    def _made(self, group):
        """Returns a request whose frames are made."""
        if self._deliveries and group[5]:
            self._plan(group)
        self._look_after_away()
        while True:
            with self._lock:
                if not self._frames.get(group):
                    self._submit(group)
                asked = list(self._frames[group])
                others = self._others(asked)
            if any(of.done for of in asked):
                return next(of for of in asked if of.done)
            seconds = self._seconds("first" if asked[-1].first else "batch",
                                    DUPLICATE_SECONDS if others else REPLACE_SECONDS)
            done = self._first_of(asked, seconds)
            if done is None:
                self._miss(group, asked[-1], seconds)
                continue
            try:
                read, took, size, sent = self._get(done.slot, done.answer, _text(group))
            except _Unanswered as failed:
                self._lose_owner(group, done, failed)
                continue
            except self._session.Gone:
                with self._lock:
                    self._frames[group].remove(done)
                if done.slot.actor is done.actor:
                    self._replace(done.slot, f"died at {_text(group)}")
                continue
            with self._lock:
                done.done, done.size = True, size
                self._reads[done.name] = read
                self.traffic = tuple(map(sum, zip(self.traffic, sent)))
                self._making += took
                if not group[5]:
                    return done
                self.frames[done.name] = self.frames.get(done.name, 0) + group[5]
                self.frame_bytes += size
                larger, self._largest = size > self._largest, max(size, self._largest)
            if larger:
                self._check_room(f"{done.slot}, {_text(group)}: ")
            self._pace["first" if done.first else "batch"].add(took)
            return done

    def _plan(self, group):
        """Plans superbatches until the delivery of a group is known."""
        while group not in self._deliveries.planned:
            with self._lock:
                groups = list(self._deliveries.superbatch(group))
                asked = [(*of[:5], 0) for of in groups]
                for of in asked:
                    if not self._frames.get(of):
                        self._submit(of)
            ids = []
            for of in asked:
                done = self._made(of)
                ids.append(self._get(done.slot, done.rows, f"the nodes of {_text(of)}"))
            with self._lock:
                self.id_bytes += sum(of.nbytes for of in ids) + self._deliveries.plan(groups, ids)
                for of in asked:
                    del self._frames[of]
                self._submit_deferred()

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

    def _submit(self, group):
        """Asks for a group: the worker of its logical worker, or one that is there and not yet asked. Logical workers
        whose worker is not there are spread over the others."""
        asked = self._frames.setdefault(group, [])
        slot = self._place(group[0], self._others(asked) or self._batch)
        asked.append(_Request(slot, group, self._deliveries and self._deliveries.planned.get(group), self._connected))
        self._deferred.pop(group, None)

    def _place(self, worker, there):
        """Returns the batch worker of a logical one among those that are there."""
        home = self._batch[worker % len(self._batch)]
        return home if home in there else there[worker % len(there)]

    def _submit_deferred(self):
        """Asks for the groups that have room, and whose deliveries are known."""
        room = self._credits() - sum(1 for group in self._frames if group[5])
        while self._deferred and room > 0:
            group = next(iter(self._deferred))
            if self._deliveries and group not in self._deliveries.planned:
                return
            self._submit(group)
            room -= 1

    def _others(self, asked):
        """Returns the batch workers that are there, and have not got these requests."""
        return [slot for slot in self._batch
                if slot.away is None and not self._is_gone(slot.name) and slot not in [of.slot for of in asked]]

    def _is_gone(self, name):
        """Returns whether the machine of an actor has left."""
        return self._machines.get(name) in self._gone

    def _miss(self, group, request, seconds):
        """Goes on without the answer of a batch worker: others make its batches, too. Without one, it is replaced."""
        what = f"has not answered for {seconds:.3g} s ({_text(group)})"
        late = [(request.slot, request.answer)]
        if self._asks_owners: # it may only wait for one that is late
            silent = self._silent()
            if silent and request.slot not in [slot for slot, _ in silent]:
                late = silent
        self._missed += 1
        for slot, until in late:
            self._go_without(slot, until, what)

    def _go_without(self, slot, until, what):
        """Has others do the work of a batch worker until a reference is there. Without others, it is replaced."""
        if any(of is not slot and of.away is None for of in self._batch):
            self._warn(f"{slot} {what}; other batch workers make its batches, too")
            self._leave(slot, until)
        else:
            self._replace(slot, what)

    def _leave(self, slot, until):
        """Has others make the batches that a worker owes, and own its partitions, until a reference is there."""
        with self._lock:
            slot.away = time.monotonic(), until
            self._connect()
            self._ask_again()

    def _ask_again(self):
        """Asks others for the groups whose frames are lost, or owed by workers that are not there. All other frames
        stay. Returns whether any were lost. Under the lock."""
        asked = [(group, of) for group, requests in self._frames.items() for of in requests]
        answered = set(self._session.there([of.answer for _, of in asked]))
        self._gone = self._session.gone_machines() # before Ray says so of each actor
        lost = [(group, of) for group, of in asked
                if self._is_gone(of.name) or (of.answer in answered and self._session.failed(of.answer))]
        for group, of in lost:
            self._frames[group].remove(of)
        for group, requests in self._frames.items():
            if not any(of.answer in answered or (of.actor is of.slot.actor and of.slot.away is None)
                       for of in requests):
                self._submit(group)
        return bool(lost)

    def _look_after_away(self):
        """Takes back batch workers that answer again, or have started, and replaces those that have not for long, or
        whose machine has left."""
        for slot in self._batch:
            if slot.away is None:
                if self._is_gone(slot.name):
                    self._replace(slot, "died with its machine")
                continue
            since, answer = slot.away
            starts = answer is slot.opened
            if not self._session.there([answer]):
                if not starts and time.monotonic() - since > LATE_SECONDS:
                    self._replace(slot, f"has not answered for {LATE_SECONDS} s")
                continue
            try:
                if starts:
                    self._opened(slot)
                else:
                    self._get(slot, answer, "a late batch")
            except self._session.Gone:
                self._replace(slot, "died")
                continue
            except _Unanswered: # it is there
                pass
            if not starts:
                self._say(f"{slot} answers again")
            with self._lock:
                slot.away = None
                self._connect()

    # Owners, with remote construction.

    def _connect(self):
        """Lets batch workers know who owns the partitions of each logical one: its worker, or one that is there. Under
        the lock."""
        if not self._asks_owners:
            return
        self._connected += 1
        started = [slot for slot in self._batch if slot.actor is not None]
        there = [slot for slot in started if slot.away is None] or started
        owners = [self._place(worker, there) for worker in range(self._logical)]
        for slot in started:
            slot.actor.connect.options(concurrency_group="state").remote(
                self._connected, [(str(of), None if of is slot else of.actor) for of in owners])

    def _silent(self):
        """Returns the batch workers that do not answer at all, and what they owe."""
        asked = [(slot, slot.actor.where.options(concurrency_group="state").remote())
                 for slot in self._batch if slot.away is None]
        there = self._session.wait([reference for _, reference in asked], len(asked),
                                   SILENT_SECONDS * 2 ** min(self._missed, 5)) if asked else []
        return [(slot, reference) for slot, reference in asked if reference not in there]

    def _lose_owner(self, group, request, failed):
        """Goes on after an owner has not answered a batch worker. The batch is asked for again."""
        with self._lock:
            self._frames[group].remove(request)
        slot = next((of for of in self._batch if str(of) == failed.owner and of.away is None), None)
        if slot is None: # another has its place already
            return
        what = f"{failed.why} when {request.slot} asked it ({_text(group)})"
        if failed.why == "died":
            self._replace(slot, what)
        else:
            self._missed += 1
            self._go_without(slot, slot.actor.where.options(concurrency_group="state").remote(), what)

    # Room in Ray's object store.

    def _shared(self):
        """Returns the bytes of all that is no frame, and room for small frames: parameters and gradients, and learned
        rows as they are sent."""
        return (64 << 20) + (self._replicas + 6) * self._gradient_bytes + 2 * self._row_bytes

    def _credits(self):
        """Returns the number of groups that are requested at once."""
        if self._largest == 0:
            return sys.maxsize
        room = int((self._session.store - self._shared()) // self._largest)
        return max(self._least, room - self._answers_of_owners())

    def _answers_of_owners(self):
        """Returns how many groups have their nodes' features in answers at once: one of each batch worker."""
        return len(self._batch) if self._asks_owners else 0

    def _check_room(self, where=""):
        """Raises OverBudget unless the frames of a step have room."""
        parts = {"parameters, gradients and small objects": self._shared() - 2 * self._row_bytes,
                 "learned rows, sent to and from their owners": 2 * self._row_bytes,
                 f"{self._least} frames of a step": self._least * self._largest,
                 "answers of owners": self._answers_of_owners() * self._largest}
        needed = sum(parts.values())
        if needed > self._session.store:
            listed = ", ".join(f"{name} {_bytes(size)}" for name, size in parts.items() if size)
            raise OverBudget(f"{where}the object store of {_bytes(self._session.store)} has no room for a step, which "
                             f"needs {_bytes(needed)}: {listed}; smaller batches or fanouts, "
                             + ("more --memory" if self._own else "more --object-store-memory of ray start"),
                             parts=parts, budget=self._session.store)

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
        """Replaces compute workers and owners of learned rows that died or are late. The group takes the state of the
        compute worker that made most steps; with owners, of one that made those of all owners. Without one, it takes
        the state that it began with, and the steps since are made again."""
        self._generation += 1
        joining, steps = [], {}
        late_slots = self._late_slots(late) if late is not None else ()
        for slot in self._compute + self._owners:
            if slot in late_slots:
                self._replace(slot, f"has not answered for {late.seconds:.3g} s ({late.doing})")
            else:
                joining.append((slot, slot.actor.join.remote(self._generation)))
        for slot, reference in joining:
            try:
                steps[slot] = self._answers([(slot, reference, f"generation {self._generation}")])[0]
            except self._session.Gone:
                self._replace(slot, f"died after step {self._done}")
            except _Late as missed:
                self._replace(slot, f"has not answered for {missed.seconds:.3g} s ({missed.doing})")
        lost = len(steps) == len(self._compute) + len(self._owners) # frames, with the machine that held them
        if lost:
            self._count_death("a frame was lost")
        with self._lock:
            # All are made again if the caches are lost, too, or if a frame was lost whose machine is there.
            if self._deliveries or (not self._ask_again() and lost):
                self._deferred = dict.fromkeys([group for group in self._frames if group[5]] + list(self._deferred))
                self._frames.clear()
                if self._deliveries:
                    self._deliveries.planned.clear()
                self._submit_deferred()
        owned = {steps.get(slot, -1) for slot in self._owners}
        at = max(owned or {steps[slot] for slot in self._compute if slot in steps}, default=-1)
        furthest = next((slot for slot in self._compute if steps.get(slot) == at), None)
        if len(owned) > 1 or furthest is None or at < self._begun[2]:
            self._done = self._begun[2]
            self._send_begun()
            self._empty_caches()
            return
        values, state = self._answers([(furthest, furthest.actor.current.remote(), "its parameters")],
                                      self._transfer)[0]
        epoch, plateau = self._begun[:2]
        self._send((epoch, plateau, at, values, state), [s for s in self._compute if steps.get(s) != at])
        self._done = at
        self._empty_caches()

    def _late_slots(self, late):
        """Returns who is late: owners that do not answer at all, for which compute workers may wait, or those that have
        missed the deadline."""
        asked = [(slot, slot.actor.where.remote()) for slot in self._owners]
        if not asked:
            return late.slots
        there = self._session.wait([reference for _, reference in asked], len(asked),
                                   SILENT_SECONDS * 2 ** min(self._missed, 5))
        return [slot for slot, reference in asked if reference not in there] or late.slots

    def _empty_caches(self):
        """Has deliveries begin with empty caches, at the first batch of the next step."""
        if not self._deliveries:
            return
        with self._lock:
            made = [(batches[-1][0], 1) for step, batches in self._log if step <= self._done]
            coming = [(batches[0][0], 0) for step, batches in self._log if step > self._done]
            number, more = coming[0] if coming else made[-1] if made else ((0, 0, 0, 0, 0), 0)
            self._deliveries.restart(number[2], number[4] + more)

    def _send_begun(self):
        *parameters, rows = self._begun
        epoch, plateau, steps = parameters[:3]
        if self._owners:
            self._answers([(slot, slot.actor.begin.remote(self._generation, epoch, plateau, steps,
                                                          self._session.put(of)), f"the learned rows of step {steps}")
                           for slot, of in zip(self._owners, rows)], self._transfer)
        self._send(parameters, self._compute)

    def _send(self, parameters, slots):
        epoch, plateau, steps, values, state = parameters
        values, state = self._session.put(values), self._session.put(state) # once, for all
        owners = [(str(slot), slot.actor) for slot in self._owners]
        self._answers([(slot, slot.actor.begin.remote(self._generation, epoch, plateau, steps, values, state, owners),
                        f"the parameters of step {steps}") for slot in slots], self._transfer)

    def _replace(self, slot, why):
        """Ends the actor of a place, and starts another."""
        self._count_death(f"{slot} {why}")
        self._warn(f"{slot} {why}; another takes its place")
        self._session.end(slot.actor, slot.process if self._own else None)
        self._launch(slot)
        if slot.role == "batch" and any(of is not slot and of.away is None for of in self._batch):
            self._leave(slot, slot.opened) # it joins once it is up, if there is ever room for it
        else:
            self._await_opened([slot])
            if slot.role == "batch":
                with self._lock:
                    self._connect()

    def _count_death(self, text):
        self._deaths += 1
        if self._deaths > DEATHS_WITHOUT_A_STEP * (len(self._batch) + len(self._compute) + len(self._owners)):
            raise Error(f"{text}, the last of {self._deaths} deaths without a step between them")

    # Processes.

    def _start(self):
        room = self._session.room or sys.maxsize # in a cluster that runs, batch workers may join later
        slots = self._compute + self._owners + self._batch
        for slot in slots[:room]:
            self._launch(slot)
        self._await_opened(slots[:room])
        for slot in slots[room:]:
            self._launch(slot)
            self._leave(slot, slot.opened)
        if slots[room:]:
            self._warn(f"the Ray cluster has room for {room} of {len(slots)} processes: {len(slots) - room} batch "
                       "workers join once there is more")
        with self._lock:
            self._connect()

    def _launch(self, slot):
        kind, more = {"batch": (BatchWorker, self._batch_options), "compute": (ComputeWorker, (len(self._owners),)),
                      "owner": (RowOwner, (slot.index, len(self._owners)))}[slot.role]
        groups = GROUPS if self._asks_owners and slot.role == "batch" else None
        if self._aggregated and slot.role == "compute":
            kind, more, groups = AggregatedWorker, (*more, *self._batch_options), MAKING
        slot.lives += 1
        name = f"{slot.role}-{slot.index}" + (f".{slot.lives}" if slot.lives > 1 else "")
        actor = self._session.start(kind, 1 if self._own else self._threads, groups)
        slot.found, opened = actor.where.remote(), actor.open.remote(*self._opening, *more)
        slot.process = slot.host = None
        with self._lock:
            slot.actor, slot.name, slot.opened, slot.states, slot.away = actor, name, opened, {}, None

    def _await_opened(self, slots):
        for slot in slots:
            if not self._session.wait([slot.opened], 1, START_SECONDS):
                raise Error(f"{slot.name} was not up within {START_SECONDS} s: the cluster has no room for it, or the "
                            "machine is busy")
            try:
                self._opened(slot)
            except self._session.Gone as gone:
                if self._begun is None:
                    raise Error(f"{slot.name} died before it had opened the dataset: {_first_line(gone)}") from None
                self._replace(slot, "died before it had opened the dataset") # with its machine, perhaps

    def _opened(self, slot):
        slot.process, slot.host, self._machines[slot.name] = self._get(slot, slot.found, "starting")
        self._get(slot, slot.opened, "opening the dataset")
        self._say(f"{slot.name} is process {slot.process} on {slot.host}")

    def _get(self, slot, reference, doing):
        """Returns what a worker answered. Its errors name it, and what it did."""
        return self._session.get(reference, f"{slot}, {doing}")


class _Session:
    """A connection to Ray: a cluster of its own, or a running one."""

    def __init__(self, address, processes, least, threads, object_store):
        self._least = least # processes that have to have room
        self._ready, self._leave = threading.Event(), threading.Event()
        self._failure = self._mourner = None
        self._head_seen = self._head_asked = time.monotonic()
        self._gone_machines = set()
        self._started = set()
        self._folder = None
        self._saved = {}
        self._address, self._processes, self._threads = address, processes, threads
        self.store, self.room = object_store, None # bytes of an object store; processes that have room, None: all
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
        self._mourner = _start_mourner(self._address)
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
        _check_disk(self.store)
        self._folder = tempfile.mkdtemp(prefix="gneiss-armada-", dir=_short_folder())
        before = _children()
        try:
            ray.init(address="local", num_cpus=self._processes, object_store_memory=self.store,
                     include_dashboard=False, log_to_driver=False, logging_level="CRITICAL", _temp_dir=self._folder,
                     _system_config={"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000,
                                     "health_check_failure_threshold": 3})
        finally:
            # Others that the process started in the meantime are not Ray's, whose command lines name the folder.
            self._started = {child for child in _children() - before if self._folder in _command_line(child)}

    def _join(self):
        # A token is the default here, too: RAY_AUTH_MODE=disabled joins a cluster without one.
        self._environment({"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token"), "RAY_USAGE_STATS_ENABLED": "0"})
        ray = self._import()
        self._joined = not ray.is_initialized()
        if self._joined:
            ray.init(address=self._address, log_to_driver=False, logging_level="CRITICAL")
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self.store = min((node["object_store_memory"] for node in nodes if "object_store_memory" in node), default=0)
        self.room = sum(int(node.get("CPU", 0)) // self._threads for node in nodes)
        if self.room < self._least:
            raise Error(f"the Ray cluster at {self._address} has room for {self.room} processes of {self._threads} "
                        f"threads, and {self._least} are needed: all compute workers, owners of learned rows if there "
                        "are some, and a batch worker; --local BxC and --threads ask for less")

    def _stop(self):
        if self._mourner is not None:
            self._mourner.communicate(b"\n")
        workers = {process: _begun(process) for process in _descendants(self._started)} if self._started else {}
        ray = getattr(self, "_ray", None)
        if ray is not None and (self._folder is not None or getattr(self, "_joined", False)):
            ray.shutdown()
        _end(self._started)
        if self._folder is not None:
            _end_others(workers, self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
        for name, value in self._saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def start(self, kind, cpus, groups=None):
        """Returns a new actor, which Ray does not restart by itself."""
        made = self._ray.remote(concurrency_groups=groups)(kind) if groups else self._ray.remote(kind)
        return made.options(num_cpus=cpus, max_restarts=0, max_task_retries=0,
                                              scheduling_strategy="SPREAD").remote()

    def end(self, actor, process=None):
        """Ends an actor, if it lives. Ray needs 5 s for one that is stopped; `process`, of this machine, is ended at
        once."""
        if actor is not None:
            self._ray.kill(actor, no_restart=True)
        if process is not None and process in _descendants(self._started):
            with contextlib.suppress(ProcessLookupError): # it has ended since
                os.kill(process, signal.SIGKILL)

    def put(self, value):
        """Returns a reference of an array."""
        return self._ray.put(value)

    def there(self, references):
        """Returns those of the references whose values are there, or never will be."""
        return self._ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)[0] \
            if references else []

    def failed(self, reference):
        """Returns whether a call that has ended has no answer, since its actor is gone."""
        try:
            self._ray.get(reference)
        except self.Gone:
            return True
        except Exception: # pylint: disable=broad-except # of the call: whoever needs its answer raises it
            pass
        return False

    def gone_machines(self):
        """Returns the ids of the machines that have left the cluster, as of when its head answered last."""
        if self._address: # a cluster of one machine has it as long as this process
            self._check_cluster()
            if time.monotonic() < self._head_seen + 2: # Ray would wait for a head that is gone
                self._gone_machines = {node["NodeID"] for node in self._ray.nodes() if not node["Alive"]}
        return self._gone_machines

    def wait(self, references, count, seconds):
        """Returns `count` of the references that are there, or those after `seconds`: of time in which this process
        ran, too."""
        while True:
            self._check_cluster()
            piece = min(seconds, 0.5)
            found = self._ray.wait(references, num_returns=count, timeout=piece, fetch_local=False)[0]
            seconds -= piece
            if len(found) >= count or seconds <= 0:
                return found

    def _check_cluster(self):
        """Raises Error if this machine's node or the head of the cluster is gone: Ray itself notices the one when this
        process asks it for something, and waits for a minute for the other, then ends the process."""
        now = time.monotonic()
        if not self._address or now < self._head_asked + 1:
            return
        self._head_asked = now
        if _has_ended(self._ray._private.worker._global_node.raylet_socket_name): # pylint: disable=protected-access
            raise Error("Ray's node on this machine has ended: start it again, and --resume continues from the last "
                        "checkpoint")
        host, port = self._ray.get_runtime_context().gcs_address.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            self._head_seen = now
        except OSError as error:
            if now > self._head_seen + HEAD_SECONDS:
                raise Error(f"the head of the Ray cluster at {host}:{port} does not answer ({error.strerror or error}): "
                            "start the cluster again, and --resume continues from the last checkpoint") from None

    def get(self, reference, where):
        """Returns a value that is there. Raises `Gone` for a dead actor or a lost object, or what the actor raised,
        with `where` before it."""
        return _take(self._ray, reference, where)

    def close(self):
        """Ends the connection and, if it is this session's, the cluster."""
        self._leave.set()
        self._thread.join()


def _has_ended(path):
    """Returns whether the process that listens at a local socket has ended."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError: # busy
            pass
    return False


def _start_mourner(address):
    """Starts a process that prints an error when this one ends without a line to it: Ray ends a driver whose machine
    leaves the cluster, without a word."""
    where = f"the Ray cluster at {address}" if address else "its Ray cluster"
    text = (f"error: gneiss-armada has ended with its connection to {where}, which is gone, or was killed: --resume "
            "continues from the last checkpoint")
    return subprocess.Popen(["/bin/sh", "-c", 'read -r line || echo "$0" >&2', text], stdin=subprocess.PIPE,
                            start_new_session=True)


def _take(ray, reference, where):
    """Returns a value that is there. Raises as `_Session.get`."""
    failures = ray.exceptions
    full = failures.ObjectStoreFullError, failures.OutOfDiskError
    try:
        return ray.get(reference, timeout=START_SECONDS)
    except failures.RayTaskError as failed:
        cause = failed.cause
        if isinstance(cause, (*_gone(failures), _Unanswered)):
            raise cause from None
        if isinstance(cause, full):
            raise OverBudget(_no_room(where, cause)) from None
        if type(cause).__module__ in ("builtins", Error.__module__):
            cause.args = (f"{where}: {cause}",)
            raise cause from None
        raise Error(f"{where}: {type(cause).__name__}: {cause}") from None
    except full as error:
        raise OverBudget(_no_room(where, error)) from None
    except failures.GetTimeoutError:
        raise Error(f"{where}: its answer did not arrive within {START_SECONDS} s") from None


def _gone(failures):
    return _Stale, failures.RayActorError, failures.ObjectLostError, failures.WorkerCrashedError, failures.NodeDiedError


def _no_room(where, error):
    return f"{where}: the object store and the disk that it spills to are full: {_first_line(error)}"


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


def _check_disk(store):
    """Raises OverBudget unless one of the places where Ray puts its object store has room for it: Ray only maps its
    memory, and a worker that fills the last page is killed."""
    free = {where: shutil.disk_usage(where).free for where in ("/dev/shm", _short_folder())}
    if store > max(free.values()):
        places = ", ".join(f"{where} has {_bytes(size)}" for where, size in free.items())
        raise OverBudget(f"Ray's object store of {_bytes(store)} has no room: {places} free; less --memory, or a larger "
                         "disk by TMPDIR", parts={"Ray's object store": store}, budget=max(free.values()))


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


def _command_line(process):
    """Returns the command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


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


def _begun(process):
    """Returns when a process began, which a later process with its id did not; None if it has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _end_others(workers, folder, seconds=5):
    """Ends processes that are not this one's children, once their parents have ended: {id: when it began}, and those
    that start now, whose command lines name `folder`. They would write into it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        starting = [int(entry.name) for entry in os.scandir("/proc")
                    if entry.name.isdigit() and int(entry.name) != os.getpid() and folder in _command_line(entry.name)]
        workers.update((process, _begun(process)) for process in starting)
        left = [process for process, begun in workers.items() if begun is not None and _begun(process) == begun]
        if not left:
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


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
    _, epoch, state, turn, index = number[:5]
    return f"epoch {epoch}, state {state}, pass {turn}, batch {index}"


def _bytes(count):
    """Returns a size as a flag takes it."""
    return f"{count / (1 << 20):.1f}MiB"


def _bandwidth(rate):
    """Returns bytes a second as the live line shows them."""
    for unit in ("B", "KiB", "MiB"):
        if rate < 1024:
            return f"{rate:.3g} {unit}/s"
        rate /= 1024
    return f"{rate:.3g} GiB/s"


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
