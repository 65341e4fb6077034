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
        why="no draft token is accepted any more: verification is wrong, or the drafter does not fit the model",
        example="five decode lines in a row with accept len: 1.00 at a low batch, after 3.10 before",
        look_alike="accept len: 1.00 at #running-req: 48, where adaptive speculation is off",
        severity="degraded",
        apart=True,
    ),
)
