"""The application: the contents of the screen, and the methods for commands."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Input

from zmtpscope.tui import profiles
from zmtpscope.tui.banner import Banner
from zmtpscope.tui.causes_bar import CausesBar
from zmtpscope.tui.choices import EVERYTHING
from zmtpscope.tui.client import Client, Notice
from zmtpscope.tui.commands import BY_NAME, COMMANDS, RANK_OF_WIDGETS, Command, CommandError, bindings, keys_text, parse
from zmtpscope.tui.follow_pane import FOLLOWED, FollowPane
from zmtpscope.tui.harmless import HarmlessLines, fault
from zmtpscope.tui.help_screen import HelpScreen, help_entries
from zmtpscope.tui.history import History, Place
from zmtpscope.tui.key_bar import KeyBar
from zmtpscope.tui.menu import FileMenu, Menu
from zmtpscope.tui.pane import Pane, reported, save
from zmtpscope.tui.profiles import Profile, ProfileError
from zmtpscope.tui.prompt import Prompt
from zmtpscope.tui.records_pane import RecordsPane
from zmtpscope.tui.requests import (
    Cancel,
    ListChanged,
    ListSpec,
    ListState,
    Progress,
    ReadAgain,
    SaveCapture,
    SavingState,
    Started,
    StopCapture,
    TableRow,
    Views,
    ViewTitle,
)
from zmtpscope.tui.saved_files import folder
from zmtpscope.tui.title_bar import TitleBar
from zmtpscope.tui.view_bar import MESSAGES, ViewBar
from zmtpscope.tui.view_pane import ViewPane
from zmtpscope.tui.widgets.field_tree import FieldTree
from zmtpscope.tui.widgets.hex_view import HexView
from zmtpscope.tui.widgets.line_view import LineView, is_low
from zmtpscope.tui.widgets.row_list import RowList
from zmtpscope.tui.widgets.table_view import TableView

PROBLEMS = "problems"
"""Name of the view whose count the title bar shows."""
WORKER_GONE = "zmtpscope: the process that reads the capture has ended, which it never should; please report it"

WIDGETS = (LineView, RowList, FieldTree, HexView, TableView)
ALWAYS_QUITS = Binding("ctrl+c", "quit", "Quit", show=False, priority=True)


class Inspector(App[None]):
    """The application that shows the capture named `what`. A worker process, at the other end of `socket`, reads the
    capture."""

    TITLE = "zmtpscope"
    AUTO_FOCUS = "RowList"
    BINDINGS: ClassVar[list[BindingType]] = [ALWAYS_QUITS, *bindings()]
    CSS = """
    ContentSwitcher { height: 1fr; }
    Toast { width: 100%; max-width: 100%; margin: 0; padding: 0 1; }
    .-low CausesBar { max-height: 1; text-wrap: nowrap; }
    .-low CutCells { max-height: 2; border-top: none; background: $surface; }
    .-low DetailsPane { height: 0; border-top: none; }
    .-low DetailsPane:focus-within { height: 100fr; border-top: solid $foreground 20%; }
    .-low DetailsPane > BytePanes { height: 0; }
    .-low DetailsPane > BytePanes:focus-within { height: 9fr; }
    """

    def __init__(self, end: socket.socket, what: str, filter: str = "", profile: str = profiles.DEFAULT) -> None:
        super().__init__()
        self.client = Client(end, self._on_notice, self._on_worker_gone)
        self.profile = Profile()
        self._loaded_profile = Profile()
        self._profile_name = profile
        self._history = History()
        self._views: Sequence[ViewTitle] = (MESSAGES,)
        self._open_view = MESSAGES.name
        self._title_bar = TitleBar(what)
        self._banner = Banner()
        self._view_bar = ViewBar()
        self._causes_bar = CausesBar(BY_NAME["cause"].keys)
        self._filter = filter
        self._reading = ReadAgain()
        """Settings that the user added since the start."""
        self._marks_of = -1
        """`Progress.epoch` of the marks on the screen."""
        self._is_paused = False
        self._is_live = False
        self._harmless = HarmlessLines()
        self._states: dict[str, ListState] = {}
        """List states received and not yet shown, by name of the list."""
        self.records: RecordsPane
        self._panes: dict[str, Pane] = {}

    def on_load(self) -> None:
        """Create everything that `_end` needs, before the application takes over the terminal."""
        self.client.start()
        try:
            self.profile = profiles.load(self._profile_name)
        except ProfileError as error:
            self.notify(str(error), severity="error")
        profile, self._loaded_profile = self.profile, replace(self.profile)
        spec = ListSpec(filter=self._filter, columns=profile.columns, time=profile.time, rules=profile.rules)
        self.records = RecordsPane(self.client, MESSAGES.name, spec)
        self._panes[MESSAGES.name] = self.records
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end, 128 + signal.SIGTERM)

    def compose(self) -> ComposeResult:
        yield self._title_bar
        yield self._banner
        yield self._view_bar
        yield self._causes_bar
        with ContentSwitcher(initial=MESSAGES.name):
            yield self.records
        yield KeyBar(self._rank_of)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._harmless]

    def _fatal_error(self) -> None:
        """Exit after an unexpected error, without the values of variables that Textual's own method prints."""
        self.panic(fault())

    async def on_mount(self) -> None:
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell overwrote the screen
        self._show_theme()
        self.on_resize()
        self.records.rows.focus()
        self.records.filter_bar.set_history(self.profile.filters)
        self.run_worker(reported(self, self._learn_views()))  # handlers do not wait for it: keys would, too

    def on_resize(self) -> None:
        self.set_class(is_low(self), "-low")

    async def _learn_views(self) -> None:
        self._views = (MESSAGES, *await self.client.ask(Views()))
        self._view_bar.show(self._views, self._open_view)
        self._title_bar.show_key_of_diagnoses(next(view.key for view in self._views if view.name == PROBLEMS))

    # -- notices from the worker ---------------------------------------------------------------------------------------

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, Progress):
            self._title_bar.show_progress(notice)
            self._banner.show(notice.problems)
            self._causes_bar.show(notice.causes)
            self.records.show_nothing(notice.nothing)
            if notice.is_live and not self._is_live:
                self._is_live = True
                self.records.rows.follow(True)
            if notice.is_done and self._marks_of != notice.epoch:
                self._marks_of = notice.epoch
                self.run_worker(reported(self, self.records.load_marks()))
        elif isinstance(notice, Started):
            self._show_started(notice)
        elif isinstance(notice, SavingState):
            self._show_saving(notice)
        elif isinstance(notice, ListChanged):
            state, waiting = notice.state, self._states.get(notice.state.name)
            if waiting is not None and waiting.generation == state.generation:
                state = replace(state, kept=min(waiting.kept, state.kept))
            self._states[state.name] = state
            if not self._is_paused:
                self._show_states()

    def _show_started(self, started: Started) -> None:
        if started.exit_code:
            self.exit(return_code=started.exit_code, message=Text(started.messages.rstrip("\n")))
        elif started.messages:
            self.notify(started.messages, severity="warning")

    def _show_saving(self, state: SavingState) -> None:
        self._title_bar.show_saving(state)
        if state.is_done:
            self.notify(state.text, severity="error" if state.has_failed else "information")

    def _show_states(self) -> None:
        states, self._states = self._states, {}
        for name, state in states.items():
            pane = self._panes.get(name)
            if isinstance(pane, RecordsPane):
                pane.show_state(state)

    async def do_pause(self, argument: str) -> None:
        """Pause or resume updates of the screen, but not of the capture."""
        self._is_paused = not self._is_paused
        self._title_bar.show_paused(self._is_paused)
        if not self._is_paused:
            self._show_states()

    async def do_stop(self, argument: str) -> None:
        await self.client.ask(StopCapture())

    async def do_save(self, argument: str) -> None:
        await save(self, self.client, SaveCapture(argument))

    async def do_cancel(self, argument: str) -> None:
        """Cancel the running search, or else the file that is being written."""
        await self.client.ask(Cancel())

    # -- reading the capture again -------------------------------------------------------------------------------------

    async def do_decode(self, argument: str) -> None:
        """Read the capture again with one more rule of `-d`, or without rules if the argument is `none`."""
        rules = () if argument == "none" else (*self._reading.decode_as, argument)
        await self._read_again(replace(self._reading, decode_as=rules))

    async def do_keys(self, argument: str) -> None:
        """Read the capture again with one more key file; without an argument, the user chooses a file."""
        argument = argument or await self.push_screen_wait(FileMenu("A file of CURVE keys"))
        if not argument:
            return
        await self._read_again(replace(self._reading, key_files=(*self._reading.key_files, argument)))

    async def do_reload(self, argument: str) -> None:
        """Read the capture again, for example because the file has changed."""
        await self._read_again(self._reading)

    async def do_frames(self, argument: str) -> None:
        """Read the capture again, with records for frames if they were off, otherwise without."""
        frames = not self._reading.frames
        await self._read_again(replace(self._reading, frames=frames))
        records = ("message", "frame") if frames else ("message",)
        await self.records.open(replace(self.records.spec, records=records))

    async def _read_again(self, reading: ReadAgain) -> None:
        await self.client.ask(reading)
        self._reading = reading
        self._history = History()
        for pane in self.query(RecordsPane):
            pane.forget_numbers()

    def _on_worker_gone(self) -> None:
        if self.return_code is None:  # otherwise the capture could not be opened
            self.exit(return_code=1, message=WORKER_GONE)

    def notify(self, message: str, **options: Any) -> None:
        """Show a message in place of the previous one. It is never parsed as markup."""
        self.clear_notifications()
        super().notify(message, **{**options, "markup": False})

    # -- commands ------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a command is available: not while an input has the focus, or a dialog covers the view."""
        return not (action == "command" and (isinstance(self.focused, Input) or self.screen.is_modal))

    async def action_command(self, name: str) -> None:
        """Run the command of the pressed key. This also removes the last message."""
        self.clear_notifications()
        command = BY_NAME[name]
        if command.is_instant:
            await self._do(command, "")
        else:
            await self._begin_or_ask(command)

    def _rank_of(self, action: str) -> int:
        """Return the position of a key on the last line; 0 if the key does nothing in the open view."""
        found = re.fullmatch(r"command\('(\w+)'\)", action)
        if found is None:
            return RANK_OF_WIDGETS
        command = BY_NAME[found[1]]
        return 0 if self._owner_of(command) is None else command.rank

    def _owner_of(self, command: Command) -> Pane | Inspector | None:
        """Return the object with the method for a command: the open view, or else the application, or None."""
        if self.pane.has_command(command.name):
            return self.pane
        return self if hasattr(self, f"do_{command.name}") else None

    async def _begin_or_ask(self, command: Command, argument: str = "") -> None:
        if command.argument and not (argument or command.is_optional) and self._owner_of(command) is not None:
            prompt = Prompt(f"{command.title}: {command.argument}")
            await self.push_screen(prompt, lambda line: self._begin(command, line) if line else None)
        else:
            self._begin(command, argument)

    def _begin(self, command: Command, argument: str) -> None:
        self.run_worker(self._do(command, argument))

    async def _do(self, command: Command, argument: str) -> None:
        owner = self._owner_of(command)
        if owner is None:
            text = f'"{command.title}" ({command.name}) has no meaning in {self.pane.title}'
            self.notify(text, severity="warning")
        else:
            await reported(self, getattr(owner, f"do_{command.name}")(argument))

    @property
    def pane(self) -> Pane:
        return self._panes[self._open_view]

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield the entries of the command palette: views, and commands with their keys, but no commands of Textual."""
        for view in self._views:
            show = partial(self._begin, BY_NAME["view"], view.name)
            yield SystemCommand(f"{view.title}  {view.key}", f"View: {view.meaning}", show)
        for command in filter(self._owner_of, COMMANDS):
            title = f"{command.title}  {keys_text(command.keys) or ':' + command.name}"
            yield SystemCommand(title, command.argument or command.group, partial(self._begin_or_ask, command))

    async def do_command(self, argument: str) -> None:
        """Open the prompt for a command line. Keys that follow wait until the prompt can take them."""
        await self.push_screen(Prompt(":", suggestions=[each.name for each in COMMANDS]), self._do_typed)

    async def _do_typed(self, line: str | None) -> None:
        try:
            command, argument = parse(line or "")
        except CommandError as error:
            if line:
                self.notify(str(error), severity="error")
            return
        await self._begin_or_ask(command, argument)

    async def do_help(self, argument: str) -> None:
        commands = [(command, self._owner_of(command) is not None) for command in COMMANDS]
        entries = help_entries(commands, self._views, WIDGETS, self.focused)
        await self.push_screen(HelpScreen(list(entries)), self._do_typed)

    async def do_quit(self, argument: str = "") -> None:
        self._end()

    action_quit = do_quit

    async def do_suspend(self, argument: str) -> None:
        self.action_suspend_process()

    def _end(self, return_code: int = 0) -> None:
        self.profile.take_look(self.records.spec)
        with suppress(ProfileError):  # nobody can read a notice while the application ends
            profiles.save_changes(self._profile_name, self._loaded_profile, self.profile)
        self.exit(return_code=return_code)

    # -- views and places ----------------------------------------------------------------------------------------------

    @property
    def _here(self) -> Place:
        return Place(self._open_view, self.pane.snapshot)

    async def do_view(self, argument: str) -> None:
        """Open a view by its name or key."""
        view = next((view for view in self._views if argument == view.key or argument.casefold() == view.name), None)
        if view is None:
            raise CommandError(f"there is no view {argument}: {', '.join(view.name for view in self._views)}")
        if view.name != self._open_view:
            self._history.leave(self._here)
            await self._open(view.name)

    async def _open(self, name: str) -> None:
        switcher = self.query_one(ContentSwitcher)
        if name not in self._panes:
            view = next((view for view in self._views if view.name == name), None)
            self._panes[name] = FollowPane(self.client) if view is None else ViewPane(self.client, view)
            await switcher.add_content(self._panes[name], id=name)
        if name != self._open_view:
            self.pane.left_for_another()
        self._open_view = switcher.current = name
        self._view_bar.show(self._views, name)
        self._causes_bar.want(name == MESSAGES.name)
        self.pane.take_focus()

    async def do_back(self, argument: str) -> None:
        await self._return(self._history.back(self._here))

    async def do_forward(self, argument: str) -> None:
        await self._return(self._history.forward(self._here))

    async def _return(self, place: Place | None) -> None:
        if place is None:
            self.notify("there is no other place to go to")
            return
        await self._open(place.pane)
        await self.pane.restore(place.snapshot)

    def on_view_bar_chosen(self, event: ViewBar.Chosen) -> None:
        self._begin(BY_NAME["view"], event.name)

    def on_line_view_digits(self, event: LineView.Digits) -> None:
        self._begin(BY_NAME["view"], str(event.number))

    def on_view_pane_chosen(self, event: ViewPane.Chosen) -> None:
        self._go(self._show_row(event.row, event.view.records))

    async def do_cause(self, argument: str) -> None:
        """Show the records of the worst problem; if they are shown, the records of the next one."""
        row = self._causes_bar.next_cause()
        if row is None:
            raise CommandError("there are no errors or warnings")
        self._go(self._show_row(row, EVERYTHING))

    def on_causes_bar_chosen(self, event: CausesBar.Chosen) -> None:
        self._go(self._show_row(event.row, EVERYTHING))

    def on_records_pane_record_requested(self, event: RecordsPane.RecordRequested) -> None:
        self.run_worker(reported(self, self._show_record(event.number)))

    def on_pane_follow_requested(self, event: Pane.FollowRequested) -> None:
        self._go(self._follow(event))

    def _go(self, task: Coroutine[Any, Any, None]) -> None:
        self._history.leave(self._here)
        self.run_worker(reported(self, task))

    async def _show_record(self, number: int) -> None:
        await self._open(MESSAGES.name)
        await self.records.go_to_record(number)

    async def _show_row(self, row: TableRow, records: tuple[str, ...]) -> None:
        if row.filter or row.record is None:
            spec = replace(self.records.spec, records=records, filter=row.filter, only=None)
            await self.records.open(spec if row.time is None else replace(spec, sort=None))
        await self._open(MESSAGES.name)
        if row.record is not None:
            await self.records.go_to_record(row.record)
        elif row.time is not None:
            await self.records.go_to_time(row.time)

    async def _follow(self, asked: Pane.FollowRequested) -> None:
        await self._open(FOLLOWED)
        pane = self._panes[FOLLOWED]
        assert isinstance(pane, FollowPane)
        spec = replace(self.records.spec, records=asked.records, filter="", only=None)
        await pane.follow(asked.title, asked.filter, spec, asked.number)

    def on_follow_pane_closed(self) -> None:
        self._begin(BY_NAME["back"], "")

    def on_records_pane_filter_applied(self, event: RecordsPane.FilterApplied) -> None:
        self.profile.remember(event.filter)
        for pane in self.query(RecordsPane):
            pane.filter_bar.set_history(self.profile.filters)

    def on_pane_left(self, event: Pane.Left) -> None:
        self._history.leave(Place(event.name, event.snapshot))

    # -- look ----------------------------------------------------------------------------------------------------------

    async def do_theme(self, argument: str) -> None:
        names = sorted(self.available_themes)
        argument = argument or await self.push_screen_wait(Menu("Theme", [(name, name) for name in names]))
        if argument and argument not in names:
            raise CommandError(f"there is no theme {argument}: {', '.join(names)}")
        self.profile.theme = argument or self.profile.theme
        self._show_theme()

    def _show_theme(self) -> None:
        """Apply the theme of the profile. On a terminal of 16 colours, its shades would look equal, so the terminal's
        colours are used."""
        theme = self.available_themes.get(self.profile.theme)
        if theme is not None:
            own = "ansi-dark" if theme.dark else "ansi-light"
            self.theme = own if self.console.color_system == "standard" else theme.name

    async def do_profile(self, argument: str) -> None:
        """Load a profile with this name; if there is none, save the current settings under the name."""
        if argument in profiles.names():
            self.profile, self._profile_name = profiles.load(argument), argument
            self._show_theme()
            await self.records.take_look(self.profile)
        else:
            self.profile.take_look(self.records.spec)
            profiles.save(argument, self.profile)
            self._profile_name = argument
            self.notify(f"saved in {folder()}")
        self._loaded_profile = replace(self.profile)

    async def do_screenshot(self, argument: str) -> None:
        path = Path(argument).expanduser()
        try:
            path.write_text(self.export_screenshot(title=self._title_bar.what), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None
        self.notify(f"written: {path}")

    async def do_maximise(self, argument: str) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)
