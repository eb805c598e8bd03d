"""Functional dependencies: what follows from what.

X → Y holds in a bag of rows if any two rows that agree on X agree on Y. Rows *agree* as GROUP BY compares them: NULL
agrees with NULL. Armstrong's axioms are complete for them [armstrong-1974]:

| axiom | |
|---|---|
| reflexivity  | X → Y for Y ⊆ X |
| augmentation | X → Y gives XZ → YZ |
| transitivity | X → Y and Y → Z give X → Z |

so X → Y follows from a set of dependencies exactly when Y ⊆ X⁺, the closure, which adds the right side of every
dependency whose left side is there already, until nothing is new.

SQL's constraints do not compare NULLs that way: UNIQUE lets NULLs repeat, and a level of a dimension that is unknown
has no one parent. Such a dependency is *lax*: it speaks of rows without NULL in X. A lax one counts as a dependency
once all of X is known to be NOT NULL. Of lax ones, transitivity holds through Y → Z that is not lax, or whose left side
cannot be NULL. A bag also needs *keys*: X is a key if no two rows agree on it; X → all columns is less, since it allows
copies of a row. Every set whose closure holds a key is a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Columns = frozenset[str]
MOST_KEYS = 16
MOST = 128  # a set of dependencies that grows past this loses its widest: fewer facts, but no wrong ones


@dataclass(frozen=True, slots=True)
class Dependency:
    """`left` → `right`; where lax, for rows without NULL in `left` only."""

    left: Columns
    right: Columns
    lax: bool = False

    def __str__(self) -> str:
        arrow = "~>" if self.lax else "->"
        return f"{', '.join(sorted(self.left)) or '()'} {arrow} {', '.join(sorted(self.right))}"


Dependencies = tuple[Dependency, ...]


def closure(columns: Iterable[str], dependencies: Iterable[Dependency], not_null: Columns = frozenset()) -> Columns:
    """All columns that these determine; lax dependencies count where their left side is not null."""
    found = set(columns)
    waiting = [d for d in dependencies if not d.lax or d.left <= not_null]
    grown = True
    while grown:
        grown = False
        still = []
        for dependency in waiting:
            if dependency.left <= found:
                grown = grown or not dependency.right <= found
                found |= dependency.right
            else:
                still.append(dependency)
        waiting = still
    return frozenset(found)


def implied(dependency: Dependency, by: Iterable[Dependency], not_null: Columns = frozenset()) -> bool:
    """Whether the dependency follows from others."""
    known = not_null | dependency.left if dependency.lax else not_null
    return dependency.right <= closure(dependency.left, by, known)


def minimal_cover(dependencies: Iterable[Dependency], not_null: Columns = frozenset()) -> Dependencies:
    """An equivalent set without anything superfluous: no column of a left side, no column of a right side."""
    single: dict[Dependency, None] = {}
    for dependency in dependencies:
        lax = dependency.lax and not dependency.left <= not_null
        for name in sorted(dependency.right - dependency.left):
            single[Dependency(dependency.left, frozenset([name]), lax)] = None
    cover = list(single)
    for at, dependency in enumerate(cover):
        left = dependency.left
        for name in sorted(left):
            shorter = Dependency(left - {name}, dependency.right, dependency.lax)
            if implied(shorter, cover, not_null):
                left = shorter.left
        cover[at] = Dependency(left, dependency.right, dependency.lax)
    cover = list(dict.fromkeys(cover))
    for dependency in list(cover):
        rest = [other for other in cover if other != dependency]
        if implied(dependency, rest, not_null):
            cover = rest
    return merged(cover)


def merged(dependencies: Iterable[Dependency], not_null: Columns = frozenset()) -> Dependencies:
    """The same with one dependency a left side, in order; lax ones promoted where their left side is not null."""
    sides: dict[tuple[Columns, bool], Columns] = {}
    for dependency in dependencies:
        side = (dependency.left, dependency.lax and not dependency.left <= not_null)
        sides[side] = sides.get(side, frozenset()) | (dependency.right - dependency.left)
    ordered = sorted(sides.items(), key=lambda entry: (len(entry[0][0]), sorted(entry[0][0]), entry[0][1]))
    made = [Dependency(left, right, lax) for (left, lax), right in ordered if right]
    return tuple(d for d in made if not d.lax or not d.right <= sides.get((d.left, False), frozenset()))[:MOST]


def reduced_key(key: Columns, dependencies: Dependencies, not_null: Columns = frozenset()) -> Columns:
    """A key within this one, without the columns that the rest of it determines."""
    for name in sorted(key):
        if name in closure(key - {name}, dependencies, not_null):
            key = key - {name}
    return key


def keys_of(
    names: Columns, known: Iterable[Columns], dependencies: Dependencies, not_null: Columns = frozenset()
) -> tuple[Columns, ...]:
    """Candidate keys that follow from known ones: each reduced, and with columns exchanged for what determines them."""
    found: dict[Columns, None] = {}
    waiting = [reduced_key(key, dependencies, not_null) for key in known]
    while waiting and len(found) < MOST_KEYS:
        key = waiting.pop(0)
        if key in found or any(other < key for other in found):
            continue
        found = {other: None for other in found if not key < other} | {key: None}
        for dependency in dependencies:
            if len(found) + len(waiting) >= MOST_KEYS:
                break  # columns that are equal to others multiply the keys: enough of them are known
            usable = not dependency.lax or dependency.left <= not_null
            if usable and dependency.right & key and dependency.left <= names:
                exchanged = (key - dependency.right) | dependency.left
                if not any(other <= exchanged for other in found):  # else there is nothing new in it
                    waiting.append(reduced_key(exchanged, dependencies, not_null))
    return tuple(sorted(found, key=lambda key: (len(key), sorted(key))))


def renamed(dependencies: Iterable[Dependency], new_names: Mapping[str, str]) -> Dependencies:
    """The dependencies under other names of the columns; all of them must have one."""
    return tuple(
        Dependency(frozenset(new_names[n] for n in d.left), frozenset(new_names[n] for n in d.right), d.lax)
        for d in dependencies
    )


def projected(dependencies: Iterable[Dependency], onto: Columns, not_null: Columns) -> Dependencies:
    """What the dependencies say of these columns alone: the others are resolved away, one by one."""
    given = tuple(dependencies)
    determining = frozenset[str]().union(*(d.left for d in given))
    # A column that determines nothing is just left out; resolving the others brings no new ones to a left side.
    kept = merged((Dependency(d.left, d.right & (onto | determining), d.lax) for d in given), not_null)
    for lost in sorted(determining - onto):
        made = [d for d in kept if lost not in d.left]
        for first in made[:]:
            if lost not in first.right:
                continue
            for second in kept:
                # Where `lost` may be NULL, a lax dependency from it does not speak of all rows that agree on `first`.
                if lost in second.left and (not second.lax or lost in not_null):
                    left = first.left | (second.left - {lost})
                    made.append(Dependency(left, second.right - {lost}, first.lax or second.lax))
        kept = merged((Dependency(d.left, d.right - {lost}, d.lax) for d in made), not_null)
    return kept
