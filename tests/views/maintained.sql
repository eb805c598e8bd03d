-- One view of each kind of maintenance, compared with Spark's own answer.
CREATE TABLE d (id INT NOT NULL PRIMARY KEY, a STRING, b INT);
CREATE TABLE f (n INT NOT NULL PRIMARY KEY, d INT REFERENCES d (id), k STRING, x INT, y DECIMAL(6,2));

CREATE VIEW left_joined AS SELECT a, x FROM f LEFT JOIN d ON f.d = d.id AND b > 0;
CREATE VIEW full_joined AS SELECT a, x, n FROM f FULL JOIN d ON x = b;
CREATE VIEW not_in AS SELECT k, n FROM f WHERE x NOT IN (SELECT b FROM d);
CREATE VIEW above_average AS SELECT k, x FROM f o WHERE x >= (SELECT AVG(x) FROM f i WHERE i.k = o.k);
CREATE VIEW without AS SELECT k FROM f EXCEPT ALL SELECT a FROM d;
CREATE VIEW shown_groups AS SELECT k, SUM(x) AS s, STDDEV(x) AS sd FROM f GROUP BY k HAVING SUM(x) > 3;
CREATE VIEW cube AS SELECT k, d, COUNT(*) AS c, MAX(x) AS hi FROM f GROUP BY CUBE (k, d);
CREATE VIEW values_of AS SELECT k, COUNT(DISTINCT x) AS c, MEDIAN(x) AS m FROM f GROUP BY k;
CREATE VIEW best AS SELECT MAX(s) AS m FROM (SELECT k, SUM(x) AS s FROM f GROUP BY k);
CREATE VIEW first_rows AS
SELECT k, n, x FROM f QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, n) <= 2;
CREATE VIEW top AS SELECT n, x FROM f ORDER BY x DESC, n LIMIT 3;
CREATE VIEW crosstab AS SELECT * FROM (SELECT k, b, x FROM f JOIN d ON f.d = d.id)
PIVOT (SUM(x) AS s, COUNT(x) AS c FOR b IN (0, 1, 2)) WHERE `1_s` > 0 OR k IS NULL;
