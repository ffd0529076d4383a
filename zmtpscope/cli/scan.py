"""`zmtpscope scan`: an inventory of ZMTP endpoints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import Run, read_through
from zmtpscope.cli.output import JSON
from zmtpscope.cli.parameters import READ_FILES, SHOW_SECRETS, command, options
from zmtpscope.cli.terminal import notify, write_json
from zmtpscope.option_texts import Body

if TYPE_CHECKING:
    from zmtpscope.export.inventory.inventory import Inventory


@command(short_help="List the ZeroMQ endpoints in capture files.")
@options(*READ_FILES, JSON, SHOW_SECRETS)
def scan(**given: Any) -> int:
    """List the endpoints in capture FILEs that speak ZMTP, on any port: versions, security mechanisms, socket types,
    identities, clients and when they connected, refused clients and the reason, and other traffic at the endpoint."""
    from zmtpscope.export.inventory.inventory import Inventory

    inventory = Inventory()
    return read_through(
        {**given, "body": Body("none", None)},
        lambda run, batch: inventory.feed(batch.records),
        lambda run: _write(inventory, run, as_json=given["as_json"]),
    )


def _write(inventory: Inventory, run: Run, *, as_json: bool) -> None:
    others = run.analyser.summary.other_endpoints
    if as_json:
        from zmtpscope.export.inventory.inventory import lines

        write_json(lines(inventory, others))
    else:
        from zmtpscope.export.inventory.report import report

        for text in report(inventory, others, run.captures.statistics):
            click.echo(text)
    sys.stdout.flush()
    if inventory.left_out:
        notify(f"zmtpscope: {inventory.left_out} connections or refusals were left out: too many endpoints")
