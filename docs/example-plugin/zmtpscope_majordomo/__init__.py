"""MDP 0.1 (rfc.zeromq.org/spec/7): clients ask a broker for a service, and the broker asks a worker that does it."""

from zmtpscope.payloads.api import About, Claim, Malformed, Message, Payload, Reader, Settings

CLIENT, WORKER = "MDPC01", "MDPW01"
COMMANDS = {1: "READY", 2: "REQUEST", 3: "REPLY", 4: "HEARTBEAT", 5: "DISCONNECT"}


class Majordomo(Payload):
    """MDP: the header of a client or worker, its command and the rest. An empty frame comes first."""

    name = "majordomo"
    prefix = "mdp"
    least_frames = 2
    judges = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.service: str | None = None
        self.missed_some = False

    def claim(self, message: Message, about: About) -> Claim:
        return Claim.YES if message.bodies[0] in (CLIENT.encode(), WORKER.encode()) else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        self.missed_some |= message.after_loss
        header = reader.text("header")
        if header == CLIENT:
            return f"service {next_text(reader, 'service')}: {read_body(reader)}"
        if header != WORKER or not reader.next_frame():
            raise Malformed("neither client nor worker speaks")
        number = reader.u8("command", hidden=True)
        command = COMMANDS.get(number, f"command {number}")
        reader.give("command", command)
        if command == "READY":
            self.service = next_text(reader, "service")
        elif command == "REPLY" and self.service is None and not self.missed_some:
            reader.finding("a worker replies that never was READY", severity="warn")
        summary = f"{self.service} worker: {command}" if self.service else command
        if command not in ("REQUEST", "REPLY"):
            return summary
        with reader.array("client"):
            while reader.next_frame() and reader.left:
                reader.text("address")
        return f"{summary} {read_body(reader)}"


def next_text(reader: Reader, name: str) -> str:
    """Read the next frame as text."""
    if not reader.next_frame():
        raise Malformed(f"the {name} is missing")
    return reader.text(name)


def read_body(reader: Reader) -> str:
    """Read the remaining frames, each with the dissector that claims it, and return their summaries."""
    summaries = []
    with reader.array("body"):
        while reader.next_frame():
            summaries.append(reader.inside("part").summary)
    return " | ".join(summaries)
