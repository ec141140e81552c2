"""Types of GPU that a gang may be on, as they stand in an annotation of a pod or in the cell of a trace."""

from __future__ import annotations

from topology.errors import InvalidJob

ANY = "any"  # instead of names: all types, and a gang may mix them


def read_type_names(text: str) -> tuple[str, ...] | None:
    """Return names of types from ``[H200, H100]``, as in a job file, or ``H200,H100``; ``None`` = any, mixed or not.

    :raises InvalidJob: no name, or an empty one.
    """
    plain = text.strip()
    if plain == ANY:
        return None
    inside = plain[1:-1] if plain.startswith("[") and plain.endswith("]") else plain
    names = tuple(name.strip().strip("\"'").strip() for name in inside.split(","))
    if not all(name and name.isprintable() for name in names):
        fix = "write their names as the nodes have them, like H200,H100; or any"
        raise InvalidJob(f"{text[:80]!r} names no types of GPU", where="gpu_types", fix=fix)
    return tuple(dict.fromkeys(names))
