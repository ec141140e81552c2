"""A small file of each format of job traces, written by hand after its documentation, and damage to it."""

from __future__ import annotations

import json

from hypothesis import strategies as st

SACCT = """\
JobID|User|Account|Partition|Submit|Eligible|Start|End|ElapsedRaw|Timelimit|State|NNodes|ReqTRES|AllocTRES|JobName
100|ada|vision|gpu|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T08:10:00|2026-03-01T09:10:00|3600|02:00:00|\
COMPLETED|2|cpu=96,gres/gpu=16,mem=2T,node=2|billing=96,cpu=96,gres/gpu:h100=16,gres/gpu=16,mem=2T,node=2|train|a|b
100.batch|||||||||||||cpu=48,gres/gpu:h100=8,mem=1T,node=1|batch
101_7|ben|nlp|gpu|2026-03-01T08:01:00|2026-03-01T09:01:00|2026-03-01T09:02:00|2026-03-01T09:02:30|30|UNLIMITED|\
CANCELLED by 1004|1|gres/gpu=4|cpu=4,gres/gpu:h100=4,mem=62.50G,node=1|sweep
102|ada|vision|gpu|2026-03-01T08:02:00|2026-03-01T08:02:00|2026-03-01T08:03:00|2026-03-01T08:04:40|100|1-00:00:00|\
REQUEUED|1|gres/gpu=8|cpu=8,gres/gpu=8,mem=500000M,node=1|resumed
102|ada|vision|gpu|2026-03-01T08:05:00|2026-03-01T08:05:00|2026-03-01T08:06:00|2026-03-01T08:09:20|200|1-00:00:00|\
TIMEOUT|1|gres/gpu=8|cpu=8,gres/gpu=8,mem=500000M,node=1|resumed
103|ben|nlp|gpu|2026-03-01T08:03:00|2026-03-01T08:03:00|2026-03-01T08:03:00|Unknown|90|Partition_Limit|RUNNING|1|\
gres/gpu=8|cpu=8,gres/gpu=8,node=1|runs
104|ben|nlp|cpu|2026-03-01T08:03:00|2026-03-01T08:03:00|2026-03-01T08:03:00|2026-03-01T08:04:00|60|10:00|COMPLETED|1|\
cpu=8|cpu=8,mem=4G,node=1|no gpu
105_[1-9]|ben|nlp|gpu|2026-03-01T08:03:00|Unknown|Unknown|Unknown|0|10:00|PENDING|1|gres/gpu=1||waits
"""


def _slurm_job(job_id: int, state: object, times: tuple[int, int, int, int], gpus: int, **more: object) -> object:
    submission, eligible, start, end = times
    return {
        "job_id": job_id,
        "name": "train",
        "user": "ada",
        "account": "vision",
        "partition": "gpu",
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        "allocation_nodes": 2,
        "state": {"current": state, "reason": "None"},
        "time": {
            "submission": submission,
            "eligible": eligible,
            "start": start,
            "end": end,
            "elapsed": end - start,
            "limit": {"set": True, "infinite": False, "number": 120},
        },
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "", "id": 1, "count": 96},
                {"type": "mem", "name": "", "id": 2, "count": 1024},
                {"type": "gres", "name": "gpu", "id": 1001, "count": gpus},
                {"type": "gres", "name": "gpu:h100", "id": 1002, "count": gpus},
            ],
            "requested": [],
        },
        "steps": [{"step": {"id": "7.batch", "name": "batch"}}],
        **more,
    }


SACCT_JSON = json.dumps(
    {
        "jobs": [
            _slurm_job(7, ["COMPLETED"], (1000, 1000, 1600, 5200), 16),
            _slurm_job(8, "FAILED", (1010, 1010, 1620, 1630), 8, array={"job_id": 6, "task_id": 3}),
            _slurm_job(9, ["RUNNING"], (1020, 1020, 1630, 0), 8),
        ],
        "meta": {"client": {"user": "ada", "group": "staff"}},
        "errors": [],
    },
    indent=1,
)

PHILLY_LOG = """\
[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "user": "ce2f4c", "attempts": [
   {"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00",
    "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]},
   {"start_time": "2017-10-07 01:15:00", "end_time": "2017-10-07 02:15:00",
    "detail": [{"ip": "m41", "gpus": ["gpu0", "gpu1", "gpu2", "gpu3"]},
               {"ip": "m42", "gpus": ["gpu4", "gpu5", "gpu6", "gpu7"]}]}],
  "submitted_time": "2017-10-07 01:11:30"},
 {"status": "Killed", "vc": "ee9e8c", "jobid": "application_2", "attempts": [],
  "submitted_time": "2017-10-07 01:11:40", "user": "ce2f4c"},
 {"status": "Failed", "vc": "6214e9", "jobid": "application_3", "user": "u", "attempts": [
   {"start_time": "2017-10-07 01:20:00", "end_time": "None", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}],
  "submitted_time": "2017-10-07 01:19:00"}]
"""

BATSIM = """\
{"nb_res": 4,
 "jobs": [
  {"id": "short", "subtime": 0, "walltime": 100, "res": 2, "profile": "ten"},
  {"id": "cut", "subtime": 5.5, "walltime": 6, "res": 4, "profile": "ten"},
  {"id": "thrice", "subtime": 1, "res": 1, "profile": "several"},
  {"id": "work", "subtime": 3, "walltime": 50, "res": 4, "profile": "flops"},
  {"id": "unknown", "subtime": 4, "res": 4, "profile": "flops"}],
 "profiles": {
  "ten": {"type": "DelayProfile", "delay": 10},
  "half": {"type": "delay", "delay": 0.5},
  "several": {"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["ten", "half"]},
  "flops": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0}}}
"""

GAVEL = (
    "ResNet-18 (batch size 32)\tpython3 main.py --batch_size 32\t--num_steps\t1\t2995\t12.5\t1\n"
    "LM (batch size 10)\tpython main.py\tlanguage_modeling\t--steps\t1\t16310\t2\t1\t-1.000000\t100\n"
    "LM (batch size 10)\tpython main.py\tlanguage_modeling\t--steps\t1\t134583\t4\tgns\t1\t-1.000000\t1418\t200\n"
)
POLLUX = (
    "name,time,application,num_replicas,batch_size\nncf-0,107,ncf,1,256\nbert-1,110,bert,16,384\ngpt,111,gpt,8,64\n"
)
TIRESIAS = (
    "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    "0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n"
)
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0\n"
    "0,8,0,606,vgg19,16,164000,30000,270,82\n1,8,30000,133,gpt2,4,147000,23000,1105,0.6\n"
)
SPOT2026 = (
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
    "239255,13,A10,20,1,1,0,2764799,HP\n437260,57,A100-SXM4-80GB,15,8,16,9589663,41060,Spot\n5,57,A10,15,0.5,3,7,10,Spot\n"
)
PAI2025 = (
    "instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time\n"
    "i0,HN,app_0,12,1,120.0,,,\ni1,HN,app_0,12,1,120.0,100.0,130.0,1130.0\ni2,CN,app_1,64,0,320.0,5.0,5.0,9.0\n"
    "i3,HN,app_0,12,1,120.0,NaN,NaN,9.0\ni4,HN,app_0,12,1,120.0,100.0,130.0,NaN\n"
)
PAI2020 = (
    "j1,worker,2.0,Terminated,100.0,200.0,400.0,20.0,50.0,T4\nj2,worker,1.0,Failed,120.0,200.0,400.0,20.0,100.0,V100\n"
    "j1,inst1,u1,Terminated,90.0,201.0\n"
)
SWF = "; MaxProcs: 64\n1 0 10 3600 64 -1 -1 128 7200 -1 1 3 1 -1 2 -1 -1 -1 {7,7} q_1d 1:ppn=64\n"
PAI2023 = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p1,88000,1024,8,1000,,Burstable,Succeeded,100,400,150\n"
)
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,aa\n"
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u1,vc1,16,32,2,TIMEOUT,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:11,60,10\n"
)
ACME = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    "d1,u1,8,64,960,Pretrain,CANCELLED,2023-03-01 08:00:00+08:00,2023-03-01 08:00:10+08:00,"
    "2023-03-01 08:01:10+08:00,70,10.0,4480.0\n"
)
OURS = "job_id,submit_time,duration,gpus,user,model\na,0,10,8,ada,\nb,1,10.5,1,,'llm-7b'\n"

SAMPLES = {
    "acme": ACME,
    "batsim": BATSIM,
    "csv": OURS,
    "gavel": GAVEL,
    "helios": HELIOS,
    "jsonl": '{"job_id": "a", "submit_time": 0, "duration": 10, "gpus": 8}\n',
    "muri": MURI,
    "pai2020": PAI2020,
    "pai2023": PAI2023,
    "pai2025": PAI2025,
    "philly": PHILLY,
    "philly-log": PHILLY_LOG,
    "pollux": POLLUX,
    "sacct": SACCT,
    "sacct-json": SACCT_JSON,
    "spot2026": SPOT2026,
    "swf": SWF,
    "tiresias": TIRESIAS,
}
"""Format -> a file of it."""

PIECES = [b"", b"-1", b"1e308", b"NaN", b"null", b'"', b"{", b"]", b"|", b",", b"\t", b"\n", b"\xff", b"0", b"9" * 400]


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with pieces of them replaced, left out, or put somewhere else."""
    place = st.integers(0, len(data))
    change = st.tuples(place, st.integers(0, 40), st.sampled_from(PIECES) | st.binary(max_size=6))

    def apply(changes: list[tuple[int, int, bytes]]) -> bytes:
        made = data
        for start, length, piece in changes:
            made = made[:start] + piece + made[start + length :]
        return made

    return st.lists(change, min_size=1, max_size=4).map(apply)
