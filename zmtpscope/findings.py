"""Everything that zmtpscope can find wrong or worth saying: id, usual severity, source, sentence, what to do.

Ids and severities are those of conformance.md, section 1, which also states the exact conditions. Ids are stable: never
used again for something else, never renumbered.
"""

from __future__ import annotations

from typing import NamedTuple

SEVERITIES = ("error", "warn", "note", "chat")
"""Malformed or forbidden; unusual, probably wrong; worth knowing; a normal event."""


class FindingKind(NamedTuple):
    """One check. `text` is a sentence without its full stop, so that details can follow; `hint` says what to do.

    `section` names the specification and the section there, or a page of docs/protocol where what implementations do is
    the only source.
    """

    id: str
    severity: str
    section: str
    text: str
    hint: str | None


SPECIFICATIONS = {
    "13": "13/ZMTP 1.0",
    "15": "15/ZMTP 2.0",
    "20": "20/ZRE 1",
    "23": "23/ZMTP 3.0",
    "24": "24/PLAIN",
    "25": "25/CURVE",
    "26": "26/CURVEZMQ",
    "27": "27/ZAP",
    "28": "28/REQREP",
    "29": "29/PUBSUB",
    "30": "30/PIPELINE",
    "31": "31/EXPAIR",
    "36": "36/ZRE",
    "37": "37/ZMTP 3.1",
    "43": "43/ZRE",
    "45": "45/ZWS",
    "48": "48/RADIO-DISH",
    "9293": "RFC 9293 (TCP)",
}
"""The specifications at rfc.zeromq.org by number, and TCP."""

_TABLE = """
ZMTP-CONN-01 note wire.md 9.5
  The capture starts after the connection did: version, mechanism and socket types are guessed
  > start the capture before the peers, or name the version with -d
ZMTP-CONN-02 note wire.md 9.3
  Only one direction was captured, so the version is decided from one side
  > capture where both directions pass (the any interface, both ports of a mirror)
ZMTP-CONN-03 note 37 Version Negotiation
  The stream ends before its greeting is complete
  > this side gave up or was refused; the other side's greeting and log say more
ZMTP-CONN-04 warn 37 Backwards Interoperability
  This side does not speak ZMTP: its first octets fit no version
  > something that is no ZeroMQ peer uses this port: a health check, a browser, a port scan, a wrong port in a setting
ZMTP-CONN-05 warn wire.md 9.5
  The capture lost octets inside ZMTP data; messages here may be missing or incomplete
  > capture with a larger buffer (-B), without a short -s, or closer to the host
ZMTP-CONN-06 chat 37 Version Negotiation
  The version of the connection is decided
ZMTP-CONN-07 error 37 Version Negotiation
  This side went on in its own version although the other side is older, so the peers cannot talk
  > upgrade the older peer, or let the newer one wait for the other's version
ZMTP-CONN-08 warn 37 Error Handling
  The side that received an error closed within a second, probably because of it
  > look at the error first
ZMTP-CONN-09 note 37 Error Handling
  The client tried again with the same mechanism after an ERROR, and is refused again
  > change its credentials, or what the server's ZAP handler lets in
ZMTP-CONN-10 note 37 Error Handling
  The client reconnects again and again without waiting longer each time
  > set ZMQ_RECONNECT_IVL_MAX, and find out why the connection closes
ZMTP-CONN-11 note wire.md 9.3
  The connection is connected to itself: one and the same socket pair
  > a client tried a local port that nobody listened on; bind first, or use a port below the ephemeral range
ZMTP-CONN-12 warn architecture.md 2
  More connections are open at a time than are kept: this one, the oldest that had said nothing, gave way
  > a flood or a port scan: capture with a filter for the ports that matter
ZMTP-CONN-13 warn architecture.md 2
  More topics and groups are open on this side than are remembered: from here on, nothing is said about new ones
ZMTP-CONN-14 warn 9293 Reset Generation
  The connection is refused (RST)
  > nobody listens there: start that side, and compare address and port with what it binds to
ZMTP-CONN-15 warn 9293 TCP Connection Failures
  The connection is not answered
  > a firewall drops it, the address is wrong, or that host is down
ZMTP-CONN-16 note 9293 Establishing a Connection
  The SYN is answered, but the connection is never established
  > the answer does not get back to who asked (a firewall, another way back), or somebody scans ports
CAPTURE-01 warn architecture.md 2
  Packets were dropped while they were captured
  > gaps and missing answers may come from that: capture with a filter, a larger buffer or a smaller snap length
ZMTP-DOWNGRADE-01 error 37 Backwards Interoperability
  Messages flow without security: one side is configured for it, the other is too old to know it
  > refuse peers older than 3.0 where authentication matters
ZMTP-DOWNGRADE-02 note 37 Version Negotiation
  A 3.1 side speaks to a 3.0 side, so the words of 3.0 apply (subscriptions travel as messages)

ZMTP-GREETING-01 warn 37 Framing
  The last octet of the signature is not 7F
ZMTP-GREETING-02 note 37 Version Negotiation
  The padding of the signature is larger than any identity
ZMTP-GREETING-03 chat 37 Version Negotiation
  The signature leaves the way open for a 1.0 peer
ZMTP-GREETING-04 warn 37 Version Negotiation
  The padding of the signature does not match the identity sent later
  > a 1.0 peer would misread this side
ZMTP10-GREETING-01 warn 13 Connection Layer
  The identity starts with a zero octet, which is reserved
ZMTP10-GREETING-02 note 13 Connection Layer
  The flags of the identity frame are unusual; perhaps libzmq 3.1.0, which sends none, and this is a message
ZMTP10-GREETING-03 error 13 Connection Layer
  The identity is longer than 255 octets
ZMTP20-GREETING-01 error 15 Greeting
  The socket type number is not known
ZMTP20-GREETING-02 note 15 Greeting
  The socket type number stands in no specification; implementations use it (XPUB, XSUB, STREAM)
ZMTP20-GREETING-03 error 15 Greeting
  The identity frame has flags other than 00
ZMTP20-GREETING-04 warn 15 Socket Compatibility
  The two socket types do not fit together
  > connect matching types: PUB with SUB, PUSH with PULL, REQ with REP or ROUTER, DEALER with ROUTER and so on
ZMTP20-GREETING-05 warn 37 Version Negotiation
  Revision 2, which specifications read as 2.0 and libzmq as 3.1
ZMTP20-GREETING-06 warn wire.md 9.3
  Revision 0, which stands in no specification: 1.0 frames behind a newer greeting
ZMTP20-GREETING-07 chat 15 Greeting
  The signature leaves the way open for a 1.0 peer
ZMTP3X-GREETING-01 warn 37 Version Negotiation
  This side announces a major version above 3; it is read as 3.1
ZMTP3X-GREETING-02 note 37 Version Negotiation
  This side announces a minor version above 1; it is read as 3.1
ZMTP3X-GREETING-03 error 37 Greeting
  The mechanism holds a character that is not allowed
  > mechanism names are capital letters, digits, - _ . and +
ZMTP3X-GREETING-04 error 37 Greeting
  Octets other than zero follow the name of the mechanism
ZMTP3X-GREETING-05 error 37 Authentication
  The two sides announce different security mechanisms, so they cannot talk
  > configure the same mechanism on both: none (NULL), PLAIN or CURVE
ZMTP3X-GREETING-06 warn 37 Greeting
  The as-server octet is neither 0 nor 1
ZMTP3X-GREETING-07 warn 37 NULL Mechanism
  as-server is 1 although NULL knows no server
ZMTP3X-GREETING-08 chat 37 Authentication
  Both sides announce the same security role, as libzmq always does; who is the server shows in the handshake
ZMTP3X-GREETING-09 warn 37 Greeting
  The filler of the greeting is not zero
ZMTP3X-GREETING-10 error 37 Authentication
  The mechanism is empty
ZMTP3X-GREETING-11 note 37 Authentication
  The mechanism is not known here: frames are shown, commands stay opaque
ZMTP3X-GREETING-12 note 37 Authentication
  This side got a full greeting and closed without completing its own
  > most often the security mechanisms differ: configure the same one on both sides (NULL is none)
ZMTP3X-GREETING-13 error 37 Authentication
  This side goes on although the mechanisms differ

ZMTP10-FRAME-01 error 13 Framing
  A frame has length 0; libzmq closes the connection on it
ZMTP10-FRAME-02 warn 13 Framing
  Reserved flag bits are set
  > libzmq 2.1.11 sets them on every frame; from anybody else it is a mistake
ZMTP10-FRAME-03 note 13 Framing
  A short frame is written in the long form
ZMTP10-FRAME-04 error 13 Framing
  The announced length is impossible; what follows cannot be read as frames
  > a broken sender, or this is not ZMTP
ZMTP10-FRAME-05 warn 13 Framing
  The stream ends inside a frame: the message was never sent whole
ZMTP10-FRAME-06 warn 13 Framing
  The stream ends inside a message: its last part was never sent
ZMTP20-FRAME-01 error 15 Framing
  Reserved flag bits are set; libzmq may take the frame for a command and drop it
ZMTP20-FRAME-02 note 15 Framing
  A short frame is written in the long form
ZMTP3X-FRAME-01 error 37 Framing
  Reserved flag bits are set
  > libzmq ignores them; stricter peers close
ZMTP3X-FRAME-02 error 37 Framing
  A command has the MORE bit
  > commands are always one frame
ZMTP3X-FRAME-03 note 37 Framing
  A short frame is written in the long form
ZMTP3X-FRAME-04 error 37 Framing
  The announced size is above 2^63-1; what follows cannot be read as frames
  > a broken sender, or octets are missing in front of it
ZMTP3X-FRAME-05 warn 37 Framing
  The stream ends inside a frame: it was never sent whole
  > the sender closed or died while it was sending; see ZMQ_LINGER
ZMTP3X-FRAME-06 warn 37 Messages
  The stream ends inside a message: its last part was never sent
  > the sender closed or died while it was sending; see ZMQ_LINGER
ZMTP3X-FRAME-07 warn 37 Messages
  A command stands between two frames of one message
ZMTP3X-FRAME-08 note wire.md 6
  The body is larger than what is kept; it is counted, not stored

ZMTP3X-CMD-01 error 37 Commands
  The command is empty
ZMTP3X-CMD-02 error 37 Commands
  The name of the command has length 0
ZMTP3X-CMD-03 error 37 Commands
  The name of the command is longer than the command
ZMTP3X-CMD-04 error 37 Commands
  The name of the command holds something that is not a letter
ZMTP3X-CMD-05 note 37 Commands
  The command is not known
ZMTP3X-CMD-06 warn 37 Commands
  The command is known, but not in these letters of case
  > command names are written in capital letters
ZMTP3X-CMD-07 error 37 Connection
  A handshake command comes after the handshake
ZMTP3X-CMD-08 error 37 Connection
  A traffic command comes before the sender finished its handshake
  > libzmq closes on it: send READY (or INITIATE) first
ZMTP3X-CMD-09 error 37 Connection
  A message comes before the sender finished its handshake
  > libzmq closes on it: send READY (or INITIATE) first
ZMTP3X-CMD-10 warn 37 Commands
  A handshake command travels in a message frame
  > set the COMMAND bit (04); libzmq accepts it either way
ZMTP3X-CMD-11 error 37 Authentication
  The command does not belong to the mechanism in use
ZMTP3X-CMD-12 error 37 Authentication
  The command comes from the wrong side
ZMTP3X-CMD-13 error 37 Authentication
  Handshake commands come in the wrong order
ZMTP3X-CMD-14 error wire.md 8
  The command ends before its last field
ZMTP30E-CMD-01 warn wire.md 7.4
  The name of the command is padded with spaces, as in an early draft of 3.0
  > libzmq refuses this: write the length of the name in front of it

ZMTP3X-META-01 error 37 NULL Mechanism
  A property has no name
ZMTP3X-META-02 error 37 NULL Mechanism
  The name of a property holds a character that is not allowed
ZMTP3X-META-03 error 37 NULL Mechanism
  The announced size of a property is above 2^31-1
ZMTP3X-META-04 error 37 NULL Mechanism
  A property is longer than the command it stands in
ZMTP3X-META-05 warn 37 Connection Metadata
  A property occurs twice; the first one counts here
ZMTP3X-META-06 warn 37 Connection Metadata
  The property Socket-Type is missing
ZMTP3X-META-07 error 37 Socket-Type
  The socket type is not one that ZMTP knows in this version
ZMTP3X-META-08 error 37 Socket-Type
  The two socket types may not be combined
  > connect matching types: PUB with SUB, PUSH with PULL, REQ with REP or ROUTER, DEALER with ROUTER and so on
ZMTP3X-META-09 note 37 Identity
  An identity comes from a socket type that has no use for it
ZMTP3X-META-10 error 37 Identity
  The identity is longer than 255 octets
ZMTP3X-META-11 warn 37 Identity
  The identity starts with a zero octet, which is reserved for identities that ROUTER makes up
ZMTP3X-META-12 note 37 NULL Mechanism
  The name of a property is written in other letters of case than usual
  > allowed, but libzmq does not know it then, and checks no socket type
ZMTP3X-META-13 error 37 Resource
  The resource is not written as a resource
ZMTP3X-META-14 note 37 Connection Metadata
  The property is not defined and does not start with X-
ZMTP3X-META-15 warn 28 ROUTER
  Two live connections to one ROUTER use the same identity
  > the second gets no messages (or replaces the first with ZMQ_ROUTER_HANDOVER): give each peer its own routing id

NULL-01 error 37 NULL Mechanism
  This side sends READY twice
NULL-02 error 37 Error Handling
  The length of the ERROR reason does not match
NULL-03 chat 27 Reply
  The reason of the ERROR is a status of authentication
  > 300: it is not possible for now; 400: credentials, key or address refused; 500: it met an internal error
NULL-04 error 37 Error Handling
  Something other than a close follows ERROR
NULL-05 note 37 NULL Mechanism
  This side sends before it has received READY, which 3.1 asks it to wait for
NULL-06 error 37 NULL Mechanism
  This side sent traffic but never READY
NULL-07 warn 37 Error Handling
  The ERROR reason holds octets that cannot be printed
NULL-08 warn wire.md 14
  This side gave no answer to READY
  > its socket type does not fit, it did not like the READY it got, or its ZAP handler refused the peer
NULL-09 warn 37 Error Handling
  This side did not let the peer in
  > 400: NULL has no credentials, its ZAP handler goes by address and ZAP domain; 300 and 500: look at that handler

ZMTP30-SUB-01 warn 23 Publish-Subscribe
  A SUBSCRIBE or CANCEL command travels on a 3.0 connection
  > 3.0 peers may not know it (libzmq from 4.3.0 on does): send 01 or 00 and the topic as a message
ZMTP31-SUB-01 note 37 Publish-Subscribe
  A subscription travels as a message on a 3.1 connection, where it should be a command
  > normal where an XSUB application, a proxy for example, sends its own subscriptions
ZMTP-SUB-02 warn 37 Publish-Subscribe
  A subscription is cancelled that was never made on this connection
ZMTP-SUB-03 error 37 Publish-Subscribe
  A subscription comes from a socket that is neither SUB nor XSUB
ZMTP-SUB-04 note 37 Publish-Subscribe
  The same topic is subscribed again
  > one cancel ends them all with libzmq; by the specification each needs its own
ZMTP-SUB-05 note 37 Publish-Subscribe
  A message was published that matches no subscription of this connection
  > normal for a welcome message, inverted matching and XPUB in manual mode
ZMTP-SUB-06 warn 23 Publish-Subscribe
  A subscription message has more than one frame
ZMTP-SUB-07 error 29 PUB and SUB
  A message travels from subscriber to publisher
  > PUB cannot receive and SUB cannot send: use XPUB and XSUB, or a second pair of sockets

ZMTP31-PING-01 error 37 Heartbeating
  The PING is too short to hold its TTL
ZMTP31-PING-02 warn 37 Heartbeating
  The context of a heartbeat is longer than 16 octets
ZMTP31-PING-03 error 37 Heartbeating
  The PONG does not repeat the context of its PING
ZMTP31-PING-04 warn 37 Heartbeating
  A PING is never answered although the peer goes on sending
ZMTP31-PING-05 note wire.md 10.3
  Heartbeats travel on a 3.0 connection, which does not define them; libzmq from 4.2 on knows them all the same
ZMTP31-PING-06 note 37 Heartbeating
  This side was silent for longer than the TTL it announced, and the connection stayed open
ZMTP31-PING-07 warn wire.md 10.3
  The TTL is 65.6 s or more, which libzmq up to 4.3.6 wraps round to much less: it may close at once
  > set ZMQ_HEARTBEAT_TTL below 65536 ms
ZMTP31-PING-08 note 37 Heartbeating
  A PONG comes without a PING
ZMTP31-PING-09 warn 37 Heartbeating
  More than three PINGs wait for an answer
  > the peer is stuck or overloaded, or does not know heartbeats (libzmq before 4.2)
ZMTP31-PING-10 error 37 Heartbeating
  The PONG carries a context although its PING had none

ZMTP31-GROUP-01 error 48 Group
  The group is longer than 255 octets
ZMTP31-GROUP-02 error 48 Group
  The group holds a zero octet
ZMTP31-GROUP-03 error 37 Radio-Dish
  A RADIO message is not one group frame and one body frame
ZMTP31-GROUP-04 error 37 Radio-Dish
  JOIN or LEAVE comes from a socket that is not DISH
ZMTP31-GROUP-05 warn 37 Radio-Dish
  A group is left that was never joined on this connection
ZMTP31-GROUP-06 warn 37 Radio-Dish
  A message is sent to a group that the DISH has not joined
RADIO-UDP-01 error wire.md 11
  The group of a RADIO datagram is longer than the datagram
TS-01 error 37 Thread-Safe Socket Types
  A thread-safe socket sends a message of several frames, which receivers drop
  > CLIENT, SERVER, SCATTER, GATHER, PEER and CHANNEL send single frames only

REQREP-01 error 28 REQ
  A request does not begin with an empty frame, so the peer cannot reply
REQREP-02 warn 28 REQ
  A second request is sent before the reply to the first
  > normal with ZMQ_REQ_RELAXED: the first reply was given up
REQREP-03 error 28 REP
  The reply has no empty frame behind its envelope; REQ drops it
REQREP-04 error 28 REP
  The reply fits no open request of this connection
REQREP-05 warn 28 REP
  A DEALER sends to REP without an empty frame; REP drops the message without a word
  > send an empty frame in front of the data
REQREP-06 note 28 REP
  A request was never answered before the connection closed
PIPELINE-01 error 30 PULL
  A PULL socket sends a message
EXPAIR-01 warn 31 PAIR
  A second peer is connected to a PAIR socket while the first is
  > PAIR is for exactly two peers, and libzmq gives the second no messages: use DEALER and ROUTER
ZAP-01 error 27 Message Format
  The ZAP message has a version other than 1.0
ZAP-02 error 27 Message Format
  The ZAP reply does not repeat the request id, or has a status other than 200, 300, 400 and 500

PLAIN-01 error 24 HELLO
  The HELLO is cut short
PLAIN-02 error 24 HELLO
  Octets follow the password in HELLO
PLAIN-03 error 24 WELCOME
  The WELCOME carries data
PLAIN-04 note 24 Goals
  A password crosses the network in clear
  > PLAIN is for networks that you trust; use CURVE elsewhere
PLAIN-05 note 24 HELLO
  The user name is empty
PLAIN-06 warn 27 Reply
  The server did not let the client in
  > 400: check user name and password, and what its ZAP handler lets in; 300 and 500: look at that handler
PLAIN-07 note wire.md 8.2
  The client calls its HELLO WELCOME, as libzmq 4.3.0 and 4.3.1 do: only these two understand each other
  > upgrade that peer to 4.3.2 or newer
PLAIN-08 warn wire.md 8.2
  The server gave no answer to HELLO
  > most often no ZAP handler runs in its process; or it is of a release that refuses without a word
PLAIN-09 warn wire.md 14
  The server gave no answer to INITIATE
  > the socket types do not fit, or it did not like the metadata; its log says more
CURVE-01 error 26 HELLO
  The HELLO is not 200 octets long
CURVE-02 error 26 HELLO
  The CurveZMQ version is not 1.0
CURVE-03 warn 26 HELLO
  The padding of the HELLO is not zero
CURVE-04 error 26 WELCOME
  The WELCOME is not 168 octets long
CURVE-05 error 26 INITIATE and READY
  The INITIATE or READY is too short
CURVE-06 error 26 MESSAGE
  The MESSAGE is too short
CURVE-07 error 26 MESSAGE
  A nonce repeats or goes back
  > a replayed or reordered message, or a broken sender: receivers close on it
CURVE-08 note 26 MESSAGE
  Nonces skip values
CURVE-09 error 25 Wire Analysis
  Something travels in clear on an encrypted connection
CURVE-10 note 37 Wire Analysis
  Encrypted messages travel in message frames, not in commands, as libzmq does
CURVE-11 note 26 MESSAGE
  The inner flags mark a command by bit 1, as libzmq does
CURVE-12 warn curve.md 6
  A key of the key log belongs to this connection but opens nothing
  > the line names this connection, so its other field is damaged, cut, or of another kind than its label says
CURVE-13 error 26 INITIATE
  The vouch does not name this client and server
CURVE-14 warn 26 INITIATE
  The cookie in INITIATE is not the one of WELCOME
CURVE-15 warn 26 HELLO
  The short-term key of the client is seen on two connections
  > a replayed handshake, or a client that does not make new keys
CURVE-16 error 26 General Design
  A client sends ERROR, which only servers may
CURVE-17 error 26 MESSAGE
  Reserved inner flag bits are set
CURVE-18 warn 37 Wire Analysis
  The MESSAGE has outer flags that libzmq does not expect: it loses the content
  > send MESSAGE with outer flags 00 or 02 to a libzmq peer
CURVE-19 note 26 WELCOME
  The nonce of WELCOME was used before by this server
CURVE-20 error 26 MESSAGE
  A box does not open with the key of its connection: it was changed on its way, or somebody else made it
CURVE-21 warn wire.md 14
  The server gave no answer to HELLO
  > most often the client has the wrong server key: set its ZMQ_CURVE_SERVERKEY to the public key of the server
CURVE-22 warn curve.md 5
  The server gave no answer to HELLO, and none of the server keys that were given opens it
  > if one of them is the key of this server, the client has another: set its ZMQ_CURVE_SERVERKEY to the public half
CURVE-23 note curve.md 5
  The server gave no answer to HELLO, although it was made for a server key that was given
  > if this server has that key, its log says why it closed; if not, the client was given the key of another server
CURVE-24 warn wire.md 14
  The server gave no answer to INITIATE
  > it refused the client's key (see its ZAP handler), could not open the INITIATE, or the socket types do not fit
CURVE-25 note curve.md 6
  This message is not opened: it is larger than what is waited for
  > give a larger limit: --body full:1G
CURVE-26 warn 27 Reply
  The server did not let the client in
  > 400: give the client's public key to its ZAP handler; 300 and 500: look at that handler
GSSAPI-01 error wire.md 8.4
  The announced length of the token is not what follows
GSSAPI-02 warn 27 Reply
  This side did not let the peer in
  > 400: check the principal, and what its ZAP handler lets in; 300 and 500: look at that handler

ZRE-01 error 36 Protocol Signature
  The message does not start with the ZRE signature
ZRE-02 error 36 Versioning
  The ZRE version is neither 2 nor 3
ZRE-03 error 36 HELLO
  The first command of the connection is not HELLO
ZRE-04 error 36 ZRE Commands
  The HELLO has a sequence number other than 1
ZRE-05 note 36 ZRE Commands
  The sequence number wraps
ZRE-06 error 36 ZRE Commands
  A field or count is longer than the frame
ZRE-07 error 36 ZRE Commands
  The sequence has a gap, a repeat or goes back
  > messages were lost between the nodes: the receiver drops the sender
ZRE-08 error 36 Interconnection
  The identity is not 01 and a UUID
ZRE-09 error 36 Interconnection
  Messages flow from the ROUTER side, which only receives in ZRE
ZRE-10 warn 36 JOIN and LEAVE
  The group status does not follow the number of JOIN and LEAVE
ZRE-11 warn 36 PING
  A PING has no PING-OK
  > the node is stuck or gone
ZRE-12 warn 36 Interconnection
  Only one of the two connections between two nodes is there
  > a firewall or a wrong advertised endpoint keeps the other from connecting back
ZRE-13 note 36 WHISPER and SHOUT
  A WHISPER or SHOUT has no content frame, or several
ZRE-14 note zre.md 8
  The command is an extension of an implementation
ZRE-15 error 36 ZRE Commands
  The command is not known
ZRE-16 note 20 ZRE Commands
  The message is of ZRE version 1
ZRE-17 warn 36 HELLO
  The endpoint in HELLO and the beacon name different ports
ZRE-18 warn 36 JOIN and LEAVE
  A node joins a group that it is in, or leaves one that it is not in
ZRE-19 note 36 SHOUT
  A SHOUT reaches a node that is not in the group
ZRE-20 note 36 ZRE Commands
  Octets follow the last field of the command
ZRE-21 warn 36 JOIN and LEAVE
  A JOIN or LEAVE was not sent to every peer of the node
ZRE-BEACON-01 error 36 Discovery
  The beacon version is neither 1 nor 3
ZRE-BEACON-02 error 36 Discovery
  The size of the beacon does not fit its version
ZRE-BEACON-03 note 36 Interconnection
  The port in the beacon is outside the dynamic range
ZRE-BEACON-04 chat 36 Discovery
  The node says farewell
ZRE-BEACON-05 warn 36 Node Identification
  One UUID comes from two addresses or ports
  > two nodes share a UUID, or one has two network interfaces
ZRE-BEACON-06 warn 36 Discovery
  The beacons of a node stopped without farewell
  > the node died, or multicast and broadcast no longer reach this network
ZRE-BEACON-07 note 36 Discovery
  A node has beacons but nobody connects to it
  > a firewall on its port, or the others do not hear the beacons
ZRE-BEACON-08 warn 43 Discovery
  Nodes with version 1 and version 3 beacons share the network and ignore each other

ZWS-01 error 45 Framing
  A WebSocket message is empty: its flags octet is missing
ZWS-02 error 45 Framing
  The flags are none of 00, 01 and 02
ZWS-03 error 45 Handshake
  The chosen sub-protocol was not offered
ZWS-04 error 45 Implementation
  A text message travels on the WebSocket; ZWS uses binary ones
ZWS-05 note wire.md 12
  A WebSocket message is compressed, or changed by another extension; nothing behind it is read of this side
  > switch permessage-deflate off at one of the peers to see what they say
ZWS-06 error wire.md 12
  The WebSocket frame is none that RFC 6455 allows
ZWS-07 note wire.md 12
  A message in several WebSocket frames is too large to be put together; nothing behind it is read of this side
ZWS-08 error 45 Handshake
  The first message of a side without a mechanism is no identity

PAYLOAD-01 warn payload-dissectors.md Bad input
  A payload dissector failed on this message, whose octets are shown as they are
  > report it to the author of the dissector, or do without: --payload off
PAYLOAD-02 note payload-dissectors.md Limits
  What rides in this message is more than is read; its beginning is shown
PAYLOAD-03 warn payload-dissectors.md Bad input
  What rides in this message is malformed
PAYLOAD-04 note payload-dissectors.md Findings
  A payload dissector says
PAYLOAD-05 note payload-dissectors.md Limits
  What rides in this message is nested deeper than is read
PAYLOAD-06 warn payload-dissectors.md Limits
  What is packed in this message becomes far larger than it; only its beginning was unpacked
  > whoever unpacks it without a limit may run out of memory
PICKLE-01 warn payload-dissectors.md Pickle
  A Python pickle: whoever loads it runs what the sender chose
  > never load pickles from where others can send; use JSON or MessagePack, and CURVE to know who sends
JUPYTER-01 error payload-dissectors.md Jupyter
  The signature of a Jupyter message is not that of the key that was given
  > the key is of another kernel, or the message was changed on its way
JUPYTER-02 note payload-dissectors.md Jupyter
  A Jupyter message is not signed, so anyone who can connect can run code in the kernel
SEQUENCE-01 warn payload-dissectors.md Sequence numbers
  The sequence numbers of a publisher have a gap, so messages were lost or dropped
  > raise ZMQ_SNDHWM at the publisher or ZMQ_RCVHWM at the subscriber, or read faster
SEQUENCE-02 note payload-dissectors.md Sequence numbers
  The sequence numbers of a publisher go back
  > the publisher was started again, or there are two of them
"""
"""Id, severity, specification and section; indented the sentence, and behind `>` the hint."""


def _kinds(table: str) -> dict[str, FindingKind]:
    kinds: dict[str, FindingKind] = {}
    for entry in table.strip().replace("\n\n", "\n").replace("\n  ", "\t").splitlines():
        head, text, *hint = entry.split("\t")
        id_, severity, source, section = head.split(" ", 3)
        where = f"{SPECIFICATIONS.get(source, source)}, {section}"
        kinds[id_] = FindingKind(id_, severity, where, text, hint[0].removeprefix("> ") if hint else None)
    return kinds


FINDINGS = _kinds(_TABLE)
"""Every check by its id."""
