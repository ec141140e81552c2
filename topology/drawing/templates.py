"""Pages that stand alone: the one door of jinja2, and what all pages share.

A page is one file: style, script, data and drawing are inside, and its content-security policy lets it fetch nothing.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from topology.drawing.palette import DARK, LIGHT

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

OWN = "topology.drawing"


def render(package: str, template: str, *, raw: dict[str, str], **values: Any) -> str:
    """Fill a template.

    Pages extend ``frame.html.j2``, which lies here: the head, the heading with the theme switch, style and script.  It
    puts ``style`` and ``behaviour`` of the page, where there are any, behind those that all pages share (the tooltips
    read the element ``data``).

    :param package: where the template lies.
    :param raw: values that are markup already and are not escaped.
    :param values: everything else; escaped.
    """
    from markupsafe import Markup

    shared = {"theme": _theme(), "script": asset(OWN, "page.js"), "style": "", "behaviour": ""}
    markup = {name: Markup(text) for name, text in (shared | raw).items()}
    return _environment(package).get_template(template).render(markup | {"policy": POLICY} | values)


def asset(package: str, name: str) -> str:
    """Text of a file that lies beside the modules of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _theme() -> str:
    colours = {
        "states_light": [(state.name.lower(), colour) for state, colour in LIGHT.items()],
        "states_dark": [(state.name.lower(), colour) for state, colour in DARK.items()],
    }
    return _environment(OWN).get_template("theme.css.j2").render(colours)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(one, ".") for one in dict.fromkeys((package, OWN))]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
