"""The capture process `python -m zmtpscope.live.capture.process`, which `session.py` starts.

It only writes packets to files, so that slow readers never delay it. Its standard input is one line of JSON, the
settings, then one command per line: `consumed FILE OCTETS` and `stop`. The process ends when its input ends. It writes
reports to standard output, one line of JSON at most every 10 ms, and never waits for a busy reader.

The sockets are opened before other modules are loaded; packets wait in the kernel meanwhile.
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
"""The module of the capture loop. It needs numpy, which takes a tenth of a second to load."""


def main() -> None:
    gc.disable()  # nothing here creates reference cycles
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
            import_module(LOOP)  # the user might not be allowed to read it
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
    if controls.is_gone and files.private is not None:  # the parent is gone and cannot remove it
        files.private.remove()


if __name__ == "__main__":
    main()
