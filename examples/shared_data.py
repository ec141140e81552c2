"""How many samples do four jobs load that read 10,000 of the same 13,333 each, alone and together?"""

from scheduler.job import DataSet
from simulator.data_plan import DataCache, DataPlan, StoredData
from simulator.job_record import JobRecord
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.run_history import run_history
from simulator.shared_data import shared_loads
from simulator.traces import JobTrace
from topology.generate import minipods

stored = StoredData(
    samples=13_333,
    encoded_bytes=110e3,
    prepared_bytes=602e3,
    demand=40,
    augmented=400,
    decoded=120,
    encoded=40,
    miss=20,
)
jobs = [JobRecord(f"job-{i}", 0.0, 250.0, 8.0, 1, data_sets=(DataSet("images", 10_000),)) for i in range(4)]
for shared in (False, True):
    # a cache of 1 GB for each rack holds less than one of the jobs reads
    plan = DataPlan({"images": stored}, DataCache(bytes=1e9, level="rack", shared=shared))
    replay = prepare(JobTrace(tuple(jobs)), minipods(minipods=1, nodes=8), ReplaySettings(data=plan))
    replay.engine.run()
    (loads,) = shared_loads(run_history(replay.engine, replay.log, replay.cluster), plan)
    cache = "a cache in common" if shared else "a copy of its own"
    print(f"{cache}: {replay.engine.now:.0f} s; {loads.loads:,.0f} loads, {loads.shared:,.0f} if they are shared")
