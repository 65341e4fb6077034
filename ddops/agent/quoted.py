"""Where a line begins to quote: the words of a user or of the model are no fault of the engine."""

from __future__ import annotations

import re

# SGLang and vLLM print a request, prompt included, when request logging is on: a user's words are no fault
_QUOTE = re.compile(
    r"\b(?:Receive|Finish)(?:d)?(?: request)?: obj="
    r"|\bReceived request \S+: prompt"
    r"|[\"']event[\"']: ?[\"']request\.\w+"
    r"|\b(?:prompt|prompt_token_ids|input_text|messages|user_prompt|system_prompt|completion|generated_text)[\"']?"
    r" ?[:=] ?[\[{]*[\"'(]"
    r"|[\"'](?:content|text|arguments|output|reasoning_content|input)[\"']: ?[\[{]*[\"']"
    r"|\btext=[\"']"
)


def own_words(message: str) -> str:
    """Returns what stands before the words of a user or of the model."""
    quote = _QUOTE.search(message)
    return message[: quote.start()] if quote else message


def quotes(message: str) -> bool:
    """Tells whether a message goes on with the words of a user or of the model."""
    return bool(_QUOTE.search(message))
