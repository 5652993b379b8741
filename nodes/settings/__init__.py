"""The settings of each scheme, declared once: command line, Studio's form, YAML and context read them.

Nothing here imports torch or langgraph: the command line reads it to print its help.
"""

from sottovoce.nodes.settings.alone import SelfConsistency, Single
from sottovoce.nodes.settings.base import (
    COMPONENTS,
    OF_LOADING,
    OF_PROTOCOL,
    OF_SAMPLING,
    AnySettings,
    Settings,
)
from sottovoce.nodes.settings.cmd import CMD
from sottovoce.nodes.settings.debate import Debate, FinalRule, Order, Role
from sottovoce.nodes.settings.discussion import MesSync
from sottovoce.nodes.settings.mad import MAD
from sottovoce.nodes.settings.reconcile import ReConcile

__all__ = [
    "CMD",
    "COMPONENTS",
    "MAD",
    "OF_LOADING",
    "OF_PROTOCOL",
    "OF_SAMPLING",
    "AnySettings",
    "Debate",
    "FinalRule",
    "MesSync",
    "Order",
    "ReConcile",
    "Role",
    "SelfConsistency",
    "Settings",
    "Single",
]
