"""Sub-commands of ``arnold``; with :mod:`arnold.options` and :mod:`arnold.console` the only door of click and rich.

Commands live in one module each and are imported when they are called, so that ``arnold --help`` imports click and
nothing else.  A command returns its exit code (``None`` = 0) and raises :class:`~ground.errors.ArnoldError` for
whatever a user can cause; :mod:`arnold.commands.run` alone turns errors into messages and exit codes.
"""
