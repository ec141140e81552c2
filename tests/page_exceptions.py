"""Lines of pages that are not run as they stand: what is run in the place of each, and why."""

from __future__ import annotations

from collections.abc import Mapping

from tests.page_blocks import SLOW, Elsewhere

CLUSTER = "needs a cluster; tests/e2e have one"
PUBLIC_TRACE = "is of a public trace; tests/health/whatif/test_whatif_published.py has it"
LAUNCHERS = "tests/arnold/options/test_real_launchers.py runs the file with the real program"

EXCEPTIONS: Mapping[str, Elsewhere] = {
    "README.md": {
        "make demo": (
            "arnold demo --save try --time-limit 0.01",
            "takes minutes; .ci/run makes the environment and runs the demo",
        ),
        "make test ": ("make -n test", "would run itself"),
        ".venv/bin/arnold place": (
            "arnold place --cluster try/cluster.csv --job try/job.yaml",
            "the environment that runs the tests may be another",
        ),
        "uv tool install '.[tables]'": ("", "takes minutes; .ci/installs tries it, and pipx"),
    },
    "docs/how-it-works/calibration.md": {
        "arnold explain": (SLOW, "takes seconds"),
        "arnold simulate": (SLOW, "takes seconds"),
        "arnold capacity minipods": (SLOW, "takes seconds"),
    },
    "docs/reference/cli.md": {
        "arnold place --cluster cluster.csv --job job.yaml --json": (
            "arnold place --cluster cluster.csv --job job.yaml --json",
            "jq may not be here",
        ),
        'eval "$(_ARNOLD': ("", "needs bash; tests/arnold/options/test_field_options.py completes words"),
        "_ARNOLD_COMPLETE=fish_source": ("", "needs fish"),
    },
    "docs/how-it-works/generations.md": {
        "arnold study generations": ("arnold study generations --trace-jobs 8 --seeds 2 --load 1", "takes a minute"),
        "arnold simulate --cluster mixed.csv": (
            "",
            "is of one's own cluster and throughputs; tests/arnold/commands/test_cli_generations.py has such",
        ),
    },
    "docs/how-it-works/health/collectives.md": {
        "arnold health collectives progress.jsonl": (
            "",
            "is of a simulated job; tests/health/collectives read such",
        ),
    },
    "docs/reference/flags.md": {
        "kubectl get nodes,events": ("", CLUSTER),
        "arnold flags sync": ("", CLUSTER),
        "arnold slurm flags": ("", "needs a controller; tests/slurm start one"),
        "arnold flags lemons": (
            "",
            "needs weeks of an accounting; tests/arnold/commands/test_cli_flag_store.py has one",
        ),
    },
    "docs/how-to/native-groups.md": {
        "podman": ("", "needs an engine and a registry"),
    },
    "docs/how-it-works/health/peers.md": {
        "arnold health watch": ("", "goes on for ever; tests/health/peers/test_peers_watch.py has a Prometheus"),
        "arnold health peers job_1_norm.csv": ("", "public data; tests/health/peers/test_peers_public_data.py has it"),
        "arnold place": (
            "arnold place --cluster cluster.csv --job job.yaml --flags flags.json",
            "is of the watch above",
        ),
    },
    "docs/how-it-works/health/recovery.md": {
        "py-spy dump": ("", "needs a job; tests/health/recovery/test_recovery_pyspy.py reads what it prints"),
        "arnold health evict": ("", "needs stacks of 512 ranks; tests/health/recovery/test_recovery_eviction.py"),
        "arnold health isolate": ("", "is of a job of 64 machines; tests/health/recovery/test_recovery_replay.py"),
        "arnold health backups": ("", "is of a job of 64 machines; tests/health/recovery/test_recovery_peers.py"),
    },
    "docs/reference/op-traces.md": {
        "arnold health op-trace torch_profile": ("", "profiles of PyTorch; tests/health/whatif make them"),
    },
    "docs/how-it-works/health/whatif.md": {
        "arnold stragglers trace-AR": ("", PUBLIC_TRACE),
        "arnold place": ("", "is of the trace above"),
    },
    "docs/reference/kubernetes.md": {
        "kubectl": ("", CLUSTER),
    },
    "docs/how-to/compare-schedulers.md": {
        "arnold compare": (
            "arnold compare --cluster cluster.csv --job job.yaml --time-limit 0.1",
            "all algorithms take half a minute",
        ),
        "arnold study fragmented": (
            "arnold study fragmented --clusters 1 --algorithm exact,slurm-tree --json",
            "takes a minute; one cluster of it is run",
        ),
        "arnold simulate": (SLOW, "takes seconds"),
        "arnold study table1": ("", "takes minutes; tests/scheduler/study have it"),
    },
    "docs/how-to/dead-nodes.md": {
        "sbatch ": ("", LAUNCHERS),
    },
    "docs/how-to/hung-job.md": {
        "ncclras": ("", "needs a job; tests/health/look has what it prints"),
        "dmesg": ("", "is of one's own nodes; tests/health/look has such"),
        "py-spy dump": ("", "needs a job; tests/health/recovery/test_recovery_pyspy.py reads what it prints"),
        "arnold health look": ("", "is of the job; tests/health/look has texts of many"),
        "arnold health evict": ("", "needs stacks of all ranks; tests/health/recovery/test_recovery_eviction.py"),
    },
    "docs/how-to/upgrade.md": {
        "kubectl": ("", CLUSTER),
    },
    "docs/how-to/kubernetes.md": {
        "arnold place --cluster kube:": ("", CLUSTER),
        "podman": ("", "needs an engine and a registry"),
        "kubectl": ("", CLUSTER),
    },
    "docs/how-to/running-jobs.md": {
        "arnold snapshot": ("", "needs Slurm; tests/arnold/commands/test_cli_snapshot.py has files"),
        "TZ=UTC sacct": ("", "needs an accounting"),
        "arnold place --cluster slurm:": ("", "needs Slurm"),
        "kubectl arnold": ("", CLUSTER),
        "arnold report": ("", "is of an accounting; tests/arnold/commands/test_cli_report.py has one"),
        "arnold score": ("", "is of a job that runs; tests/arnold/commands/test_cli_running_jobs.py has such"),
        "arnold explain": ("", "is of jobs that run; tests/arnold/commands/test_cli_running_jobs.py has such"),
        "arnold anonymise": ("", "is of the snapshot; tests/arnold/commands/test_cli_anonymise.py has one"),
    },
    "docs/how-to/slow-job.md": {
        "arnold health look": ("", "is of the job; tests/health/look has texts of many"),
        "arnold health op-trace": ("", "profiles of PyTorch; tests/health/whatif make them"),
    },
    "docs/how-to/slurm.md": {
        "scontrol": ("", "needs Slurm; the demo has what it would print"),
        "sinfo": ("", "needs Slurm; the demo has what it would print"),
        "sbatch ": ("", LAUNCHERS),
        "arnold place --cluster slurm:": ("", "needs Slurm"),
        "arnold slurm submit": ("", LAUNCHERS),
        "arnold slurm check": ("", LAUNCHERS),
        "arnold slurm queue": ("", LAUNCHERS),
        "arnold slurm page": ("", LAUNCHERS),
    },
    "docs/how-to/what-to-buy.md": {
        "arnold capacity minipods": (
            "arnold capacity minipods --price-node 300000 --cluster-nodes 256 --size 32 --grid 8x8x4 --seeds 1",
            "takes half a minute",
        ),
        "arnold capacity grow": (
            "arnold capacity grow --price-gpu-hour 2.5 --made 2x32 --shape 8x2 --days 0.5 --workloads 1",
            "takes half a minute",
        ),
        "arnold capacity fragmentation": (SLOW, "takes seconds"),
    },
    "docs/how-to/write-an-algorithm.md": {
        "uv pip install": ("", "is of a package of the reader's"),
        "arnold compare": (
            "arnold compare --cluster cluster.csv --job job.yaml --algorithm exact",
            "without that package",
        ),
        "arnold simulate": ("", "without that package"),
    },
    "docs/tutorial/first-placement.md": {
        "uv tool install '.[tables]'": ("", "takes minutes; .ci/installs tries it, and pipx"),
        "arnold demo": ("", "takes half a minute; README's tests run it"),
        "sbatch ": ("", LAUNCHERS),
        "mpirun": ("", LAUNCHERS),
        "while read -r node": (
            'while read -r node command; do test "$node" && test "$command"; done < job.torchrun',
            "needs nodes; the lines are read as they would be",
        ),
    },
    "docs/how-it-works/several-jobs.md": {
        "arnold defragment --cluster cluster.csv --running 'placement-*.json' --job new.yaml --cost": (
            "",
            "needs the age of checkpoints, which a site adds",
        ),
        "arnold defragment --cluster cluster.csv --running 'placement-*.json' --job new.yaml --moves": (
            SLOW,
            "takes seconds; the same without a number of moves is run",
        ),
    },
    "docs/how-it-works/shared-data.md": {
        "arnold place": ("arnold place --cluster cluster.csv --job new.yaml", "no job of the page runs"),
    },
    "docs/how-it-works/simulation-failures.md": {
        "arnold simulate": ("", "flags of a site, and the public trace of Philly")
    },
    "docs/how-it-works/simulation.md": {
        "arnold simulate --cluster small.csv": (
            "arnold simulate --cluster cluster.csv --trace jobs.csv --policy fifo --algorithm exact --seeds 1",
            "takes minutes; one replay of it is run",
        ),
        "arnold simulate": (SLOW, "takes seconds"),
    },
    "docs/how-it-works/start-up.md": {"arnold simulate": (SLOW, "takes seconds")},
    "docs/how-it-works/testing.md": {
        "ARNOLD_CASES=all": ("", "would run itself"),
        "make": ("", "takes minutes"),
        ".venv/bin/python -m pytest tests/e2e": ("", CLUSTER),
    },
    "docs/reference/cluster-files.md": {
        "kubectl get nodes,pods": ("arnold topology validate nodes.json", "needs a cluster; what it would list"),
        "arnold place --cluster kube:": ("", CLUSTER),
        "arnold explain --cluster kube:": ("", CLUSTER),
        "arnold topology validate slurm:": ("", "needs Slurm; tests/arnold/commands/test_cli_live_slurm.py has one"),
        "sinfo": ("", "needs Slurm; the demo has what it would print"),
    },
    "docs/reference/job-traces.md": {
        "TZ=UTC sacct": ("", "needs Slurm; the demo has what it would print"),
        "arnold simulate": (SLOW, "takes seconds"),
    },
}
"""Page -> beginning of a line (continued lines are one) -> what is run in its place, and why."""
