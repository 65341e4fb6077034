"""Prompts for a drafter to learn from: written here, or begun with the standard library's own text.

What follows a prompt is the target's answer, so the prompts only have to lead it through many kinds of text. The same
seed gives the same prompts on the same Python; a fifth of the subjects is held out, in all that is made of them.
"""

from __future__ import annotations

import ast
import hashlib
import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
_HELD_OUT = 5  # one subject of so many

_ASKED = (
    "What is {}?",
    "Explain {} to a child of ten.",
    "Explain {} to somebody who knows nothing about it, in one paragraph.",
    "Write a short story about {}.",
    "Write a poem about {}.",
    "Give five facts about {}.",
    "List ten words that have to do with {}.",
    "What are the advantages and disadvantages of {}?",
    "Write an e-mail to a colleague about {}.",
    "How would one begin to learn about {}?",
    "Write three questions about {}, and answer them.",
    "Make a table about {} with three columns.",
    "Describe {} in two sentences.",
    "Why do people care about {}?",
    "Write a dialogue between two friends about {}.",
    "What has changed in {} over the last hundred years?",
    "Write step-by-step instructions that have to do with {}.",
    "Compare {} with something similar.",
)
_SUBJECTS = """
bread, tea, coffee, cheese, apples, potatoes, honey, salt, chocolate, soup, rain, snow, wind, clouds, rivers,
lakes, oceans, mountains, deserts, forests, islands, volcanoes, earthquakes, the moon, the sun, the planets,
stars, comets, gravity, light, sound, electricity, magnets, heat, water, ice, fire, air, iron, gold, glass,
paper, wood, wool, cotton, bees, ants, butterflies, spiders, whales, sharks, dogs, cats, horses, cows, sheep,
birds, owls, penguins, frogs, snakes, trees, grass, flowers, roses, mushrooms, seeds, bicycles, trains, ships,
aeroplanes, cars, roads, bridges, tunnels, lighthouses, windmills, clocks, maps, compasses, telescopes,
microscopes, cameras, printing, books, libraries, letters, newspapers, radio, telephones, television,
computers, the internet, keyboards, robots, programming, databases, compilers, operating systems, networks,
encryption, search engines, spreadsheets, algorithms, sorting, binary search, hash tables, linked lists,
recursion, numbers, prime numbers, fractions, geometry, circles, triangles, probability, statistics, money,
banks, taxes, trade, markets, prices, insurance, contracts, law, elections, cities, villages, schools,
teachers, exams, languages, grammar, poetry, theatre, music, pianos, violins, drums, singing, painting,
sculpture, architecture, gardens, farming, fishing, cooking, sewing, knitting, chess, football, swimming,
running, climbing, sleep, dreams, memory, health, medicine, vaccines, hospitals, teeth, the heart, the brain,
bones, friendship, patience, curiosity, luck, time, history, ancient Rome, ancient Egypt, the Middle Ages,
railways in the nineteenth century, the first computers, space travel, remote work, meetings, job interviews,
moving to another town, saving energy, recycling, solar panels, batteries
"""
_CODE = (
    "Write a Python function that {}.",
    "Write a Python function that {}, and explain each line of it.",
    "Write a test for a Python function that {}.",
    "Write a JavaScript function that {}.",
)
_TASKS = """
adds two numbers; reverses a string; counts the vowels in a text; finds the largest number in a list; checks
whether a number is prime; computes the factorial of a number; returns the first n Fibonacci numbers; removes
duplicates from a list; merges two sorted lists; sorts a list by length; counts how often each word occurs;
reads a file and returns its lines; writes a dictionary to a JSON file; parses a date; checks whether a word
is a palindrome; converts Celsius to Fahrenheit; finds common elements of two lists; flattens a nested list;
computes the average of a list; rotates a list; finds the second largest number; validates an e-mail address;
generates a random password; computes the greatest common divisor; converts a number to binary; splits a list
into chunks; transposes a matrix; multiplies two matrices; searches a sorted list; counts the lines of a file;
capitalises each word; finds the longest word; sums the digits of a number; groups words by their first
letter; checks whether two strings are anagrams; computes compound interest
"""
_STARTS = (
    "1, 2, 3, 4, 5, 6, 7,", "2, 4, 6, 8, 10, 12,", "Monday, Tuesday, Wednesday,", "January, February, March,",
    "A, B, C, D, E, F,", "10, 20, 30, 40, 50,", "| number | square |\n| --- | --- |\n| 1 | 1 |\n| 2 | 4 |\n",
    "The capital of France is Paris. The capital of Germany is", "Once upon a time there was", "Dear Sir or Madam,\n",
    "SELECT name, COUNT(*) FROM orders GROUP BY", "def add(a, b):\n    return", "for i in range(10):\n    print(",
    "The three primary colours are", "Water boils at a temperature of", "The cat sat on the mat. The cat sat on",
)  # fmt: skip


@dataclass(frozen=True)
class Prompt:
    """A text, put to the target as a question (``chat``) or to be continued as it stands."""

    text: str
    chat: bool
    subject: str

    @property
    def held_out(self) -> bool:
        """Whether it is kept from training: told by its subject, so that no form of that is trained on."""
        return hashlib.sha256(self.subject.encode()).digest()[0] % _HELD_OUT == 0


def prompts(seed: int, count: int) -> list[Prompt]:
    """Returns ``count`` different prompts, or all that there are, in an order that the seed gives."""
    found = list(_all())
    random.Random(seed).shuffle(found)  # noqa: S311 - texts, no secret
    return found[:count]


@cache
def _all() -> tuple[Prompt, ...]:
    return (*_questions(), *_code(), *_starts(), *_library())


def _questions() -> Iterator[Prompt]:
    for subject in _listed(_SUBJECTS, ","):
        for asked in _ASKED:
            yield Prompt(asked.format(subject), True, subject)


def _code() -> Iterator[Prompt]:
    for task in _listed(_TASKS, ";"):
        for asked in _CODE:
            yield Prompt(asked.format(task), True, task)


def _starts() -> Iterator[Prompt]:
    for number, start in enumerate(_STARTS):
        for more in range(4):
            yield Prompt(f"{start} " * more + start, False, f"start {number}")


def _library() -> Iterator[Prompt]:
    """Yields what the standard library says of its functions and classes, and how their code begins."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if not _LEFT_OUT.isdisjoint(path.relative_to(root).parts):
            continue
        try:
            source = path.read_text()
            tree = ast.parse(source)
        except (OSError, ValueError, SyntaxError):
            continue
        code = source.splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or not (told := ast.get_docstring(node)):
                continue
            subject = f"{path.stem}.{node.name}"
            first = " ".join(told.split("\n\n")[0].split())
            if 30 <= len(first) <= 300:
                yield Prompt(f"Explain what this means, with an example: {first}", True, subject)
                yield Prompt(f"{first} ", False, subject)
            lines = code[node.lineno - 1 : node.end_lineno][:8]
            if len(lines) == 8:
                yield Prompt("\n".join(lines), False, subject)


def _listed(text: str, between: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(between)]
