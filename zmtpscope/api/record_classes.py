"""The record classes. Type checkers and editors read `record_classes.pyi`, which `python docs/api/generate.py` writes
from the same schema."""

from __future__ import annotations

from zmtpscope.api.rows import class_of
from zmtpscope.records import RECORDS

Connection = class_of(RECORDS["connection"])
Greeting = class_of(RECORDS["greeting"])
Command = class_of(RECORDS["command"])
Message = class_of(RECORDS["message"])
Frame = class_of(RECORDS["frame"])
Datagram = class_of(RECORDS["datagram"])
ZrePair = class_of(RECORDS["zre_pair"])
Gap = class_of(RECORDS["gap"])
Stall = class_of(RECORDS["stall"])
Retransmission = class_of(RECORDS["retransmission"])
Leftover = class_of(RECORDS["leftover"])
Finding = class_of(RECORDS["finding"])
Request = class_of(RECORDS["request"])
Subscription = class_of(RECORDS["subscription"])
Heartbeat = class_of(RECORDS["heartbeat"])
Peer = class_of(RECORDS["peer"])
Topic = class_of(RECORDS["topic"])
Delivery = class_of(RECORDS["delivery"])
Diagnosis = class_of(RECORDS["diagnosis"])

CLASSES = {
    class_.type.name: class_
    for class_ in (
        *(Connection, Greeting, Command, Message, Frame, Datagram, ZrePair, Gap, Stall),
        *(Retransmission, Leftover, Finding),
        *(Request, Subscription, Heartbeat, Peer, Topic, Delivery, Diagnosis),
    )
}
