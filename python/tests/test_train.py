# SPDX-License-Identifier: Apache-2.0
"""Training by functions equals the programs' bits; interruption, warnings, output and errors are Python's."""
import functools
import os
import signal
import threading
import unittest
import warnings

import gneiss_graph as gn
from support import Case, program, python

COMMON = {"epochs": 3, "batch": 16, "threads": 2, "eval_every": 1, "memory": "1GiB"}
TRAINERS = {
    "marius": ("marius", "links", {"staleness": 0, "dim": 8}),
    "mariusgnn-link": ("mariusgnn", "links",
                       {"staleness": 0, "task": "link", "dim": 8, "layers": "sage:8", "fanout": [5]}),
    "mariusgnn-node": ("mariusgnn", "classes", {"staleness": 0, "layers": "sage", "fanout": [5]}),
    "hanoi": ("hanoi", "classes", {"staleness": 0, "layers": "sage", "fanout": 5}),
    "joestar": ("joestar", "classes", {"layers": "sage", "fanout": 5, "batch": 40, "macro": 60}),
    "armada": ("armada", "classes", {"layers": "sage", "fanout": 5, "replicas": 2}),
    "ginex": ("ginex", "classes", {"layers": "sage", "fanout": "5"}),
}


def words_of(flags):
    for name, value in flags.items():
        yield "--" + name.replace("_", "-")
        yield value[0] if isinstance(value, list) else value


class Training(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = {}

    def expect(self, case):
        """Bits of the program with the case's flags."""
        if case not in self.expected:
            name, data, flags = TRAINERS[case]
            out = self.at / f"program-{case}"
            program(name, "train", self.at / data, *words_of({**COMMON, **flags}), "--out", out, "--quiet")
            self.expected[case] = self.bits_of(out)
        return self.expected[case]

    def train(self, case, out, **more):
        name, data, flags = TRAINERS[case]
        return gn.train(self.at / data, program=name, out=out, quiet=True, **{**COMMON, **flags, **more})

    def test_two_calls_in_turn_equal_the_programs(self):
        for case in TRAINERS:
            for turn in range(2):
                with self.subTest(case=case, turn=turn):
                    seen = []
                    run = self.train(case, self.at / f"{case}-{turn}", on_epoch=seen.append)
                    self.assertEqual(run.status, "done")
                    self.assertEqual(self.bits_of(run.path), self.expect(case))
                    self.assertEqual([epoch["epoch"] for epoch in seen], [1, 2, 3])
                    self.assertEqual([epoch["loss"] for epoch in seen], [epoch["loss"] for epoch in run.epochs])

    def test_two_calls_on_two_threads_equal_the_programs(self):
        for case in TRAINERS:
            with self.subTest(case=case):
                failed = []

                def work(out):
                    try:
                        self.train(case, out)
                    except BaseException as error: # of a thread, for the test
                        failed.append(error)

                outs = [self.at / f"{case}-thread{i}" for i in range(2)]
                threads = [threading.Thread(target=work, args=(out,)) for out in outs]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(failed, [])
                for out in outs:
                    self.assertEqual(self.bits_of(out), self.expect(case))

    def test_python_runs_while_a_call_trains(self):
        ticks, done = [], threading.Event()

        def tick():
            while not done.wait(0.001):
                ticks.append(len(seen))

        seen = []
        thread = threading.Thread(target=tick)
        thread.start()
        self.train("marius", self.at / "ticking", on_epoch=seen.append)
        done.set()
        thread.join()
        self.assertIn(1, ticks) # between the first epoch and the second

    def interrupted(self, case, act, code):
        """Trains in another process, which acts on itself after the second epoch, and resumes here."""
        name, data, flags = TRAINERS[case]
        out = self.at / f"{case}-{act.split('.')[-1].split('(')[0]}-{code}"
        given = {**COMMON, **flags, "checkpoint_every": "1epoch"}
        said = python(f"""
def after(epoch):
    if epoch["epoch"] == 2:
        {act}
try:
    gn.train(sys.argv[1], program={name!r}, out=sys.argv[2], quiet=True, on_epoch=after, **{given!r})
except KeyboardInterrupt as stopped:
    print(stopped)
    sys.exit(130)
""", self.at / data, out, code=code)
        with self.assertRaises(gn.NotFound) if code < 0 else self.subTest():
            self.assertEqual(gn.Run(out).status, "interrupted")
        self.assertEqual(gn.train(self.at / data, program=name, out=out, resume=True, quiet=True).status, "done")
        self.assertEqual(self.bits_of(out), self.expect(case))
        return out, said

    def test_control_c_saves_and_a_resumed_run_ends_with_the_same_bits(self):
        for case in TRAINERS:
            with self.subTest(case=case):
                out, said = self.interrupted(case, "os.kill(os.getpid(), signal.SIGINT)", 130)
                self.assertEqual(said[1], "")
                self.assertIn(f'its state is in {out}: train(…, out="{out}", resume=True) continues it', said[0])

    def test_after_kill_9_a_resumed_run_ends_with_the_same_bits(self):
        for case in TRAINERS:
            with self.subTest(case=case):
                self.interrupted(case, "os.kill(os.getpid(), signal.SIGKILL)", -9)

    def test_an_exception_of_on_epoch_saves_and_is_raised(self):
        def fail(epoch):
            raise LookupError("planted")

        out = self.at / "raising"
        with self.assertRaisesRegex(LookupError, "planted"):
            self.train("marius", out, on_epoch=fail)
        self.assertEqual(gn.Run(out).status, "interrupted")
        self.train("marius", out, resume=True)
        self.assertEqual(self.bits_of(out), self.expect("marius"))

    def test_handlers_of_python_stay_and_may_let_training_go_on(self):
        met = []
        before = signal.signal(signal.SIGINT, lambda *_: met.append(1))
        try:
            handler = signal.getsignal(signal.SIGINT)
            run = self.train("marius", self.at / "handled",
                             on_epoch=lambda epoch: epoch["epoch"] == 1 and signal.raise_signal(signal.SIGINT))
            self.assertIs(signal.getsignal(signal.SIGINT), handler)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual((met, run.status), ([1], "done"))

    def test_a_finished_run_is_returned_and_an_existing_one_is_refused(self):
        out = self.at / "finished"
        first = self.train("marius", out)
        self.assertEqual(self.train("marius", out, resume=True).metrics, first.metrics)
        with self.assertRaisesRegex(ValueError, "exists"):
            self.train("marius", out)
        self.assertEqual(self.train("marius", out, force=True).status, "done")

    def test_quiet_calls_print_nothing_and_start_no_process(self):
        for name, data, flags in TRAINERS.values():
            given = {**COMMON, **flags}
            said = python(f"""
import resource
gn.train(sys.argv[1], program={name!r}, out=sys.argv[2], quiet=True, **{given!r})
run = gn.Run(sys.argv[2])
run.predict(quiet=True, **({{"head": "node1", "relation": "ring0"}} if "links" in sys.argv[1] else {{}}))
assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss == 0
try:
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    raise SystemExit(f"a process was started: {{found}}")
except ChildProcessError:
    pass
""", self.at / data, self.at / f"quiet-{name}-{data}")
            self.assertEqual(said, ("", ""))

    def test_lines_about_progress_go_to_stderr_of_python(self):
        said = python("""
import io
sys.stderr = io.StringIO()
gn.train(sys.argv[1], program="marius", out=sys.argv[2], epochs=1, dim=8, memory="1GiB")
assert "epoch 1" in sys.stderr.getvalue(), sys.stderr.getvalue()
""", self.at / "links", self.at / "talking")
        self.assertEqual(said, ("", ""))

    def test_warnings_are_those_of_python_and_of_the_run(self):
        def stop(epoch):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.train("marius", self.at / "cut", on_epoch=stop)
        with self.assertWarnsRegex(UserWarning, "training has not finished") as met:
            run = self.train("marius", self.at / "warm", warm_start=self.at / "cut")
        self.assertEqual(run.warnings, [str(met.warning)])
        self.assertTrue(met.filename.endswith("test_train.py"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.train("marius", self.at / "next")
            with self.assertRaisesRegex(UserWarning, "training has not finished"):
                self.train("marius", self.at / "strict", warm_start=self.at / "cut")


class Errors(Case):
    def train(self, **flags):
        return gn.train(self.at / "links", **{"program": "marius", "out": self.at / "none", "quiet": True, **flags})

    def test_an_unknown_flag_is_a_type_error_with_the_nearest_name(self):
        with self.assertRaisesRegex(TypeError, "no keyword 'epoch'; did you mean 'epochs'"):
            self.train(epoch=3)
        with self.assertRaisesRegex(TypeError, "did you mean 'on_epoch'"):
            self.train(on_epochs=print)
        with self.assertRaisesRegex(TypeError, "no keyword 'dry_run'"):
            self.train(dry_run=True)

    def test_a_wrong_value_is_a_value_error_that_names_it(self):
        for flags, text in (({"epochs": 0}, "epochs: 0 is less than 1"),
                            ({"lr": "fast"}, "lr: "),
                            ({"decoder": "distmul"}, "decoder: 'distmul' is not one of .*; did you mean distmult"),
                            ({"program": "mars"}, "program is 'mars'"),
                            ({"memory": "1 lot"}, "memory: ")):
            with self.subTest(flags=flags), self.assertRaisesRegex(ValueError, text):
                self.train(**flags)
        with self.assertRaisesRegex(TypeError, "lr is a dict"):
            self.train(lr={})
        self.assertFalse((self.at / "none").exists())

    def test_training_that_diverges_is_an_error_of_its_own(self):
        for program, data, flags in (("marius", "links", {"dim": 8}), ("armada", "classes", {"layers": "sage"})):
            with self.subTest(program=program), self.assertRaisesRegex(gn.NotFinite, "training diverged; lower lr"):
                gn.train(self.at / data, program=program, out=self.at / "diverged", force=True, quiet=True, lr=1e30,
                         memory="1GiB")

    def test_too_little_memory_names_its_parts(self):
        def check(call, memory, *parts):
            with self.assertRaises(gn.OverBudget) as met:
                call(out=self.at / "none", memory=memory, quiet=True)
            self.assertEqual(met.exception.budget, memory)
            self.assertLessEqual(set(parts or ["program"]), set(met.exception.parts))
            self.assertEqual(met.exception.needed, sum(met.exception.parts.values()))
            self.assertGreater(met.exception.needed, met.exception.budget)
            return str(met.exception)

        check(functools.partial(gn.import_edges, self.at / "train.tsv"), 1 << 20)
        for name, data, budget in (("marius", "links", 14 << 20), ("mariusgnn", "classes", 14 << 20),
                                   ("ginex", "classes", 14 << 20), ("hanoi", "classes", 14 << 20),
                                   ("hanoi", "classes", 4 << 20)):  # refused by the plan, or when it partitions
            with self.subTest(name, budget=budget):
                train = functools.partial(gn.train, self.at / data, program=name, force=True)
                self.assertIn("what helps: a larger memory", check(train, budget))
        classes = functools.partial(gn.train, self.at / "classes", force=True)
        program("data", "generate", "planted", "--nodes", 100, "--edges", 500, "--classes", 3, "--task", "node",
                "--num-features", 8, "--out", self.at / "unsorted", "--quiet")
        check(functools.partial(gn.train, self.at / "unsorted", program="ginex"), 4 << 20, "sorting neighbors")
        hubs = functools.partial(classes, program="hanoi", partitioner="gap", hubs="90%")
        said = check(hubs, 1 << 20, "program", "hubs")
        self.assertIn("of 270 nodes the most that fit are 0", said)

    def test_a_missing_dataset_or_run_is_not_found(self):
        with self.assertRaises(gn.NotFound) as met:
            gn.train(self.at / "nothing", program="marius", out=self.at / "none", quiet=True)
        self.assertEqual(met.exception.path, str(self.at / "nothing"))
        with self.assertRaisesRegex(gn.NotFound, "is not a run"):
            gn.Run(self.at / "links")

    def test_a_forked_process_is_told_to_spawn(self):
        said = python("""
child = os.fork()
if child == 0:
    try:
        gn.Dataset(sys.argv[1])
    except RuntimeError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.waitpid(child, 0)
gn.Dataset(sys.argv[1])
""", self.at / "links")
        self.assertIn("spawn", said[0])


if __name__ == "__main__":
    unittest.main()
