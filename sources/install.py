"""What a PostgreSQL source needs: triggers that log every change under the versions of its transaction.

**Version order is commit order.** A transaction must get its number when it commits, in the order in which commits
become visible, without gaps, at every isolation level. A deferred constraint trigger runs at commit and takes an
advisory lock that PostgreSQL releases only after the transaction is visible to others (or gone); so the next one to
take a number starts after the last one has ended, and whoever sees version n sees 1 to n and nothing else.

**Why not a counter in a table.** Adding 1 to a row would do for READ COMMITTED, but a REPEATABLE READ or SERIALIZABLE
writer would fail with a serialization error whenever another one committed meanwhile: a source is not ours to disturb.
A sequence is not bound to a snapshot, but keeps the number of a transaction that is rolled back. So each counter is two
sequences: the last number taken and the transaction that took it. Whether that one has committed is asked of
`pg_xact_status`, which is not bound to a snapshot either; if not, its number is taken again. `setval` is written to the
log before the commit is, so a crash loses both or neither, and a transaction cut off by a crash counts as rolled back.

A row is logged as jsonb, so that one function serves all tables. `touched` has one row for each transaction and table;
inserting it is what arms the deferred trigger, and it is in the same snapshot as the changed rows, so that a query that
reads rows and the newest versions in one statement gets the versions at which the rows were read.
"""

from __future__ import annotations

from ..compiler.catalog import Catalog, Source

LOCK = 7_203_146_518  # the key of the advisory lock: any number, the same in all sessions


def quote(name: str) -> str:
    """An identifier of PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal of PostgreSQL, whatever standard_conforming_strings says."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'" if "\\" not in text else "E'" + escaped.replace("\\", "\\\\") + "'"


def option(source: Source, name: str, default: str) -> str:
    return next((value for key, value in source.options if key.lower() == name), default)


def server_name(source: Source, name: str) -> str:
    """A name as the server has it: in lower case, as if it had been written there without quotes, unless `exact`."""
    return name if option(source, "names", "folded") == "exact" else name.lower()


def table_name(source: Source, table: str) -> str:
    return f"{quote(option(source, 'schema', 'public'))}.{quote(server_name(source, table))}"


def install_sql(source: Source, catalog: Catalog) -> str:
    """A script that may be run again: it adds what is missing and replaces what it finds."""
    tables = [found.name for name in source.tables if (found := catalog.table(name)) is not None]
    parts = [_PREPARE]
    for table in tables:
        parts.append(_TABLE.format(name=literal(table.lower()), table=table_name(source, table)))
    return "BEGIN;\n" + "\n".join(part.strip("\n") + "\n" for part in parts) + "COMMIT;\n"


def remove_sql(source: Source, catalog: Catalog) -> str:
    """Takes everything out again."""
    tables = [found.name for name in source.tables if (found := catalog.table(name)) is not None]
    drops = [
        f"DROP TRIGGER IF EXISTS {trigger} ON {table_name(source, table)};\n"
        for table in tables
        for trigger in ("deltafold_log", "deltafold_truncate")
    ]
    return "BEGIN;\n" + "".join(drops) + "DROP SCHEMA IF EXISTS deltafold CASCADE;\nCOMMIT;\n"


_PREPARE = f"""
CREATE SCHEMA IF NOT EXISTS deltafold;

CREATE TABLE IF NOT EXISTS deltafold.log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid xid8 NOT NULL,
  relation text NOT NULL,
  sign smallint NOT NULL,
  row_image jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS log_of_transaction ON deltafold.log (xid, relation);

CREATE TABLE IF NOT EXISTS deltafold.touched (
  xid xid8 NOT NULL,
  relation text NOT NULL,
  version bigint,
  relation_version bigint,
  PRIMARY KEY (xid, relation)
);
CREATE INDEX IF NOT EXISTS touched_by_version ON deltafold.touched (version);
CREATE INDEX IF NOT EXISTS touched_by_relation ON deltafold.touched (relation, relation_version);

CREATE TABLE IF NOT EXISTS deltafold.forgotten (through bigint NOT NULL);
INSERT INTO deltafold.forgotten SELECT 0 WHERE NOT EXISTS (SELECT FROM deltafold.forgotten);

CREATE TABLE IF NOT EXISTS deltafold.relation (name text PRIMARY KEY, number int NOT NULL);
CREATE SEQUENCE IF NOT EXISTS deltafold.value_0 MINVALUE 0 START 0;
CREATE SEQUENCE IF NOT EXISTS deltafold.taker_0 MINVALUE 0 START 0;

CREATE OR REPLACE FUNCTION deltafold.take(counter int, me bigint) RETURNS bigint
LANGUAGE plpgsql AS $body$
DECLARE
  number bigint;
  taker bigint;
BEGIN
  EXECUTE format('SELECT v.last_value, t.last_value FROM deltafold.%I v, deltafold.%I t',
                 'value_' || counter, 'taker_' || counter) INTO number, taker;
  IF taker = me THEN
    RETURN number;
  END IF;
  IF taker = 0 OR coalesce(pg_xact_status(taker::text::xid8) = 'committed',
                           EXISTS (SELECT FROM deltafold.touched WHERE xid = taker::text::xid8)) THEN
    number := number + 1;
  END IF;
  PERFORM setval(format('deltafold.%I', 'value_' || counter), number);
  PERFORM setval(format('deltafold.%I', 'taker_' || counter), me);
  RETURN number;
END $body$;

CREATE OR REPLACE FUNCTION deltafold.number() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
  me bigint := NEW.xid::text::bigint;
BEGIN
  PERFORM pg_advisory_xact_lock({LOCK});
  UPDATE deltafold.touched
  SET version = deltafold.take(0, me),
      relation_version = deltafold.take((SELECT number FROM deltafold.relation WHERE name = NEW.relation), me)
  WHERE xid = NEW.xid AND relation = NEW.relation;
  RETURN NULL;
END $body$;

DO $body$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'deltafold.touched'::regclass AND tgname = 'number') THEN
    CREATE CONSTRAINT TRIGGER number AFTER INSERT ON deltafold.touched
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deltafold.number();
  END IF;
END $body$;

CREATE OR REPLACE FUNCTION deltafold.log_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    INSERT INTO deltafold.log (xid, relation, sign, row_image)
    VALUES (pg_current_xact_id(), TG_ARGV[0], -1, to_jsonb(OLD));
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO deltafold.log (xid, relation, sign, row_image)
    VALUES (pg_current_xact_id(), TG_ARGV[0], 1, to_jsonb(NEW));
  END IF;
  INSERT INTO deltafold.touched (xid, relation) VALUES (pg_current_xact_id(), TG_ARGV[0]) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $body$;

CREATE OR REPLACE FUNCTION deltafold.log_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
  EXECUTE format('INSERT INTO deltafold.log (xid, relation, sign, row_image)
                  SELECT pg_current_xact_id(), $1, -1, to_jsonb(t) FROM %I.%I t', TG_TABLE_SCHEMA, TG_TABLE_NAME)
  USING TG_ARGV[0];
  INSERT INTO deltafold.touched (xid, relation) VALUES (pg_current_xact_id(), TG_ARGV[0]) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $body$;

-- What every reader has applied may be forgotten; the newest version of each table is kept.
CREATE OR REPLACE FUNCTION deltafold.forget(through_version bigint) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
  UPDATE deltafold.forgotten SET through = greatest(through, through_version);
  DELETE FROM deltafold.log l USING deltafold.touched t
  WHERE l.xid = t.xid AND l.relation = t.relation AND t.version <= through_version;
  DELETE FROM deltafold.touched t WHERE t.version <= through_version
  AND t.relation_version < (SELECT max(n.relation_version) FROM deltafold.touched n WHERE n.relation = t.relation);
END $body$;
"""

_TABLE = """
DO $body$
DECLARE
  n int;
BEGIN
  SELECT number INTO n FROM deltafold.relation WHERE name = {name};
  IF n IS NULL THEN
    SELECT coalesce(max(number), 0) + 1 INTO n FROM deltafold.relation;
    INSERT INTO deltafold.relation VALUES ({name}, n);
    EXECUTE format('CREATE SEQUENCE deltafold.%I MINVALUE 0 START 0', 'value_' || n);
    EXECUTE format('CREATE SEQUENCE deltafold.%I MINVALUE 0 START 0', 'taker_' || n);
  END IF;
END $body$;
CREATE OR REPLACE TRIGGER deltafold_log AFTER INSERT OR UPDATE OR DELETE ON {table}
  FOR EACH ROW EXECUTE FUNCTION deltafold.log_row({name});
CREATE OR REPLACE TRIGGER deltafold_truncate BEFORE TRUNCATE ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION deltafold.log_truncate({name});
"""
