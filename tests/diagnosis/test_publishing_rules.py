"""Near misses of rules about publish and subscribe, scripted to the millisecond. `test_problems.py` has real
sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.publishing_traffic import MS, START, Subscriber, derivation_of, diagnosed
from tests.diagnosis.reading import derive
from tests.peer_octets import ping
from tests.traffic import Capture
from zmtpscope.diagnosis.across.deliveries import deliveries
from zmtpscope.diagnosis.across.nearest_topic import MAX_COMPARED, nearest_subscription, nearest_topic
from zmtpscope.diagnosis.deriving import across_records
from zmtpscope.diagnosis.watch import Watch
from zmtpscope.dissect import Analyser, Options, Record

LATE, LOST, NONE = "late-subscriber", "subscription-lost-on-reconnect", "no-subscription"
UNMATCHED, SLOW = "subscription-without-messages", "slow-receiver"


def _late(by_ms: int, topic: str = "prices", host: int = 3) -> Subscriber:
    return Subscriber(host, by_ms, topic)


def _early(topic: str = "prices") -> Subscriber:
    early = Subscriber(2, 0, topic)
    early.at(100)
    early.publish(b"prices", b"body", times=20, every=10)
    return early


# -- late-subscriber ---------------------------------------------------------------------------------------------------


def test_a_late_subscriber_missed_the_earlier_messages_of_its_sibling() -> None:
    late = _late(200)
    (diagnosis,) = diagnosed(_early(), late, rule=LATE)
    assert diagnosis.text.startswith('SUB 10.0.0.3 subscribed to "prices" at PUB 10.0.0.1:5556 200 ms after')
    assert "missed at least 11 messages" in diagnosis.text
    assert diagnosis.count == 11


def test_two_subscribers_of_one_host_are_distinguished_by_their_ports() -> None:
    late = Subscriber(2, 200, "prices")
    (diagnosis,) = diagnosed(_early(), late, rule=LATE)
    assert diagnosis.text.startswith("SUB 10.0.0.2:50200 subscribed")
    assert "200 ms after SUB 10.0.0.2:50000 did" in diagnosis.text
    assert [each.text.split(" ")[-1] for each in diagnosis.evidence] == ["10.0.0.2:50000", '"prices"']
    assert diagnosis.evidence[1].text.startswith("SUB 10.0.0.2:50200")


def test_that_it_was_away_more_than_once_is_reported() -> None:
    """No message of the second time is proven to be missing."""
    whole = Subscriber(2, 0, "prices")
    whole.at(100)
    whole.publish(b"prices", b"body", times=20, every=100)
    visits = [Subscriber(3, begin, "prices") for begin in (0, 900, 1300)]
    for visit, end in zip(visits, (300, 1200, 2000), strict=True):
        visit.at(end)
        visit.reset(1)
    (diagnosis,) = diagnosed(whole, *visits, rule=LATE)
    assert "came back" in diagnosis.text
    assert "; it came back once more" in diagnosis.text
    assert "check --why TOPIC@PEER" in diagnosis.hint


def test_the_subscription_is_named_and_the_topic_where_it_is_longer() -> None:
    (diagnosis,) = diagnosed(_early(), _late(250, "price"), rule=LATE)
    assert diagnosis.text.startswith('SUB 10.0.0.3 subscribed to "price" at PUB 10.0.0.1:5556 250 ms after')
    assert 'of "prices" published' in diagnosis.text


@pytest.mark.parametrize(
    "late",
    [_late(50), _late(11_000), _late(250, "news"), _late(190)],
    ids=["before the first message", "much later", "for another topic", "started together"],
)
def test_a_peer_that_is_not_late_for_a_topic_is_not_blamed(late: Subscriber) -> None:
    assert diagnosed(_early(), late, rule=LATE) == []


def test_a_sibling_that_is_gone_proves_nothing() -> None:
    early = _early()
    early.close()
    assert diagnosed(early, _late(400), rule=LATE) == []


def test_a_peer_that_connects_again_missed_only_what_arrived_in_between() -> None:
    first = Subscriber(3, 0, "prices")
    first.at(150)
    first.close()
    (diagnosis,) = diagnosed(_early(), first, _late(200), rule=LATE)
    assert 5 <= diagnosis.count <= 6


@pytest.mark.parametrize("by_ms", [210, 250, 2_100])
def test_a_peer_that_is_started_later_than_its_sibling_is_noted(by_ms: int) -> None:
    (diagnosis,) = diagnosed(_early(), _late(by_ms), rule=LATE)
    assert diagnosis.severity == "note"


@pytest.mark.parametrize("by_ms", [0, 2_100])
def test_a_peer_that_subscribes_long_after_its_handshake_is_a_warning_at_any_time(by_ms: int) -> None:
    hesitant = Subscriber(3, by_ms)
    hesitant.at(by_ms + 150)
    hesitant.subscribe("prices")
    (diagnosis,) = diagnosed(_early(), hesitant, rule=LATE)
    assert "after its own handshake" in diagnosis.text
    assert diagnosis.severity == "warn"


def test_a_program_that_adds_a_subscription_later_is_not_late() -> None:
    """It subscribed to another topic at once, so it uses its socket, and subscribes to more when it needs it."""
    viewer = Subscriber(3, 0, "news")
    viewer.at(250)
    viewer.subscribe("prices")
    (diagnosis,) = diagnosed(_early(), viewer, rule=LATE)
    assert "after its own handshake" not in diagnosis.text
    assert diagnosis.severity == "note"


def test_a_peer_that_was_cut_off_returned_and_is_compared_from_then() -> None:
    early, first, again = Subscriber(2, 0, "a"), Subscriber(3, 0, "a"), Subscriber(3, 3_000, "a")
    early.at(100)
    early.publish(b"a", b"body", times=400, every=10)
    first.at(100)
    first.publish(b"a", b"body", times=100, every=10)
    first.at(2_990)  # the link is up again, and TCP reports the end of this connection
    first.close()
    again.at(3_010)
    again.publish(b"a", b"body", times=100, every=10)
    (diagnosis,) = diagnosed(early, first, again, rule=LATE)
    assert diagnosis.text.startswith(
        'SUB 10.0.0.3 came back to PUB 10.0.0.1:5556 and subscribed to "a" again after 1.8'
    )
    assert diagnosis.text.endswith("published meanwhile")
    assert diagnosis.severity == "warn"
    assert 150 <= diagnosis.count <= 190


def test_a_peer_that_closed_may_be_followed_by_another_program_of_its_host() -> None:
    early, first, again = Subscriber(2, 0, "a"), Subscriber(3, 0, "a"), Subscriber(3, 1_000, "a")
    early.at(100)
    early.publish(b"a", b"body", times=100, every=10)
    first.at(100)
    first.publish(b"a", b"body", times=10, every=10)
    first.close()
    (diagnosis,) = diagnosed(early, first, again, rule=LATE)
    assert "unless that is another program on the same host" in diagnosis.text
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")


def test_a_peer_that_gave_up_on_heartbeats_had_nothing_since_its_last_message() -> None:
    early, first, again = Subscriber(2, 0, "a"), Subscriber(3, 0, "a"), Subscriber(3, 3_000, "a")
    for subscriber in (early, first):
        subscriber.at(100)
        subscriber.publish(b"a", b"body", times=100, every=10)
    early.at(3_001)  # the link of the publisher was down: its messages reach the sibling at once
    early.publish(b"a", b"body", times=5)
    first.at(2_800)
    first.send(0, ping())
    first.at(2_990)
    first.close()
    (diagnosis,) = diagnosed(early, first, again, rule=LATE)
    assert "came back" in diagnosis.text
    assert 'subscribed to "a" again after 1.8' in diagnosis.text
    assert diagnosis.severity == "warn"


def test_one_message_is_counted_as_one() -> None:
    early = Subscriber(2, 0, "a")
    early.publish(b"a", b"body")
    (diagnosis,) = diagnosed(early, Subscriber(3, 300, "a"), rule=LATE)
    assert "missed at least 1 message" in diagnosis.text


def test_a_subscriber_whose_beginning_is_not_in_the_capture_is_not_late() -> None:
    late = _late(200)
    late.packets = late.packets[4:]
    assert diagnosed(_early(), late, rule=LATE) == []


# -- subscription-lost-on-reconnect ----------------------------------------------------------------------------------


def _left(*topics: str) -> Subscriber:
    subscriber = Subscriber(2, 0, *topics)
    subscriber.reset(1)
    return subscriber


def test_a_subscription_that_is_not_repeated_is_lost() -> None:
    (diagnosis,) = diagnosed(_left("a", "b", "c"), Subscriber(2, 500, "b"), rule=LOST)
    assert 'did not subscribe again to "a" and "c"' in diagnosis.text
    assert diagnosis.severity == "warn"


def test_a_lost_subscription_is_an_error_if_others_received_its_messages() -> None:
    sibling = Subscriber(3, 400, "a")
    sibling.at(700)
    sibling.publish(b"a", b"body", times=3)
    (diagnosis,) = diagnosed(_left("a", "b"), Subscriber(2, 500, "b"), sibling, rule=LOST)
    assert diagnosis.severity == "error"
    assert "at least 3 messages of it went to another" in diagnosis.text


def test_another_topic_only_may_be_another_program_of_the_host() -> None:
    sibling = Subscriber(3, 400, "a")
    sibling.at(700)
    sibling.publish(b"a", b"body", times=3)
    (diagnosis,) = diagnosed(_left("a"), Subscriber(2, 500, "b"), sibling, rule=LOST)
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert "another program" in diagnosis.hint


def test_a_cancelled_or_abandoned_subscription_is_not_lost() -> None:
    cancelled = Subscriber(2, 0, "a", "b")
    cancelled.cancel("a")
    cancelled.reset(1)
    assert diagnosed(cancelled, Subscriber(2, 500, "b"), rule=LOST) == []
    given_up = Subscriber(2, 0, "a", "b")
    given_up.reset(0)
    assert diagnosed(given_up, Subscriber(2, 500, "b"), rule=LOST) == []


def test_overlapping_connections_of_an_address_accuse_no_peer() -> None:
    other = Subscriber(2, 5, "b")
    other.at(400)
    other.publish(b"b", b"body")
    assert diagnosed(_left("a", "b"), other, Subscriber(2, 500, "b"), rule=LOST) == []


# -- no-subscription -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("types", "waits", "diagnoses"), [("SUB", 3000, 1), ("SUB", 300, 0), ("XSUB", 3000, 0)])
def test_a_sub_that_had_time_to_subscribe_is_reported(types: str, waits: int, diagnoses: int) -> None:
    mute = Subscriber(2, 0, types=(types, "PUB"))
    mute.at(waits)
    mute.acknowledge(0)
    assert len(diagnosed(mute, rule=NONE)) == diagnoses


def test_an_xsub_that_sends_its_topic_as_an_ordinary_message_did_not_subscribe() -> None:
    mute = Subscriber(2, 0, types=("XSUB", "XPUB"))
    mute.old_style(b"prices")
    mute.at(3000)
    mute.acknowledge(0)
    (diagnosis,) = diagnosed(mute, rule=NONE)
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text.endswith("never subscribed: it gets nothing; it sent an ordinary message instead")
    assert diagnosis.hint.startswith("a subscription is a message that begins with the octet 01")


@pytest.mark.parametrize(("host", "severity"), [(2, "note"), (3, "warn")])
def test_a_sub_without_subscriptions_beside_others_of_its_host_may_be_intended(host: int, severity: str) -> None:
    mute = Subscriber(2, 0)
    mute.at(3000)
    mute.acknowledge(0)
    assert [each.severity for each in diagnosed(mute, Subscriber(host, 5, "prices"), rule=NONE)] == [severity]


@pytest.mark.parametrize(
    ("types", "at", "severity"),
    [
        pytest.param(("DEALER", "ROUTER"), 20, "note", id="a library with two sockets"),
        pytest.param(("DEALER", "ROUTER"), 2000, "warn", id="another program"),
        pytest.param(("SUB", "PUB"), 20, "warn", id="another publisher"),
    ],
)
def test_a_sub_without_subscriptions_of_a_program_with_other_sockets_may_be_intended(
    types: tuple[str, str], at: int, severity: str
) -> None:
    mute, other = Subscriber(2, 0), Subscriber(2, at, types=types, port=5557)
    mute.at(3000)
    mute.acknowledge(0)
    other.publish(b"reply")
    assert severity in [each.severity for each in diagnosed(mute, other, rule=NONE)]


def test_a_sub_that_sends_its_topic_without_the_octet_01_has_not_subscribed() -> None:
    by_hand = Subscriber(2, 0)
    by_hand.old_style(b"prices")
    by_hand.at(3000)
    by_hand.acknowledge(0)
    (diagnosis,) = diagnosed(by_hand, rule=NONE)
    assert diagnosis.text.endswith("never subscribed: it gets nothing; it sent an ordinary message instead")
    assert "octet 01" in diagnosis.hint
    assert diagnosed(by_hand, rule="protocol-violation") == []


# -- subscription-without-messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "topic", "words"),
    [
        (b"", "prices", "the second frame of messages begins with it, and the first one is empty"),
        (b"17", "prices", 'the second frame of messages begins with it, and the first one is "17"'),
        (b"17", "quotes", None),
        (b"17", "pr", None),
    ],
    ids=["delimiter", "data first", "another topic", "too short"],
)
def test_a_topic_in_the_second_frame_matches_no_subscription(first: bytes, topic: str, words: str | None) -> None:
    everything, some = Subscriber(3, 0, ""), Subscriber(2, 0, topic)
    everything.at(100)
    everything.publish(first, b"prices", b"body", times=20, every=400)
    some.at(9000)
    some.acknowledge(0)
    found = [each for each in diagnosed(everything, some, rule=UNMATCHED) if "10.0.0.2" in each.text]
    assert [each.severity for each in found] == ["warn" if words else "note"]
    assert (words or "none of") in found[0].text
    assert ("second frame" in found[0].text) is bool(words)


def test_a_subscription_that_is_like_no_topic_is_a_note() -> None:
    quiet = Subscriber(3, 0, "weather")
    quiet.at(2000)
    quiet.acknowledge(0)
    (diagnosis,) = diagnosed(_early(""), quiet, rule=UNMATCHED)
    assert diagnosis.severity == "note"


def test_a_wildcard_is_reported_where_the_topic_arrives_by_another_subscription() -> None:
    both = Subscriber(3, 0, "pri*", "prices")
    both.at(300)
    both.publish(b"prices", b"body", times=5)
    (diagnosis,) = diagnosed(_early(""), both, rule=UNMATCHED)
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert "has a *, which is no wildcard, after it" in diagnosis.text


def test_how_many_did_not_match_is_a_lower_bound_where_two_got_others() -> None:
    wrong, hum = Subscriber(3, 0, "Prices"), Subscriber(4, 0, "hum")
    hum.at(100)
    hum.publish(b"hum", b"body", times=10, every=10)
    (one,) = diagnosed(_early(), wrong, rule=UNMATCHED)
    (both,) = diagnosed(_early(), wrong, hum, rule=UNMATCHED)
    assert "none of 20 messages" in one.text
    assert "none of at least 20 messages" in both.text


def test_a_peer_that_gets_the_topic_anyway_made_no_mistake() -> None:
    both = Subscriber(3, 0, "Prices", "prices")
    both.at(300)
    both.publish(b"prices", b"body", times=5)
    assert [each.severity for each in diagnosed(_early(""), both, rule=UNMATCHED)] == []


@pytest.mark.parametrize(
    ("subscription", "topic", "how"),
    [
        (b"Prices", b"prices", "differs in upper and lower case"),
        (b"prices\0", b"prices", "has a zero octet after it"),
        (b"prices ", b"prices.eu", "has a blank after it"),
        ("prices".encode("utf-16"), b"prices", "is in UTF-16"),
        ("prices".encode("utf-16-be"), b"prices.eu", "is in UTF-16"),
        (b"/prices", b"prices", "has a slash before it"),
        (b"prices.*", b"prices.eu", "has a *, which is no wildcard, after it"),
        (b'"prices"', b"prices", "has quotes around it"),
        (b"b'prices'", b"prices", "has quotes around it"),
        (b"prices/eu", b"prices.eu", "has other separators"),
        (b"prices", b'{"topic": "prices"}', "is 11 octets after its beginning"),
        (b"prices.eu", b"prices", "is longer than the topic"),
        (b"pirces", b"prices", "is nearly equal, and differs from octet 2 on"),
        (b"Prices\0", b"prices", "has a zero octet after it and differs in upper and lower case"),
        (b'"prices"\r\n', b"prices", "has a quote before it and 3 octets (22 0d 0a) after it"),
        (b"prices\r\n", b"prices", "has a carriage return and a line feed after it"),
        (b"\0\0\0\6prices", b"prices", "has 4 octets (00 00 00 06) before it"),
        (b"\xef\xbb\xbfprices", b"prices", "has a byte order mark before it"),
        (b"prices", b'"prices"', "lacks a quote before it"),
        (b"prices", b" prices.eu", "lacks a blank before it"),
        (b"prices.eu.*", b"prices.eu.ecb", "has a *, which is no wildcard, after it"),
    ],
)
def test_usual_mistakes_have_their_words(subscription: bytes, topic: bytes, how: str) -> None:
    near = nearest_topic(subscription, [b"weather", topic])
    assert near is not None
    assert (near.name, near.how) == (topic, how)
    other = nearest_subscription(topic, [b"weather", subscription])
    assert other is not None
    assert other.name == subscription


def test_a_separator_behind_a_part_of_a_name_is_no_mistake() -> None:
    behind, whole = nearest_topic(b"sensor1.", [b"sensor10.temperature"]), nearest_topic(b"sensor1.", [b"sensor1"])
    assert behind is None or not behind.is_telling
    assert whole is not None
    assert whole.how == "has a dot after it"


def test_names_of_the_same_letters_are_compared_so_often_and_no_more() -> None:
    """Each such comparison takes longer than the square of their length."""
    asked, same_letters, alike = b"ab" * 32, b"a" * 32 + b"b" * 32, b"ab" * 31 + b"cd"
    assert nearest_topic(asked, [*[same_letters] * (MAX_COMPARED - 1), alike]) is not None
    assert nearest_topic(asked, [*[same_letters] * MAX_COMPARED, alike]) is None


@pytest.mark.parametrize("topic", [b"weather", b"catalog", b"p"])
def test_an_unlike_topic_has_no_nearest_one(topic: bytes) -> None:
    assert nearest_topic(b"log", [topic]) is None


# -- while packets come ------------------------------------------------------------------------------------------------


def test_a_receiver_that_takes_nothing_is_reported_while_it_does_and_again_when_that_is_long() -> None:
    slow = Subscriber(2, 0, "a")
    slow.publish(b"a", b"body")
    slow.close_window(0)
    for milliseconds in (200, 500, 1500, 4000):
        slow.at(milliseconds)
        slow.close_window(0)
    watch, analyser, diagnoses = Watch(), Analyser(Options(bodies="none")), []
    analyser.begin([None])
    for block in Capture(slow.packets, 1):
        for batch in analyser.feed(block):
            watch.feed(batch)
        diagnoses += [(each.rule, each.severity) for each in watch.news(analyser.ongoing())]
    assert [each for each in diagnoses if each[0] == SLOW] == [(SLOW, "note"), (SLOW, "warn")]


# -- slow-receiver, deliveries -----------------------------------------------------------------------------------------


def test_messages_that_a_publisher_drops_are_known_if_later_ones_arrive() -> None:
    fast, slow = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    for subscriber, every in ((fast, 10), (slow, 20)):
        subscriber.at(1000)
        subscriber.publish(b"a", b"body", times=2000 // every, every=every)
    (diagnosis,) = diagnosed(fast, slow, rule=SLOW)
    assert diagnosis.certainty == "likely"
    assert "for SUB 10.0.0.3" in diagnosis.text
    assert 40 <= diagnosis.count <= 100


@pytest.mark.parametrize("topics", [("stock.",), ("",), ("stock.", "stock.IBM;"), ("stock.IBM;4",)])
def test_messages_of_one_frame_are_not_dropped_where_another_subscription_names_them(topics: tuple[str, ...]) -> None:
    """The topic of a message of one frame is the subscription that it begins with."""
    one, other = Subscriber(2, 0, "stock.IBM"), Subscriber(3, 0, *topics)
    for subscriber in (one, other):
        subscriber.at(1000)
        subscriber.publish(b"stock.IBM;42", times=100, every=10)
    assert diagnosed(one, other, rule=SLOW) == []
    assert diagnosed(other, one, rule=SLOW) == []


def test_a_subscriber_that_gets_nothing_any_more_is_not_called_slow() -> None:
    fast, gone = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    for subscriber, times in ((fast, 200), (gone, 100)):
        subscriber.at(1000)
        subscriber.publish(b"a", b"body", times=times, every=10)
    assert diagnosed(fast, gone, rule=SLOW) == []


@pytest.mark.parametrize(("opens", "expected"), [(False, True), (True, False)])
def test_a_receiver_whose_window_stays_closed_may_be_stopped(opens: bool, expected: bool) -> None:
    slow = Subscriber(2, 0, "a")
    slow.publish(b"a", b"body")
    slow.close_window(0)
    slow.wait(2000 * MS)
    if opens:
        slow.open_window(0)
        slow.publish(b"a", b"body")
    slow.reset(0)
    (diagnosis,) = diagnosed(slow, rule=SLOW)
    assert ("until the connection ended: it may be stopped, or hang" in diagnosis.text) is expected


def test_topics_and_deliveries_are_records(captures: Path) -> None:
    derivation, _ = derive(captures / "problems/late-subscriber.pcap")
    records = list(across_records(derivation.knowledge(), derivation.end_ordinal))

    def of(type_: str) -> list[Record]:
        return [record for record in records if record.type == type_]

    (topic,) = of("topic")
    early, late = of("delivery")
    assert topic.values["publisher"] == "10.0.0.1:5556"
    assert (topic.values["messages"], topic.values["subscribers"]) == (40, 2)
    assert (early.values["subscriber"], early.values["messages"]) == ("10.0.0.2", 40)
    assert (late.values["messages"], late.values["missed_early"], late.values["missed"]) == (19, 21, 0)


def test_siblings_belong_to_one_bound_publisher() -> None:
    connected = Subscriber(2, 0, "a", types=("PUB", "SUB"))
    connected.packets = connected.packets[:7]
    derivation = derivation_of(_early(), Subscriber(3, 0, "prices", port=7000), connected)
    assert [each.siblings for each in deliveries(derivation.knowledge())] == [0]
    assert derivation.knowledge().last_ns < START + 1000 * MS
