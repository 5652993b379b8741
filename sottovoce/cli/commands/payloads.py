"""Commands for payloads, the tensors that messages carry: `payloads list`, `verify`, `gc`."""

from __future__ import annotations

from sottovoce.cli.commands.group import REPEAT, area, group
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens.payload_files import Collecting, Where, collect_payloads, list_payloads, verify_payloads

commands = area()
payloads = group(commands, "payloads", "List and check the payload files of messages, and remove unused ones.")
payloads.command("list", help="Count payload files and their bytes, by run and by protocol.", epilog=REPEAT)(
    command(list_payloads, Where)
)
payloads.command(
    "verify", help="List missing and damaged payload files, and the messages that need them.", epilog=REPEAT
)(command(verify_payloads, Where))
payloads.command(
    "gc", help="Remove payload files that no run or checkpoint refers to, except recent ones.", epilog=REPEAT
)(command(collect_payloads, Where, Collecting))
