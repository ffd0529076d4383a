"""The capture process: `python -m zmtpscope.live.capture.process`, which `session.py` starts.

It takes packets and writes them, and does nothing else, so that it keeps up with them whatever their readers do. Its
standard input brings the settings, one line of JSON, then commands, a line each: `consumed FILE OCTETS` and `stop`; at
its end the process ends. On standard output it says what has changed, a line of JSON at most every 10 ms; a reader that
is busy is not waited for.

The sockets are open before anything is loaded that they do not need: packets wait in the kernel meanwhile.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module

from zmtpscope.live.capture.controls import Controls
from zmtpscope.live.capture.engines import enter_namespace, open_source, with_interface_names
from zmtpscope.live.capture.interfaces import UnknownInterface
from zmtpscope.live.capture.loading import load_for
from zmtpscope.live.capture.output_files import OutputFiles
from zmtpscope.live.capture.packet_socket import CannotCapture
from zmtpscope.live.capture.privileges import RightsKept, UnknownUser, become, invoking_user

LOOP = "zmtpscope.live.capture.loop"
"""What needs numpy, which takes a tenth of a second to load."""


def main() -> None:
    """Run one capture, as the parent wants it."""
    gc.disable()  # nothing here makes circles
    controls = Controls(sys.stdin.fileno(), sys.stdout.fileno())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: controls.stop())
    settings = controls.settings()
    try:
        user = invoking_user(settings.user, os.environ)
        enter_namespace(settings)
        settings = with_interface_names(settings)
        engine, source, passed_over = open_source(settings)
        if user is not None:
            import_module(LOOP)  # which the user may have no right to read
            load_for(user)
        become(user)
        files = OutputFiles(settings)
        files.open_next()
    except (CannotCapture, UnknownInterface, RightsKept, UnknownUser) as refusal:
        controls.send_last({"refused": str(refusal), "hint": getattr(refusal, "hint", None)})
        return
    names, directories = settings.interfaces, [] if files.private is None else files.private.directories
    controls.send({"engine": engine, "passed_over": passed_over, "names": names, "directories": directories})
    import_module(LOOP).Capture(settings, source, files, controls).run()
    source.close()
    if controls.is_gone and files.private is not None:  # nobody will read it, and nobody else removes it
        files.private.remove()


if __name__ == "__main__":
    main()
