-- Three PostgreSQL databases that change on their own, and what is sold to whom across them.

CREATE TABLE customers (id INT NOT NULL PRIMARY KEY, region STRING, since DATE);
CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, customer INT, placed TIMESTAMP);
CREATE TABLE lines (id INT NOT NULL PRIMARY KEY, orderID INT NOT NULL REFERENCES orders, product INT, qty INT);
CREATE TABLE products (id INT NOT NULL PRIMARY KEY, category STRING, price DECIMAL(10,2));

CREATE SOURCE crm TYPE postgres OPTIONS (url '${CRM_URL}') TABLES (customers);
CREATE SOURCE shop TYPE postgres OPTIONS (url '${SHOP_URL}') TABLES (orders, lines);
CREATE SOURCE stock TYPE postgres OPTIONS (url '${STOCK_URL}') TABLES (products);

-- deltafold: consistency = complete
CREATE VIEW sales AS
SELECT region, category, COUNT(*) AS n, SUM(qty * price) AS total
FROM lines
  JOIN orders ON orderID = orders.id
  JOIN customers ON customer = customers.id
  JOIN products ON product = products.id
WHERE qty > 0
GROUP BY region, category;
