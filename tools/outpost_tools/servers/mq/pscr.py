"""The response folder `<pscr>`: ok, warning (with one Response per warning) or error (with one, the
first).

A queue manager repeats the command's `<psc>` in the second NameValueData of a warning or an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq.descriptor import REPLY, Descriptor
from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.header import Header, Message, build, make_folder
from outpost_tools.servers.mq.reasons import MqError, mnemonic

FOLDER = "pscr"
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
OK, WARNING, ERROR = "ok", "warning", "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """One `<Response>`.

    `reason` is None where the queue manager wrote `????` (it could not read the data).
    """

    reason: int | None
    properties: tuple[Element, ...] = ()

    @property
    def mnemonic(self) -> str:
        return "unreadable" if self.reason is None else mnemonic(self.reason)


@dataclass(frozen=True, slots=True)
class Response:
    completion: str
    problems: tuple[Problem, ...] = ()

    def refused_topics(self) -> list[str]:
        """The topics that were not published for lack of authority."""
        refused = [problem for problem in self.problems if problem.reason == 3081]
        return [
            element.text
            for problem in refused
            for element in problem.properties
            if element.name == "Topic"
        ]

    def element(self) -> Element:
        children = [Element("Completion", self.completion)]
        for problem in self.problems:
            reason = "????" if problem.reason is None else str(problem.reason)
            children.append(
                Element("Response", children=(Element("Reason", reason), *problem.properties))
            )
        return Element(FOLDER, children=tuple(children))


def partly_authorised(topics: Sequence[str]) -> Response:
    """The warning that these topics were not published: 3081 for each."""
    return Response(WARNING, tuple(Problem(3081, (Element("Topic", topic),)) for topic in topics))


def read(text: str) -> Response:
    """The response in a folder's text.

    Raises MqError (2334) for anything that a queue manager would not write.
    """
    root = xml.parse(text)
    if root.name != FOLDER:
        raise MqError("pscr-missing", 2334, f"the folder is <{root.name}>, not <pscr>")
    completions = root.values("Completion")
    if len(completions) != 1 or completions[0] not in (OK, WARNING, ERROR):
        raise MqError(
            "pscr-completion", 2334, f"Completion {completions}: expected one of ok, warning, error"
        )
    problems = tuple(_problem(child) for child in root.children if child.name == "Response")
    if (completions[0] == OK and problems) or (completions[0] == ERROR and len(problems) != 1):
        raise MqError(
            "pscr-responses",
            2334,
            f"{len(problems)} times <Response> with Completion {completions[0]}",
        )
    return Response(completions[0], problems)


def _problem(element: Element) -> Problem:
    reasons = element.values("Reason")
    if len(reasons) != 1 or not (reasons[0] == "????" or _NUMBER.match(reasons[0])):
        raise MqError("pscr-reason", 2334, f"Reason {reasons}: expected one number, or ????")
    rest = tuple(child for child in element.children if child.name != "Reason")
    return Problem(None if reasons[0] == "????" else int(reasons[0]), rest)


def reply(response: Response, command: str | None, md: Descriptor) -> tuple[Descriptor, bytes]:
    """The reply to a command (the text of its `<psc>`) that came with `md`: no body, CorrelId = its
    MsgId."""
    texts = [xml.write(response.element())]
    if response.completion != OK and command is not None:
        texts.append(command)
    header = Header(tuple(make_folder(text, encoding=md.encoding) for text in texts), md.encoding)
    descriptor = Descriptor(
        msg_type=REPLY, encoding=md.encoding, correl_id=md.msg_id, persistence=md.persistence
    )
    return descriptor, build(Message((header,), b"", md.encoding))
