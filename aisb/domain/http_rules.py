"""
Method and path rules: those of one exact host, top to bottom, where the last one that matches wins.

The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built into CPython, not in the stubs; `signal` costs 9 ms
import re
import time
import warnings
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.paths import form_fault, readings, without_query
from aisb.domain.verdict import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

ALLOW = "ALLOW"
DENY = "DENY"
ACTIONS = (ALLOW, DENY)
ANY_METHOD = "*"
# Methods are case-sensitive. Others are refused whatever the rules say: TRACE sends back what the gate may have put
# in, CONNECT makes a tunnel, and what a server does on a made-up one nobody knows.
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
LONGEST_EXPRESSION = 1024
# A literal that is not repeated, for that may be no times; ^ before it changes nothing.
_NO_SLASH_FIRST = re.compile(r"\^?[A-Za-z0-9_~%@:=&!,'\"-](?![*?{])")
# Of the processor's time. An expression that may match in many ways takes longer than anybody lives to find that it
# does not; paths are the agent's, and who judges them judges everybody's.
_JUDGE_SECONDS = 0.05
# What takes less, of many rules somewhat more, is no trouble to anybody; of what takes longer so much may come at once,
# and then as much as this part of the time that passes.
_UNNOTICED_SECONDS = 0.005
_UNNOTICED_A_RULE = 0.00002
_MOST_SECONDS = 2.5 * _JUDGE_SECONDS
_PART = 0.01
_TOO_LONG = "an expression of the policy takes too long with a path as long as this one"
# What takes no time: at most one part that may be there or not or several times, and no group whose ways multiply.
_QUICK = re.compile(r"[^*+?{(]*(?:[*+?{][^*+?{(]*)?")
# As long as an entry may be; a longer proposal would be none.
_LONGEST_PROPOSAL = 1000


class Rule(NamedTuple):
    """One rule. `method` is one of METHODS or `*`; `path` an expression for re.fullmatch."""

    action: str
    method: str
    path: str

    def text(self) -> str:
        """The rule in one line."""
        return f"{self.action} {self.method} {self.path}"


class HostPolicy(NamedTuple):
    """The rules of one exact host, top to bottom. None at all denies everything."""

    host: str
    rules: tuple[Rule, ...]


def parse_rule(action: str, method: str, path: str) -> Rule:
    """A rule of its three parts. Raises ValueError with what is wrong."""
    if action not in ACTIONS:
        raise ValueError(f"the action is ALLOW or DENY, not {action[:40]!r}")
    if method not in (*METHODS, ANY_METHOD):
        raise ValueError(f"the method is * or one of {' '.join(METHODS)}, not {method[:40]!r}")
    if not path or len(path) > LONGEST_EXPRESSION or not path.isascii() or not path.isprintable():
        raise ValueError(f"the path is an expression of 1 to {LONGEST_EXPRESSION} printable ASCII characters")
    try:
        with warnings.catch_warnings():
            # What Python warns about will mean something else one day.
            warnings.simplefilter("error")
            re.compile(path)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(f"the path {path[:80]!r} is not a regular expression: {error}") from error
    return Rule(action, method, path)


def can_never_match(path: str) -> bool:
    """
    Whether an expression matches no path at all because it begins with a character that is not /.

    Said only of what is plain at sight: a literal character that has to be there, and no alternative to it. Any other
    expression may match.
    """
    return _NO_SLASH_FIRST.match(path) is not None and "|" not in path


class HostRules:
    """Judges the requests to one host."""

    def __init__(self, policy: HostPolicy) -> None:
        self._host = policy.host
        self._rules = policy.rules
        self._expressions = [re.compile(rule.path) for rule in policy.rules]
        self._may_last = not all(_QUICK.fullmatch(rule.path) for rule in policy.rules)
        # What has lately been spent on paths that took long, until when that is counted, and the shortest of them.
        self._spent = 0.0
        self._counted = 0.0
        self._shortest = 0

    def apart(self) -> HostRules:
        """The same rules for somebody else: what takes too long with the paths of one is nothing to the other."""
        if not self._may_last:
            return self
        other = copy(self)
        other._spent = other._counted = 0.0
        other._shortest = 0
        return other

    def judge(self, method: str, target: str) -> Verdict:
        """
        Whether a request with this method and this path (a query is cut off) is allowed.

        One whose path takes too long to compare is not; and where much time went into such paths lately, none as long
        as the shortest of those is compared for a while.
        """
        length = len(target)
        if not self._may_last:
            return self._judge(method, target)
        if self._lately() >= _MOST_SECONDS and length >= self._shortest:
            return Verdict(allowed=False, reason=Reason.LIMIT, detail=_TOO_LONG)
        began = time.process_time()
        try:
            verdict = _in_time(lambda: self._judge(method, target))
        except _TookTooLongError:
            self._charge(_JUDGE_SECONDS, length)
            return Verdict(allowed=False, reason=Reason.LIMIT, detail=_TOO_LONG)
        self._charge(time.process_time() - began, length)
        return verdict

    def _lately(self) -> float:
        now = time.monotonic()
        self._spent = max(0.0, self._spent - _PART * (now - self._counted))
        self._counted = now
        return self._spent

    def _charge(self, seconds: float, length: int) -> None:
        is_unnoticed = seconds < min(_UNNOTICED_SECONDS + len(self._rules) * _UNNOTICED_A_RULE, _JUDGE_SECONDS)
        if is_unnoticed:
            return
        self._shortest = min(self._shortest, length) if self._spent else length
        self._spent += seconds

    def _judge(self, method: str, target: str) -> Verdict:
        path = without_query(target)
        if fault := form_fault(path):
            return Verdict(allowed=False, reason=Reason.PATH_FORM, detail=fault)
        if method not in METHODS:
            return Verdict(allowed=False, reason=Reason.METHOD, detail=f"the method is none of {' '.join(METHODS)}")
        index = self._last_match(method, path)
        if self._allows(index):
            return Verdict(allowed=True, rule=self._rule_text(index), rule_index=index)
        others = (self._last_match(other, path) for other in METHODS)
        reason = Reason.METHOD if any(map(self._allows, others)) else Reason.PATH
        return Verdict(False, reason, self._rule_text(index), self._proposal(method, path), rule_index=index)

    def _last_match(self, method: str, path: str) -> int:
        """The number of the last rule that matches, from 1; 0 where none does."""
        for index in range(len(self._rules), 0, -1):
            rule = self._rules[index - 1]
            # What is denied is denied in every spelling; what is allowed, as it is written.
            tried = readings(path) if rule.action == DENY else (path,)
            if rule.method in (ANY_METHOD, method) and any(map(self._expressions[index - 1].fullmatch, tried)):
                return index
        return 0

    def _allows(self, index: int) -> bool:
        return index > 0 and self._rules[index - 1].action == ALLOW

    def _rule_text(self, index: int) -> str:
        return f"{self._host} rule {index}: {self._rules[index - 1].text()}" if index else ""

    def _proposal(self, method: str, path: str) -> str:
        proposal = f"{method} {self._host}{path}"
        return proposal if len(proposal) <= _LONGEST_PROPOSAL else ""


class _TookTooLongError(Exception):
    """The time was over."""


def _in_time(judge: Callable[[], Verdict]) -> Verdict:
    """
    What is judged, or _TookTooLongError: `re` looks for signals while it compares.

    They come to a process's main thread alone, and every program that judges for others has no other.
    """
    try:
        before = _signal.signal(_signal.SIGVTALRM, _ring)
    except ValueError:
        return judge()
    try:
        _signal.setitimer(_signal.ITIMER_VIRTUAL, _JUDGE_SECONDS)
        try:
            return judge()
        finally:
            _signal.setitimer(_signal.ITIMER_VIRTUAL, 0)
    finally:
        _signal.signal(_signal.SIGVTALRM, before)


def _ring(_number: int, _frame: object) -> NoReturn:
    raise _TookTooLongError
