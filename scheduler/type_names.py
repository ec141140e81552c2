"""Types of GPU that a gang may be on, as they stand in an annotation of a pod or in the cell of a trace."""

from functools import lru_cache

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidJob
from ground.files import Source

ANY = "any"  # instead of names: all types, and a gang may mix them
_OF_LISTS = "\"'[]{}"  # in a name these would be taken for the marks of a list: such names stand in a list


@lru_cache(1024)  # jobs of a trace, and pods of a gang, say the same
def read_type_names(text: str) -> tuple[str, ...] | None:
    """Return names of types from ``[H200, H100]``, as in a job file, or ``H200,H100``; ``None`` = any, mixed or not.

    A list is YAML (or JSON), so names may hold commas and quotes: ``["H100, 80 GB", H200]``.

    :raises InvalidJob: no name, an empty one, or one that is no plain text.
    """
    plain = text.strip()
    if plain == ANY:
        return None
    if plain.startswith("["):
        try:
            listed = load_document(Source("gpu_types", text)).data
        except InvalidInput:
            listed = None
        names = listed if isinstance(listed, list) else []
    else:
        names = []
        for part in map(str.strip, plain.split(",")):
            quoted = len(part) > 1 and part[0] == part[-1] and part[0] in "\"'"
            name = part[1:-1].strip() if quoted else part
            names.append("" if any(mark in name for mark in _OF_LISTS) else name)
    if not names or not all(isinstance(name, str) and name and name.isprintable() for name in names):
        fix = "write their names as the nodes have them, like H200,H100 or [H200, H100]; or any"
        raise InvalidJob(f"{text[:80]!r} names no types of GPU", where="gpu_types", fix=fix)
    return tuple(dict.fromkeys(names))
