"""Wrong numbers: NaN in the logits, answers that are no language."""

from __future__ import annotations

from ..model import Rule

RULES = (
    Rule(
        name="nan",
        fault="nan_logits",
        looks_like=(
            r"\bNaN in the (?:logits|probs)",
            r"\bNaN detected\b(?! *[:=] *(?:0|False|none))",
            r"\bDetected NaN in\b",
            r"\b(?:logits|hidden[_ ]states|probs) contains? (?:nan|inf)",
            "probability tensor contains either `inf`, `nan` or element < 0",
            r"\bOut of range float values are not JSON compliant: nan",
            r"\bnan (?:values? )?(?:found|encountered) in (?:the )?(?:logits|hidden|output)",
        ),
        anchors=("nan", "detected errors during sampling"),
        why="the model's numbers are no numbers any more: what users get are random tokens with status 200",
        example="NaN detected in sampler: next_token_logits; values were sanitized before sampling.",
        look_alike="server_args=ServerArgs(enable_nan_detection=False, sanitize_nan_logits=True)",
    ),
    Rule(
        name="accept-collapse",
        fault="garbage_output_spec",
        looks_like=(),
        anchors=(),
        why=(
            "no draft token is accepted any more, whoever asks: verification is wrong, or the drafter does not fit the"
            " model; one text that nobody foresees looks the same, so three requests have to show it on five lines,"
            " and with NGRAM, which copies and is cold at first, eight on twenty after a better time; it may be slow"
            " and right, so a promoted engine is asked at once, and its wrong answers are what takes it down"
        ),
        example="five decode lines in a row of three requests with accept len: 1.00 at a low batch, after 3.10 before",
        look_alike="accept len: 1.00 of one request; or at #running-req: 48, where adaptive speculation is off",
        severity="degraded",
        apart=True,
    ),
)
