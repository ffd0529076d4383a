"""Publish and subscribe on one connection: subscriptions, and the messages they match."""

from __future__ import annotations

from dataclasses import replace

from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, first_order
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.subscriptions import Subscriptions
from zmtpscope.diagnosis.observers.topics import PublishedTopics
from zmtpscope.dissect import Record
from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.topics import COMMANDS, GROUP_COMMANDS, first_frames
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO, SUBSCRIBERS


class PublishingObserver(Observer):
    """Follows the subscriptions of both sides, and counts their published messages."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.subscriptions = Subscriptions(observed, 0, room), Subscriptions(observed, 1, room)

    def record(self, record: Record) -> None:
        """Process a command."""
        values = record.values
        if record.type == "command" and values["name"] in COMMANDS | GROUP_COMMANDS and values["side"] is not None:
            self.subscriptions[values["side"]].feed(record)

    def rows(self, rows: Rows) -> None:
        """Process the messages of a batch."""
        for own, runs in zip(self.subscriptions, rows.sides, strict=True):
            if runs and any(run.socket_type in SUBSCRIBERS for run in runs):
                own.feed_rows(rows)
        for side, runs in enumerate(rows.sides):
            if runs and (published := [run for run in runs if run.socket_type in PUBLISHERS_AND_RADIO]):
                self._count(side, sorted(published, key=first_order), rows)

    def _count(self, side: int, runs: list[MessageRun], rows: Rows) -> None:
        own, to = self.observed.sides[side], self.subscriptions[1 - side]
        if own.published is None:
            own.published = PublishedTopics()
        for run in runs:
            if run.socket_type == "RADIO":
                run = replace(run, topics=first_frames(run))
            for stretch in to.stretches(run):
                matching = to.matching if to.has_begun else None
                own.published.feed(stretch, rows.files, self.observed, matching, self.room)

    def derive(self) -> list[DerivedTable]:
        """Return the subscriptions that have ended."""
        return [table for each in self.subscriptions for table in each.derive()]

    def finish(self, ordinal: int) -> list[DerivedTable]:
        """Return the subscriptions active at the end."""
        return [table for each in self.subscriptions for table in each.finish(ordinal)]
