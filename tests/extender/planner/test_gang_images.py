"""Nodes that have the images of a gang, among nodes that are worth the same."""

from __future__ import annotations

from extender.objects import decode_node
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import RACK, Json, member_json, node_json
from tests.facts import says
from topology.kubernetes.objects import NodeObject

IMAGE = "registry.example.com/train:v1"
OWNER = ("Job", "train")


def nodes(*warm: str, image: str = IMAGE) -> list[NodeObject]:
    """Two minipods of four nodes, of which some have an image of 18 GB."""
    found = []
    for minipod in range(2):
        for number in range(4):
            document = node_json(f"m{minipod}-{number}", f"mp{minipod}", f"mp{minipod}r0")
            if document["metadata"]["name"] in warm:
                document["status"]["images"] = [{"names": [image], "sizeBytes": 18 * 10**9}]
            found.append(decode_node(document))
    return found


def gang(world: World, size: int, image: str = IMAGE, **more: object) -> list[str]:
    """The pods of a gang of that image appear."""
    names = []
    for rank in range(size):
        document: Json = member_json("g", rank, size, owner=OWNER, **more)
        document["spec"]["containers"][0]["image"] = image
        names.append(world.add(document))
    return names


def planned(world: World) -> tuple[set[str], str]:
    """The nodes of the gang's plan, and its notes."""
    world.do(world.decide())
    plan = world.plan("g")
    assert plan.phase is PlanPhase.PLANNED
    return {*plan.nodes}, plan.message


def test_warm_nodes_come_first() -> None:
    """Any two nodes of a minipod are worth the same: those are taken that have the image, and nothing is to be said."""
    warm = {"m1-1", "m1-3"}
    world = World(nodes(*warm))
    gang(world, 2)
    assert planned(world) == (warm, "")


def test_cold_nodes_are_told() -> None:
    """Three of a minipod, where two have the image; a pair in each minipod would be warm, and a worse spread."""
    world = World(nodes("m0-0", "m1-1", "m1-3"))
    gang(world, 3)
    found, message = planned(world)
    assert found > {"m1-1", "m1-3"}
    assert len({name[:2] for name in found}) == 1
    assert says(message, "1 of 3", "18 GB")
    assert world.plan("g").objective == 1.0


def test_names_are_read_as_nodes_list_them() -> None:
    """A pod leaves out registry and tag; what an init container pulls counts too."""
    world = World(nodes("m1-2", image="docker.io/team/tool:latest"))
    document = member_json("g", 0, 1)
    document["spec"]["initContainers"] = [{"name": "tool", "image": "team/tool"}]
    world.add(document)
    assert planned(world) == ({"m1-2"}, "")


def test_of_an_image_that_nobody_has_nothing_is_known() -> None:
    """No node says how large it is: no node is better, and nothing is said."""
    world = World(nodes("m1-2", image="registry.example.com/other:v1"))
    gang(world, 2)
    assert planned(world)[1] == ""


def test_a_gang_that_comes_again_has_the_nodes_of_its_last_run() -> None:
    """It ended, and its plan went: of a run only the image on its nodes is left, and these are taken."""
    world = World(nodes())
    names = gang(world, 3)
    world.settle()
    world.bind(*names)
    world.settle()
    last = world.plan("g").nodes[0][:2]
    world.delete(*names)
    world.settle()
    assert world.phase("g") is None
    # Nothing else would send it to the other minipod, where its image is.
    other = "m0" if last == "m1" else "m1"
    warm = {f"{other}-{number}" for number in range(1, 4)}
    for one in nodes(*warm):
        world.state.put_node(one)
    gang(world, 3)
    assert planned(world) == (warm, "")


def test_pods_that_all_come_anew_keep_the_nodes_of_the_gang() -> None:
    """A Job makes all its pods anew while its plan is there: each rank has the node that it had."""
    world = World(nodes())
    names = gang(world, 3)
    world.settle()
    world.bind(*names)
    world.settle()
    before = world.plan("g").nodes
    for name in names:
        world.recreate(name)
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes) == (PlanPhase.RELEASED, before)


def test_images_are_no_reason_to_plan_anew() -> None:
    """They come and go as pods do: the version of the fleet, on which plans depend, stays."""
    world = World(nodes())
    before = world.state.fleet.version
    for one in nodes("m0-0", "m1-1"):
        world.state.put_node(one)
    assert world.state.fleet.version == before
    assert world.state.fleet.levels[-1] == RACK
