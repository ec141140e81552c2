"""What ``arnold slurm check`` looks at: each line is fine, or says what to add where."""

import getpass
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import time

from ground.errors import ArnoldError, InvalidInput
from ground.files import check_writable
from ground.records import JsonRecord
from slurm.ask import SlurmRefused, ask
from slurm.decide import MOST_NAMES
from slurm.live import Eyes
from topology.node_names import fold_hostlist

MOST_SKEW = 60.0  # seconds between the clocks of this machine and of the controller


class SlurmCheck(JsonRecord):
    """Something that `submit` or `serve` needs."""

    what: str
    """What was looked at."""
    ok: bool
    """Whether it is as it should be."""
    found: str
    """What was found."""
    fix: str
    """What to add where; empty where all is well."""


def configured() -> dict[str, str]:
    """Return the configuration of the live Slurm; raise as :func:`~slurm.ask.ask`."""
    return dict(re.findall(r"^(\w+)\s*=[ \t]*(.*?)[ \t]*$", ask("scontrol", "show config")[0].text, re.MULTILINE))


def orders_folder(config: Mapping[str, str]) -> Path:
    """Return the folder of orders, beside the TaskProlog of a configuration, or raise InvalidInput: it has none."""
    match = re.match(r"/\S+", config.get("TaskProlog", ""))
    if match is None:
        fix = (
            "lay manifests/slurm/task_prolog and a folder orders beside it where every node sees them, and set "
            "TaskProlog in slurm.conf; or say --orders FOLDER"
        )
        raise InvalidInput("Slurm has no TaskProlog: ranks would be in Slurm's own order", where="slurm.conf", fix=fix)
    return Path(match[0]).resolve().parent / "orders"


def checks(orders: Path | None) -> Iterator[SlurmCheck]:
    """Yield what is found of a live Slurm, and of this account.

    :param orders: the folder of orders; ``None`` = beside the TaskProlog.
    :raises SlurmRefused: it cannot be asked at all.
    """
    config = configured()
    version = config.get("SLURM_VERSION", "")
    for program in ("sbatch", "squeue", "sdiag"):
        try:
            own = ask(program, "--version")[0].text.split()[-1]
        except SlurmRefused as error:
            yield SlurmCheck(program, False, error.message, error.fix)
        else:
            same, fix = own == version, f"install the programs of Slurm {version} here"
            yield SlurmCheck(
                program, same, f"{own}, and the controller {version}" if not same else own, "" if same else fix
            )
    live = Eyes().look()
    skew = time() - live.now
    near = abs(skew) <= MOST_SKEW
    yield SlurmCheck("clock", near, f"{skew:+.0f} s from the controller's", "" if near else "synchronise both (chrony)")
    try:
        folder = orders or orders_folder(config)
    except InvalidInput as error:
        yield SlurmCheck("TaskProlog", False, error.message, error.fix)
    else:
        prolog = folder.parent / "task_prolog"
        there = os.access(prolog, os.X_OK)
        fix = "" if there else f"cp manifests/slurm/task_prolog {prolog} && chmod 755 {prolog}"
        yield SlurmCheck("TaskProlog", there, str(prolog), fix)
        try:
            check_writable(folder / "0")
        except InvalidInput as error:
            yield SlurmCheck("orders", False, error.message, f"mkdir {folder} && chown {getpass.getuser()} {folder}")
        else:
            yield SlurmCheck("orders", True, str(folder), "")
    plugins = [name for name in config.get("JobSubmitPlugins", "").split(",") if name not in ("", "(null)")]
    lua, line = "lua" in plugins, f"JobSubmitPlugins={','.join([*plugins, 'lua'])}"
    fix = f"slurm.conf: {line}, and manifests/slurm/job_submit.lua beside it on the controller"
    yield SlurmCheck("job_submit.lua", lua, ", ".join(plugins) or "no plug-in", "" if lua else fix)
    yield _privileges(config)
    accrues = "ACCRUE_ALWAYS" in config.get("PriorityFlags", "") or "basic" in config.get("PriorityType", "")
    fix = "" if accrues else "slurm.conf: PriorityFlags=ACCRUE_ALWAYS"
    yield SlurmCheck("priority", accrues, "grows while a job waits" if accrues else "does not grow before a begin", fix)
    names = len(fold_hostlist(sorted(live.base.names)))
    fits, few = names <= MOST_NAMES, f"name nodes alike, so that a list of them is below {MOST_NAMES:,} bytes"
    size = f"{len(live.base):,} nodes, whose names take {names:,} bytes"
    yield SlurmCheck("sizes", fits, size, "" if fits else few)


def _privileges(config: Mapping[str, str]) -> SlurmCheck:
    """Return whether this account may change jobs of others, and make reservations."""
    user, slurm_user = getpass.getuser(), config.get("SlurmUser", "").partition("(")[0]
    if user in ("root", slurm_user):
        return SlurmCheck("privileges", True, f"{user}, who may do all", "")
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        fix = f"run it as {slurm_user}, or with the lines of manifests/slurm/sudoers"
        return SlurmCheck("privileges", False, f"without slurmdbd {user} is no Operator", fix)
    fix = f"sacctmgr modify user {user} set adminlevel=operator"
    try:
        level = ask("sacctmgr", f"show user {user} format=adminlevel", "--noheader", "--parsable2")[0].text.strip()
    except ArnoldError as error:
        return SlurmCheck("privileges", False, error.message, fix)
    may = level.startswith(("Operator", "Admin"))
    return SlurmCheck("privileges", may, f"{user}: {level or 'no user of the accounting'}", "" if may else fix)
