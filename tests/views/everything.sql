-- Every construct that is maintained today, over tables with NULLs, duplicates and nullable foreign keys.

CREATE TABLE customers (id INT NOT NULL PRIMARY KEY, country STRING, score DECIMAL(6,2));
CREATE TABLE `order lines` (
  customer INT REFERENCES customers (id),
  product  STRING,
  amount   DECIMAL(8,2),
  pieces   INT,
  day      DATE,
  gift     BOOLEAN
);

-- a bag: select, project, join
CREATE VIEW gifts AS
SELECT c.country, l.product, l.pieces * 2 AS `double pieces`
FROM `order lines` l JOIN customers c ON l.customer = c.id
WHERE l.gift OR l.pieces > 3;

-- all aggregates, expressions, NULL groups, a grouping column that is not shown
CREATE VIEW by_country AS
SELECT country, COUNT(*) AS lines, COUNT(amount) AS priced, SUM(amount) AS total, AVG(amount) AS mean,
       MIN(day) AS first_day, MAX(amount) AS largest, MIN(pieces + 1) AS fewest, AVG(pieces) AS mean_pieces,
       SUM(amount) / COUNT(*) AS per_line
FROM `order lines` JOIN customers ON customer = id
GROUP BY country, gift;

-- one row, whatever happens
CREATE VIEW totals AS
SELECT COUNT(*) AS n, SUM(pieces) AS pieces, MAX(day) AS last_day, AVG(amount) AS mean FROM `order lines`;

-- a self-join
CREATE VIEW pairs AS
SELECT a.product, COUNT(*) AS pairs, MAX(b.pieces) AS most
FROM `order lines` a, `order lines` b
WHERE a.product = b.product AND a.day < b.day
GROUP BY a.product;

-- views over views: over an aggregate, over a bag, and over both
CREATE VIEW countries_by_size AS
SELECT lines, COUNT(*) AS countries, MIN(total) AS smallest FROM by_country GROUP BY lines;

CREATE VIEW gifts_by_product AS
SELECT product, SUM(`double pieces`) AS pieces, MIN(country) AS a_country FROM gifts GROUP BY product;

CREATE TEMPORARY VIEW german AS SELECT * FROM customers WHERE country <> 'a';

CREATE VIEW through_temporary AS
WITH recent AS (SELECT customer, amount, day FROM `order lines` WHERE day >= DATE'2024-01-03')
SELECT YEAR(day) AS year, MONTH(day) AS month, SUM(amount) AS total, COUNT(score) AS scored
FROM recent JOIN german ON customer = id
GROUP BY 1, MONTH(day);
