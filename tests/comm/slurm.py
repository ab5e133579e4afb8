"""slurm.py -- a run under Slurm that loses ranks and nodes ends with the bits of one undisturbed process.

    slurm.py PLIMSOLL WORK_FOLDER

Starts a Slurm of two virtual nodes on loopback, submits scripts/slurm/train.sbatch, and while it trains kills a
rank, stops a rank and kills a node's daemon; each time the job is requeued and continues. Then the run goes on
with one rank and with four. Prints how long each loss took to be noticed. Needs root, slurmctld, munged and
Open MPI (scripts/setup_mpi.sh installs them); skipped (77) where they are missing.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import rank_runs
from rank_runs import ROOT, SKIPPED, Checks, checkpoint, digest, mpis, newest, sets, wait_until

PATIENCE, SAVE_EVERY, HELD_BACK = 2, 10, 3                   # seconds, steps, seconds
NODES = ("v0", "v1")
# steps at the end of each part; a loss happens once the newest checkpoint is that far
KILL_AT, STOP_AT, NODE_AT, BATCH_END, FEWER_END, MORE_END = 20, 50, 80, 120, 130, 140
MODEL = ["dit3d-small"] + sets("batch=1", "accumulate=4", f"save.every={SAVE_EVERY}", "save.keep=2", "schedule.steps=400")
COMMON = ["--allow", "none", "--threads", "1", "--backend", "builtin", "--patience", str(PATIENCE)]
checks = Checks()
os.environ["PATH"] += ":/usr/sbin:/sbin"


def lacking(program):
    if os.geteuid():
        return "not root"
    missing = [tool for tool in ("slurmctld", "slurmd", "munged", "srun", "sbatch") if not shutil.which(tool)]
    if missing:
        return f"no {', '.join(missing)} here (scripts/setup_mpi.sh installs Slurm)"
    return None if "openmpi" in mpis(program) else rank_runs.missing_mpis(program)


class Slurm:
    """A Slurm of its own below `root`: daemons, keys and logs; ended by the pid files it wrote."""

    def __init__(self, root, port):
        self.root, self.port = root, port
        self.host = os.uname().nodename.split(".")[0]
        for folder in ("state", "log", "munge", *(f"{kind}/{node}" for kind in ("spool", "tmp") for node in NODES)):
            os.makedirs(f"{root}/{folder}")
        os.chmod(f"{root}/munge", 0o700)
        os.environ["SLURM_CONF"] = self.configure()

    def configure(self):
        nodes = "".join(f"NodeName={name} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={self.port + 10 + i} CPUs=4 State=UNKNOWN\n"
                        for i, name in enumerate(NODES))
        root = self.root
        text = f"""ClusterName=virtual
SlurmctldHost={self.host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={self.port}
AuthType=auth/munge
AuthInfo=socket={root}/munge/s
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld
SlurmdLogFile={root}/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2
MpiDefault=pmix
TmpFS={root}/tmp/%n
ReturnToService=2
SlurmdTimeout=4
KillWait=2
InactiveLimit=0
JobRequeue=1
MinJobAge=60
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
{nodes}PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""
        with open(f"{root}/slurm.conf", "w") as file:
            file.write(text)
        return f"{root}/slurm.conf"

    def start(self):
        munge = f"{self.root}/munge"
        with open(f"{munge}/key", "wb", opener=lambda path, flags: os.open(path, flags, 0o400)) as file:
            file.write(os.urandom(1024))
        subprocess.run(["munged", "--force", "--socket", f"{munge}/s", "--key-file", f"{munge}/key", "--log-file",
                        f"{munge}/log", "--pid-file", f"{munge}/pid", "--seed-file", f"{munge}/seed"], check=True,
                       capture_output=True)
        subprocess.run(["slurmctld", "-c"], check=True, capture_output=True)
        for name in NODES:
            self.start_node(name)
        return wait_until(lambda: asked("sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(NODES)), 20)

    def start_node(self, name):
        subprocess.run(["slurmd", "-N", name], check=True, capture_output=True)

    def kill_daemon(self, name):
        os.kill(int(open(f"{self.root}/slurmd-{name}.pid").read()), signal.SIGKILL)

    def end(self):
        """Daemons, and what they started and lost."""
        asked("scancel", "--full", "-u", "root")
        for how in (signal.SIGTERM, signal.SIGKILL):
            wait_until(lambda: not asked("squeue", "-h") or how == signal.SIGKILL, 10)
            for pid in self.processes():
                os.kill(pid, how)
            wait_until(lambda: not self.processes(), 5)
        shutil.rmtree(self.root, ignore_errors=True)

    def processes(self):
        """Those with this Slurm's folder in their environment, this test apart."""
        return [pid for pid, _, environment in processes() if self.root.encode() in environment and pid != os.getpid()]


def processes():
    """Process id, command line and environment of all that may be read and still run."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            environment = open(f"/proc/{entry}/environ", "rb").read()
            if environment:
                found.append((int(entry), open(f"/proc/{entry}/cmdline", "rb").read().split(b"\0"), environment))
        except (OSError, ValueError):
            pass
    return found


def asked(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def ranks(run, node):
    """Process ids of the ranks of a run on a node."""
    return [pid for pid, words, environment in processes()
            if os.path.basename(words[0]) == b"plimsoll" and run.encode() in words
            and f"SLURMD_NODENAME={node}\0".encode() in environment]


class Job:
    def __init__(self, program, run, log):
        self.run, self.log, self.seen, self.pending = run, log, 0, None
        done = rank_runs.run(["sbatch", "--parsable", "-N", "1-2", "-o", log, "scripts/slurm/train.sbatch", run, *MODEL,
                              "--steps", str(BATCH_END), *COMMON],
                             env=dict(os.environ, PLIMSOLL=program, OMPI_MCA_btl="self,tcp"))
        self.id = done.stdout.strip()
        checks(done.returncode == 0, f"sbatch: {done.stderr.strip()}")

    def text(self):
        """What the job has printed since the last loss."""
        try:
            return open(self.log).read()[self.seen:]
        except OSError:
            return ""

    def state(self):
        return asked("squeue", "-h", "-j", self.id, "-o", "%T")

    def started(self):
        """Slurm holds a requeued job back for two minutes: here only until the step before is cleared away."""
        if self.state() != "PENDING":
            self.pending = None
        elif not self.pending:
            self.pending = time.time()
        elif time.time() - self.pending > HELD_BACK:
            asked("scontrol", "update", f"JobId={self.id}", "StartTime=now")
        return re.search(r"(\d+) ranks on (\S+), start", self.text())

    def comes_to(self, step, node):
        if not checks(wait_until(lambda: self.started() and newest(self.run) >= step and ranks(self.run, node), 240),
                      f"the run did not come to step {step} on {node}: {self.text()[-600:]}"):
            sys.exit(1)

    def loses(self, step, node, how, says):
        """Once it is past the step, the rank on that node is lost; how long until the log says it."""
        self.comes_to(step, node)
        self.seen += len(self.text())
        for pid in ranks(self.run, node):
            os.kill(pid, how)
        took = wait_until(lambda: re.search(says, self.text()), 240)
        checks(took is not None, f"'{says}' was not said: {self.text()[-600:]}")
        return took or -1


def main():
    program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    why = lacking(program)
    if why:
        print("skipped:", why)
        return SKIPPED
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    root = tempfile.mkdtemp(prefix="plimsoll-slurm-")          # short: sockets lie in it
    slurm = Slurm(root, 20000 + os.getpid() % 20000)
    try:
        if not slurm.start():
            print(f"skipped: no Slurm could be started here: {asked('tail', '-3', f'{root}/log/slurmctld')}")
            return SKIPPED
        lose_and_go_on(program, work, slurm)
    finally:
        slurm.end()
    print(f"{checks.n} checks, {checks.failed} failed")
    return 1 if checks.failed else 0


def lose_and_go_on(program, work, slurm):
    run, alone = f"{work}/run", f"{work}/alone"
    reference = subprocess.Popen([program, "train", *MODEL, "--steps", str(MORE_END), *COMMON, "--quiet", "--out", alone],
                                 cwd=ROOT, stdout=subprocess.DEVNULL)
    job = Job(program, run, f"{work}/job.log")
    took = job.loses(KILL_AT, "v1", signal.SIGKILL, "the step ended with")
    print(f"a killed rank: all ended after {took:.1f} s")
    took = job.loses(STOP_AT, "v1", signal.SIGSTOP, r"rank 1 on v1\s+has\s+been\s+silent.*\s+in\s+step\s+\d+")
    print(f"a stopped rank: named after {took:.1f} s (patience {PATIENCE} s)")
    job.comes_to(NODE_AT, "v1")
    for node in NODES:                                         # they wait, so that the run cannot end before
        for pid in ranks(run, node):
            os.kill(pid, signal.SIGSTOP)
    slurm.kill_daemon("v1")
    job.seen += len(job.text())
    took = wait_until(job.started, 300)
    for pid in ranks(run, "v1"):                               # its daemon is not there to do it
        os.kill(pid, signal.SIGKILL)
    print(f"a node's daemon killed: running without it after {took or -1:.1f} s (SlurmdTimeout 4 s)")
    checks(took and job.started().group(1, 2) == ("1", "v0"), f"not on the node that is left: {job.text()[-600:]}")
    checks(wait_until(lambda: job.state() in ("", "COMPLETED"), 300), "the job did not end")
    checks(newest(run) == BATCH_END, f"the run ended at step {newest(run)}: {job.text()[-600:]}")
    slurm.start_node("v1")
    wait_until(lambda: asked("sinfo", "-h", "-t", "idle", "-o", "%D") == "2", 20)
    for n, nodes, end in ((1, 1, FEWER_END), (4, 2, MORE_END)):
        done = rank_runs.run(["srun", "--mpi=pmix", "-N", str(nodes), "-n", str(n), program, "train", "--resume", run,
                              "--steps", str(end), "--quiet", "--patience", "60"], env=dict(os.environ, OMPI_MCA_btl="self,tcp"))
        checks(done.returncode == 0, f"{n} ranks: exit {done.returncode}: {done.stderr[-600:]}")
    checks(reference.wait(300) == 0, "the undisturbed run failed")
    checks(digest(checkpoint(run, MORE_END)) == digest(checkpoint(alone, MORE_END)), "not the bits of one process")


sys.exit(main())
