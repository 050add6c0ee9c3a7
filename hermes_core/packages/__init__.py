"""Packages: installs and removes plugins in the running environment, and looks at what one would register.

Theory of operation. Whatever a person names is first made into wheels in a folder of its own: that is
where the network, foreign build steps and broken files are met, and nothing has changed yet (`building`).
From the wheels it is known what the package is, and pip's own resolver says, without doing it, what
would have to change for it; what that would break is found and refused (`conflicts`). Only then are the
wheels put in place, by pip, without index and resolver (`install`). A journal beside them says that this
has begun, as one says it of a removal (`remove`): who is killed in that moment leaves something that the
next call finishes (`environment`).

Nothing here imports a plugin. What one registers is found out by a process of its own (`look`).
"""

from __future__ import annotations

from hermes_core.packages.environment import Environment, Pending
from hermes_core.packages.install import Installed, Options, install
from hermes_core.packages.look import Look, look
from hermes_core.packages.remove import remove

__all__ = ["Environment", "Installed", "Look", "Options", "Pending", "install", "look", "remove"]
