"""Texts as people paste them after a crash, written after what the tools print, and whom each of them convicts."""
# ruff: noqa: E501 - lines are as long as the tools write them

from typing import NamedTuple

Who = tuple[str | None, int | None, int | str | None]  # node, rank, GPU


class Pasted(NamedTuple):
    """A text, and what is right."""

    file: str
    text: str
    suspects: tuple[Who, ...]
    kind: str


def _watchdog(rank: int, number: int, *, enqueued: int, completed: int, who: str = "") -> str:
    who = who or f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    return (
        f"[rank{rank}]:[E1104 03:11:20.1 ProcessGroupNCCL.cpp:685] {who} Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600021 "
        "milliseconds before timing out.\n"
        f"[rank{rank}]:[E1104 03:11:20.2 ProcessGroupNCCL.cpp:2252] {who}  failure detected by watchdog at work sequence "
        f"id: {number} PG status: last enqueued work: {enqueued}, last completed work: {completed}\n"
    )


def _old(rank: int, number: int, enqueued: int) -> str:
    """Two lines of PyTorch 2.2, which has neither names of groups nor a prefix with the rank of the job."""
    return (
        f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800317 milliseconds before timing out.\n"
        f"[E ProcessGroupNCCL.cpp:1182] [Rank {rank}] Timeout at NCCL work: {number}, last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {number - 1}.\n"
    )


def _init(node: str, rank: int, ranks: int, device: int) -> str:
    return (
        f"{node}:71:{rank + 500} [{device}] NCCL INFO ncclCommInitRank comm 0x5f0 rank {rank} nranks {ranks} cudaDev {device} "
        f"nvmlDev {device} busId {0x1B + device:x}000 commId 0xbeef - Init COMPLETE\n"
    )


_JOB = "".join(_init(f"gpu{1 + rank // 4}", rank, 8, rank % 4) for rank in range(8))

_RAS = """NCCL version 2.24.3 compiled with CUDA 12.4
CUDA runtime version 12040, driver version 12040

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  {status}

Errors
======

{errors}
Warnings
========

{warnings}
"""

_ENDS = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 17 -- GPU 5 managed by process 3487984 on node 172.16.64.213
"""

_MISMATCH = """#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  {most} ranks have launched up to operation 6650
  {few} launched up to operation {number}
  {listed}
"""


def _one_apart(*, most: int, few: str, number: int) -> str:
    listed = "Rank 9 -- GPU 1 managed by process 7 on node gpu2"
    warnings = _MISMATCH.format(most=most, few=few, number=number, listed=listed)
    return _RAS.format(status="MISMATCH", errors="", warnings=warnings)


_DIAG = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.3.5                                          |
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
| Persistence Mode          | Fail                                           |
| Page Retirement/Row Remap | Pass                                           |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | {memory:<46} |
| Warning                   | GPU 3 There was an error                       |
+-----  Stress  ------------+------------------------------------------------+
| Targeted Power            | Pass - All                                     |
+---------------------------+------------------------------------------------+
"""

_DIAG_4 = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU6: Fail                                     |
| Warning: GPU6             | Memory error                                   |
+---------------------------+------------------------------------------------+
"""

_JSON_3 = (
    '{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "Memory", "results": '
    '[{"gpu_id": "0", "status": "PASS"}, {"gpu_id": "4", "status": "FAIL", "warnings": ["x"]}]}]}]}, "version": "3.1"}'
)
_JSON_4 = (
    '{"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [{"name": "software", "results": '
    '[{"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Fail"}]}]}, {"category": "Stress", "tests": '
    '[{"name": "pulse_test", "results": [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": 7, "status": "Fail", '
    '"warnings": [{"warning": "w", "error_id": 1}]}], "test_summary": {"status": "Fail"}}]}]}, "metadata": {}}'
)


def _smi(faults: dict[int, str], gpus: int = 4) -> str:
    text = "==============NVSMI LOG==============\n\nTimestamp : Mon Nov  4 10:00:00 2025\nDriver Version : 550.54\nAttached GPUs : 4\n"
    for gpu in range(gpus):
        text += (
            f"GPU 00000000:{0x1B + gpu:02X}:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
        )
        text += "    Clocks Event Reasons\n        Idle                              : Not Active\n"
        text += (
            f"        HW Slowdown                       : {'Active' if faults.get(gpu) == 'hot' else 'Not Active'}\n"
        )
        text += "        SW Power Cap                      : Active\n    ECC Errors\n        Volatile\n"
        text += (
            f"            DRAM Uncorrectable            : {3 if faults.get(gpu) == 'ecc' else 0}\n        Aggregate\n"
        )
        text += "            DRAM Uncorrectable            : 9\n    Remapped Rows\n        Pending                           : No\n"
        text += f"        Remapping Failure Occurred        : {'Yes' if faults.get(gpu) == 'row' else 'No'}\n"
    return text


def _table(nodes: list[str], busbw: float, wrong: int = 0) -> str:
    text = "# nThread 1 nGpus 1 minBytes 1073741824 maxBytes 1073741824 step: 1048576(bytes) warmup iters: 5 iters: 20\n#\n# Using devices\n"
    for i, node in enumerate(nodes):
        text += f"#  Rank  {i} Group  0 Pid  {900 + i} on {node:>9} device  0 [0x1b] NVIDIA H100 80GB HBM3\n"
    text += "#\n#                                                              out-of-place                       in-place\n"
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    text += f"  1073741824     268435456     float     sum      -1   {9000:>6}  119.30  {busbw:.2f}      {wrong}   9001.1  119.29  {busbw:.2f}      {wrong}\n"
    return text + f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw:.2f}\n#\n"


def _straggler(ranks: list[tuple[float, int]]) -> str:
    return "".join(
        f"2025-11-04 10:0{i}:00 | MnRtt/Rnk: 11.2ms/{rank} | MnEtpt/Rnk: {least:.2f}TF/{rank} | MxEtpt/Rnk: 480.00TF/{i}\n"
        for i, (least, rank) in enumerate(ranks)
    )


def _xid(number: int, words: str = "", prefix: str = "[  812.1] ") -> str:
    return f"{prefix}NVRM: Xid (PCI:0000:1c:00): {number}, pid=4411, name=python3{words}\n"


def _completion(node: str, peer: str) -> str:
    return (
        f"{node}:71:88 [2] transport/net_ib.cc:1234 NCCL WARN NET/IB : Got completion from peer {peer}<41234> with status=12 "
        "opcode=0 len=0 vendor err 129 (Recv) localGid fe80::1 remoteGids fe80::2 hca mlx5_2\n"
    )


def _closed(node: str, peer: str) -> str:
    return f"{node}:71:88 [0] misc/socket.cc:484 NCCL WARN socketProgress: Connection closed by remote peer {peer}<55644>\n"


_TORCHRUN = """E1104 torch.distributed.elastic.multiprocessing.api failed (exitcode: {code}) local_rank: 1 (pid: 71)
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-11-04_03:11:20
  host      : gpu2
  rank      : 5 (local_rank: 1)
  exitcode  : {code} (pid: 71)
  error_file: <N/A>
  traceback : Signal received by PID 71
============================================================
"""

PASTED: dict[str, Pasted] = {
    "watchdog-behind": Pasted(
        "job.log",
        "".join(_watchdog(rank, 42, enqueued=44, completed=41) for rank in (0, 1, 3))
        + "[rank2]:[E1104 03:11:20.3 ProcessGroupNCCL.cpp:1375] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal "
        "due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: "
        "41, last completed NCCL work: 41.\n",
        ((None, 2, None),),
        "pytorch-watchdog",
    ),
    "watchdog-few-speak": Pasted(
        "job.log", "".join(_watchdog(rank, 42, enqueued=44, completed=41) for rank in (8, 9)), (), "pytorch-watchdog"
    ),
    "watchdog-old": Pasted(
        "slurm-17.out",
        "".join(_old(r, 900, 900) for r in (0, 1, 3)) + _old(2, 899, 899),
        ((None, 2, None),),
        "pytorch-watchdog",
    ),
    "watchdog-of-node": Pasted(
        "job.log",
        _JOB
        + "".join(_watchdog(rank, 42, enqueued=44, completed=41) for rank in range(8) if rank != 6)
        + "[rank6]: step 41\n",
        (("gpu2", 6, 2),),
        "pytorch-watchdog",
    ),
    "ras-missing": Pasted(
        "ras.txt",
        _RAS.format(
            status="INCOMPLETE",
            errors=_ENDS,
            warnings=_MISMATCH.format(
                most=26,
                few="5 ranks have",
                number=6649,
                listed="\n  ".join(
                    f"Rank {r} -- GPU {r} managed by process {r} on node 172.16.64.210" for r in range(5)
                ),
            ),
        ),
        (("172.16.64.213", 17, 5),),
        "ncclras",
    ),
    "ras-behind": Pasted("ras.txt", _one_apart(most=31, few="1 rank has", number=6649), (("gpu2", 9, 1),), "ncclras"),
    "ras-ahead": Pasted("ras.txt", _one_apart(most=30, few="2 ranks have", number=6651), (), "ncclras"),
    "xid-dmesg": Pasted(
        "dmesg-node07.txt",
        _xid(31) + _xid(79, ", GPU has fallen off the bus."),
        (("node07", None, "0000:1c:00"),),
        "kernel-log",
    ),
    "xid-syslog": Pasted(
        "syslog",
        _xid(95, prefix="Nov  4 03:11:02 gpu2 kernel: [812.1] "),
        (("gpu2", None, "0000:1c:00"),),
        "kernel-log",
    ),
    "xid-program": Pasted(
        "dmesg.txt",
        _xid(13)
        + _xid(31)
        + _xid(43)
        + _xid(45)
        + "python3[44]: segfault at 0 ip 0 sp 0 error 4 in libnccl.so.2[7f+d]\n",
        (),
        "kernel-log",
    ),
    "xid-recovery": Pasted(
        "dmesg.txt",
        _xid(154, ", GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        ((None, None, "0000:1c:00"),),
        "kernel-log",
    ),
    "sxid": Pasted(
        "dmesg-host12.log",
        "[ 9.1] nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n[ 9.2] nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 32 egress\n",
        (("host12", None, None),),
        "kernel-log",
    ),
    "diag-3": Pasted("diag-node07.txt", _DIAG.format(memory="Fail - GPU: 3"), (("node07", None, 3),), "dcgmi-diag"),
    "diag-3-passes": Pasted(
        "diag-node07.txt", _DIAG.format(memory="Pass - All").replace("Warning", "Info   "), (), "dcgmi-diag"
    ),
    "diag-4": Pasted("diag-node07.txt", _DIAG_4, (("node07", None, 6),), "dcgmi-diag"),
    "diag-json-3": Pasted("diag-node07.json", _JSON_3, (("node07", None, 4),), "dcgmi-diag-json"),
    "diag-json-4": Pasted("diag-node07.json", _JSON_4, (("node07", None, 7),), "dcgmi-diag-json"),
    "smi-row": Pasted("nvidia-smi-q-node07.txt", _smi({2: "row"}), (("node07", None, 2),), "nvidia-smi-q"),
    "smi-ecc-and-heat": Pasted(
        "smi.txt", _smi({0: "ecc", 3: "hot"}), ((None, None, 0), (None, None, 3)), "nvidia-smi-q"
    ),
    "smi-well": Pasted("smi.txt", _smi({}), (), "nvidia-smi-q"),
    "nccl-tests-pairs": Pasted(
        "pairs.log",
        _table(["n01", "n02"], 185)
        + _table(["n03", "n04"], 184)
        + _table(["n05", "n01"], 90)
        + _table(["n05", "n06"], 91)
        + _table(["n06", "n07"], 186),
        (("n05", None, None),),
        "nccl-tests",
    ),
    "nccl-tests-one": Pasted("allreduce.log", _table(["n01", "n02", "n03", "n04"], 47), (), "nccl-tests"),
    "nccl-tests-wrong": Pasted(
        "allreduce.log", _table(["n01", "n01"], 400, wrong=5), (("n01", None, None),), "nccl-tests"
    ),
    "pairs-csv": Pasted(
        "pairs.csv",
        "node_a,node_b,busbw_gbs\nn01,n02,185\nn03,n04,184.1\nn05,n01,90\nn05,n06,91\nn06,n07,186\n",
        (("n05", None, None),),
        "bandwidth-pairs",
    ),
    "straggler-same": Pasted(
        "train.log",
        _straggler([(300, 5), (310, 5), (305, 5), (450, 2), (300, 5)]),
        ((None, 5, None),),
        "megatron-straggler",
    ),
    "straggler-varies": Pasted("train.log", _straggler([(449, 14), (458, 12), (451, 3)]), (), "megatron-straggler"),
    "nvrx-scores": Pasted(
        "train.log",
        "GPU relative performance:\n Worst performing 3/16 ranks:\n  Rank=7 Node=gpu2 Score=0.61\n  Rank=1 Node=gpu1 Score=0.96\n  Rank=2 Node=gpu1 Score=0.97\nSTRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {StragglerId(rank=7, node='gpu2')}\n",
        (("gpu2", 7, None),),
        "straggler-report",
    ),
    "nccl-port": Pasted(
        "job.log",
        _JOB + "gpu2:71:99 [1] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error\n",
        (("gpu2", None, None),),
        "nccl-log",
    ),
    "nccl-path-of-one": Pasted(
        "job.log",
        _completion("gpu1", "10.0.0.7")
        + _completion("gpu3", "10.0.0.7")
        + "gpu7:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>\n",
        (("gpu7", None, None),),
        "nccl-log",
    ),
    "nccl-path-of-two": Pasted("job.log", _completion("gpu1", "10.0.0.7"), (), "nccl-log"),
    "nccl-closed": Pasted(
        "job.log",
        _closed("gpu1", "gpu4") + _closed("gpu2", "gpu4") + _closed("gpu3", "gpu1"),
        (("gpu4", None, None),),
        "nccl-log",
    ),
    "nccl-ecc": Pasted(
        "job.log",
        _JOB + "gpu1:71:99 [3] enqueue.cc:55 NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'\n",
        (("gpu1", 3, 3),),
        "nccl-log",
    ),
    "nccl-illegal-access": Pasted(
        "job.log",
        _JOB + "gpu1:71:99 [3] enqueue.cc:55 NCCL WARN Cuda failure 'an illegal memory access was encountered'\n",
        (),
        "nccl-log",
    ),
    "nccl-socket": Pasted(
        "job.log",
        "".join(f"gpu{n}:71:99 [0] NCCL INFO Using network {'Socket' if n == 4 else 'IB'}\n" for n in range(1, 7)),
        (("gpu4", None, None),),
        "nccl-log",
    ),
    "torchrun-killed": Pasted("job.log", _TORCHRUN.format(code=-9), (("gpu2", 5, None),), "launcher-log"),
    "torchrun-aborted": Pasted("job.log", _TORCHRUN.format(code=-6), (), "launcher-log"),
    "slurm-node-failed": Pasted(
        "slurm-99.out",
        "slurmstepd: error: *** JOB 99 ON gpu1 CANCELLED AT 2025-11-04T03:11:20 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\nsrun: error: Node failure on gpu3\nsrun: error: gpu1: tasks 0-7: Killed\n",
        (("gpu3", None, None),),
        "launcher-log",
    ),
    "exception": Pasted(
        "job.log",
        "".join(
            f"[rank{r}]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank {r}.\n"
            for r in (0, 1, 3)
        )
        + "[rank2]: ValueError: token id 90000 is out of range\n",
        ((None, 2, None),),
        "launcher-log",
    ),
    "ibqueryerrors": Pasted(
        "ib.txt",
        'Errors for "node07 mlx5_3"\n   GUID 0x98 port 1: [LinkDownedCounter == 44] [SymbolErrorCounter == 65535] [PortXmitWait == 4294967295]\nErrors for "node08 mlx5_0"\n   GUID 0x99 port 1: [LinkDownedCounter == 1] [PortXmitWait == 4294967295]\n',
        (("node07", None, None),),
        "infiniband-counters",
    ),
    "exporter": Pasted(
        "m.prom",
        '# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.\n# TYPE DCGM_FI_DEV_XID_ERRORS gauge\nDCGM_FI_DEV_XID_ERRORS{gpu="2",UUID="GPU-1",device="nvidia2",Hostname="gpu2",err_code="79"} 79\nDCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-2",device="nvidia3",Hostname="gpu2"} 31\nDCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="3",Hostname="gpu2"} 0\n',
        (("gpu2", None, 2),),
        "dcgm-exporter",
    ),
    "xid-of-mig": Pasted(
        "dmesg-node07.txt",
        _xid(94).replace("1c:00)", "1c:00 GPU-I:05)"),
        (("node07", None, "0000:1c:00"),),
        "kernel-log",
    ),
    "fallen": Pasted(
        "dmesg-node07.txt",
        "[ 9.1] NVRM: GPU 0000:1c:00.0: GPU has fallen off the bus.\n",
        (("node07", None, "0000:1c:00"),),
        "kernel-log",
    ),
    "desync": Pasted(
        "job.log",
        "[rank0]:[E ProcessGroupNCCL.cpp:1] - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n   - [3] finished collective #15, but didn't join collective #16 (count from 1)\n - Snapshot of ranks' latest states:\n   #16 started ranks: [0, 1, 2]\n",
        ((None, 3, None),),
        "pytorch-watchdog",
    ),
    "diag-in-use": Pasted(
        "diag-node07.txt",
        _DIAG.format(memory="Fail - GPU: 3").replace("There was an error", "is busy or unavailable"),
        (),
        "dcgmi-diag",
    ),
    "watchdog-groups-of-one-name": Pasted(
        "job.log",
        "".join(
            f"[rank{r}]:[E1104 ProcessGroupNCCL.cpp:1664] [PG 2 (TENSOR_MODEL_PARALLEL_GROUP) Rank {r % 4}] Exception (either an error "
            f"or timeout) detected by watchdog at work: {n}, last enqueued NCCL work: {n + 2}, last completed NCCL work: {n - 1}.\n"
            for r, n in ((0, 100), (1, 100), (2, 100), (7, 90))
        ),
        (),
        "pytorch-watchdog",
    ),
    "monitored-barrier": Pasted(
        "job.log",
        "[rank0]: RuntimeError: Rank 0 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
        "rank 3. Please check rank 3 logs for faulty rank.\n",
        ((None, 3, None),),
        "pytorch-watchdog",
    ),
    "xid-nvlink-5": Pasted(
        "dmesg-node07.txt",
        "[1.1] NVRM: Xid (PCI:0019:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000)\n"
        "[1.1] NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)\n"
        "[1.2] NVRM: Xid (PCI:0018:01:00): 45, pid=9, name=python3, Ch 00000001 caused by previous Xid 145\n",
        (("node07", None, "0019:01:00"),),
        "kernel-log",
    ),
    "xid-that-nothing-follows": Pasted(
        "dmesg-node07.txt", _xid(63) + _xid(92) + _xid(121) + _xid(39), (), "kernel-log"
    ),
    "sxid-of-three-lines": Pasted(
        "dmesg-node07.txt",
        "".join(
            f"[9.1] nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 24007, {words}\n"
            for words in (
                "Fatal, Link 04 sourcetrack timeout error (First)",
                "Severity 1 Engine instance 04",
                "Data {0x4, 0x0}",
            )
        ),
        (("node07", None, None),),
        "kernel-log",
    ),
    "kernel-log-that-is-well": Pasted(
        "dmesg-node07.txt", "[    9.123456] mlx5_core 0000:9a:00.0: firmware version: 28.39.1002\n", (), "kernel-log"
    ),
    "job-log-that-is-well": Pasted("job.log", "NCCL version 2.21.5+cuda12.4\nTraining finished.\n", (), "job-log"),
    "smi-lost": Pasted(
        "smi-node07.txt",
        "Unable to determine the device handle for GPU3: 0000:9B:00.0: Unknown Error\n",
        (("node07", None, "0000:9b:00"),),
        "nvidia-smi-q",
    ),
    "nccl-port-of-2.26": Pasted(
        "job.log",
        _JOB + "gpu2:71:99 [1] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error\n",
        (("gpu2", None, None),),
        "nccl-log",
    ),
    "nccl-tests-of-two-models": Pasted(
        "alone.log",
        "".join(_table([f"n0{k}"], 470) for k in range(1, 5)) + _table(["n05"], 230).replace("H100", "A100"),
        (),
        "nccl-tests",
    ),
    "perfquery": Pasted(
        "perfquery-node07.txt",
        "# Port counters: Lid 163 port 1 (CapMask: 0x5A00)\nSymbolErrorCounter:..............0\nLinkDownedCounter:...............60\n"
        "PortXmitWait:....................4294967295\n",
        (("node07", None, None),),
        "infiniband-counters",
    ),
    "ibdiagnet": Pasted(
        "ibdiagnet2.log",
        "-W- lid=0x00a3 dev=4129 node07/mlx5_0/U1/P1\n      Performance Monitor counter     : Value\n"
        "      link_down_counter               : 60      (overflow)\n",
        (("node07", None, None),),
        "infiniband-counters",
    ),
    "nvrx-nodes-of-scores": Pasted(
        "train.log",
        "GPU relative performance:\n Worst performing 2/512 ranks:\n  Rank=76 Node=gpu10 Score=0.61\n  Rank=3 Node=gpu1 Score=0.65\n"
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [76, 3]\n",
        (("gpu10", 76, None), ("gpu1", 3, None)),
        "straggler-report",
    ),
    "interfaces": Pasted("mtu.txt", "node01 eth0 9000\nnode02 eth0 1500\nnode03 eth0 9000\n", (), ""),
    "prose": Pasted("notes.txt", "Rank 3 was slow today: see the log. host : gpu1\nTODO ask about Xid 79\n", (), ""),
}
