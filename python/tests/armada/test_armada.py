# SPDX-License-Identifier: Apache-2.0
"""gneiss-armada on Ray against one process: the bits, deaths of workers, tokens, and processes that stay."""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import fsspec # pylint: disable=wrong-import-position

import gneiss_graph as gn # pylint: disable=wrong-import-position
from gneiss_graph import armada # pylint: disable=wrong-import-position
from support import Case, program # pylint: disable=wrong-import-position

FLAGS = {"epochs": 3, "fanout": "5,5", "batch": 8, "early_stop": 0, "seed": 3, "memory": "256MiB", "batch_workers": 3,
         "replicas": 2, "buffer": 1, "force": True, "quiet": True}

# Prints the hash, the losses and the frames of a run. A fault (role, signal, step) is one of worker 0 before a step.
TRAIN = """
import json, os, re, signal, sys
import gneiss_graph as gn
import gneiss_graph._run as run
import gneiss_graph.armada as armada

fault, flags = json.loads(sys.argv[1]), json.loads(sys.argv[2])
SENT = "construct_messages", "construct_bytes", "remote_nodes", "remote_rows"
processes, seen, make_step = {}, [], armada.Cluster.step

def printer(quiet):
    def keep(text):
        found = re.match(r"(\\S+) is process (\\d+) on ", text)
        if found:
            processes[found[1]] = int(found[2])
    return keep

def on_epoch(epoch):
    seen.append(1)

def step(self, number, batches, coming):
    if fault and number == fault[2]:
        os.kill(processes[fault[0] + "-0"], signal.Signals[fault[1]])
    return make_step(self, number, batches, coming)

run.message_printer = printer
armada.Cluster.step = step
if __name__ == "__main__":
    done = gn.train(program="armada", on_epoch=on_epoch, **flags)
    record = done.record
    print(json.dumps({"hash": record["weights_sha256"], "losses": [epoch["loss"] for epoch in record["epochs"]],
                      "frames": record.get("frames"), "bytes": [epoch["frame_bytes"] for epoch in record["epochs"]],
                      "ids": [epoch.get("id_bytes") for epoch in record["epochs"]], "warnings": done.warnings,
                      "sent": [[epoch.get(name) for name in SENT] for epoch in record["epochs"]],
                      "processes": processes, "links": record.get("links"),
                      "test": record["metrics"]["test"], "me": os.getpid()}))
"""


def alive(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def session_processes(folder):
    """Processes whose command line or folder names a session below `folder`."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if folder.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            pass
    return found


class Live(unittest.TestCase):
    """The live line of a cluster that is not there."""

    def setUp(self):
        self.now, self.there = 100.0, set()
        self.cluster = cluster = object.__new__(armada.Cluster)
        cluster._lock, cluster._sums = threading.Lock(), collections.deque()
        cluster._frames, cluster.frames, cluster.links = {}, {}, {}
        cluster._computed, cluster._making, cluster.frame_bytes, cluster.waited = 0, 0.0, 0, (0.0, 0.0)
        cluster._aggregated, cluster._owners = False, []
        cluster._batch = [types.SimpleNamespace(away=None) for _ in range(2)]
        cluster._session = types.SimpleNamespace(there=lambda asked: [of for of in asked if of in self.there])
        self.enterContext(unittest.mock.patch.object(armada.time, "monotonic", lambda: self.now))
        cluster._add_sums()

    def work(self, seconds, computed=0, making=0.0, computing=0.0, **links):
        self.now += seconds
        of = self.cluster
        of.frames = {"batch-0": sum(of.frames.values()) + computed}
        of._computed, of._making = of._computed + computed, of._making + making
        of.waited = of.waited[0], of.waited[1] + computing
        for name, size in links.items():
            link = name.replace("0", "-0 > ", 1).replace("_1", "-1")
            of.links[link] = of.links.get(link, 0) + size
            if name.startswith("batch"):
                of.frame_bytes += size

    def test_rates_of_both_roles_and_who_waits(self):
        self.work(4, computed=8, making=2.0, computing=3.0, batch0compute_1=8 << 20, compute0compute_1=6 << 10)
        made = types.SimpleNamespace(done=False, answer="there")
        late = types.SimpleNamespace(done=False, answer="not yet")
        self.cluster._frames = {(0, 0, 0, 0, 8, 2): [made], (1, 0, 0, 0, 9, 1): [late], (0, 0, 0, 0, 10, 0): [made]}
        self.there = {"there"}
        # Two batch workers made 8 batches, and a group of 2 that is not used yet, in 2 of 2 · 4 s.
        self.assertEqual(self.cluster.live_fields(),
                         "batch 2.5/s waits 75%  compute 2/s waits 25%  frames 2 MiB/s  gradients 1.5 KiB/s  "
                         "batch-0 > compute-1 2 MiB/s")
        self.cluster._batch[1].away = "since then"
        self.assertRegex(self.cluster.live_fields(), r"^batch 2\.5/s waits 50%  compute ")
        self.cluster._batch, self.cluster._aggregated = [], True
        self.assertRegex(self.cluster.live_fields(), r"^compute 2/s  gradients 1\.5 KiB/s  batch-0 > ")
        self.cluster._owners = ["owner"]
        self.work(0, compute0owner_1=3 << 10, owner0compute_1=5 << 10)
        self.assertRegex(self.cluster.live_fields(), r"^compute 2/s  gradients 1\.5 KiB/s  rows 2 KiB/s  batch-0 > ")

    def test_they_are_those_of_the_last_seconds(self):
        self.work(2, computed=200, computing=2.0, compute0compute_1=200)
        self.cluster.live_fields()
        for _ in range(10):
            self.work(2, computed=2, computing=0.5, batch0compute_1=1024)
            fields = self.cluster.live_fields()
        self.assertEqual(fields, "batch 1/s waits 100%  compute 1/s waits 75%  frames 512 B/s  gradients 0 B/s  "
                                 "batch-0 > compute-1 512 B/s")
        self.assertLess(len(self.cluster._sums), 10)


class Places(unittest.TestCase):
    """Which of the batch workers that are there a batch is asked of."""

    def test_logical_workers_whose_worker_is_not_there_are_spread_over_the_others(self):
        cluster = object.__new__(armada.Cluster)
        cluster._batch = [types.SimpleNamespace(index=i, away=None, name=f"batch-{i}") for i in range(4)]
        cluster._frames, cluster._deferred, cluster._deliveries, cluster._connected = {}, {}, None, 0
        cluster._machines, cluster._gone = {}, set()
        made = unittest.mock.patch.object(armada, "_Request", lambda slot, *_: types.SimpleNamespace(slot=slot))
        self.enterContext(made)

        def places(state):
            groups = [(worker, 0, state, 0, 0, 1) for worker in range(8)]
            for group in groups:
                cluster._submit(group)
            return [cluster._frames[group][-1].slot.index for group in groups]
        self.assertEqual(places(0), [0, 1, 2, 3] * 2)
        cluster._batch[2].away = cluster._batch[3].away = "since then"
        self.assertEqual(places(1), [0, 1] * 4)
        cluster._batch[2].away = None
        with_three = places(2)
        self.assertEqual([with_three[worker] for worker in (0, 1, 2, 4, 5, 6)], [0, 1, 2] * 2)
        self.assertNotEqual(with_three[3], with_three[7]) # both of the worker that is not there
        # A worker that has a batch is not asked for it again.
        cluster._submit((0, 0, 0, 0, 0, 1))
        self.assertNotEqual(cluster._frames[(0, 0, 0, 0, 0, 1)][-1].slot.index, 0)


class Lost(unittest.TestCase):
    """Which frames are made again when a batch worker is gone: those alone that no worker has or makes."""

    def setUp(self):
        self.answered, self.failed, self.gone = set(), set(), set()
        self.cluster = cluster = object.__new__(armada.Cluster)
        cluster._lock = threading.Lock()
        cluster._batch = [types.SimpleNamespace(index=i, away=None, actor=f"actor {i}", name=f"batch-{i}")
                          for i in range(3)]
        cluster._machines = {"batch-0": "here", "batch-1": "here", "batch-2": "there"}
        cluster._gone = set()
        cluster._frames, cluster._deferred, cluster._deliveries, cluster._asks_owners = {}, {}, None, False
        cluster._session = types.SimpleNamespace(
            there=lambda asked: [of for of in asked if of in self.answered | self.failed],
            failed=lambda answer: answer in self.failed, gone_machines=lambda: self.gone)
        cluster._connected = 0

        def request(slot, group, *_):
            return types.SimpleNamespace(slot=slot, actor=slot.actor, name=slot.name, done=False,
                                         answer=(slot.name, group[4]))
        self.enterContext(unittest.mock.patch.object(armada, "_Request", request))
        for index in range(9): # batch 3 k + w is asked of worker w
            cluster._submit((index % 3, 0, 0, 0, index, 1))

    def asked(self):
        """Returns the workers that each batch is asked of, by its index."""
        return [[of.name for of in requests] for requests in self.cluster._frames.values()]

    def test_frames_of_a_machine_that_left_and_those_of_no_other(self):
        self.answered = {("batch-0", 0), ("batch-1", 1), ("batch-2", 2), ("batch-2", 5)}
        self.failed, self.gone = {("batch-2", 8)}, {"there"}
        list(self.cluster._frames.values())[2][0].done = True # its step is not made
        self.cluster._batch[2].actor = "another"
        self.cluster._leave(self.cluster._batch[2], "opened")
        names = self.asked()
        for index in (0, 1, 3, 4, 6, 7):
            self.assertEqual(names[index], [f"batch-{index % 3}"])
        for index in (2, 5, 8):
            self.assertEqual(len(names[index]), 1)
            self.assertIn(names[index][0], ("batch-0", "batch-1"))
        # They are known to be made again: nothing is lost, although the machine is still gone.
        self.assertFalse(self.cluster._ask_again())
        self.assertEqual(self.asked(), names)

    def test_a_machine_that_left_takes_all_of_its_workers_with_it(self):
        self.cluster._machines["batch-1"] = "there"
        self.answered, self.gone = {("batch-0", 0), ("batch-1", 1)}, {"there"}
        self.cluster._batch[2].actor = "another" # the death of the other one is not known yet
        self.cluster._leave(self.cluster._batch[2], "opened")
        self.assertEqual(self.asked(), [["batch-0"]] * 9)
        self.cluster._batch[2].name = "batch-2.2" # the replacement, which has not started
        self.cluster._batch[2].away, self.cluster._batch[2].opened = (100.0, "opened"), "opened"
        with unittest.mock.patch.object(armada.Cluster, "_replace", autospec=True) as replace:
            self.cluster._look_after_away()
        replace.assert_called_once_with(self.cluster, self.cluster._batch[1], "died with its machine")

    def test_a_worker_that_died_on_a_machine_that_stays_has_left_its_frames_there(self):
        self.answered, self.failed = {("batch-2", 2), ("batch-2", 5)}, {("batch-2", 8)}
        self.cluster._batch[2].actor = "another"
        self.cluster._leave(self.cluster._batch[2], "opened")
        names = self.asked()
        for index in range(8):
            self.assertEqual(names[index], [f"batch-{index % 3}"])
        self.assertIn(names[8], (["batch-0"], ["batch-1"]))

    def test_a_late_worker_owes_the_frames_that_it_has_not_made(self):
        self.answered = {("batch-1", 1)}
        self.cluster._leave(self.cluster._batch[1], "its answer")
        names = self.asked()
        for index in (0, 1, 2, 3, 5, 6, 8):
            self.assertEqual(names[index], [f"batch-{index % 3}"])
        for index in (4, 7): # the first of the two counts
            self.assertEqual(names[index][0], "batch-1")
            self.assertIn(names[index][1:], (["batch-0"], ["batch-2"]))


class Armada(Case):
    """Each training is a process of its own, with its own folder for Ray."""

    def run_python(self, text, *arguments, code=0, **environment):
        path = self.at / "train.py"
        path.write_text(text)
        temporary = pathlib.Path("/tmp") / f"gnt{os.getpid()}"
        temporary.mkdir(exist_ok=True)
        self.addCleanup(lambda: temporary.exists() and temporary.rmdir())
        done = subprocess.run([sys.executable, path, *map(str, arguments)], capture_output=True, text=True, check=False,
                              env={**os.environ, "TMPDIR": str(temporary), **environment}, timeout=300)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(session_processes(str(temporary)), [])
        self.assertEqual(list(temporary.iterdir()), [])
        return done

    @staticmethod
    def program_with(patch):
        """Returns the driver's program, with `patch` before it trains."""
        main = 'if __name__ == "__main__":\n'
        return TRAIN.replace(main, main + textwrap.indent(patch, "    ") + "\n")

    def train(self, fault=None, patch="", **flags):
        flags = {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"), "out": str(self.at / "run"),
                 **flags}
        result = json.loads(self.run_python(self.program_with(patch), json.dumps(fault), json.dumps(flags)).stdout)
        for process in result["processes"].values():
            self.assertFalse(alive(process), result["processes"])
        return result

    def test_the_bits_are_those_of_one_process_for_any_number_of_workers(self):
        for layers in ("sage:16,sage", "gcn:16,gcn", "gat:16,gat"):
            with self.subTest(layers=layers):
                expected = self.train(layers=layers)
                self.assertIsNone(expected["frames"])
                for local in ("1x1", "4x2"):
                    found = self.train(layers=layers, local=local)
                    for key in ("hash", "losses", "test"):
                        self.assertEqual(found[key], expected[key])
                    self.assertEqual(len(found["processes"]), {"1x1": 2, "4x2": 6}[local])
                    # Every batch is a frame of an actor: 90 nodes in 3 partitions, 8 in a batch, 3 epochs.
                    self.assertEqual(len(found["frames"]), {"1x1": 1, "4x2": 3}[local])
                    self.assertGreaterEqual(sum(found["frames"].values()), 3 * 90 // 8)

    def test_compute_workers_that_make_their_batches_change_no_bit(self):
        for more in ({}, {"replicas": 4, "group_batches": 3, "layers": "gat:16,gat"}, {"inputs": "both", "dim": 6}):
            expected = self.train(**more)
            for local in ("0x1", "0x2"):
                with self.subTest(local=local, **more):
                    found = self.train(local=local, **more)
                    for key in ("hash", "losses", "test"):
                        self.assertEqual(found[key], expected[key])
                    self.assertEqual(found["warnings"], [])
                    names = {f"compute-{i}" for i in range(int(local[2]))}
                    self.assertEqual(set(found["frames"]), names)
                    self.assertEqual({name for name in found["processes"] if not name.startswith("owner")}, names)
                    self.assertEqual([link for link in found["links"] or () if link.startswith("batch")], [])
                    if local == "0x1": # each batch is made once, with the bytes of a frame that travels
                        self.assertEqual(sum(found["bytes"]), sum(self.train(local="1x1", **more)["bytes"]))
        expected = self.train()
        self.check_faults("SIGKILL", (("compute", "0x2"), ("compute", "0x1")), expected)
        self.check_faults("SIGSTOP", (("compute", "0x2"),), expected)
        for flags, why in (({"construct": "remote"}, "construct remote needs batch workers"),
                           ({"feature_cache": "lru"}, "feature_cache lru needs batch workers"),
                           ({"local": "0x1024", "replicas": 1024}, "partitions of further compute workers")):
            with self.subTest(why=why):
                done = self.run_python(TRAIN, "null", json.dumps(
                    {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"),
                     "out": str(self.at / "none"), "local": "0x2", **flags}), code=1)
                self.assertIn(why, done.stderr.splitlines()[-1])
                self.assertFalse((self.at / "none").exists())

    def test_bytes_by_link_are_those_of_the_frames_and_of_the_gradients(self):
        for local, batch, compute in (("1x1", 1, 1), ("2x2", 2, 2)):
            with self.subTest(local=local):
                found = self.train(local=local, batch_workers=2, replicas=3, group_batches=2)
                roles = [(f"batch-{b}", f"compute-{c}") for b in range(batch) for c in range(compute)]
                roles += [(f"compute-{a}", f"compute-{b}") for a in range(compute) for b in range(compute) if a != b]
                self.assertEqual(set(found["links"]), {f"{one} > {other}" for one, other in roles})
                self.assertEqual(sum(size for link, size in found["links"].items() if link.startswith("batch")),
                                 sum(found["bytes"]))
        # Of three replicas, compute-0 has two. Each batch has gradients of the same size, which go to the other worker.
        more, fewer = found["links"]["compute-0 > compute-1"], found["links"]["compute-1 > compute-0"]
        self.assertGreater(more, fewer)
        self.assertEqual((more + fewer) % sum(found["frames"].values()), 0)

    def test_batches_that_share_rows_change_no_bit_and_take_the_bytes_of_one_process(self):
        single, grouped = self.train(replicas=4), self.train(replicas=4, group_batches=3)
        for local, fault in (("1x1", None), ("4x2", None), ("2x1", ("batch", "SIGKILL", 5)),
                             ("2x1", ("compute", "SIGKILL", 5))):
            with self.subTest(local=local, fault=fault):
                found = self.train(fault, replicas=4, group_batches=3, local=local)
                for key in ("hash", "losses", "test"):
                    self.assertEqual(found[key], single[key])
                self.assertGreaterEqual(sum(found["frames"].values()), 3 * 90 // 8)
                if local == "1x1":
                    self.assertEqual(found["bytes"], grouped["bytes"])

    def test_a_feature_cache_changes_no_bit_and_takes_the_bytes_of_one_process(self):
        single = self.train(replicas=4)
        for policy, group, local, fault in (("belady", 1, "1x1", None), ("static", 1, "1x1", None),
                                            ("lru", 3, "4x2", None), ("belady", 3, "2x1", ("batch", "SIGKILL", 5)),
                                            ("lru", 1, "2x2", ("compute", "SIGKILL", 5))):
            with self.subTest(policy=policy, group=group, local=local, fault=fault):
                cache = {"feature_cache": policy, "cache": "20%", "superbatch": 16, "group_batches": group}
                found = self.train(fault, replicas=4, local=local, **cache)
                for key in ("hash", "losses", "test"):
                    self.assertEqual(found[key], single[key])
                if fault is not None:
                    self.assertTrue(any(text.startswith(f"{fault[0]}-0 on ") for text in found["warnings"]))
                if local.endswith("x1"): # frames that are made again, too, leave out the same rows
                    expected = self.train(replicas=4, **cache)
                    self.assertEqual((found["bytes"], found["ids"]), (expected["bytes"], expected["ids"]))

    def test_learned_rows_have_the_bits_of_one_process_for_any_number_of_owners(self):
        features = self.train(replicas=3)
        for rows in ({}, {"row_optimizer": "adam", "group_batches": 2}, {"inputs": "rows", "dim": 12}):
            rows = {"inputs": "both", "dim": 6, "replicas": 3, **rows}
            expected = self.train(**rows)
            self.assertNotEqual(expected["hash"], features["hash"])
            for local, owners in (("1x1", 1), ("3x2", 2)): # as many owners as compute workers
                with self.subTest(local=local, **rows):
                    found = self.train(local=local, **rows)
                    for key in ("hash", "losses", "test"):
                        self.assertEqual(found[key], expected[key])
                    self.assertEqual(sum(name.startswith("owner") for name in found["processes"]), owners)
                    there = {f"{a} > {b}" for o in range(owners) for c in range(owners)
                             for a, b in ((f"owner-{o}", f"compute-{c}"), (f"compute-{c}", f"owner-{o}"))}
                    self.assertEqual({link for link in found["links"] if "owner" in link}, there)
                    # Rows come as floats, and their gradients go back with two lists of places.
                    rows_read = sum(size for link, size in found["links"].items() if link.startswith("owner"))
                    sent = sum(size for link, size in found["links"].items() if " > owner" in link)
                    self.assertEqual(sent * rows["dim"], rows_read * (rows["dim"] + 2))
                    self.assertEqual(found["warnings"], [])

    def test_an_owner_of_learned_rows_or_a_compute_worker_that_ends_or_stops_changes_no_bit(self):
        rows = {"inputs": "both", "dim": 6}
        self.check_faults("SIGKILL", (("owner", "2x2"), ("owner", "1x1"), ("compute", "2x2")), self.train(**rows),
                          **rows)
        self.check_faults("SIGSTOP", (("owner", "2x2"),), self.train(**rows), **rows)
        rows = {"inputs": "rows", "dim": 12}
        self.check_faults("SIGKILL", (("owner", "2x2"),), self.train(**rows), **rows)

    def test_a_step_that_some_owners_have_made_is_made_again_by_all(self):
        rows = {"inputs": "both", "dim": 6, "replicas": 3}
        expected = self.train(**rows)
        once = self.at / "ended"
        patch = f"""
class Ending(armada.RowOwner):
    def apply(self, generation, step, *gradients):
        if step == 9 and not os.path.exists({str(once)!r}):
            try:
                open({str(once)!r}, "x").close()
            except FileExistsError: # the other owner ends
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        super().apply(generation, step, *gradients)
armada.RowOwner = Ending
"""
        found = self.train(patch=patch, local="2x2", **rows)
        for key in ("hash", "losses", "test"):
            self.assertEqual(found[key], expected[key])
        self.assertTrue(once.exists())
        self.assertRegex("\n".join(found["warnings"]), r"owner-\d on \S+ died after step \d+")

    def test_an_owner_refuses_steps_of_another_generation_and_steps_that_it_has_made(self):
        wrong = """
send = armada.Cluster._send
def send_older(self, parameters, slots): # compute workers of a generation that has passed
    self._generation -= 1
    send(self, parameters, slots)
    self._generation += 1
armada.Cluster._send = send_older
once = armada.Cluster._once
def once_older(self, step, batches, coming):
    self._generation -= 1
    try:
        once(self, step, batches, coming)
    finally:
        self._generation += 1
armada.Cluster._once = once_older
"""
        self.assertRegex(self.train_wrongly(wrong, inputs="both", dim=6),
                         r"Error: a frame was lost, the last of \d+ deaths without a step between them")

    def test_remote_construction_has_the_bits_and_messages_of_one_process(self):
        (self.at / "hubs.txt").write_text("".join(f"{10 * v}\n" for v in range(30)))
        (self.at / "parts.txt").write_text("".join(f"{v % 4}\n" for v in range(300)))
        program("data", "reorder", self.at / "classes", "--by", self.at / "parts.txt", "--hubs", self.at / "hubs.txt",
                "--out", self.at / "hubs", "--quiet")
        hubs = {"dataset": str(self.at / "hubs"), "replicate": "hubs", "batch_workers": 2} # two states of each worker
        cache = {"feature_cache": "lru", "cache": "20%", "superbatch": 16, "replicas": 4}
        for places, more in ((("1x1", "3x2"), {}), (("3x2",), {"replicate": "features", "layers": "gat:16,gat"}),
                             (("2x1",), {**hubs, "group_batches": 3}), (("2x1",), cache)):
            expected = self.train(construct="remote", **more)
            self.assertGreater(expected["sent"][0][0], 0)
            for local in places:
                with self.subTest(local=local, **more):
                    found = self.train(construct="remote", local=local, **more)
                    for key in ("hash", "losses", "test", "sent", "ids"):
                        self.assertEqual(found[key], expected[key])
                    self.assertEqual(found["warnings"], [])

    def test_an_owner_that_ends_or_stops_while_it_is_asked_changes_no_bit(self):
        expected = self.train(construct="remote")
        for name, text in (("SIGKILL", "died"), ("SIGSTOP", r"has not answered for \S+ s")):
            for local in ("2x1", "3x2"):
                with self.subTest(signal=name, local=local):
                    once = self.at / f"{name}-{local}"
                    patch = f"""
class Ending(armada.BatchWorker): # of this program, so that it goes to the workers with it
    asked = 0
    def answer(self, owner, question):
        self.asked += 1
        if self.asked == 20 and not os.path.exists({str(once)!r}):
            open({str(once)!r}, "w").close()
            os.kill(os.getpid(), signal.{name})
        return super().answer(owner, question)
armada.BatchWorker = Ending
"""
                    found = self.train(patch=patch, construct="remote", local=local)
                    for key in ("hash", "losses", "test"):
                        self.assertEqual(found[key], expected[key])
                    self.assertTrue(once.exists())
                    self.assertRegex("\n".join(found["warnings"]),
                                     rf"batch-\d on \S+ {text}.*epoch \d, state 0, pass 0")

    def test_an_owner_that_answers_the_driver_alone_changes_no_bit(self):
        once = self.at / "once"
        patch = f"""
armada.DUPLICATE_SECONDS = armada.REPLACE_SECONDS = 60 # the driver does not notice
class Slow(armada.BatchWorker):
    def __init__(self):
        import gneiss_graph.armada
        super().__init__()
        gneiss_graph.armada.QUESTION_SECONDS = 1
        self.asked = 0
    def answer(self, owner, question):
        import time
        self.asked += 1
        if self.asked == 20 and not os.path.exists({str(once)!r}):
            open({str(once)!r}, "w").close()
            time.sleep(15)
        return super().answer(owner, question)
armada.BatchWorker = Slow
"""
        expected = self.train(construct="remote")
        found = self.train(patch=patch, construct="remote", local="2x1")
        for key in ("hash", "losses", "test"):
            self.assertEqual(found[key], expected[key])
        self.assertTrue(once.exists())
        self.assertRegex("\n".join(found["warnings"]),
                         r"batch-(\d) on \S+ has not answered for 1 s when batch-(?!\1)\d on \S+ asked it \(epoch \d")

    def test_a_wrong_answer_of_an_owner_is_refused_by_the_batch_worker_that_reads_it(self):
        for change, error in (
                ("answer[len(answer) // 2] ^= 4", r"Corrupt: {}a message for epoch 0, .*does not match its checksum"),
                ("answer = answer[:-64]", r"Corrupt: {}a message of \d+ bytes came as \d+"),
                ("answer = question", r"Corrupt: {}a message for epoch 0, .*is of another kind"),
                ("raise OSError('the disk is gone')", r"OSError: batch-\d on \S+, epoch 0, .*: batch-\d on \S+, a "
                                                     r"question for batch worker \d: the disk is gone")):
            with self.subTest(change=change):
                patch = f"""
class Wrong(armada.BatchWorker):
    def answer(self, owner, question):
        answer = super().answer(owner, question).copy()
        {change}
        return answer
armada.BatchWorker = Wrong
"""
                where = r"batch-\d on \S+, epoch 0, state 0, pass 0, batch \d+: the answer of batch worker \d: "
                self.assertRegex(self.train_wrongly(patch, construct="remote", local="2x1"), error.replace("{}", where))

    def check_faults(self, signal_name, places, expected, **flags):
        for role, local in places:
            with self.subTest(role=role, local=local):
                found = self.train((role, signal_name, 9), local=local, **flags) # in the second of three epochs
                for key in ("hash", "losses", "test"):
                    self.assertEqual(found[key], expected[key])
                warning = next(text for text in found["warnings"] if text.startswith(f"{role}-0 on "))
                self.assertRegex(warning, r"epoch 1, state \d, pass 0, batch \d+|step \d+|generation \d+")

    def test_a_worker_that_is_killed_changes_no_bit(self):
        self.check_faults("SIGKILL", (("batch", "2x1"), ("batch", "1x1"), ("compute", "2x2"), ("compute", "1x1")),
                          self.train())

    def test_a_worker_that_is_stopped_changes_no_bit_and_the_run_ends(self):
        self.check_faults("SIGSTOP", (("batch", "2x1"), ("batch", "1x1"), ("compute", "2x2"), ("compute", "1x1")),
                          self.train())

    def test_a_worker_of_remote_construction_that_is_killed_or_stopped_changes_no_bit(self):
        expected = self.train(construct="remote")
        for name, places in (("SIGKILL", (("batch", "3x2"), ("batch", "1x1"), ("compute", "2x2"))),
                             ("SIGSTOP", (("batch", "2x1"), ("batch", "1x1")))):
            self.check_faults(name, places, expected, construct="remote")

    def train_wrongly(self, patch, **flags):
        """Trains after `patch`, a text of the driver's program, and returns the last line of its errors."""
        flags = {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"), "out": str(self.at / "wrong"),
                 "local": "1x1", **flags}
        done = self.run_python(self.program_with(patch), "null", json.dumps(flags), code=1)
        return done.stderr.splitlines()[-1]

    def test_workers_with_another_version_dataset_or_plan_are_refused(self):
        # Workers are processes of their own: they have the right version.
        self.assertRegex(self.train_wrongly('armada._core.version = "0.0"'),
                         r"Error: compute-0 on \S+, opening the dataset: has version \S+ of gneiss-graph, and the "
                         r"driver 0\.0: ")
        other = """
make = armada.Cluster.__init__
def init(self, **given):
    given["run"] += 1
    make(self, **given)
armada.Cluster.__init__ = init
"""
        self.assertRegex(self.train_wrongly(other), r"Error: compute-0 on \S+, opening the dataset: reads another plan")
        # The dataset is replaced between the driver and its workers: by one with the same shape and other features.
        program("data", "generate", "planted", "--nodes", 300, "--edges", 2000, "--classes", 3, "--task", "node",
                "--num-features", 8, "--train-fraction", ".3", "--partitions", 3, "--seed", 6, "--undirected", "--out",
                self.at / "replaced", "--quiet")
        swap = f"""
make = armada.Cluster.__init__
def init(self, **given):
    os.rename({str(self.at / "classes")!r}, {str(self.at / "kept")!r})
    os.rename({str(self.at / "replaced")!r}, {str(self.at / "classes")!r})
    make(self, **given)
armada.Cluster.__init__ = init
"""
        try:
            self.assertRegex(self.train_wrongly(swap),
                             r"Error: compute-0 on \S+, opening the dataset: has another dataset than the driver")
        finally:
            (self.at / "classes").rename(self.at / "replaced")
            (self.at / "kept").rename(self.at / "classes")

    def test_a_dataset_from_elsewhere_is_staged_by_the_driver_and_by_workers(self):
        expected = self.train()
        copy = self.at / "staged"
        gn.stage((self.at / "classes").as_uri(), to=copy)
        # As on another machine: workers find nothing at the path.
        away = """
start = armada.Cluster._start
def start_elsewhere(self):
    import shutil
    shutil.rmtree(flags["dataset"])
    start(self)
armada.Cluster._start = start_elsewhere
"""
        found = self.train(patch=away, dataset=str(copy), local="2x1")
        for key in ("hash", "losses", "test"):
            self.assertEqual(found[key], expected[key])

    def test_staging_copies_once_checks_and_replaces_what_has_changed(self):
        files, copy = fsspec.filesystem("memory"), self.at / "of-memory"
        files.put(str(self.at / "classes"), "/bucket/classes", recursive=True)
        url = "memory://bucket/classes"
        with gn.stage(url, to=copy) as staged:
            self.assertEqual(staged.path, str(copy))
            self.assertEqual(staged.nodes, gn.Dataset(self.at / "classes").nodes)
        inode = (copy / "manifest.json").stat().st_ino
        gn.stage(url, to=copy).close()
        self.assertEqual((copy / "manifest.json").stat().st_ino, inode) # the copy is opened
        name = next(name for name in files.ls("/bucket/classes", detail=False) if name.endswith("features.npy"))
        raw = bytearray(files.cat_file(name))
        raw[len(raw) // 2] ^= 1
        files.pipe_file(name, bytes(raw))
        with self.assertRaisesRegex(gn.Corrupt, "features"):
            gn.stage(url, to=self.at / "flipped")
        self.assertFalse((self.at / "flipped").exists())
        manifest = files.cat_file("/bucket/classes/manifest.json")
        files.pipe_file("/bucket/classes/manifest.json", manifest.replace(b'"seed"', b'"sead"'))
        with self.assertRaises(gn.Error):
            gn.stage(url, to=copy) # the copy that is there stays
        self.assertEqual((copy / "manifest.json").stat().st_ino, inode)
        with self.assertRaisesRegex(gn.NotFound, "memory://bucket/none: there is no dataset"):
            gn.stage("memory://bucket/none", to=copy)
        with self.assertRaisesRegex(gn.Error, "nowhere"):
            gn.stage("nowhere://bucket", to=copy)
        (self.at / "mine").mkdir()
        (self.at / "mine" / "thesis.txt").write_text("words")
        with self.assertRaisesRegex(gn.Error, "mine: exists and is not a dataset"):
            gn.stage((self.at / "classes").as_uri(), to=self.at / "mine")
        self.assertEqual(sorted(path.name for path in (self.at / "mine").iterdir()), ["thesis.txt"])

    def test_wrong_frames_are_refused_by_the_worker_that_reads_them(self):
        for change, error in (
                ("frame[len(frame) // 2] ^= 4", r"Corrupt: .*does not match its checksum"),
                ("frame = frame[:-64]", r"Corrupt: .*a frame of \d+ bytes came as \d+"),
                ("frame = frame[:100]", r"Corrupt: .*these bytes are not a frame"),
                ("frame[0] ^= 1", r"Corrupt: .*these bytes are not a frame"),
                ("frame = frames[0]", r"ValueError: .*a frame of epoch 0, .* came in the place of")):
            with self.subTest(change=change):
                wrong = f"""
take, frames = armada.Cluster._made, []
def take_wrong(self, group):
    made = take(self, group)
    frame = self._session._ray.get(made.frames[0]).copy()
    frames.append(frame)
    if len(frames) == 5:
        {change}
    made.frames = [self._session.put(frame)]
    return made
armada.Cluster._made = take_wrong
"""
                line = self.train_wrongly(wrong)
                self.assertRegex(line, error)
                self.assertRegex(line, r"compute-0 on \S+, the gradients of epoch 0, state \d, pass 0, batch \d+: ")

    def test_an_object_store_without_room_ends_the_run_with_what_needs_it(self):
        small = """
start = armada.Cluster._start
def start_small(self):
    start(self)
    self._session.store = self._shared() + 100
armada.Cluster._start = start_small
"""
        self.assertRegex(self.train_wrongly(small),
                         r"OverBudget: batch-0 on \S+, epoch 0, state 0, pass 0, batch 0: the object store of \S+ has "
                         r"no room for a step, which needs \S+: parameters, gradients and small objects \S+, 2 frames "
                         r"of a step \S+;")

    def test_disks_without_room_for_the_object_store_end_the_run_before_it_begins(self):
        full = 'shutil = armada.shutil\n' \
               'shutil.disk_usage = lambda where: shutil._ntuple_diskusage(1 << 30, 1 << 30, 1 << 20)'
        self.assertRegex(self.train_wrongly(full),
                         r"OverBudget: Ray's object store of \d+\.\dMiB has no room: /dev/shm has 1\.0MiB, /\S+ has "
                         r"1\.0MiB free; less memory, or a larger disk by TMPDIR")

    def test_nodes_that_join_and_leave_a_cluster_change_no_bit(self):
        meet = self.at / "meet"
        meet.mkdir()
        self.addCleanup(lambda: shutil.rmtree(meet))
        text = """
import json, os, pathlib, shutil, subprocess, sys, time
temporary = os.environ["TMPDIR"]
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 64, RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=temporary)
os.mkdir(temporary + "/ray")
import ray
from ray.cluster_utils import Cluster
if __name__ == "__main__":
    small = {"object_store_memory": 100 << 20, "include_dashboard": False}
    checks = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000,
              "health_check_failure_threshold": 3}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "temp_dir": temporary + "/r",
                                                            "_system_config": checks, **small})
    meet, flags = pathlib.Path(sys.argv[2]), json.dumps({**json.loads(sys.argv[3]), "address": cluster.address})
    driver = subprocess.Popen([sys.executable, sys.argv[1], "null", flags], stdout=subprocess.PIPE)
    node = None
    while driver.poll() is None:
        for name in ("join", "leave"):
            if (meet / name).exists():
                (meet / name).unlink()
                if name == "join":
                    node = cluster.add_node(num_cpus=1, **small)
                else:
                    cluster.remove_node(node, allow_graceful=False)
                (meet / "done").touch()
        time.sleep(0.05)
    print(driver.stdout.read().decode())
    cluster.shutdown()
    shutil.rmtree(temporary + "/ray")
    shutil.rmtree(temporary + "/r")
    sys.exit(driver.returncode)
"""
        other = self.at / "trainer.py"
        other.write_text(TRAIN.replace('    if fault and number == fault[2]:\n', f"""
    armada.DUPLICATE_SECONDS = armada.REPLACE_SECONDS = armada.CLUSTER_SECONDS = 60 # no worker is late
    if number in (5, 12):
        import pathlib, time
        meet = pathlib.Path({str(meet)!r})
        (meet / ("join" if number == 5 else "leave")).touch()
        while not (meet / "done").exists():
            time.sleep(0.05)
        (meet / "done").unlink()
        while number == 5 and any(slot.away for slot in self._batch):
            time.sleep(0.05)
            self._look_after_away()
        while number == 12 and os.path.exists("/proc/" + str(processes["batch-2"])):
            time.sleep(0.05)
        if number == 12:
            kept = {{group for group, requests in self._frames.items() if requests[-1].name != "batch-2"}}
            submit = self._submit
            def submit_lost(group):
                assert group not in kept, group # it is there, or somebody makes it
                submit(group)
            self._submit = submit_lost
    if fault and number == fault[2]:
"""))
        flags = {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"), "out": str(self.at / "run"),
                 "threads": 1, "local": "3x1", "epochs": 6}
        for construct in ("local", "remote"):
            with self.subTest(construct=construct):
                expected = self.train(epochs=6, construct=construct)
                found = json.loads(self.run_python(text, other, meet,
                                                   json.dumps({**flags, "construct": construct})).stdout)
                for key in ("hash", "losses", "test"):
                    self.assertEqual(found[key], expected[key])
                self.assertEqual(set(found["processes"]), {"compute-0", "batch-0", "batch-1", "batch-2"})
                self.assertGreater(found["frames"]["batch-2"], 0)
                warnings = "\n".join(found["warnings"])
                self.assertRegex(warnings, r"room for 3 of 4 processes: 1 batch workers join once there is more")
                self.assertRegex(warnings, r"batch-2 on \S+ (died|has not answered)")

    def train_on_a_cluster_whose_head_ends(self, how):
        """Trains, and calls a function of the head's node at step 5. Returns how the driver ended, and its errors."""
        text = f"""
import json, os, pathlib, shutil, subprocess, sys, time
temporary = os.environ["TMPDIR"]
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 64, RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=temporary)
os.mkdir(temporary + "/ray")
import ray
from ray.cluster_utils import Cluster
if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 3, "temp_dir": temporary + "/r",
                      "object_store_memory": 100 << 20, "include_dashboard": False}})
    flags = json.dumps({{**json.loads(sys.argv[3]), "address": cluster.address}})
    driver = subprocess.Popen([sys.executable, sys.argv[1], "null", flags], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
    while driver.poll() is None and not os.path.exists(sys.argv[2]):
        time.sleep(0.05)
    cluster.head_node.{how}
    errors = driver.communicate()[1].decode()
    print(json.dumps([driver.returncode, errors]))
    cluster.shutdown()
    shutil.rmtree(temporary + "/ray")
    shutil.rmtree(temporary + "/r")
"""
        other, begun = self.at / "headless.py", self.at / "begun"
        begun.unlink(missing_ok=True)
        other.write_text(TRAIN.replace("    if fault and number == fault[2]:\n", f"""
    armada.HEAD_SECONDS = 1
    if number == 5:
        open({str(begun)!r}, "w").close()
    if fault and number == fault[2]:
"""))
        flags = {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"), "out": str(self.at / "run"),
                 "threads": 1, "local": "2x1", "epochs": 2000, "eval_every": 0}
        return json.loads(self.run_python(text, other, begun, json.dumps(flags)).stdout)

    def test_a_head_that_ends_ends_the_run_with_one_error(self):
        code, errors = self.train_on_a_cluster_whose_head_ends("kill_gcs_server()")
        self.assertEqual(code, 1, errors)
        self.assertRegex(errors.splitlines()[-1], r"Error: the head of the Ray cluster at \S+ does not answer \(.+\): "
                                                  r"start the cluster again, and resume continues")
        code, errors = self.train_on_a_cluster_whose_head_ends("kill_raylet()")
        self.assertNotEqual(code, 0, errors)
        # Whether Ray or the driver notices it first is a matter of time.
        self.assertRegex(errors.splitlines()[-1], r"^error: gneiss-armada has ended with its connection to the Ray "
                                                  r"cluster at \S+, which is gone, or was killed: --resume continues|"
                                                  r"Error: Ray's node on this machine has ended: start it again")

    def test_a_cluster_that_runs_takes_the_holder_of_its_token_alone(self):
        text = """
import json, os, subprocess, sys
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 64, RAY_USAGE_STATS_ENABLED="0")
import ray
if __name__ == "__main__":
    ray.init(address="local", num_cpus=8, object_store_memory=128 << 20, include_dashboard=False, log_to_driver=False,
             _temp_dir=os.environ["TMPDIR"] + "/r")
    address = ray.get_runtime_context().gcs_address
    for token in ("a" * 64, "b" * 64):
        flags = json.dumps({**json.loads(sys.argv[2]), "address": address})
        done = subprocess.run([sys.executable, sys.argv[1], "null", flags], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "RAY_AUTH_TOKEN": token})
        print(json.dumps([done.returncode, done.stdout, done.stderr]))
    ray.shutdown()
    import shutil
    shutil.rmtree(os.environ["TMPDIR"] + "/r")
"""
        flags = {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"), "out": str(self.at / "run"),
                 "threads": 1}
        expected = self.train()
        other = self.at / "trainer.py"
        other.write_text(TRAIN)
        right, wrong = map(json.loads, self.run_python(text, other, json.dumps(flags)).stdout.splitlines())
        self.assertEqual(right[0], 0, right[2])
        self.assertEqual(json.loads(right[1])["hash"], expected["hash"])
        self.assertEqual(len(json.loads(right[1])["processes"]), 5) # as many as logical ones
        self.assertEqual(wrong[0], 1)
        self.assertRegex(wrong[2].splitlines()[-1], r"^gneiss_graph\._errors\.Error: cannot use the Ray cluster at ")

    def test_without_ray_a_sentence_says_how_to_get_it(self):
        text = ("import importlib.metadata as m, sys\n"
                "def version(name):\n    raise m.PackageNotFoundError(name)\n"
                "m.version = version\n" + TRAIN.lstrip())
        flags = {**FLAGS, "dataset": str(self.at / "classes"), "out": str(self.at / "none"), "local": "1x1"}
        done = self.run_python(text, "null", json.dumps(flags), code=1)
        self.assertEqual(done.stderr.splitlines()[-1].split(": ", 1)[1],
                         "local and address need Ray, which drives the workers: pip install gneiss-graph[armada]")
        self.assertFalse((self.at / "none").exists())
        with self.assertRaisesRegex(AssertionError, r"error: --local and --address need Ray.*gneiss-graph\[armada\]"):
            program("armada", "train", self.at / "classes", "--local", "1x1", "--out", self.at / "none")

    def test_counts_that_are_none(self):
        text = ("import gneiss_graph as gn, sys\n"
                "gn.train(sys.argv[1], program='armada', local=sys.argv[2], quiet=True)\n")
        for local in ("3", "x", "0x0", "1x0", "1x", "2x2x2", "a x b"):
            with self.subTest(local=local):
                done = self.run_python(text, self.at / "classes", local, code=1)
                self.assertRegex(done.stderr.splitlines()[-1], r"^ValueError: local .*: two numbers up to 1024")

    def test_the_command_of_the_package_trains_and_a_stopped_run_resumes(self):
        command = "import sys\nfrom gneiss_graph._programs import main\nsys.argv[0] = 'gneiss-armada'\nmain()\n"
        words = ["train", self.at / "classes", "--out", self.at / "command", "--local", "2x1"]
        words += ["--layers", "sage:16,sage"] + [part for name, value in FLAGS.items() if value is not True
                  for part in ("--" + name.replace("_", "-"), value)]
        done = self.run_python(command, *words, "--json")
        record = json.loads(done.stdout)
        self.assertEqual(record["weights_sha256"], self.train()["hash"])
        keep = "    seen.append(1)\n"
        stop = TRAIN.replace(keep, keep + "    if len(seen) == 2: raise KeyboardInterrupt\n")
        flags = {**FLAGS, "layers": "sage:16,sage", "dataset": str(self.at / "classes"), "local": "1x1",
                 "out": str(self.at / "stopped")}
        self.run_python(stop, "null", json.dumps(flags), code=-signal.SIGINT)
        resumed = self.train(out=str(self.at / "stopped"), resume=True, force=None, local="2x2")
        self.assertEqual(resumed["hash"], record["weights_sha256"])


if __name__ == "__main__":
    unittest.main()
