"""What lies under messages: `payloads list`, `verify`, `gc`."""

from __future__ import annotations

from sottovoce.commands.group import REPEAT, area, group
from sottovoce.evaluation.views.payloads import Collecting, Where, collect_payloads, list_payloads, verify_payloads
from sottovoce.options import command

commands = area()
payloads = group(commands, "payloads", "List the files that lie under messages, check them, remove what nobody needs.")
payloads.command("list", help="Count the files and their bytes, by run and by protocol.", epilog=REPEAT)(
    command(list_payloads, Where)
)
payloads.command(
    "verify", help="Name the files that are missing or damaged, and the messages that need them.", epilog=REPEAT
)(command(verify_payloads, Where))
payloads.command("gc", help="Remove the files that no run and no checkpoint names, but for young ones.", epilog=REPEAT)(
    command(collect_payloads, Where, Collecting)
)
