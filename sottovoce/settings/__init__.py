"""The settings of each scheme, declared once for command line, Studio's form, YAML and run context.

Nothing here imports torch or langgraph: the command line needs it to print its help.
"""

from sottovoce.settings.base import Answers, AnySettings, Settings
from sottovoce.settings.debate import Debate, Order
from sottovoce.settings.debates import CMD, MAD, SECRETARY, MesSync, ReConcile, grouped
from sottovoce.settings.one_answer import Brief, Pipeline, SelfConsistency, Single
from sottovoce.settings.option_groups import COMPONENTS, OF_LOADING, OF_PROTOCOL, OF_SAMPLING
from sottovoce.settings.retrieval import IA, MADRA, Pooled, ReAct
from sottovoce.settings.worlds import CodeGen, GovSim, WhoDunit

__all__ = [
    "CMD",
    "COMPONENTS",
    "IA",
    "MAD",
    "MADRA",
    "OF_LOADING",
    "OF_PROTOCOL",
    "OF_SAMPLING",
    "SECRETARY",
    "Answers",
    "AnySettings",
    "Brief",
    "CodeGen",
    "Debate",
    "GovSim",
    "MesSync",
    "Order",
    "Pipeline",
    "Pooled",
    "ReAct",
    "ReConcile",
    "SelfConsistency",
    "Settings",
    "Single",
    "WhoDunit",
    "grouped",
]
