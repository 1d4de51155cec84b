"""As much of a queue manager as a Publish command needs. For tests only: it keeps everything in
memory.

It has stream queues, subscriptions, retained copies, authority by topic with the warning response,
OtherSubsOnly, CorrelAsId, subscription points, and forwarding to neighbours unless Local. It
follows IBM's text. Where that is silent (does a forwarded publication still say RetainPub?), it
forwards what was put.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

from paho.mqtt.client import topic_matches_sub

from outpost_tools.servers.mq import check, psc, pscr
from outpost_tools.servers.mq.descriptor import (
    DATAGRAM,
    NO_ID,
    REPORT_NAN,
    REPORT_PAN,
    REQUEST,
    Descriptor,
)
from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.header import Message, build, make_folder, parse
from outpost_tools.servers.mq.mapping import DEFAULT_QUEUE
from outpost_tools.servers.mq.reasons import MqError


class NotAuthorized(Exception):
    """MQRC_NOT_AUTHORIZED (2035) of the put itself."""


@dataclass(frozen=True)
class Subscription:
    """A Register Subscriber command. The subscriber queue is queue manager, queue and CorrelId."""

    topic: str
    q_name: str
    q_mgr_name: str
    correl_id: bytes = NO_ID
    sub_point: str = ""
    inform_if_retained: bool = False

    def matches(self, topic, sub_point):
        return self.sub_point == sub_point and topic_matches_sub(self.topic, topic)


class QueueManager:
    def __init__(self, name="QM1", sub_points=()):
        self.name = name
        self.queues = defaultdict(list)  # name: [(Descriptor, bytes)]
        self.retained = {}  # (sub_point, topic): (Descriptor, bytes)
        # SYSTEM.QPUBSUB.QUEUE.NAMELIST, each with its topic prefix
        self.streams = {DEFAULT_QUEUE: ""}
        self.subscriptions = []
        self.sub_points = set(sub_points)
        self.neighbours = []
        self.forbidden_queues = set()
        self.forbidden_topics = set()
        self.forwards = 0

    def add_stream(self, queue):
        """Add the queue to the namelist, and a topic object of that name whose string is the
        queue's name.
        """
        self.streams[queue] = queue + "/"

    def register(self, topic, q_name, **more):
        """Subscribe. A retained publication is sent at once, with IsRetainedPub if the subscriber
        requests it.
        """
        more.setdefault("q_mgr_name", self.name)
        subscription = Subscription(topic, q_name, **more)
        self.subscriptions.append(subscription)
        self.request_update(subscription)
        return subscription

    def request_update(self, subscription):
        for (sub_point, topic), (md, data) in self.retained.items():
            if subscription.matches(topic, sub_point):
                if subscription.inform_if_retained:
                    data = edit(data, md, lambda command: with_option(command, psc.IS_RETAINED_PUB))
                self.queues[subscription.q_name].append((self._forwarded(md, subscription), data))

    def put(self, queue, md, data):
        """Raises NotAuthorized. A command on a stream queue is executed at once, and answered if
        requested.
        """
        if queue in self.forbidden_queues:
            raise NotAuthorized(queue)
        if queue not in self.streams:
            self.queues[queue].append((md, data))
            return
        text = None
        try:
            message = parse(data, encoding=md.encoding, format=md.format)
            check.refuse(check.check(message, md, sub_points=self.sub_points))
            text = command_text(message)
            response = self._do(psc.read(text), md, data, self.streams[queue])
        except MqError as error:
            response = pscr.Response(pscr.ERROR, (pscr.Problem(error.reason),))
        self._answer(response, text, md)

    def _answer(self, response, text, md):
        """A request is always answered; a datagram by PAN on success, by NAN on failure, and for a
        warning by either.
        """
        wanted = {
            pscr.OK: REPORT_PAN,
            pscr.WARNING: REPORT_PAN | REPORT_NAN,
            pscr.ERROR: REPORT_NAN,
        }[response.completion]
        if md.msg_type == REQUEST or (md.msg_type == DATAGRAM and md.report & wanted):
            self.queues[md.reply_to_q].append(pscr.reply(response, text, md))

    def _do(self, command, md, data, prefix):
        topics = [prefix + topic for topic in command.topics]
        refused = [topic for topic in topics if topic in self.forbidden_topics]
        allowed = [topic for topic in topics if topic not in refused]
        if not allowed:
            return pscr.Response(pscr.ERROR, (pscr.Problem(3081, (Element("Topic", refused[0]),)),))
        command = with_topics(command, allowed)
        data = edit(data, md, lambda _: command)
        if command.name == psc.DELETE:
            self._delete(command)
        else:
            self._publish(command, md, data)
        return pscr.partly_authorised(refused) if refused else pscr.Response(pscr.OK)

    def _delete(self, command):
        for topic in command.topics:
            for key in [key for key in self.retained if key[1] == topic]:
                del self.retained[key]
        if psc.LOCAL not in command.values("DelOpt"):
            for neighbour in self.neighbours:
                neighbour._delete(
                    command.with_properties([*command.properties, Element("DelOpt", psc.LOCAL)])
                )

    def _publish(self, command, md, data, came_from=None):
        sub_point = command.first("SubPoint") or ""
        own = (
            psc.subscriber_queue(command, md, self.name)
            if psc.OTHER_SUBS_ONLY in command.options
            else None
        )
        for subscription in self.subscriptions:
            if not any(subscription.matches(topic, sub_point) for topic in command.topics):
                continue
            if own != (subscription.q_mgr_name, subscription.q_name, subscription.correl_id):
                self.queues[subscription.q_name].append((self._forwarded(md, subscription), data))
        if psc.RETAIN_PUB in command.options:
            for topic in command.topics:
                alone = edit(data, md, lambda command, topic=topic: with_topics(command, [topic]))
                self.retained[sub_point, topic] = (md, alone)
        if psc.LOCAL not in command.options and came_from is None:
            self._send_to_neighbours(command, md, data, sub_point)

    def _send_to_neighbours(self, command, md, data, sub_point):
        for neighbour in self.neighbours:
            if any(
                s.matches(topic, sub_point)
                for s in neighbour.subscriptions
                for topic in command.topics
            ):
                self.forwards += 1
                neighbour._publish(command, md, data, came_from=self)

    def _forwarded(self, md, subscription):
        """Returns the MQMD of a publication as a subscriber receives it: a datagram, with the
        Expiry, Priority and Persistence of the publisher.
        """
        correl_id = subscription.correl_id
        return Descriptor(
            expiry=md.expiry,
            priority=md.priority,
            persistence=md.persistence,
            encoding=md.encoding,
            correl_id=correl_id,
        )


def command_text(message):
    """Returns the text of the first `<psc>`."""
    return next(folder.text for folder in message.folders() if folder.root().name == psc.FOLDER)


def edit(data, md, change):
    """Returns the message with its command replaced by change(command). All other bytes of folders
    and body stay.
    """
    message = parse(data, encoding=md.encoding, format=md.format)
    headers, preceding = [], md.encoding
    for header in message.headers:
        folders = [
            make_folder(
                change(psc.read(folder.text)).text(),
                name_value_ccsid=header.name_value_ccsid,
                encoding=preceding,
            )
            if folder.root().name == psc.FOLDER
            else folder
            for folder in header.folders
        ]
        headers.append(replace(header, folders=tuple(folders)))
        preceding = header.encoding
    return build(Message(tuple(headers), message.body, md.encoding))


def with_topics(command, topics):
    """Returns the command with these topics where its first one was."""
    properties = list(command.properties)
    at = next(i for i, element in enumerate(properties) if element.name == "Topic")
    others = [element for element in properties if element.name != "Topic"]
    return command.with_properties(
        [*others[:at], *(Element("Topic", topic) for topic in topics), *others[at:]]
    )


def with_option(command, option):
    return command.with_properties([*command.properties, Element("PubOpt", option)])
