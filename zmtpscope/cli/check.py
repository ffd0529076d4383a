"""`zmtpscope check`: diagnoses with cause and remedy."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zmtpscope.cli.captures import Run, read_through
from zmtpscope.cli.output import COLOR, JSON, TIME_FORM, paint_of
from zmtpscope.cli.parameters import READ_FILES, command, option, options
from zmtpscope.cli.terminal import notify, terminal_width, write_json
from zmtpscope.option_texts import Body

if TYPE_CHECKING:
    from zmtpscope.diagnosis.derivation import Derivation
    from zmtpscope.diagnosis.diagnosis import Explained, Rule
    from zmtpscope.dissect import Batch

FAILS = {"error": ("error",), "warn": ("error", "warn")}
"""Severities that cause exit code 4, by value of `--fail-on`."""

FOUND = 4
"""Exit code if `--fail-on` matches."""


def _rules(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from zmtpscope.diagnosis.rules.catalogue import RULES
    from zmtpscope.option_texts import nearest

    for name in names:
        if name not in RULES:
            raise click.BadParameter(f"no rule named {name!r}{nearest(name, RULES)}; --explain lists all")
    return names


def _explain(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    from zmtpscope.diagnosis.rules.catalogue import RULES

    for rule in RULES.values() if name == "all" else [RULES[each] for each in _rules(context, parameter, (name,))]:
        click.echo(f"{rule.severity:<5} {rule.id}: {rule.title}")
        refuted_by = "\n" * rule.refuted_by.startswith("* ") + rule.refuted_by
        for text in f"{rule.explanation}\nRefuted by: {refuted_by}".split("\n"):
            indent = "        " if text.startswith("* ") else "      "
            for line in textwrap.wrap(text, 110, initial_indent="      ", subsequent_indent=indent):
                click.echo(line)
    context.exit()


UNSHOWN = {"body": Body("none", None), "show_secrets": False}
"""Settings of the analyser, because diagnoses need no bodies and show no secrets."""


class Why(NamedTuple):
    """The value of `--why`: topic and subscriber. `topic` is in the encoding of records (`to_text`)."""

    topic: str
    peer: str


def _why(context: click.Context, parameter: click.Parameter, question: str | None) -> Why | None:
    if question is None:
        return None
    topic, at, peer = question.rpartition("@")
    if not at or not peer:
        raise click.BadParameter("the format is TOPIC@SUBSCRIBER, for example prices@10.0.0.3")
    return Why(topic, peer)


def _report_option(name: str, what: str) -> Callable[[Any], Any]:
    path = click.Path(dir_okay=False)
    return option(f"--{name}", name, type=path, metavar="FILE", help=f"Also write the report to FILE as {what}")


@command(short_help="Diagnose problems in capture files: cause, evidence and fix.")
@options(*READ_FILES, JSON, TIME_FORM, COLOR)
@option("--rule", "rules", multiple=True, callback=_rules, metavar="RULE", help="Apply only this rule; repeatable.")
@option(
    "--explain",
    callback=_explain,
    expose_value=False,
    is_eager=True,
    metavar="RULE",
    help="Explain when RULE applies, which facts refute it and what a capture cannot show, and exit; "
    "`all` lists the rules.",
)
@option(
    "--fail-on",
    "fail_on",
    type=click.Choice(list(FAILS)),
    help=f"Exit with code {FOUND} if any diagnosis has at least this severity.",
)
@option(
    "--why",
    callback=_why,
    metavar="TOPIC@PEER",
    help="Explain, message by message, why messages on TOPIC did or did not reach the subscriber PEER (an identity, an "
    "address, or ADDRESS:PORT).",
)
@_report_option("junit", "JUnit XML: each rule is a test, errors and warnings are failures.")
@_report_option("sarif", "SARIF 2.1.0, which code hosts show.")
def check(**given: Any) -> int:
    """Diagnose problems in capture FILEs. Each diagnosis states the cause in one sentence, then the evidence
    (packets and times), the consequences, and the fix."""
    from zmtpscope.diagnosis.derivation import Derivation

    if given["why"] is not None:
        return _answer(given)
    derivation = Derivation()
    failed: list[bool] = []

    code = read_through(
        {**given, **UNSHOWN},
        lambda run, batch: derivation.feed(batch),
        lambda run: failed.append(_write(derivation, run, given)),
        only_calls=True,
    )
    return FOUND if any(failed) else code


def _answer(given: dict[str, Any]) -> int:
    """Print for `--why` which messages of a topic reached the subscriber, and why others did not; return
    the exit code."""
    from zmtpscope.diagnosis.across.why import TopicSearch, answers, peer_names
    from zmtpscope.diagnosis.across.words import topic_name
    from zmtpscope.diagnosis.derivation import Derivation
    from zmtpscope.export.clock import Clock
    from zmtpscope.export.diagnosis.why import nothing_found, why_json, why_lines
    from zmtpscope.records import from_text, to_text

    why: Why = given["why"]
    if given["rules"] or given["fail_on"]:
        raise click.UsageError("--why cannot be combined with --rule or --fail-on")
    topic = from_text(why.topic)
    derivation, search = Derivation(), TopicSearch(topic)

    def feed(run: Run, batch: Batch) -> None:
        derivation.feed(batch)
        search.feed(batch)

    def write(run: Run) -> None:
        knowledge = derivation.knowledge()
        clock = Clock(given["time_form"], run.first_time)
        found = list(answers(search, knowledge, why.peer))
        if given["as_json"]:
            write_json(why_json(to_text(topic), found))
        else:
            for text in why_lines(topic_name(topic), found, clock, paint_of(given)):
                click.echo(text)
        remark = notify if given["as_json"] else click.echo
        if not found:
            remark(nothing_found(topic_name(topic), peer_names(knowledge)))
        if search.left_out:
            remark(f"{search.left_out} more messages were not examined: there are too many")

    return read_through({**given, **UNSHOWN}, feed, write)


def _write(derivation: Derivation, run: Run, given: dict[str, Any]) -> bool:
    """Print the diagnoses; return whether `--fail-on` matches any of them."""
    from zmtpscope.diagnosis.diagnose import diagnose
    from zmtpscope.diagnosis.rules.catalogue import RULES

    rules = [RULES[name] for name in given["rules"] or RULES]
    found = diagnose(derivation.knowledge(), rules)
    if given["as_json"]:
        from zmtpscope.diagnosis.deriving import diagnosis_records
        from zmtpscope.dissect import Batch
        from zmtpscope.export.json_lines import text_of

        batch = Batch(run.captures.files, records=list(diagnosis_records(found, 0)))
        for text in text_of(batch, run.options, ascii_only=sys.stdout.isatty()):
            sys.stdout.buffer.write(text)
    else:
        from zmtpscope.export.clock import Clock
        from zmtpscope.export.diagnosis.report import report_lines

        clock, width = Clock(given["time_form"], run.first_time), terminal_width() or 120
        for line in report_lines(found, clock, paint_of(given), width=width, many_files=len(run.captures.files) > 1):
            click.echo(line)
    sys.stdout.flush()
    _write_files(found, rules, given)
    severities = FAILS.get(given["fail_on"], ())
    return any(explained.diagnosis.severity in severities for explained in found)


def _write_files(found: Sequence[Explained], rules: Sequence[Rule], given: dict[str, Any]) -> None:
    """Write JUnit and SARIF reports, if requested. Each file appears only when complete."""
    if given["junit"] is None and given["sarif"] is None:
        return
    from pathlib import Path

    from zmtpscope.export.diagnosis.ci_reports import junit_xml, sarif_json
    from zmtpscope.export.files import write_file

    for name, report in (("junit", junit_xml), ("sarif", sarif_json)):
        if given[name] is not None:
            write_file(Path(given[name]), report(found, rules))
