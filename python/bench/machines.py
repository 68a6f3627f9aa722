# SPDX-License-Identifier: Apache-2.0
"""Machines of a Ray cluster, on one machine: network namespaces at one switch, whose links have a rate. Needs root.

Everything is made in namespaces of the calling process, which `enter` makes: processes, links and files end with it,
after a kill, too.
"""
import contextlib
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path("/mnt") # of all machines; sockets need a short name
PORT = 6379


def enter():
    """Starts the calling program again in namespaces of its own, unless it is there."""
    if os.getpid() == 1:
        call("ip", "link", "set", "lo", "up")
        return
    if os.geteuid() != 0:
        sys.exit("error: machines are network namespaces, which need root")
    os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc",
                          sys.executable, *sys.argv])


def call(*words):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)


class Switch:
    """A switch with machines 1, 2, … at it. Precondition: `enter`."""

    def __init__(self, machines, rate="1gbit"):
        for where in (FOLDER, "/dev/shm"):
            call("mount", "-t", "tmpfs", "none", where)
        call("ip", "link", "add", "switch", "type", "bridge")
        call("ip", "link", "set", "switch", "up")
        self.machines = [Machine(number, rate) for number in range(1, machines + 1)]

    def __getitem__(self, number):
        return self.machines[number - 1]

    def close(self):
        for machine in self.machines:
            machine.end()
        call("ip", "link", "del", "switch")
        for where in ("/dev/shm", FOLDER):
            call("umount", "--lazy", where)


@contextlib.contextmanager
def cluster(machines, rate="1gbit", cpus=4, store=200 << 20, later=0):
    """Machines with Ray: its head is on machine 1, which runs the driver and no worker; the others have `cpus`. The
    last `later` of them have no Ray yet."""
    made = Switch(machines, rate)
    try:
        made[1].start_ray(0, store)
        for machine in made.machines[1:machines - later]:
            machine.start_ray(cpus, store)
        yield made
    finally:
        made.close()


class Machine:
    """A network namespace, with the processes in it."""

    token = secrets.token_hex(32)

    def __init__(self, number, rate):
        self.number, self.address = number, f"10.77.0.{number}"
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        while self._namespace(self._holder.pid) == self._namespace(os.getpid()):
            time.sleep(0.01)
        call("ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", f"link{number}")
        call("ip", "link", "set", f"port{number}", "master", "switch", "up")
        call("ip", "link", "set", f"link{number}", "netns", self._holder.pid)
        for words in ("ip link set lo up", f"ip addr add {self.address}/24 dev link{number}",
                      f"ip link set link{number} up",
                      f"ip route add default dev link{number}", # by which Ray finds its address
                      f"tc qdisc add dev link{number} root tbf rate {rate} burst 256kb latency 20ms"):
            call(*self._inside(), *words.split())

    def start(self, *words, **environment):
        """Starts a program on the machine."""
        return subprocess.Popen([*self._inside(), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, **self.environment(), **environment})

    def environment(self):
        """Variables of Ray's processes and of drivers."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "RAY_USAGE_STATS_ENABLED": "0",
                "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "TMPDIR": str(FOLDER)}

    def start_ray(self, cpus, store):
        """Starts the machine's part of the cluster, and returns once it is there."""
        self._ray = cpus, store
        head = self.number == 1
        where = ["--head", f"--port={PORT}", "--include-dashboard=false", "--system-config",
                 '{"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, '
                 '"health_check_failure_threshold": 3, "object_manager_pull_timeout_ms": 3000}'] \
            if head else [f"--address=10.77.0.1:{PORT}"]
        call(*self._inside(), "env", *(f"{name}={value}" for name, value in self.environment().items()),
             sys.executable, "-m", "ray.scripts.scripts", "start", *where, f"--node-ip-address={self.address}",
             f"--num-cpus={cpus}", f"--object-store-memory={store}", f"--resources={{\"machine{self.number}\": 1}}",
             f"--temp-dir={FOLDER / str(self.number)}", "--disable-usage-stats")

    def cut(self):
        """Takes the link away."""
        call("ip", "link", "set", f"port{self.number}", "down")

    def mend(self):
        """Brings the link back, and starts Ray again: it ends on a machine that was away for too long."""
        call("ip", "link", "set", f"port{self.number}", "up")
        self.kill()
        self.start_ray(*self._ray)

    def leave(self):
        """Ends the machine's part of the cluster as `ray stop` does: it says so. Then kills what is left."""
        raylets = [process for process in self._processes() if _name(process) == "raylet"]
        for process in raylets:
            os.kill(process, signal.SIGTERM)
        end = time.monotonic() + 10
        while any(process in self._processes() for process in raylets) and time.monotonic() < end:
            time.sleep(0.02)
        self.kill()

    def kill(self, but=()):
        """Kills all processes of the machine, without those of `but` and their children."""
        kept = {self._holder.pid, *but}
        for process, parent in sorted(parents().items()):
            if parent in kept - {self._holder.pid}:
                kept.add(process)
        for process in self._processes():
            if process not in kept:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def end(self):
        """Kills the machine, and takes its link away."""
        self.kill()
        call("ip", "link", "del", f"port{self.number}")
        self._holder.kill()
        self._holder.wait()

    def _processes(self):
        return [process for process in parents() if self._namespace(process) == self._namespace(self._holder.pid)]

    def _inside(self):
        return ["nsenter", "--target", str(self._holder.pid), "--net"]

    @staticmethod
    def _namespace(process):
        try:
            return os.readlink(f"/proc/{process}/ns/net")
        except OSError:
            return None


def _name(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""


def parents():
    """Returns the parent of each process of this machine."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
                found[int(entry)] = int(re.sub(r".*\) \S+ ", "", text, flags=re.S).split()[0])
    return found
