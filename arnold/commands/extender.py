"""``arnold extender``: the Kubernetes scheduler extender and gang controller."""

import click

from arnold.options.command import Command, Group
from arnold.options.field_options import options_of
from extender.service.settings import ServeOptions


@click.group("extender", cls=Group)
def command() -> None:
    """Schedule gangs on Kubernetes: plan them whole, release their pods, verify what kube-scheduler binds."""


@command.command("serve", cls=Command)
@options_of(ServeOptions, to="options")
def serve(*, options: ServeOptions) -> None:
    """Answer kube-scheduler and plan gangs, until SIGTERM.

    POST /filter and /preempt are for kube-scheduler, /mutate for webhooks of the API server; GET /healthz, /readyz and
    /metrics for monitoring. Of several replicas with the same Lease one plans and all answer. Any address but loopback
    requires mutual TLS.

    $ arnold extender serve --kubeconfig ~/.kube/config --levels example.com/minipod,example.com/rack
    $ arnold extender serve --policy arnold --levels auto
    $ arnold extender serve --bind 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt --levels auto
    """
    from extender.service.server import serve as run

    run(options)
