"""Plugins: finds, checks and orders them; the only place where their hooks are called.

Theory of operation. A plugin is an installed package with an entry point in group `hermes`, whose
name is the plugin's name. It names a module, an object, or a class; a class is called with its
section of the config, checked against its `Settings` (`finding`). pluggy keeps the marks and checks
argument names; what a plugin brings is asked for and checked as a whole before any of it takes effect
(`brought`), then goes into the tables of this run (`loaded`). Calling is ours, because pluggy does not
know coroutines: `each`, `first` and `fold` (`verbs`) ask one implementation after the other, wait for
each within its limit (`limits`), and isolate it (P2): whatever it does ends as a report under its
plugin's name, never as an exception of the caller. `owners` tells whose code runs somewhere, `reload`
puts another version in the place of the one that runs. Our own plugins come in by the same door (P1).
"""

from __future__ import annotations

from hermes_core.plugins.brought import PluginInfo
from hermes_core.plugins.finding import catalogue, load
from hermes_core.plugins.lately import Work
from hermes_core.plugins.limits import meant, resume, within
from hermes_core.plugins.loaded import Plugins
from hermes_core.plugins.operation import Operation
from hermes_core.plugins.owners import Culprit, outwards
from hermes_core.plugins.reload import reload

__all__ = [
    "Culprit",
    "Operation",
    "PluginInfo",
    "Plugins",
    "Work",
    "catalogue",
    "load",
    "meant",
    "outwards",
    "reload",
    "resume",
    "within",
]
