"""The worker's loop: reads, updates lists and views, and answers requests in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec
import numpy as np

from zmtpscope.dissect import Options
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter.tokens import FilterError
from zmtpscope.tui.requests import (
    Apart,
    Cancel,
    CellFilter,
    CheckFilter,
    CloseList,
    CompleteFilter,
    CopyTextOf,
    DetailsOf,
    Failure,
    Find,
    Followed,
    FollowsOf,
    ListChanged,
    ListState,
    Marks,
    OpenList,
    Page,
    PlaceAt,
    PlaceFound,
    PlaceOf,
    Progress,
    ReadAgain,
    Request,
    RowJson,
    Rows,
    SaveCapture,
    SaveRows,
    SaveTable,
    StopCapture,
    TableOf,
    Views,
)
from zmtpscope.tui.worker.channel import CannotAnswer, Channel
from zmtpscope.tui.worker.counted import CountedViews
from zmtpscope.tui.worker.details import details_of
from zmtpscope.tui.worker.filters import cell_filter, check, complete, followed
from zmtpscope.tui.worker.lists import RecordList
from zmtpscope.tui.worker.loading import Loading, Opened
from zmtpscope.tui.worker.marks import load_marks, save_marks
from zmtpscope.tui.worker.saved_rows import saving_of
from zmtpscope.tui.worker.saving import CannotSave, Saving
from zmtpscope.tui.worker.search import Search
from zmtpscope.tui.worker.snippets import text_as
from zmtpscope.tui.worker.views.catalogue import VIEWS
from zmtpscope.tui.worker.views.tables import seconds

IDLE = 10.0
"""Seconds to sleep without work or requests."""

NOTICE_SECONDS = 0.1
"""Minimum seconds between notices."""

SEARCH_SECONDS = 0.1
"""Maximum seconds of a search between two reads of live traffic, which may wait long for packets."""


class Worker:
    """The worker: answers requests about the capture `opened`, analysed with `options`. `watching` is called around
    each step."""

    def __init__(
        self,
        channel: Channel,
        opened: Opened,
        options: Options,
        watching: AbstractContextManager[None],
    ) -> None:
        self._watching = watching
        self._channel = channel
        self._opened = opened
        self._options = options
        self._loading = Loading(opened, options)
        self._epoch = 0
        self._lists: dict[str, RecordList] = {}
        self._views = self._new_views()
        self._generation = 0
        self._saving: Saving | None = None
        self._search: tuple[int, Search] | None = None
        """(request number, search)."""
        self._noticed = 0.0
        self._notified: Progress | None = None
        self._answers: dict[type[Request[Any]], Callable[[Any], object]] = {
            OpenList: self._open_list,
            CloseList: self._close_list,
            Rows: self._rows,
            PlaceOf: self._place_of,
            PlaceAt: self._place_at,
            Apart: self._apart,
            Marks: self._marks,
            CheckFilter: lambda request: check(request.filter),
            CompleteFilter: lambda request: complete(request.filter, request.place, self._loading.store),
            CellFilter: self._cell_filter,
            FollowsOf: self._follows_of,
            Views: lambda request: tuple(VIEWS.values()),
            TableOf: lambda request: self._views.table(request),
            DetailsOf: lambda request: details_of(self._loading.store, request.number),
            ReadAgain: self._read_again,
            SaveRows: lambda request: self._save(
                lambda: saving_of(request, self._lists.get(request.list), self._loading)
            ),
            SaveTable: self._save_table,
            SaveCapture: self._save_capture,
            RowJson: self._row_json,
            StopCapture: self._stop_capture,
            Cancel: lambda request: self._cancel(),
            CopyTextOf: self._text_of,
        }

    def run(self) -> None:
        """Run until the screen closes the socket (`ScreenGone`). A file that is not finished is removed."""
        try:
            self._notify(is_last=True)
            while True:
                has_work = False
                for step in self._steps():
                    has_work = True
                    with self._watching:
                        step()
                    self._answer_all(0)
                self._notify(is_last=not has_work)
                self._answer_all(0 if has_work else IDLE)
        finally:
            self._cancel_saving()

    def _answer_all(self, timeout: float) -> None:
        for number, request in self._channel.receive(timeout):
            if isinstance(request, Find):
                self._begin_search(number, request)
                continue
            with self._watching:
                reply = self._answer(request)
            self._channel.reply(number, reply)

    def _steps(self) -> Iterator[Callable[[], object]]:
        """Yield a function that makes one step, for each task that has work."""
        if self._loading.has_room:
            yield self._loading.step
        for each in list(self._lists.values()):
            if each.is_behind:
                yield each.step
        if self._saving is not None and not self._saving.state.is_done:
            yield self._saving.step
        if self._search is not None:
            yield partial(self._search_on, *self._search)
        if self._views.is_behind:
            yield self._views.step
        until = time.monotonic() + (SEARCH_SECONDS if self._opened.followed is not None else 0)
        derived = self._views.derived
        while self._loading.arrived or (self._has_time and derived.is_behind):
            yield derived.step
            # a search begins when nothing is left to derive
            if time.monotonic() > until and (derived.counter.is_searching or not self._loading.arrived):
                return

    @property
    def _has_time(self) -> bool:
        """Whether no other task is waiting, so that diagnoses can be computed before the user opens their view."""
        is_waited_for = self._search is not None or self._views.is_behind
        has_lists_behind = any(each.is_behind for each in self._lists.values())
        return self._loading.leaves_time and not is_waited_for and not has_lists_behind

    def _answer(self, request: Request[Any]) -> object:
        try:
            return self._answers[type(request)](request)
        except FilterError as error:
            return Failure(safe_text(error.sentence))
        except CannotAnswer as error:
            return Failure(safe_text(str(error)))

    # -- notices -------------------------------------------------------------------------------------------------------

    def _notify(self, *, is_last: bool) -> None:
        now = time.monotonic()
        if not is_last and now - self._noticed < NOTICE_SECONDS:
            return
        self._noticed = now
        for each in self._lists.values():
            if each.state != each.notified:
                each.notified = each.state
                self._channel.notify(ListChanged(each.state))
        if self._saving is not None and self._saving.state != self._saving.notified:
            self._saving.notified = self._saving.state
            self._channel.notify(self._saving.state)
        progress = msgspec.structs.replace(
            self._loading.progress,
            epoch=self._epoch,
            diagnoses=self._views.diagnoses,
            diagnosed=self._views.diagnosed,
            searched=None if self._search is None else self._search[1].percent,
            causes=self._views.causes,
        )
        if progress != self._notified:
            self._notified = progress
            self._channel.notify(progress)

    def _new_views(self) -> CountedViews:
        loading = self._loading
        return CountedViews(loading.store, lambda: loading.is_done, lambda: loading.ongoing, loading.arrived)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _open_list(self, request: OpenList) -> ListState:
        self._generation += 1
        loading = self._loading
        made = RecordList(request.name, self._generation, request.spec, loading.store, loading.sides)
        self._lists[request.name] = made
        made.step()
        made.notified = made.state
        return made.state

    def _save_capture(self, request: SaveCapture) -> bool:
        from zmtpscope.tui.worker.saved_capture import capture_saving_of  # slow to import, and rows are shown first

        return self._save(lambda: capture_saving_of(request, self._loading))

    def _save_table(self, request: SaveTable) -> bool:
        from zmtpscope.tui.worker.saved_table import table_saving_of  # slow to import, and rows are shown first

        return self._save(lambda: table_saving_of(request, lambda: self._views.raw_table(request.table), self._loading))

    def _row_json(self, request: RowJson) -> str:
        from zmtpscope.tui.worker.saved_table import row_json  # slow to import, and rows are shown first

        return row_json(self._views.raw_table(request.table), request.key)

    def _read_again(self, request: ReadAgain) -> int:
        from zmtpscope.tui.worker.reading_again import loading_again  # slow to import

        self._give_up_search("the capture is read again")
        self._loading = loading_again(request, self._opened, self._options)
        self._views = self._new_views()
        self._epoch += 1
        for name, before in list(self._lists.items()):
            marked = None if before.spec.only is None else ()
            self._open_list(OpenList(name, msgspec.structs.replace(before.spec, only=marked, reference=None)))
            self._lists[name].notified = None
        return self._epoch

    def _close_list(self, request: CloseList) -> None:
        self._lists.pop(request.name, None)

    def _rows(self, request: Rows) -> Page:
        shown = self._lists.get(request.list)
        return Page(request.low, ()) if shown is None else shown.page(request.low, request.high)

    def _begin_search(self, number: int, request: Find) -> None:
        """Start a search, whose reply is sent when it is done. The previous search is cancelled."""
        self._give_up_search("the search was given up for another one")
        shown = self._lists.get(request.list)
        if shown is None:
            self._channel.reply(number, None)
            return
        try:
            rows = shown.numbers()
            search = Search(self._loading.store, rows, request.sought, request.place, forward=request.forward)
        except FilterError as error:
            self._channel.reply(number, Failure(safe_text(error.sentence)))
            return
        self._search = number, search

    def _give_up_search(self, why: str) -> None:
        if self._search is not None:
            self._channel.reply(self._search[0], Failure(why))
            self._search = None

    def _cancel(self) -> None:
        if self._search is not None:
            self._give_up_search("the search was cancelled")
        elif not self._cancel_saving():
            raise CannotAnswer("there is no search and no file to cancel")

    def _search_on(self, number: int, search: Search) -> None:
        if not search.is_done:
            search.step()
        if search.is_done:
            self._search = None
            self._channel.reply(number, search.found)

    def _cell_filter(self, request: CellFilter) -> str | Failure:
        values = self._loading.store.row(request.record)
        found = cell_filter(values, request.column)
        return Failure(f"no filter says what stands in {request.column} here") if found is None else found

    def _follows_of(self, request: FollowsOf) -> tuple[Followed, ...]:
        return tuple(followed(self._loading.store.row(request.record), self._loading.sides))

    def _place_of(self, request: PlaceOf) -> PlaceFound | None:
        shown = self._lists.get(request.list)
        if shown is None:
            return None
        shown.look_at(request.record + 1)
        return shown.place_of(request.record)

    def _place_at(self, request: PlaceAt) -> PlaceFound | None:
        shown = self._lists.get(request.list)
        if shown is None:
            return None
        shown.look_at(len(self._loading.store))
        return shown.place_at(request.time)

    def _marks(self, request: Marks) -> tuple[int, ...]:
        """Return the saved marks. Live traffic has none, since it cannot be opened again."""
        paths, store = self._opened.paths, self._loading.store
        if self._opened.followed is not None:
            return ()
        return load_marks(paths, store) if request.numbers is None else save_marks(paths, store, request.numbers)

    def _save(self, begin: Callable[[], Saving | None]) -> bool:
        """Start writing a file with `begin`. Return False if the file exists."""
        if self._saving is not None and not self._saving.state.is_done:
            raise CannotSave(f"{self._saving.state.path} is still being written; cancel that, or wait")
        saving = begin()
        if saving is not None:
            self._saving = saving
        return saving is not None

    def _stop_capture(self, request: StopCapture) -> None:
        if self._opened.followed is None or self._loading.is_done:
            raise CannotAnswer("nothing is being captured")
        self._opened.followed.stop()

    def _cancel_saving(self) -> bool:
        """Cancel the file that is being written. Return whether there was one."""
        saving = self._saving if self._saving is not None and not self._saving.state.is_done else None
        if saving is not None:
            saving.cancel()
        return saving is not None

    def _text_of(self, request: CopyTextOf) -> str:
        return text_as(request.form, self._loading.store, self._loading.sides, request.number)

    def _apart(self, request: Apart) -> str:
        numbers = np.array(sorted((request.first, request.second)))
        return seconds(abs(int(np.diff(self._loading.store.times(numbers))[0])))
