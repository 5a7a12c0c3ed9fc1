"""
A stand-in for a model: speaks the OpenAI chat-completions format, streamed or whole.

The first turn calls the `bash` tool with the text between backquotes in the user's last message; once a tool has
answered, the next turn repeats its answer in words.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEFAULT_COMMAND = "echo made by the agent > agent.txt"


def reply(body: bytes) -> tuple[str, bytes]:
    """
    The content type and body of the answer to a request. Raises ValueError for a request that is none.
    """
    request = json.loads(body)
    if "messages" not in request:
        raise ValueError("messages are missing")
    message, reason = _turn(request)
    if not request.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
        return "application/json", json.dumps(_envelope("chat.completion", choice) | {"usage": _USAGE}).encode()
    for index, call in enumerate(message.get("tool_calls", [])):
        call["index"] = index
    events = [
        _envelope(
            "chat.completion.chunk",
            {"index": 0, "delta": {"role": "assistant", **message}, "finish_reason": None},
        ),
        _envelope("chat.completion.chunk", {"index": 0, "delta": {}, "finish_reason": reason}) | {"usage": _USAGE},
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return "text/event-stream", (stream + "data: [DONE]\n\n").encode()


_USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


def _turn(request: dict[str, Any]) -> tuple[dict[str, Any], str]:
    messages = request["messages"]
    last_user = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=0)
    results = [message for message in messages[last_user:] if message.get("role") == "tool"]
    if results or not request.get("tools"):
        said = _text(results[-1]) if results else "nothing, there is no tool"
        return {"content": f"The tool said: {said}"}, "stop"
    quoted = re.search(r"`([^`]+)`", _text(messages[last_user]))
    arguments = json.dumps({"command": quoted[1] if quoted else DEFAULT_COMMAND})
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    return {"content": None, "tool_calls": [call]}, "tool_calls"


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _envelope(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": "stub", "choices": [choice]}
