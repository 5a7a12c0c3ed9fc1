"""
A stand-in for a model that speaks the Messages format, streamed or whole.

The first turn calls the tool `Bash` with the text between backquotes in the user's last words; once a tool has
answered, the next turn repeats its answer. Without backquotes, or without such a tool, it says how many letters it was told.
"""

from __future__ import annotations

import json
import re
from typing import Any

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
_TOOL = "Bash"


def reply(body: bytes) -> tuple[str, bytes]:
    """The content type and body of the answer to a request. Raises ValueError for a request that is none."""
    request = json.loads(body)
    if "messages" not in request:
        raise ValueError("messages are missing")
    block, reason = _turn(request)
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": str(request.get("model", "stub")),
        "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": _USAGE,
    }  # fmt: skip
    if not request.get("stream"):
        return "application/json", json.dumps(message).encode()
    events = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(message, block))
    return "text/event-stream", events.encode()


def count() -> tuple[str, bytes]:
    """The answer to whoever asks how long a request is."""
    return "application/json", json.dumps({"input_tokens": _USAGE["input_tokens"]}).encode()


_USAGE = {"input_tokens": 10, "output_tokens": 10}


def _events(message: dict[str, Any], block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        begun = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        begun = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": _USAGE},
        {"type": "message_stop"},
    ]  # fmt: skip


def _turn(request: dict[str, Any]) -> tuple[dict[str, Any], str]:
    users = [message for message in request["messages"] if message.get("role") == "user"]
    blocks = _blocks(users[-1]) if users else []
    results = [_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
    if results:
        return {"type": "text", "text": f"The tool said: {results[-1]}"}, "end_turn"
    # What is not the user's own comes between tags.
    words = [block["text"] for block in blocks if block.get("type") == "text" and not block["text"].startswith("<")]
    quoted = re.search(r"`([^`]+)`", words[-1] if words else "")
    if quoted and any(tool.get("name") == _TOOL for tool in request.get("tools", [])):
        call = {"command": quoted[1], "description": "as asked"}
        return {"type": "tool_use", "id": "toolu_1", "name": _TOOL, "input": call}, "tool_use"
    return {"type": "text", "text": f"letters:{len(words[-1]) if words else 0}"}, "end_turn"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or ""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
