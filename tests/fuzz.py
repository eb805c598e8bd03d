"""Feeds mutated view files to the compiler: every one is read, or gives located errors; none crashes or hangs.

    python -m tests.fuzz [--count 100000] [--jobs 2] [--seed 1] [--stage read|compile]

`read` is the reader with the catalog, `compile` the whole compiler. The inputs are statements of the repository's own
SQL texts, changed by characters, by words and by SQL's own forms. Input N of a seed is always the same text, so a
finding is repeated with --only N. Prints what was found, smallest input first; exit code 1 if anything was.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

from deltafold.compiler import dialects
from deltafold.compiler.errors import codes
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.read import read_text, split
from deltafold.compiler.schema import bind_schema
from deltafold.compiler.source import InputError, SourceFile

ROOT = Path(__file__).parent.parent
PATIENCE = 20  # seconds for one input, on a machine that does other things too
_WORD = re.compile(r"\s+|\w+|'(?:[^'\\]|\\.)*'|`[^`]*`|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|.", re.DOTALL)
_SPICE = r"""
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT UNION ALL EXCEPT INTERSECT JOIN LEFT FULL OUTER SEMI ANTI
NATURAL USING ON AS WITH RECURSIVE VALUES PIVOT UNPIVOT FOR IN EXISTS NOT NULL IS DISTINCT CASE WHEN THEN ELSE
END CAST BETWEEN LIKE OVER PARTITION ROWS RANGE CUBE ROLLUP GROUPING SETS LATERAL VIEW EXPLODE QUALIFY CREATE
TABLE MATERIALIZED TEMPORARY DIMENSION LEVEL HIERARCHY CHILD OF SOURCE TYPE OPTIONS TABLES ALTER SET CHANGES
INSERT ONLY NEW INCLUDE DIALECT PRIMARY KEY FOREIGN REFERENCES UNIQUE CHECK CONSTRAINT DEFAULT GENERATED
ALWAYS COMMENT ENFORCED RELY INT STRING DECIMAL ARRAY STRUCT MAP INTERVAL DATE TIMESTAMP COUNT SUM AVG MIN MAX
( ) , . ; * + - / % = <> <=> :: : < > [ ] { } ? @ # $ ' " ` \ -- /* */ /*+ -- deltafold: 0 1 -1 1e999 1.5BD
99999999999999999999999 '' '\' `` "" $$ t a b v x __sign é 𝔘
"""
_WRAPS = (
    "({})",
    "NOT ({})",
    "CAST({} AS DECIMAL(38, 38))",
    "COUNT(DISTINCT {})",
    "SUM({}) OVER (PARTITION BY {} ORDER BY {})",
    "(SELECT {} FROM t)",
    "CASE {} WHEN {} THEN {} END",
    "{} IN ({}, {})",
    "EXISTS (SELECT {})",
    "{} BETWEEN {} AND {}",
    "ARRAY({})[{}]",
    "transform({}, x -> {})",
    "{}.{}.{}.{}",
    "INTERVAL {} DAY",
    "- - {}",
    "{}::INT",
    "STRUCT({} AS a).a",
)
_MORE = """
CREATE VIEW v AS SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC NULLS LAST) AS r FROM t QUALIFY r < 3;
CREATE VIEW v AS SELECT * FROM (SELECT a, b, c FROM t) PIVOT (SUM(a) AS s, COUNT(*) AS n FOR (b, c) IN ((1, 'x') AS p));
CREATE VIEW v AS SELECT * FROM t UNPIVOT INCLUDE NULLS ((x, y) FOR k IN ((a, b) AS one, (b, a) AS two));
CREATE VIEW v AS SELECT a FROM t UNION ALL SELECT b FROM t EXCEPT SELECT a FROM t INTERSECT ALL SELECT 1;
CREATE VIEW v AS WITH c (x) AS (SELECT a FROM t WHERE a IN (SELECT b FROM t)) SELECT x, (SELECT MAX(a) FROM t) m FROM c;
CREATE VIEW v AS SELECT b, GROUPING(b) AS g, SUM(a) FILTER (WHERE a > 1) AS s FROM t GROUP BY CUBE (b, a) HAVING s > 0;
CREATE VIEW v AS SELECT t.a FROM t LEFT JOIN t u ON t.a <=> u.b FULL JOIN t w USING (a) LEFT ANTI JOIN t x USING (a);
CREATE VIEW v AS SELECT a, e FROM t LATERAL VIEW OUTER explode(array(a, b)) AS e WHERE NOT EXISTS (SELECT 1 FROM t u);
CREATE VIEW v AS SELECT DISTINCT a, date_add(d, 3) AS x, c LIKE 'a%' AS y FROM t ORDER BY 1, 2 LIMIT 3 OFFSET 1;
CREATE VIEW v AS SELECT * FROM VALUES (1, 'a'), (2, NULL) AS w (p, q) NATURAL JOIN t CROSS JOIN (SELECT 1 AS one);
CREATE TABLE f (a INT NOT NULL COMMENT 'x', b BIGINT DEFAULT 3 GENERATED ALWAYS AS (a + 1), c ARRAY<STRUCT<x: INT>>,
  CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED RELY, UNIQUE (b), CHECK (a > 0 AND b IS NOT NULL),
  FOREIGN KEY (b) REFERENCES f (a) ON DELETE CASCADE) USING delta PARTITIONED BY (a) TBLPROPERTIES ('k' = 'v');
"""


_T = "CREATE TABLE t (a INT NOT NULL, b INT, c STRING, d DATE, e DECIMAL(10, 2))"


@lru_cache
def _spice() -> tuple[str, ...]:
    return (*_SPICE.split(), "\x00", "\u202e")


@lru_cache
def corpus() -> tuple[str, ...]:
    """The statements of the repository's SQL texts."""
    files = [path for folder in ("examples", "tests") for path in (ROOT / folder).rglob("*.sql")]
    texts = [_MORE, *(path.read_text(encoding="utf-8") for path in sorted(files))]
    texts += [text for entry in codes().values() for text in (entry.example, entry.instead)]
    golden = ROOT / "tests" / "golden"
    texts += [
        block for path in sorted(golden.glob("*decl*")) for block in path.read_text(encoding="utf-8").split("----")
    ]
    found: dict[str, None] = {}
    for text in texts:
        try:
            pieces = split(SourceFile("corpus", text))
        except InputError:
            found[text] = None
        else:
            found.update(dict.fromkeys(span.text for _, span in pieces))
    return tuple(found)


def _characters(text: str, rng: random.Random) -> str:
    at, width = rng.randrange(len(text) + 1), rng.choice([0, 1, 1, 2, 5, 40])
    put = rng.choice(["", chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x3000)])), text[at : at + width] * 2])
    return text[:at] + put + text[at + width :]


def _words(text: str, rng: random.Random) -> str:
    words = _WORD.findall(text) or [""]
    at = rng.randrange(len(words))
    match rng.randrange(5):
        case 0:
            del words[at : at + rng.choice([1, 2, 6])]
        case 1:
            words.insert(at, f" {rng.choice(_spice())} ")
        case 2:
            words[at] = rng.choice(_spice())
        case 3:
            words[at:at] = rng.sample(words, min(len(words), rng.choice([1, 3, 9])))
        case _:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
    return "".join(words)


def _wrapped(text: str, rng: random.Random) -> str:
    words = _WORD.findall(text)
    places = [i for i, word in enumerate(words) if word.strip() and (word[0].isalnum() or word[0] in "'`")]
    if not places:
        return text
    at = rng.choice(places)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 300])):
        words[at] = (
            rng.choice(_WRAPS[:3]).format(words[at])
            if len(words[at]) > 200
            else rng.choice(_WRAPS).replace("{}", words[at])
        )
    return "".join(words)


def _spliced(text: str, rng: random.Random) -> str:
    words, other = _WORD.findall(text), _WORD.findall(rng.choice(corpus()))
    cut = rng.randrange(len(other) + 1)
    at = rng.randrange(len(words) + 1)
    return "".join(words[:at] + other[cut : cut + rng.choice([1, 4, 20])] + words[at:])


_CLASSES = (
    ("=", "<>", "<", ">", "<=", "<=>", "+", "-", "*", "/", "%", "||", "AND", "OR", "LIKE", "DIV"),
    ("COUNT", "SUM", "MIN", "MAX", "AVG", "MEDIAN", "UPPER", "ABS", "COALESCE", "ANY_VALUE", "COLLECT_LIST", "RANK"),
    ("JOIN", "LEFT JOIN", "FULL JOIN", "CROSS JOIN", "NATURAL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"),
    ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"),
    ("INT", "BIGINT", "STRING", "DATE", "DOUBLE", "DECIMAL(10,2)", "BOOLEAN", "ARRAY<INT>", "TIMESTAMP"),
    ("0", "1", "2", "-1", "1.5", "'a'", "NULL", "TRUE", "DATE '2020-01-01'", "9999999999"),
)


def _gently(text: str, rng: random.Random) -> str:
    """A word becomes another of its class, a name another name: what comes out is often still SQL."""
    words = _WORD.findall(text)
    known = {word for words_of in _CLASSES for word in words_of}
    places = [i for i, w in enumerate(words) if i > 3 and w.strip() and (not w.isupper() or w in known)]
    if not places:
        return text
    at = rng.choice(places)
    same = next((c for c in _CLASSES if words[at].upper() in c), None)
    if same is not None:
        words[at] = rng.choice(same)
    elif words[at][0].isalpha() or words[at][0] == "`":
        words[at] = rng.choice([w for w in words if w[0].isalpha() and not w.isupper()] or ["a"])
    elif words[at][0].isdigit() or words[at][0] == "'":
        words[at] = rng.choice(_CLASSES[-1])
    return "".join(words)


_MUTATIONS: list[Callable[[str, random.Random], str]] = [_characters, _words, _words, _words, _wrapped, _spliced]


def make(seed: int, number: int) -> tuple[str, str]:
    """Input `number` of a seed, and the dialect in which it is read."""
    rng = random.Random(seed * 1_000_003 + number)
    tables = [s for s in corpus() if s.upper().startswith("CREATE TABLE") and not s.startswith("CREATE TABLE t ")]
    statements = [_T, rng.choice(tables), *rng.choices(corpus(), k=rng.choice([1, 1, 2]))]
    chosen = [_gently] if rng.random() < 0.5 else _MUTATIONS
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at = rng.choice([0, 1, *range(2, len(statements)), *range(2, len(statements))])
        statements[at] = rng.choice(chosen)(statements[at], rng)[:20_000]
    dialect = rng.choice(dialects.NAMES) if rng.random() < 0.2 else "spark"
    return ";\n".join(statements), dialect


@dataclass(frozen=True)
class Finding:
    number: int
    text: str
    dialect: str
    problem: str


class Hang(BaseException):
    """An input took longer than PATIENCE."""


def _alarm(_: int, __: FrameType | None) -> None:
    raise Hang


def try_input(text: str, dialect: str, stage: str) -> str | None:
    """What is wrong with how the compiler takes this input; None if it is read or refused as it should be."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        if stage == "compile":
            compile_text(text, dialect=dialect)
            return None
        file = read_text(text, dialect=dialect)
        _, errors = bind_schema(file.statements)
        found = [*file.errors, *file.warnings, *errors]
    except InputError as error:
        found = list(error.diagnostics)
    except Hang:
        return f"hangs: more than {PATIENCE} seconds"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for diagnostic in found:
        if diagnostic.code not in codes():
            return f"a code that is not registered: {diagnostic.code}"
        if not 0 <= diagnostic.span.start <= len(diagnostic.span.file.text):
            return f"{diagnostic.code} lies outside of the text"
        if "\x1b" in diagnostic.render():
            return f"{diagnostic.code} prints an escape sequence"
    return None


def search(seed: int, first: int, count: int, stage: str) -> list[Finding]:
    findings = []
    for number in range(first, first + count):
        text, dialect = make(seed, number)
        problem = try_input(text, dialect, stage)
        if problem is not None:
            findings.append(Finding(number, text, dialect, problem))
    return findings


def _chunks(seed: int, count: int, stage: str, size: int = 500) -> Iterator[tuple[int, int, int, str]]:
    for first in range(0, count, size):
        yield seed, first, min(size, count - first), stage


def main() -> None:
    parser = argparse.ArgumentParser(description="Feeds mutated view files to the compiler.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one input, printed with what it gives")
    parser.add_argument("--stage", choices=["read", "compile"], default="compile")
    options = parser.parse_args()
    if options.only is not None:
        text, dialect = make(options.seed, options.only)
        print(f"-- dialect {dialect}\n{text}\n----\n{try_input(text, dialect, options.stage) or 'fine'}")
        return
    began, findings = time.monotonic(), []
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(search, *zip(*_chunks(options.seed, options.count, options.stage), strict=True)):
            findings += found
    by_problem: dict[str, list[Finding]] = {}
    for finding in findings:
        by_problem.setdefault(re.sub(r"[^A-Za-z ]+", "", finding.problem)[:60], []).append(finding)
    for same in by_problem.values():
        shortest = min(same, key=lambda f: len(f.text))
        print(f"{len(same)} × {shortest.problem}\n  --only {shortest.number}\n{shortest.text[:1500]}\n")
    print(f"{options.count} inputs, {len(findings)} findings, {time.monotonic() - began:.0f} s")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
