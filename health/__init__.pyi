from health.collectives.diagnosis import Diagnosis as Diagnosis
from health.collectives.reading import diagnose_files as diagnose_files
from health.collectives.trigger_settings import TriggerSettings as TriggerSettings
from health.flags.flag_store import Ledger as Ledger
from health.flags.flag_store import open_ledger as open_ledger
from health.flags.rules import Rule as Rule
from health.flags.rules import Rules as Rules
from health.flags.rules import read_rules as read_rules
from health.peers.comparison import ComparisonSettings as ComparisonSettings
from health.peers.comparison import detect as detect
from health.peers.verdict import PeersVerdict as PeersVerdict
from health.peers.verdict import judge as judge
from health.recovery.eviction import Eviction as Eviction
from health.recovery.eviction import decide as decide
from health.recovery.restarts import restart_seconds as restart_seconds
from health.recovery.restarts import standby_pool as standby_pool
from health.whatif import Analysis as Analysis
from health.whatif import SlowWorker as SlowWorker
from health.whatif import Trace as Trace
from health.whatif import analyse as analyse
from health.whatif import flags_of as flags_of
from health.whatif import read_trace as read_trace
from health.whatif import slow_workers as slow_workers

DISTRIBUTION: str
