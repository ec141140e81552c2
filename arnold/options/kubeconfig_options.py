"""The options of commands that ask a live Kubernetes cluster which cluster that is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from arnold.options.field_options import file_option

F = TypeVar("F", bound=Callable[..., Any])


def kubeconfig_options(command: F) -> F:
    """Give a command ``--kubeconfig`` and ``--context``, as one record ``which``."""

    @wraps(command)
    def call(*, kubeconfig: str | None, context: str | None, **options: Any) -> Any:
        from extender.cluster_api.connect import WhichCluster

        return command(which=WhichCluster(kubeconfig, context), **options)

    asked = click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current one]")(
        call
    )
    file = file_option(
        "--kubeconfig", help="File that names cluster and user.  [default: $KUBECONFIG or ~/.kube/config]"
    )
    return cast("F", file(asked))
