"""How many samples do four jobs load that read 10,000 of the same 13,333 each, alone and together?"""

from scheduler import DataSet
from simulator import (
    DataCache,
    DataPlan,
    JobRecord,
    JobTrace,
    ReplaySettings,
    StoredData,
    prepare,
    run_history,
    shared_loads,
)
from topology import minipods

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
    print(f"{cache}: {replay.engine.clock.now:.0f} s; {loads.loads:,.0f} loads, {loads.shared:,.0f} if they are shared")
