"""Pages of one file: style, script, data and drawing are inside, and a security policy lets them fetch nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from topology.drawing.palette import DARK, LIGHT
from topology.quantities import decimal, duration, fixed, label_of, number, percent, plural, seconds, times

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

OWN = "topology.drawing"


def render(
    package: str,
    template: str,
    *,
    raw: Mapping[str, str] | None = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    **values: Any,
) -> str:
    """Fill a template.

    Pages extend ``frame.html.j2``, which lies here: the head, the heading with the theme switch, style and script.  It
    puts those of the page behind those that all pages share (the tooltips read the element ``data``).  The forms of
    :mod:`topology.quantities` are filters, as is :func:`with_code`: ``{{ wait | duration }}``.

    :param package: where the template, its style sheets and scripts lie; they may lie in the package above too.
    :param raw: values that are markup already and are not escaped, as all others are.
    """
    from markupsafe import Markup

    colours = {
        f"states_{ground}": [(state.name.lower(), colour) for state, colour in palette.items()]
        for ground, palette in (("light", LIGHT), ("dark", DARK))
    }
    theme = _environment(OWN).get_template("theme.css.j2").render(colours)
    code = {"theme": theme, "script": source(package, "page.js", *scripts), "style": source(package, *styles)}
    markup = {name: Markup(text) for name, text in (code | dict(raw or {})).items()}
    return _environment(package).get_template(template).render(markup | {"policy": POLICY} | values)


def source(package: str, *names: str) -> str:
    """Return the text of files that lie beside the modules of a package, or in the package above, in one."""
    environment = _environment(package)
    assert environment.loader is not None
    return "".join(environment.loader.get_source(environment, name)[0] for name in names)


def with_code(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, package.rpartition(".")[0], OWN))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(one, ".") for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    forms = (decimal, duration, fixed, label_of, number, percent, plural, seconds, times, with_code)
    environment.filters.update((form.__name__, form) for form in forms)
    return environment
