from extender.gangs.types import Gang as Gang
from extender.gangs.types import GangKey as GangKey
from extender.gangs.types import GangMember as GangMember
from extender.live_cluster import ListedCluster as ListedCluster
from extender.live_cluster import list_cluster as list_cluster
from extender.live_cluster import list_plans as list_plans
from extender.plans.gang_plan import GangPlan as GangPlan
from extender.plans.gang_plan import PlanPhase as PlanPhase
from extender.service.server import serve as serve
from extender.service.settings import ServeOptions as ServeOptions
from extender.verbs import FilterVerdict as FilterVerdict
from extender.verbs import filter_nodes as filter_nodes
from extender.verbs import preempt as preempt

DISTRIBUTION: str
