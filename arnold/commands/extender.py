"""``arnold extender``: the Kubernetes scheduler extender and gang controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from arnold.commands.command import Command
from arnold.commands.instance import FILE, finite

EXAMPLES = """\b
Examples:
  arnold extender serve --kubeconfig ~/.kube/config --levels example.com/minipod,example.com/rack
  arnold extender serve --queue arnold --levels auto
  arnold extender serve --bind 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt --levels auto
"""


def _number(name: str, default: float, text: str, *, metavar: str = "SECONDS") -> Callable[[Any], Any]:
    """An option that takes a number above 0."""
    above_0 = click.FloatRange(min=0, min_open=True)
    return click.option(
        name, type=above_0, default=default, show_default=True, callback=finite, metavar=metavar, help=text
    )


@click.group("extender")
def command() -> None:
    """Schedule gangs on Kubernetes: plan them whole, pin their pods, verify what kube-scheduler binds."""


@command.command("serve", cls=Command, epilog=EXAMPLES)
@click.option("--kubeconfig", type=FILE, metavar="FILE", help="Cluster and user  [default: the pod's service account]")
@click.option("--bind", default="127.0.0.1:8888", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option(
    "--levels",
    default="auto",
    show_default=True,
    metavar="LABEL,..",
    help="Node labels that are the levels, broad to close; auto: those of a cloud or tool that is known.",
)
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Our certificate, PEM; needed off loopback.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Its key, PEM.")
@click.option("--client-ca", type=FILE, metavar="FILE", help="CA of the clients that may ask, PEM.")
@click.option("--body-limit", type=click.IntRange(1024), metavar="BYTES", help="Longest request  [default: 64 MiB]")
@_number("--bind-timeout", 300.0, "A plan whose pods are not on their nodes by then expires.")
@_number("--lost-after", 30.0, "A node not Ready for so long is lost to pods that do not run yet.")
@_number("--time-limit", 2.0, "Of the solver, for one gang; then its best placement so far.")
@click.option(
    "--workers", type=click.IntRange(1, 1024), default=2, show_default=True, metavar="N", help="Threads of the solver."
)
@click.option(
    "--queue", default="priority-age", show_default=True, metavar="NAME", help="Who comes first, who may pass."
)
@_number("--rate", 1000.0, "Writes to the API server a second, at most.", metavar="N")
@_number("--drain-timeout", 10.0, "After SIGTERM, for what is under way.")
@click.option(
    "--lease-namespace",
    envvar="POD_NAMESPACE",
    default="kube-system",
    show_default="$POD_NAMESPACE, else kube-system",
    metavar="NAME",
    help="Where the Lease of the leader is.",
)
@click.option("--lease-name", default="arnold-extender", show_default=True, metavar="NAME", help="Its name.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is worth a line on standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="One JSON object a line, or text.",
)
def serve(*, bind: str, levels: str, body_limit: int | None, **given: Any) -> None:
    """Answer kube-scheduler and plan gangs, until SIGTERM.

    POST /filter and /preempt are for kube-scheduler; GET /healthz, /readyz and /metrics for whoever watches. Of several
    replicas with the same Lease one plans and all answer. Off loopback, mutual TLS is a must.
    """
    from extender.service.process import serve as run
    from extender.service.settings import Settings, parse_address, parse_levels, tls_files

    address = parse_address(bind)
    settings = Settings(
        identity=_identity(),
        kubeconfig=given["kubeconfig"],
        bind=address,
        levels=parse_levels(levels),
        tls=tls_files(address, certificate=given["tls_cert"], key=given["tls_key"], client_ca=given["client_ca"]),
        drain_seconds=given["drain_timeout"],
        lease_namespace=given["lease_namespace"],
        lease_name=given["lease_name"],
        queue=given["queue"],
        bind_seconds=given["bind_timeout"],
        lost_seconds=given["lost_after"],
        solve_seconds=given["time_limit"],
        workers=given["workers"],
        rate=given["rate"],
        log_level=given["log_level"],
        log_format=given["log_format"],
        **({} if body_limit is None else {"body_limit": body_limit}),
    )
    run(settings)


def _identity() -> str:
    """A name that no other replica has.

    That of the pod, so that a container which starts again has its predecessor's Lease at once: the kubelet starts it
    only when the one before has ended.
    """
    import os
    import socket
    from secrets import token_hex

    return os.environ.get("POD_NAME") or f"{socket.gethostname()}_{token_hex(4)}"
